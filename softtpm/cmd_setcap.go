// SPDX-License-Identifier: Apache-2.0

package softtpm

import "holdfast/tpm2"

func init() {
	register(&command{code: tpm2.CCSetCapability, slots: []slot{{kHierarchy | kLockout, roleUser}}, flags: fNV | fSave | fDecrypt | fPP, run: setCapability})
}

// setCapability is TPM2_SetCapability (Part 3, 30.4). Who may set a capability
// is part of its number (Part 2, 6.12.1.1). This TPM has one, CapBufferSize.
func setCapability(c *call) tpm2.RC {
	var d tpm2.SetCapabilityData
	c.sized(func(r *tpm2.Reader) { d.Unmarshal(r) })
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	by := c.handle(0)
	ok := false
	switch d.Cap.SetAuth() {
	case tpm2.CapAuthNone:
		ok = true
	case tpm2.CapAuthPlatform:
		ok = by == tpm2.RHPlatform
	case tpm2.CapAuthOwner:
		ok = by == tpm2.RHOwner
	case tpm2.CapAuthPlatOrOwner:
		ok = by == tpm2.RHPlatform || by == tpm2.RHOwner
	case tpm2.CapAuthEndorsement:
		ok = by == tpm2.RHEndorsement
	case tpm2.CapAuthLockout:
		ok = by == tpm2.RHLockout
	default: // reserved, or not settable at all
		return tpm2.RCValue.Parameter(1)
	}
	if !ok {
		return tpm2.RCAuthType
	}
	if d.Cap != tpm2.CapBufferSize {
		return tpm2.RCValue.Parameter(1)
	}
	r := tpm2.NewReader(d.Data)
	size := r.U32()
	r.End()
	if rc := r.Code(); rc != tpm2.RCSuccess {
		return rc.Parameter(1)
	}
	if size != 4096 && size != 8192 || int(size) > c.t.opt.CommandSize {
		return tpm2.RCRange.Parameter(1)
	}
	c.st.perm.bufferSize = size
	return tpm2.RCSuccess
}

// commandSize is the size in bytes of the largest command and response.
func (t *TPM) commandSize() int {
	if n := int(t.state.perm.bufferSize); n != 0 && n < t.opt.CommandSize {
		return n
	}
	return t.opt.CommandSize
}
