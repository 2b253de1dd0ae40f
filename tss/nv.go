// SPDX-License-Identifier: Apache-2.0

package tss

import (
	"bytes"
	"fmt"

	"holdfast/tpm2"
)

// Index is an NV index as the TPM describes it.
type Index struct {
	Public tpm2.NVPublic
	Name   []byte
}

// Ref refers to the index with a password.
func (i *Index) Ref(password []byte) Ref {
	return Ref{Handle: i.Public.Index, Name: i.Name, Auth: Password(password)}
}

// NVDefine is TPM2_NV_DefineSpace (Part 3, 31.3). auth is Owner or Platform,
// secret the authValue of the index.
func (t *TPM) NVDefine(auth Ref, secret []byte, pub tpm2.NVPublic) error {
	c := call{cc: tpm2.CCNVDefineSpace, refs: [3]Ref{auth}, handles: 1, auths: 1, inSized: true}
	return t.simple(&c, func(w *tpm2.Writer) {
		w.Sized(secret)
		m := w.Begin()
		pub.Marshal(w)
		w.End(m)
	})
}

// NVUndefine is TPM2_NV_UndefineSpace (Part 3, 31.4).
func (t *TPM) NVUndefine(auth, index Ref) error {
	return t.simple(&call{cc: tpm2.CCNVUndefineSpace, refs: [3]Ref{auth, index}, handles: 2, auths: 1}, nil)
}

// NVReadPublic is TPM2_NV_ReadPublic (Part 3, 31.6).
func (t *TPM) NVReadPublic(index tpm2.Handle) (*Index, error) {
	c := call{cc: tpm2.CCNVReadPublic, refs: [3]Ref{{Handle: index}}, handles: 1, outSized: true}
	r, err := t.do(&c, nil)
	if err != nil {
		return nil, err
	}
	i := new(Index)
	in := r.Nested(r.Len())
	i.Public.Unmarshal(&in)
	r.Done(&in)
	i.Public.AuthPolicy = bytes.Clone(i.Public.AuthPolicy)
	i.Name = bytes.Clone(r.Sized(tpm2.MaxName))
	if err := r.end(c.cc); err != nil {
		return nil, err
	}
	if want, err := i.Public.Name(); err != nil || !bytes.Equal(want, i.Name) || i.Public.Index != index {
		return nil, fmt.Errorf("%v: %w: the Name is not that of the public area", c.cc, ErrResponse)
	}
	return i, nil
}

// nvBuffer is the largest piece that every PC Client TPM takes at a time.
const nvBuffer = 512

// NVWrite is TPM2_NV_Write (Part 3, 31.7), in pieces if need be. auth is the
// index itself, Owner or Platform.
func (t *TPM) NVWrite(auth, index Ref, data []byte, offset int) error {
	for {
		n := min(len(data), nvBuffer)
		if offset > 0xFFFF {
			return fmt.Errorf("tss: NV offset %d: expected at most 65535", offset)
		}
		c := call{cc: tpm2.CCNVWrite, refs: [3]Ref{auth, index}, handles: 2, auths: 1, inSized: true}
		err := t.simple(&c, func(w *tpm2.Writer) {
			w.Sized(data[:n])
			w.U16(uint16(offset))
		})
		if err != nil || n == len(data) {
			return err
		}
		data, offset = data[n:], offset+n
	}
}

// NVRead is TPM2_NV_Read (Part 3, 31.13), in pieces if need be.
func (t *TPM) NVRead(auth, index Ref, size, offset int) ([]byte, error) {
	out := make([]byte, 0, size)
	for {
		n := min(size-len(out), nvBuffer)
		if offset+len(out) > 0xFFFF {
			return nil, fmt.Errorf("tss: NV offset %d: expected at most 65535", offset+len(out))
		}
		c := call{cc: tpm2.CCNVRead, refs: [3]Ref{auth, index}, handles: 2, auths: 1, outSized: true}
		r, err := t.do(&c, func(w *tpm2.Writer) {
			w.U16(uint16(n))
			w.U16(uint16(offset + len(out)))
		})
		if err != nil {
			return nil, err
		}
		b := r.Sized(n)
		if err := r.end(c.cc); err != nil {
			return nil, err
		}
		if len(b) != n {
			return nil, fmt.Errorf("%v: %w: %d bytes, asked for %d", c.cc, ErrResponse, len(b), n)
		}
		if out = append(out, b...); len(out) == size {
			return out, nil
		}
	}
}

// nv runs an NV command without parameters on {auth, index}.
func (t *TPM) nv(cc tpm2.CC, auth, index Ref) error {
	return t.simple(&call{cc: cc, refs: [3]Ref{auth, index}, handles: 2, auths: 1}, nil)
}

// NVIncrement is TPM2_NV_Increment (Part 3, 31.8).
func (t *TPM) NVIncrement(auth, index Ref) error { return t.nv(tpm2.CCNVIncrement, auth, index) }

// NVWriteLock is TPM2_NV_WriteLock (Part 3, 31.11).
func (t *TPM) NVWriteLock(auth, index Ref) error { return t.nv(tpm2.CCNVWriteLock, auth, index) }

// NVReadLock is TPM2_NV_ReadLock (Part 3, 31.14).
func (t *TPM) NVReadLock(auth, index Ref) error { return t.nv(tpm2.CCNVReadLock, auth, index) }

// NVExtend is TPM2_NV_Extend (Part 3, 31.9).
func (t *TPM) NVExtend(auth, index Ref, data []byte) error {
	c := call{cc: tpm2.CCNVExtend, refs: [3]Ref{auth, index}, handles: 2, auths: 1, inSized: true}
	return t.simple(&c, func(w *tpm2.Writer) { w.Sized(data) })
}

// NVSetBits is TPM2_NV_SetBits (Part 3, 31.10).
func (t *TPM) NVSetBits(auth, index Ref, bits uint64) error {
	c := call{cc: tpm2.CCNVSetBits, refs: [3]Ref{auth, index}, handles: 2, auths: 1}
	return t.simple(&c, func(w *tpm2.Writer) { w.U64(bits) })
}
