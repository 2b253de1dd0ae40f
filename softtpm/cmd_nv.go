// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"encoding/binary"

	"holdfast/tpm2"
)

// Non-volatile storage: Part 3, 31. This file writes and reads contents and
// sets locks; nvdefine.go makes and removes indices.

func init() {
	rw := []slot{{kNVAuth, roleUser}, {kNV, roleNone}}
	register(&command{code: tpm2.CCNVWrite, slots: rw, flags: fNV | fSave | fDecrypt | fReadOnlyOK, run: nvWrite})
	register(&command{code: tpm2.CCNVIncrement, slots: rw, flags: fNV | fSave, run: nvIncrement})
	register(&command{code: tpm2.CCNVExtend, slots: rw, flags: fNV | fSave | fDecrypt | fReadOnlyOK, run: nvExtend})
	register(&command{code: tpm2.CCNVSetBits, slots: rw, flags: fNV | fSave | fReadOnlyOK, run: nvSetBits})
	register(&command{code: tpm2.CCNVWriteLock, slots: rw, flags: fNV | fSave | fReadOnlyOK, run: nvWriteLock})
	register(&command{code: tpm2.CCNVGlobalWriteLock, slots: []slot{{kProvision, roleUser}}, flags: fNV | fSave | fPP, run: nvGlobalWriteLock})
	register(&command{code: tpm2.CCNVRead, slots: rw, flags: fEncrypt, run: nvRead})
	register(&command{code: tpm2.CCNVReadLock, slots: rw, flags: fNV | fSave | fReadOnlyOK, run: nvReadLock})
	register(&command{code: tpm2.CCNVChangeAuth, slots: []slot{{kNV, roleAdmin}}, flags: fNV | fSave | fDecrypt, run: nvChangeAuth})
}

// nvWrite is TPM2_NV_Write (Part 3, 31.7), for ordinary and PIN indices. What
// a first, partial write leaves out is zero.
func nvWrite(c *call) tpm2.RC {
	data := c.next().Sized(nvBufferMax)
	offset := int(c.next().U16())
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	if rc := c.nvReadOnly(c.nv(1).pub.Attributes); rc != tpm2.RCSuccess {
		return rc
	}
	x, rc := c.nvWrite()
	if rc != tpm2.RCSuccess {
		return rc
	}
	switch x.pub.Attributes.Type() {
	case tpm2.NTCounter, tpm2.NTBits, tpm2.NTExtend:
		return tpm2.RCAttributes
	}
	size := int(x.pub.DataSize)
	switch {
	case offset > size:
		return tpm2.RCValue.Parameter(2)
	case len(data) > size-offset, x.pub.Attributes.Has(tpm2.NVWriteAll) && len(data) < size:
		return tpm2.RCNVRange
	}
	whole := make([]byte, size)
	copy(whole, x.data)
	copy(whole[offset:], data)
	c.putNV(x, whole)
	return tpm2.RCSuccess
}

// nvIncrement is TPM2_NV_Increment (Part 3, 31.8). A new counter begins above
// every value that a counter of this TPM ever had.
func nvIncrement(c *call) tpm2.RC {
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	x, rc := c.nvWrite()
	if rc != tpm2.RCSuccess {
		return rc
	}
	if x.pub.Attributes.Type() != tpm2.NTCounter {
		return tpm2.RCAttributes.Handle(2)
	}
	n := x.number()
	if !x.pub.Attributes.Has(tpm2.NVWritten) {
		n = c.st.perm.maxNVCounter
	}
	c.putNV(x, binary.BigEndian.AppendUint64(nil, n+1))
	return tpm2.RCSuccess
}

// nvExtend is TPM2_NV_Extend (Part 3, 31.9): data = H(old data ‖ input).
func nvExtend(c *call) tpm2.RC {
	data := c.next().Sized(nvBufferMax)
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	if rc := c.nvReadOnly(c.nv(1).pub.Attributes); rc != tpm2.RCSuccess {
		return rc
	}
	x, rc := c.nvWrite()
	if rc != tpm2.RCSuccess {
		return rc
	}
	if x.pub.Attributes.Type() != tpm2.NTExtend {
		return tpm2.RCAttributes.Handle(2)
	}
	old := x.data
	if !x.pub.Attributes.Has(tpm2.NVWritten) {
		old = make([]byte, x.pub.DataSize)
	}
	c.putNV(x, x.pub.NameAlg.Sum(old, data))
	return tpm2.RCSuccess
}

// nvSetBits is TPM2_NV_SetBits (Part 3, 31.10).
func nvSetBits(c *call) tpm2.RC {
	bits := c.next().U64()
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	if rc := c.nvReadOnly(c.nv(1).pub.Attributes); rc != tpm2.RCSuccess {
		return rc
	}
	x, rc := c.nvWrite()
	if rc != tpm2.RCSuccess {
		return rc
	}
	if x.pub.Attributes.Type() != tpm2.NTBits {
		return tpm2.RCAttributes.Handle(2)
	}
	if x.pub.Attributes.Has(tpm2.NVWritten) {
		bits |= x.number()
	}
	c.putNV(x, binary.BigEndian.AppendUint64(nil, bits))
	return tpm2.RCSuccess
}

// nvWriteLock is TPM2_NV_WriteLock (Part 3, 31.11). It is no error if the index
// is locked already.
func nvWriteLock(c *call) tpm2.RC {
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	if rc := c.nvReadOnly(c.nv(1).pub.Attributes); rc != tpm2.RCSuccess {
		return rc
	}
	x, rc := c.nvWrite()
	switch {
	case rc == tpm2.RCNVLocked:
		return tpm2.RCSuccess
	case rc != tpm2.RCSuccess:
		return rc
	case x.pub.Attributes&(tpm2.NVWriteDefine|tpm2.NVWriteStClear) == 0:
		return tpm2.RCAttributes.Handle(2)
	}
	c.setNVAttributes(x, tpm2.NVWriteLocked)
	return tpm2.RCSuccess
}

// nvGlobalWriteLock is TPM2_NV_GlobalWriteLock (Part 3, 31.12).
func nvGlobalWriteLock(c *call) tpm2.RC {
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	for _, x := range c.st.perm.nv { // setNV replaces the list, not this one
		if x.pub.Attributes.Has(tpm2.NVGlobalLock) {
			c.setNVAttributes(x, tpm2.NVWriteLocked)
		}
	}
	return tpm2.RCSuccess
}

// nvRead is TPM2_NV_Read (Part 3, 31.13).
func nvRead(c *call) tpm2.RC {
	size := int(c.next().U16())
	offset := int(c.next().U16())
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	x, rc := c.nvRead(0, 1)
	if rc != tpm2.RCSuccess {
		return rc
	}
	switch {
	case size > nvBufferMax:
		return tpm2.RCValue.Parameter(1)
	case offset > len(x.data):
		return tpm2.RCValue.Parameter(2)
	case size > len(x.data)-offset:
		return tpm2.RCNVRange
	}
	c.out.Sized(x.data[offset : offset+size])
	return tpm2.RCSuccess
}

// nvReadLock is TPM2_NV_ReadLock (Part 3, 31.14). It is no error if the index
// is locked already.
func nvReadLock(c *call) tpm2.RC {
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	x := c.nv(1)
	if rc := c.nvReadOnly(x.pub.Attributes); rc != tpm2.RCSuccess {
		return rc
	}
	// An index that was not written can be locked too.
	switch _, rc := c.nvRead(0, 1); rc {
	case tpm2.RCNVLocked:
		return tpm2.RCSuccess
	case tpm2.RCNVAuthorization:
		return rc
	}
	if !x.pub.Attributes.Has(tpm2.NVReadStClear) {
		return tpm2.RCAttributes.Handle(2)
	}
	c.setNVAttributes(x, tpm2.NVReadLocked)
	return tpm2.RCSuccess
}

// nvChangeAuth is TPM2_NV_ChangeAuth (Part 3, 31.15).
func nvChangeAuth(c *call) tpm2.RC {
	auth := trimAuth(c.next().Sized(tpm2.MaxDigest))
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	n := *c.nv(0)
	if len(auth) > n.pub.NameAlg.DigestSize() {
		return tpm2.RCSize.Parameter(1)
	}
	n.auth = append([]byte(nil), auth...)
	c.st.setNV(&n)
	return tpm2.RCSuccess
}
