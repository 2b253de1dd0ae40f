// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"math/bits"

	"holdfast/tpm2"
)

// Integrity collection: Part 3, 22.

func init() {
	register(&command{code: tpm2.CCPCRExtend, slots: []slot{{kPCR | kNull, roleUser}}, flags: fNV | fReadOnlyOK, run: pcrExtend})
	register(&command{code: tpm2.CCPCREvent, slots: []slot{{kPCR | kNull, roleUser}}, flags: fNV | fReadOnlyOK | fDecrypt, run: pcrEvent})
	register(&command{code: tpm2.CCPCRRead, run: pcrRead})
	register(&command{code: tpm2.CCPCRReset, slots: []slot{{kPCR, roleUser}}, flags: fNV | fReadOnlyOK, run: pcrReset})
	register(&command{code: tpm2.CCPCRAllocate, slots: []slot{{kPlatform, roleUser}}, flags: fNV | fSave | fPP, run: pcrAllocate})
	register(&command{code: tpm2.CCPCRSetAuthPolicy, slots: []slot{{kPlatform, roleUser}}, flags: fNV | fSave | fDecrypt | fPP, run: pcrSetAuthPolicy})
	register(&command{code: tpm2.CCPCRSetAuthValue, slots: []slot{{kPCR, roleUser}}, flags: fNV | fDecrypt, run: pcrSetAuthValue})
}

// pcrExtend is TPM2_PCR_Extend (Part 3, 22.2). TPM_RH_NULL changes nothing.
func pcrExtend(c *call) tpm2.RC {
	digests := tpm2.UnmarshalHAs(c.next())
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	p, rc := c.extendable()
	if rc != tpm2.RCSuccess || p < 0 {
		return rc
	}
	for _, d := range digests {
		// A digest of a bank that is not there is no error (22.2.1).
		if b := bankIndex(d.Alg); b >= 0 {
			c.st.extendPCR(b, p, d.Digest)
		}
	}
	return tpm2.RCSuccess
}

// extendable returns the PCR of the first handle, -1 for TPM_RH_NULL, or
// TPM_RC_LOCALITY if this locality may not extend it.
func (c *call) extendable() (int, tpm2.RC) {
	if c.handle(0) == tpm2.RHNull {
		return -1, tpm2.RCSuccess
	}
	p := int(c.handle(0))
	if pcrAttrs[p].extend>>c.locality&1 == 0 {
		return 0, tpm2.RCLocality
	}
	return p, tpm2.RCSuccess
}

// maxEvent is the size of a TPM2B_EVENT (Part 2, 10.4.7).
const maxEvent = 1024

// pcrEvent is TPM2_PCR_Event (Part 3, 22.3): the digests of the data in each
// bank's algorithm are returned and extended.
func pcrEvent(c *call) tpm2.RC {
	data := c.next().Sized(maxEvent)
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	p, rc := c.extendable()
	if rc != tpm2.RCSuccess {
		return rc
	}
	var out []tpm2.HA
	for b, alg := range bankAlgs {
		d := alg.Sum(data)
		out = append(out, tpm2.HA{Alg: alg, Digest: d})
		if p >= 0 {
			c.st.extendPCR(b, p, d)
		}
	}
	tpm2.MarshalHAs(&c.out, out)
	return tpm2.RCSuccess
}

// pcrRead is TPM2_PCR_Read (Part 3, 22.4): the first eight of the selected
// PCRs that exist, and the selection of what is returned.
func pcrRead(c *call) tpm2.RC {
	sel := readSelections(c.next())
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	var out []tpm2.PCRSelection
	var values [][]byte
	for _, s := range sel {
		got := tpm2.PCRSelection{Hash: s.Hash, Select: make([]byte, len(s.Select))}
		b := bankIndex(s.Hash)
		for p := 0; b >= 0 && p < numPCRs && len(values) < tpm2.MaxDigests; p++ {
			if s.Has(p) && c.st.pcrExists(b, p) {
				got.Select[p/8] |= 1 << (p % 8)
				values = append(values, c.st.pcrValue(b, p))
			}
		}
		out = append(out, got)
	}
	c.out.U32(c.st.reset.pcrCounter)
	tpm2.MarshalPCRSelections(&c.out, out)
	tpm2.MarshalDigests(&c.out, values)
	return tpm2.RCSuccess
}

// pcrReset is TPM2_PCR_Reset (Part 3, 22.8): zero in all banks, if the PCR can
// be reset from this locality.
func pcrReset(c *call) tpm2.RC {
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	p := int(c.handle(0))
	if pcrAttrs[p].reset>>c.locality&1 == 0 {
		return tpm2.RCLocality
	}
	for b := range bankAlgs {
		c.st.volatile.pcr[b][p] = [tpm2.MaxDigest]byte{}
	}
	if !pcrAttrs[p].noIncrement {
		c.st.reset.pcrCounter++
	}
	return tpm2.RCSuccess
}

// pcrAllocate is TPM2_PCR_Allocate (Part 3, 22.5): which PCRs each named bank
// has after the next Startup(CLEAR). PCRs 0 and 17, which the roots of trust for
// measurement extend, must stay in some bank.
func pcrAllocate(c *call) tpm2.RC {
	sel := readSelections(c.next())
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	next := c.st.perm.pcrNext
	for _, s := range sel {
		b := bankIndex(s.Hash)
		if b < 0 {
			return tpm2.RCHash.Parameter(1)
		}
		next[b] = 0
		for _, p := range s.PCRs() {
			if p < numPCRs {
				next[b] |= 1 << p
			}
		}
	}
	needed, available, any := 0, 0, uint32(0)
	for b, alg := range bankAlgs {
		needed += bits.OnesCount32(next[b]) * alg.DigestSize()
		available += numPCRs * alg.DigestSize()
		any |= next[b]
	}
	if any&1 == 0 || any>>17&1 == 0 {
		return tpm2.RCPCR
	}
	c.st.perm.pcrNext = next
	c.out.Bool(true)
	c.out.U32(numPCRs)
	c.out.U32(uint32(needed))
	c.out.U32(uint32(available))
	return tpm2.RCSuccess
}

// The PC Client profile gives no PCR an authValue or authPolicy, so the two
// commands that set them check their parameters and then find no PCR that
// belongs to such a group.

// pcrSetAuthPolicy is TPM2_PCR_SetAuthPolicy (Part 3, 22.6).
func pcrSetAuthPolicy(c *call) tpm2.RC {
	policy := c.next().Sized(tpm2.MaxDigest)
	alg := tpm2.UnmarshalHashNull(c.next())
	r := c.next()
	pcr := r.Handle()
	if r.Code() == tpm2.RCSuccess && pcr >= numPCRs && pcr != tpm2.RHNull {
		r.Fail(tpm2.RCValue)
	}
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	if len(policy) != alg.DigestSize() {
		return tpm2.RCSize.Parameter(1)
	}
	return tpm2.RCValue.Parameter(3)
}

// pcrSetAuthValue is TPM2_PCR_SetAuthValue (Part 3, 22.7).
func pcrSetAuthValue(c *call) tpm2.RC {
	c.next().Sized(tpm2.MaxDigest)
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	return tpm2.RCValue
}
