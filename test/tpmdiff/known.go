// SPDX-License-Identifier: Apache-2.0

//go:build linux

package tpmdiff

import (
	"fmt"

	"holdfast/tpm2"
)

// known is a difference that we stand by.
type known struct {
	name   string // one line for docs/tpm-suites.md
	reason string // the passage of the specification
	match  func(d *difference) bool
}

// explain returns the known difference that d is, nil if there is none.
func explain(d *difference) *known {
	for i := range differences {
		if differences[i].match(d) {
			return &differences[i]
		}
	}
	return nil
}

var differences = []known{
	{"several errors in one command: each TPM names another one of them",
		"Part 3, 5.1: the order of the checks is not normative. Alone, each of these errors is compared.",
		func(d *difference) bool { return d.refused() && position(d.ours.rc) != position(d.theirs.rc) }},
	{"a broken TPM2B or list: SIZE or INSUFFICIENT of one TPM, another error of the same parameter of the other",
		"Part 3, 5.1 and 5.8.2: a wrong size field makes more than one thing wrong; which is found first is not normative.",
		func(d *difference) bool {
			return d.refused() && (either(d, tpm2.RCSize) || either(d, tpm2.RCInsufficient))
		}},
	{"a tag that is none: TPM_RC_BAD_TAG here, TPM_RC_VALUE of swtpm", "Part 3, 5.2, 1",
		func(d *difference) bool { return d.codes(tpm2.RCBadTag, tpm2.RCValue) }},
	{"authorizationSize out of range: TPM_RC_AUTHSIZE here, TPM_RC_SIZE of swtpm", "Part 3, 5.5, 3",
		func(d *difference) bool { return d.codes(tpm2.RCAuthSize, tpm2.RCSize) }},
	{"a session in the handle area that is not loaded: TPM_RC_REFERENCE_H0 here, TPM_RC_HANDLE of swtpm", "Part 3, 5.4, 2, item 4",
		func(d *difference) bool {
			return d.ours.rc >= tpm2.RCReferenceH0 && d.ours.rc <= tpm2.RCReferenceH0+6 && d.theirs.rc.Base() == tpm2.RCHandle
		}},
	{"attributes that version 1.59 reserves (firmwareLimited, svnLimited): TPM_RC_RESERVED_BITS of swtpm only", "Part 2, 8.3.2 of version 1.85",
		func(d *difference) bool { return d.theirs.rc.Base() == tpm2.RCReservedBits }},
	{"NV indices above 2048 bytes", "the size is the maker's choice (TPM_PT_NV_INDEX_MAX): 16384 here, 2048 of swtpm",
		func(d *difference) bool { return d.at(tpm2.CCNVDefineSpace, tpm2.RCSuccess, tpm2.RCSize) }},
	{"Quote without a key and without a scheme: TPM_RC_SCHEME of swtpm", "Part 3, 18.4, note: versions up to 1.83 allowed TPM_RC_SCHEME",
		func(d *difference) bool { return d.at(tpm2.CCQuote, tpm2.RCSuccess, tpm2.RCScheme) }},
	{"a storage key whose symmetric mode is not CFB: TPM_RC_MODE here, accepted by swtpm", "Part 2, 11.1.9: for a restricted decryption key the mode shall be TPM_ALG_CFB",
		func(d *difference) bool { return d.ours.rc.Base() == tpm2.RCMode && d.makesObject() }},
	{"sensitiveDataOrigin together with data from the caller, for a keyed hash: TPM_RC_ATTRIBUTES here, accepted by swtpm", "Part 3, 12.1.1",
		func(d *difference) bool {
			return d.ours.rc.Base() == tpm2.RCAttributes && d.theirs.rc == tpm2.RCSuccess && d.makesObject()
		}},
	{"an HMAC key without a scheme: accepted here, TPM_RC_SCHEME of swtpm", "Part 3, 15.5: hashAlg of TPM2_HMAC may be given if the key has no scheme",
		func(d *difference) bool {
			return d.ours.rc == tpm2.RCSuccess && d.theirs.rc.Base() == tpm2.RCScheme && d.makesObject()
		}},
	{"a trial session that only encrypts: refused by swtpm", "Part 1, 16.7.14: it cannot be used for authorization; other uses are not excluded",
		func(d *difference) bool {
			p, _ := d.theirs.rc.Position()
			return d.ours.rc == tpm2.RCSuccess && d.theirs.rc.Base() == tpm2.RCAttributes && p == tpm2.PositionSession
		}},
	{"an authPolicy although the nameAlg is TPM_ALG_NULL: TPM_RC_SIZE here, accepted by swtpm", "Part 3, 12.3.1: the policy has the size of the digest, which is zero, or is empty",
		func(d *difference) bool { return d.at(tpm2.CCLoadExternal, tpm2.RCSize, tpm2.RCSuccess) }},
	{"a ticket with a wrong tag: TPM_RC_TAG here, TPM_RC_VALUE of swtpm", "Part 2, 10.6",
		func(d *difference) bool { return d.ours.rc.Base() == tpm2.RCTag && d.theirs.rc.Base() == tpm2.RCValue }},
	{"IncrementalSelfTest of an algorithm that is none: TPM_RC_VALUE of swtpm", "Part 3, 10.3 names no error: what is not on the list is not tested",
		func(d *difference) bool { return d.at(tpm2.CCIncrementalSelfTest, tpm2.RCSuccess, tpm2.RCValue) }},
	{"HMAC and HMAC_Start with a hash that is none: TPM_RC_HASH here, TPM_RC_SYMMETRIC of swtpm", "Part 3, 15.5: TPMI_ALG_HASH; swtpm has TPM2_MAC under the same code (15.6: TPMI_ALG_MAC_SCHEME)",
		func(d *difference) bool {
			cc := d.last().cc
			return (cc == tpm2.CCHMAC || cc == tpm2.CCHMACStart) && d.theirs.rc.Base() == tpm2.RCSymmetric
		}},
	{"authorization and policy of PCRs 20 to 22: swtpm has a group for them, here no PCR has one", "Part 3, 22.6 and 22.7: the groups are the platform's choice",
		func(d *difference) bool {
			return d.last().cc == tpm2.CCPCRSetAuthValue || d.last().cc == tpm2.CCPCRSetAuthPolicy || pcrPolicy(d)
		}},
	{"algorithms and curves that only swtpm has (TDES, Camellia, P-192, BN-P638)", "TPM_CAP_ALGS and TPM_CAP_ECC_CURVES of each",
		func(d *difference) bool {
			switch d.ours.rc.Base() {
			case tpm2.RCCurve, tpm2.RCSymmetric, tpm2.RCKDF, tpm2.RCAsymmetric:
				return d.theirs.rc == tpm2.RCSuccess
			}
			return false
		}},
	{"RSA keys from outside whose exponent is another than 65537: refused here", "Part 2, 12.2.3.5: support of other exponents is optional (TPM_RC_RANGE); an even one is no key",
		func(d *difference) bool {
			return d.last().cc == tpm2.CCLoadExternal && (d.ours.rc.Base() == tpm2.RCRange || d.ours.rc.Base() == tpm2.RCKey)
		}},
	{"several errors in one public area: each TPM names another one of them", "Part 3, 5.1",
		func(d *difference) bool { return d.refused() && d.makesObject() }},
	{"several errors of one kind of entity: a key that does not fit a session, a signature or an authorization in more than one way", "Part 3, 5.1",
		func(d *difference) bool {
			switch d.last().cc {
			case tpm2.CCStartAuthSession, tpm2.CCVerifySignature, tpm2.CCPolicySigned, tpm2.CCPolicySecret, tpm2.CCPPCommands, tpm2.CCStartup:
				return d.refused()
			}
			return false
		}},
	{"Import does not check the binding and the policy's size in swtpm", "Part 3, 13.3.1: the checks may be made then or at TPM2_Load",
		func(d *difference) bool { return d.last().cc == tpm2.CCImport && d.theirs.rc == tpm2.RCSuccess }},
	{"a handle beyond the slots that there are: TPM_RC_HANDLE or TPM_RC_REFERENCE here, TPM_RC_VALUE of swtpm", "Part 2, 7.5 and 9.11: the ranges do not depend on the number of slots",
		func(d *difference) bool {
			return d.theirs.rc.Base() == tpm2.RCValue && (d.ours.rc.Base() == tpm2.RCHandle || d.ours.rc >= tpm2.RCReferenceH0 && d.ours.rc <= tpm2.RCReferenceH0+6)
		}},
	{"FlushContext of a policy session by the handle of an HMAC session: TPM_RC_HANDLE here, done by swtpm", "Part 2, 7.2: the type of the handle is part of it",
		func(d *difference) bool { return d.at(tpm2.CCFlushContext, tpm2.RCHandle, tpm2.RCSuccess) }},
	{"orderly NV indices that do not fit swtpm's RAM", "the space is the maker's choice",
		func(d *difference) bool { return d.at(tpm2.CCNVDefineSpace, tpm2.RCSuccess, tpm2.RCNVSpace) }},
	{"Create with all slots in use: TPM_RC_OBJECT_MEMORY of swtpm", "a slot for the new object is needed by swtpm's way to work only",
		func(d *difference) bool { return d.ours.rc == tpm2.RCSuccess && d.theirs.rc == tpm2.RCObjectMemory }},
	{"certifying a sequence object without a key: TPM_RC_HANDLE here, done by swtpm", "Part 1, 29.4: a sequence object has no public area, so no Name to certify",
		func(d *difference) bool { return d.at(tpm2.CCCertify, tpm2.RCHandle, tpm2.RCSuccess) }},
	{"names of 67 and 68 bytes in PolicyDuplicationSelect and MakeCredential: TPM_RC_SIZE here, accepted by swtpm", "Part 2, 10.4.3: a Name is at most an algorithm and its largest digest, 66 bytes",
		func(d *difference) bool {
			return d.at(tpm2.CCPolicyDuplicationSelect, tpm2.RCSize, tpm2.RCSuccess) || d.at(tpm2.CCMakeCredential, tpm2.RCSize, tpm2.RCSuccess)
		}},
	{"Shutdown(STATE) after a PCR_Allocate that changes nothing: done here, TPM_RC_TYPE of swtpm", "Part 3, 22.5 and 9.4 name no such error; what is saved fits the allocation. After one that changes the banks both refuse",
		func(d *difference) bool { return d.at(tpm2.CCShutdown, tpm2.RCSuccess, tpm2.RCType) }},
	{"policies and audits of commands that only we have: TPM_RC_POLICY_CC or TPM_RC_VALUE of swtpm", "Part 3, 23.11 and 21.2: the code is of an implemented command",
		func(d *difference) bool { return d.at(tpm2.CCPolicyCommandCode, tpm2.RCSuccess, tpm2.RCPolicyCC) }},
	{"several errors of one session: attributes, HMAC and policy", "Part 3, 5.1",
		func(d *difference) bool {
			p, _ := d.ours.rc.Position()
			return d.refused() && p == tpm2.PositionSession && position(d.ours.rc) == position(d.theirs.rc)
		}},
	{"auditExclusive or auditReset without audit: TPM_RC_ATTRIBUTES here, accepted by swtpm if the session authorizes", "Part 2, 8.4: only allowed if audit is SET (TPM_RC_ATTRIBUTES)",
		func(d *difference) bool {
			p, _ := d.ours.rc.Position()
			return d.ours.rc.Base() == tpm2.RCAttributes && p == tpm2.PositionSession && d.theirs.rc == tpm2.RCSuccess
		}},
	{"tickets of version 1.85 (MESSAGE_VERIFIED, DIGEST_VERIFIED) in PolicyAuthorize: TPM_RC_VALUE of swtpm", "Part 2, 10.6.5 of version 1.85",
		func(d *difference) bool { return d.at(tpm2.CCPolicyAuthorize, tpm2.RCSuccess, tpm2.RCValue) }},
	{"what was never written of an NV index: zeros here, ones in swtpm", "Part 1, 34.2.6.2: either all zero or all one",
		func(d *difference) bool { return d.last().cc == tpm2.CCNVRead && d.field == "data" && onlyFill(d) }},
	{"AES with 192 bits: TPM_RC_VALUE of swtpm", "Part 2, 11.1.3: the key sizes are the implementation's choice",
		func(d *difference) bool {
			return d.makesObject() && d.ours.rc == tpm2.RCSuccess && d.theirs.rc.Base() == tpm2.RCValue && d.last().cc == tpm2.CCTestParms
		}},
	{"an object without its private part, in lockout: TPM_RC_AUTH_UNAVAILABLE here, TPM_RC_LOCKOUT of swtpm", "Part 3, 5.6: the first check is that the sensitive portion is present",
		func(d *difference) bool { return d.codes(tpm2.RCAuthUnavailable, tpm2.RCLockout) }},
	{"PolicyCounterTimer compares Time and Clock, which differ between the two", "Part 3, 23.10; a result of the clock, not of the command",
		func(d *difference) bool {
			return d.at(tpm2.CCPolicyCounterTimer, tpm2.RCPolicy, tpm2.RCSuccess) || d.at(tpm2.CCPolicyCounterTimer, tpm2.RCSuccess, tpm2.RCPolicy)
		}},
	{"hash algorithms that only we have (SHA-3, SM3): TPM_RC_HASH of swtpm", "TPM_CAP_ALGS of each",
		func(d *difference) bool {
			return d.ours.rc == tpm2.RCSuccess && d.theirs.rc.Base() == tpm2.RCHash && !d.makesObject()
		}},
	{"IncrementalSelfTest of algorithms that only swtpm has", "TPM_CAP_ALGS of each",
		func(d *difference) bool { return d.at(tpm2.CCIncrementalSelfTest, tpm2.RCValue, tpm2.RCSuccess) }},
	{"StartAuthSession bound to an entity with dictionary-attack protection in lockout: TPM_RC_LOCKOUT here, done by swtpm", "Part 1, 16.8.7 on bound sessions: in lockout, each such session would be one more try",
		func(d *difference) bool { return d.at(tpm2.CCStartAuthSession, tpm2.RCLockout, tpm2.RCSuccess) }},
	{"ECC keys without a nameAlg whose point is not that of the private key, or not on the curve: refused here", "Part 1, 24.2.3 allows to leave the check out; a point off the curve is no key",
		func(d *difference) bool {
			return d.at(tpm2.CCLoadExternal, tpm2.RCECCPoint, tpm2.RCSuccess) || d.at(tpm2.CCLoadExternal, tpm2.RCBinding, tpm2.RCSuccess)
		}},
	{"a persistent object and no free slot: TPM_RC_OBJECT_MEMORY of swtpm, another error here", "Part 1, 30.2: a slot for it is needed by swtpm's way to work only",
		func(d *difference) bool { return d.refused() && d.theirs.rc == tpm2.RCObjectMemory }},
	{"a policy session that only encrypted or decrypted keeps its assertions here, swtpm resets them", "no text asks for a reset without an authorization: Part 3, 11.2 has TPM2_PolicyRestart for it",
		func(d *difference) bool { return policyEncrypted(d) }},
	{"ivOut of CFB with data that ends inside a block: zeros after the data here, key stream of swtpm", "Part 3, 15.2: the IV for the next call is of whole blocks; a partial one ends the chain",
		func(d *difference) bool { return d.field == "ivOut" }},
	{"bitmaps of PCRs longer than three bytes: TPM_RC_VALUE of swtpm", "Part 2, 10.5.2 has PCR_SELECT_MAX; we read longer ones, so that other errors are found first",
		func(d *difference) bool {
			return d.refused() && d.theirs.rc.Base() == tpm2.RCValue && d.ours.rc.Base() == tpm2.RCHash
		}},
	{"RSA_Encrypt of more than fits: swtpm goes into failure mode", "a fault of swtpm 0.7.1",
		func(d *difference) bool { return d.theirs.rc == tpm2.RCFailure }},
}

func (d *difference) refused() bool {
	return d.ours.rc != tpm2.RCSuccess && d.theirs.rc != tpm2.RCSuccess
}

// at says whether the command and the codes, without position, are these.
func (d *difference) at(cc tpm2.CC, ours, theirs tpm2.RC) bool {
	return d.last().cc == cc && d.ours.rc.Base() == ours && d.theirs.rc.Base() == theirs
}

// makesObject says whether the command has a public area from the caller.
func (d *difference) makesObject() bool {
	switch d.last().cc {
	case tpm2.CCCreate, tpm2.CCCreatePrimary, tpm2.CCCreateLoaded, tpm2.CCLoad, tpm2.CCLoadExternal, tpm2.CCImport, tpm2.CCTestParms:
		return true
	}
	return false
}

// either says whether one of the two codes is rc, without position.
func either(d *difference, rc tpm2.RC) bool {
	return d.ours.rc.Base() == rc || d.theirs.rc.Base() == rc
}

// onlyFill says whether two readings of an index differ only in octets that are
// zero here and 0xFF there.
func onlyFill(d *difference) bool {
	a, b := d.ours.fields[d.field], d.theirs.fields[d.field]
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] && (a[i] != 0 || b[i] != 0xFF) {
			return false
		}
	}
	return true
}

// policyEncrypted says whether a policy session that the last step is about was
// used before for encryption alone.
func policyEncrypted(d *difference) bool {
	last := d.last()
	about := map[int]bool{}
	for _, h := range last.handles {
		about[h.step] = true
	}
	for _, a := range last.auth {
		about[a.session] = true
	}
	for _, s := range d.sequence[:len(d.sequence)-1] {
		for _, a := range s.auth {
			if a.session != 0 && about[a.session] && a.attrs&(tpm2.SessionEncrypt|tpm2.SessionDecrypt) != 0 && startsPolicy(d.sequence, a.session) {
				return true
			}
		}
	}
	return false
}

// startsPolicy says whether a step starts a policy or trial session.
func startsPolicy(sequence []*step, id int) bool {
	for _, s := range sequence {
		if s.id == id && s.cc == tpm2.CCStartAuthSession {
			r := tpm2.NewReader(joined(s.params))
			r.Sized(1 << 15)
			r.Sized(1 << 15)
			return r.U8() != uint8(tpm2.SEHMAC)
		}
	}
	return false
}

// pcrPolicy says whether a policy session authorizes a PCR.
func pcrPolicy(d *difference) bool {
	s := d.last()
	return d.ours.rc == tpm2.RCAuthUnavailable && len(s.handles) > 0 && s.handles[0].step == 0 && s.handles[0].value < 24
}

// codes says whether the two codes are these.
func (d *difference) codes(ours, theirs tpm2.RC) bool {
	return d.ours.rc == ours && d.theirs.rc == theirs
}

// position is what a response code is about: a handle, session or parameter
// by number, or the command as a whole.
func position(rc tpm2.RC) string {
	if rc >= tpm2.RCReferenceH0 && rc <= tpm2.RCReferenceH0+6 {
		return fmt.Sprint("handle ", rc-tpm2.RCReferenceH0+1)
	}
	if rc >= tpm2.RCReferenceS0 && rc <= tpm2.RCReferenceS0+6 {
		return fmt.Sprint("session ", rc-tpm2.RCReferenceS0+1)
	}
	if !rc.IsFmt1() {
		return "command"
	}
	p, n := rc.Position()
	return fmt.Sprint(p, " ", n)
}
