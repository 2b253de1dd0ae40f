// SPDX-License-Identifier: Apache-2.0

package tss

import (
	"fmt"

	"holdfast/tpm2"
)

// simple runs a command without response parameters.
func (t *TPM) simple(c *call, params func(w *tpm2.Writer)) error {
	r, err := t.do(c, params)
	if err != nil {
		return err
	}
	return r.end(c.cc)
}

// Startup is TPM2_Startup (Part 3, 9.3).
func (t *TPM) Startup(su tpm2.SU) error {
	return t.simple(&call{cc: tpm2.CCStartup}, func(w *tpm2.Writer) { w.U16(uint16(su)) })
}

// Shutdown is TPM2_Shutdown (Part 3, 9.4).
func (t *TPM) Shutdown(su tpm2.SU) error {
	return t.simple(&call{cc: tpm2.CCShutdown}, func(w *tpm2.Writer) { w.U16(uint16(su)) })
}

// SelfTest is TPM2_SelfTest (Part 3, 10.2).
func (t *TPM) SelfTest(full bool) error {
	return t.simple(&call{cc: tpm2.CCSelfTest}, func(w *tpm2.Writer) { w.Bool(full) })
}

// GetRandom returns n random bytes (Part 3, 16.1), asking as often as needed,
// since a TPM gives at most one digest at a time.
func (t *TPM) GetRandom(n int) ([]byte, error) {
	out := make([]byte, 0, n)
	for len(out) < n {
		c := call{cc: tpm2.CCGetRandom, outSized: true}
		r, err := t.do(&c, func(w *tpm2.Writer) { w.U16(uint16(min(n-len(out), 64))) })
		if err != nil {
			return nil, err
		}
		b := r.Sized(64)
		if err := r.end(c.cc); err != nil {
			return nil, err
		}
		if len(b) == 0 || len(b) > n-len(out) {
			return nil, fmt.Errorf("%v: %w: %d bytes, asked for at most %d", c.cc, ErrResponse, len(b), n-len(out))
		}
		out = append(out, b...)
	}
	return out, nil
}

// StirRandom is TPM2_StirRandom (Part 3, 16.2).
func (t *TPM) StirRandom(data []byte) error {
	return t.simple(&call{cc: tpm2.CCStirRandom, inSized: true}, func(w *tpm2.Writer) { w.Sized(data) })
}

// GetCapability is TPM2_GetCapability (Part 3, 30.2). more says that there is
// more behind the last element.
func (t *TPM) GetCapability(c tpm2.Cap, property, count uint32) (data *tpm2.CapabilityData, more bool, err error) {
	cl := call{cc: tpm2.CCGetCapability}
	r, err := t.do(&cl, func(w *tpm2.Writer) {
		w.U32(uint32(c))
		w.U32(property)
		w.U32(count)
	})
	if err != nil {
		return nil, false, err
	}
	more = r.Bool()
	data = new(tpm2.CapabilityData)
	data.Unmarshal(&r.Reader)
	if err := r.end(cl.cc); err != nil {
		return nil, false, err
	}
	if data.Cap != c {
		return nil, false, fmt.Errorf("%v: %w: capability %d, asked for %d", cl.cc, ErrResponse, data.Cap, c)
	}
	return data, more, nil
}

// Properties returns the TPM's properties from first on, count at most.
func (t *TPM) Properties(first tpm2.PT, count uint32) (map[tpm2.PT]uint32, error) {
	out := map[tpm2.PT]uint32{}
	for uint32(len(out)) < count {
		d, more, err := t.GetCapability(tpm2.CapTPMProperties, uint32(first), count-uint32(len(out)))
		if err != nil {
			return nil, err
		}
		for _, p := range d.Properties {
			out[p.Property] = p.Value
			first = p.Property + 1
		}
		if !more || len(d.Properties) == 0 {
			break
		}
	}
	return out, nil
}

// Handles returns all handles from first on that have first's type.
func (t *TPM) Handles(first tpm2.Handle) ([]tpm2.Handle, error) {
	var out []tpm2.Handle
	for {
		d, more, err := t.GetCapability(tpm2.CapHandles, uint32(first), 254)
		if err != nil {
			return nil, err
		}
		for _, h := range d.Handles {
			if len(out) > 0 && h <= out[len(out)-1] {
				return nil, fmt.Errorf("%v: %w: handles are not in ascending order", tpm2.CCGetCapability, ErrResponse)
			}
			out = append(out, h)
		}
		if !more || len(d.Handles) == 0 {
			return out, nil
		}
		first = out[len(out)-1] + 1
	}
}

// ReadClock is TPM2_ReadClock (Part 3, 29.1).
func (t *TPM) ReadClock() (tpm2.TimeInfo, error) {
	c := call{cc: tpm2.CCReadClock}
	var info tpm2.TimeInfo
	r, err := t.do(&c, nil)
	if err != nil {
		return info, err
	}
	info.Unmarshal(&r.Reader)
	return info, r.end(c.cc)
}

// Clear is TPM2_Clear (Part 3, 24.6): a new owner. auth is Lockout or Platform.
func (t *TPM) Clear(auth Ref) error {
	c := call{cc: tpm2.CCClear, refs: [3]Ref{auth}, handles: 1, auths: 1, changes: auth.Handle == tpm2.RHLockout}
	return t.simple(&c, nil)
}

// HierarchyChangeAuth is TPM2_HierarchyChangeAuth (Part 3, 24.8).
func (t *TPM) HierarchyChangeAuth(hierarchy Ref, newAuth []byte) error {
	c := call{cc: tpm2.CCHierarchyChangeAuth, refs: [3]Ref{hierarchy}, handles: 1, auths: 1, inSized: true, newAuth: newAuth, changes: true}
	return t.simple(&c, func(w *tpm2.Writer) { w.Sized(newAuth) })
}

// DictionaryAttackLockReset is TPM2_DictionaryAttackLockReset (Part 3, 25.2).
func (t *TPM) DictionaryAttackLockReset(lockout Ref) error {
	return t.simple(&call{cc: tpm2.CCDictionaryAttackLockReset, refs: [3]Ref{lockout}, handles: 1, auths: 1}, nil)
}
