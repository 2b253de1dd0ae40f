// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"encoding/binary"

	"holdfast/tpm2"
)

// maxNVIndexSize bounds the data of one NV index (TPM_PT_NV_INDEX_MAX): room
// for a certificate with a post-quantum key and signature.
const maxNVIndexSize = 16384

// nvRead checks whether the entity that authorized (handle 0) may read the
// index (handle 1): Part 3, 31.1.
func (c *call) nvRead(auth, index int) (*nvIndex, tpm2.RC) {
	x := c.nv(index)
	a := x.pub.Attributes
	if a.Has(tpm2.NVReadLocked) {
		return nil, tpm2.RCNVLocked
	}
	if !nvAuthorized(c.handle(auth), c.handle(index), a, tpm2.NVOwnerRead, tpm2.NVPPRead) {
		return nil, tpm2.RCNVAuthorization
	}
	if !a.Has(tpm2.NVWritten) {
		return nil, tpm2.RCNVUninitialized
	}
	return x, tpm2.RCSuccess
}

// nvWrite checks whether the entity that authorized (handle 0) may write the
// index (handle 1).
func (c *call) nvWrite() (*nvIndex, tpm2.RC) {
	x := c.nv(1)
	a := x.pub.Attributes
	if a.Has(tpm2.NVWriteLocked) {
		return nil, tpm2.RCNVLocked
	}
	if !nvAuthorized(c.handle(0), c.handle(1), a, tpm2.NVOwnerWrite, tpm2.NVPPWrite) {
		return nil, tpm2.RCNVAuthorization
	}
	return x, tpm2.RCSuccess
}

// nvAuthorized says whether auth is an entity that the attributes admit: the
// owner, the platform, or the index itself. Whether the index's own authValue
// or policy may be used was checked with the session.
func nvAuthorized(auth, index tpm2.Handle, a, owner, platform tpm2.NVAttributes) bool {
	switch auth {
	case tpm2.RHOwner:
		return a.Has(owner)
	case tpm2.RHPlatform:
		return a.Has(platform)
	}
	return auth == index
}

// nvReadOnly is the check of Read-Only mode for commands that may write an
// index whose data does not reach NV (Part 3, Table 207).
func (c *call) nvReadOnly(a tpm2.NVAttributes) tpm2.RC {
	if c.st.clear.readOnly && !a.Has(tpm2.NVOrderly|tpm2.NVClearStClear) {
		return tpm2.RCReadOnly
	}
	return tpm2.RCSuccess
}

// putNV stores data as the whole contents of a copy of x and marks it written.
func (c *call) putNV(x *nvIndex, data []byte) {
	n := *x
	n.data = data
	n.pub.Attributes |= tpm2.NVWritten
	c.st.setNV(&n)
}

// setNVAttributes stores a copy of x with more attributes.
func (c *call) setNVAttributes(x *nvIndex, a tpm2.NVAttributes) {
	n := *x
	n.pub.Attributes |= a
	c.st.setNV(&n)
}

// number returns the contents of a counter or bit field.
func (x *nvIndex) number() uint64 {
	if len(x.data) != 8 {
		return 0
	}
	return binary.BigEndian.Uint64(x.data)
}
