// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"holdfast/softtpm/internal/tpmcrypto"
	"holdfast/tpm2"
)

func init() {
	register(&command{code: tpm2.CCNVDefineSpace, slots: []slot{{kProvision, roleUser}}, flags: fNV | fSave | fDecrypt | fPP, run: nvDefineSpace})
	register(&command{code: tpm2.CCNVUndefineSpace, slots: []slot{{kProvision, roleUser}, {kNV, roleNone}}, flags: fNV | fSave | fPP, run: nvUndefineSpace})
	register(&command{code: tpm2.CCNVUndefineSpaceSpecial, slots: []slot{{kNV, roleAdmin}, {kPlatform, roleUser}}, flags: fNV | fSave | fPP, run: nvUndefineSpaceSpecial})
	register(&command{code: tpm2.CCNVReadPublic, slots: []slot{{kNV, roleNone}}, flags: fEncrypt, run: nvReadPublic})
	register(&command{code: tpm2.CCNVDefineSpace2, slots: []slot{{kProvision, roleUser}}, flags: fNV | fSave | fDecrypt | fPP, run: nvDefineSpace2})
	register(&command{code: tpm2.CCNVReadPublic2, slots: []slot{{kNV, roleNone}}, flags: fEncrypt, run: nvReadPublic2})
}

// nvDefineSpace is TPM2_NV_DefineSpace (Part 3, 31.3).
func nvDefineSpace(c *call) tpm2.RC {
	auth := c.next().Sized(tpm2.MaxDigest)
	var pub tpm2.NVPublic
	c.sized(pub.Unmarshal)
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	return c.defineNV(auth, pub)
}

// nvDefineSpace2 is TPM2_NV_DefineSpace2 (Part 3, 31.17). Its public area is a
// union by handle type, of which this TPM has the plain NV index only.
func nvDefineSpace2(c *call) tpm2.RC {
	auth := c.next().Sized(tpm2.MaxDigest)
	var pub tpm2.NVPublic
	c.sized(func(r *tpm2.Reader) {
		if t := tpm2.HT(r.U8()); r.Code() == tpm2.RCSuccess && t != tpm2.HTNVIndex {
			r.Fail(tpm2.RCHandle)
		}
		pub.Unmarshal(r)
	})
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	return c.defineNV(auth, pub)
}

// defineNV makes an index after the checks of Part 3, 31.3.1.
func (c *call) defineNV(auth []byte, pub tpm2.NVPublic) tpm2.RC {
	platform := c.handle(0) == tpm2.RHPlatform
	auth = trimAuth(auth)
	if len(auth) > pub.NameAlg.DigestSize() {
		return tpm2.RCSize.Parameter(1)
	}
	if platform && !c.st.clear.phEnableNV {
		return tpm2.RCHierarchy.Handle(1)
	}
	if rc := checkNVPublic(&pub, platform); rc != tpm2.RCSuccess {
		return rc.Parameter(2)
	}
	if platform != pub.Attributes.Has(tpm2.NVPlatformCreate) {
		return tpm2.RCAttributes.Handle(1)
	}
	if _, ok := c.st.nvFind(pub.Index); ok {
		return tpm2.RCNVDefined
	}
	used := int(pub.DataSize)
	for _, x := range c.st.perm.nv {
		used += int(x.pub.DataSize)
	}
	if len(c.st.perm.nv) >= c.t.opt.NVIndices || used > c.t.opt.NVBytes {
		return tpm2.RCNVSpace
	}
	pub.AuthPolicy = append([]byte(nil), pub.AuthPolicy...)
	c.st.setNV(&nvIndex{pub: pub, auth: append([]byte(nil), auth...)})
	return tpm2.RCSuccess
}

// checkNVPublic makes the checks on the public area of a new index.
func checkNVPublic(pub *tpm2.NVPublic, platform bool) tpm2.RC {
	if !tpmcrypto.Hash(pub.NameAlg).Available() {
		return tpm2.RCHash
	}
	a, digest := pub.Attributes, pub.NameAlg.DigestSize()
	if len(pub.AuthPolicy) != 0 && len(pub.AuthPolicy) != digest {
		return tpm2.RCSize
	}
	pin := tpm2.NVAuthWrite | tpm2.NVGlobalLock | tpm2.NVWriteDefine
	switch a.Type() {
	case tpm2.NTOrdinary:
		if pub.DataSize > maxNVIndexSize {
			return tpm2.RCSize
		}
	case tpm2.NTExtend:
		if int(pub.DataSize) != digest {
			return tpm2.RCSize
		}
	case tpm2.NTCounter, tpm2.NTBits, tpm2.NTPinFail, tpm2.NTPinPass:
		if pub.DataSize != 8 {
			return tpm2.RCSize
		}
	default:
		return tpm2.RCAttributes
	}
	switch a.Type() {
	case tpm2.NTCounter:
		if a.Has(tpm2.NVClearStClear) {
			return tpm2.RCAttributes
		}
	case tpm2.NTPinFail:
		if a&pin != 0 || !a.Has(tpm2.NVNoDA) {
			return tpm2.RCAttributes
		}
	case tpm2.NTPinPass:
		if a&pin != 0 {
			return tpm2.RCAttributes
		}
	}
	switch {
	case a&(tpm2.NVWritten|tpm2.NVWriteLocked|tpm2.NVReadLocked) != 0,
		a&(tpm2.NVOwnerRead|tpm2.NVPPRead|tpm2.NVAuthRead|tpm2.NVPolicyRead) == 0,
		a&(tpm2.NVOwnerWrite|tpm2.NVPPWrite|tpm2.NVAuthWrite|tpm2.NVPolicyWrite) == 0,
		a.Has(tpm2.NVClearStClear | tpm2.NVWriteDefine),
		a.Has(tpm2.NVPolicyDelete) && !platform:
		return tpm2.RCAttributes
	case a.Has(tpm2.NVWriteAll) && pub.DataSize > nvBufferMax:
		return tpm2.RCSize
	}
	return tpm2.RCSuccess
}

// nvUndefineSpace is TPM2_NV_UndefineSpace (Part 3, 31.4).
func nvUndefineSpace(c *call) tpm2.RC {
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	a := c.nv(1).pub.Attributes
	if a.Has(tpm2.NVPolicyDelete) {
		return tpm2.RCAttributes.Handle(2)
	}
	if c.handle(0) == tpm2.RHOwner && a.Has(tpm2.NVPlatformCreate) {
		return tpm2.RCNVAuthorization
	}
	c.removeNV(c.nv(1))
	return tpm2.RCSuccess
}

// nvUndefineSpaceSpecial is TPM2_NV_UndefineSpaceSpecial (Part 3, 31.5).
func nvUndefineSpaceSpecial(c *call) tpm2.RC {
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	if !c.nv(0).pub.Attributes.Has(tpm2.NVPolicyDelete) {
		return tpm2.RCAttributes.Handle(1)
	}
	c.removeNV(c.nv(0))
	return tpm2.RCSuccess
}

// removeNV deletes an index; the value of a counter is remembered so that a
// later counter begins above it.
func (c *call) removeNV(x *nvIndex) {
	if x.pub.Attributes.Type() == tpm2.NTCounter && x.pub.Attributes.Has(tpm2.NVWritten) {
		c.st.perm.maxNVCounter = max(c.st.perm.maxNVCounter, x.number())
	}
	c.st.deleteNV(x.pub.Index)
}

// nvReadPublic is TPM2_NV_ReadPublic (Part 3, 31.6).
func nvReadPublic(c *call) tpm2.RC {
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	x := c.nv(0)
	m := c.out.Begin()
	x.pub.Marshal(&c.out)
	c.out.End(m)
	c.out.Sized(x.name())
	return tpm2.RCSuccess
}

// nvReadPublic2 is TPM2_NV_ReadPublic2 (Part 3, 31.18).
func nvReadPublic2(c *call) tpm2.RC {
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	x := c.nv(0)
	m := c.out.Begin()
	c.out.U8(uint8(tpm2.HTNVIndex))
	x.pub.Marshal(&c.out)
	c.out.End(m)
	c.out.Sized(x.name())
	return tpm2.RCSuccess
}
