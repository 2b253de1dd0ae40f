// SPDX-License-Identifier: Apache-2.0

package softtpm

import "holdfast/tpm2"

// Sizes of the PCR arrays.
const (
	numPCRs  = 24
	numBanks = 4
	allPCRs  = 1<<numPCRs - 1
)

// bankAlgs are the hash algorithms of the PCR banks.
var bankAlgs = [numBanks]tpm2.Alg{tpm2.AlgSHA1, tpm2.AlgSHA256, tpm2.AlgSHA384, tpm2.AlgSHA512}

// pcrBanks holds all PCR values; those of shorter digests leave the end of their array zero.
type pcrBanks [numBanks][numPCRs][tpm2.MaxDigest]byte

// bankIndex returns the index of the bank of alg, -1 if there is none.
func bankIndex(alg tpm2.Alg) int {
	for i, a := range bankAlgs {
		if a == alg {
			return i
		}
	}
	return -1
}

// pcrAttr is what the PC Client Platform TPM Profile says of one PCR: the
// localities (bit per locality) from which it can be reset and extended, and
// whether Shutdown(STATE) keeps it.
type pcrAttr struct {
	save          bool
	reset, extend uint8
	noIncrement   bool // changes do not count in pcrUpdateCounter
}

// pcrAttrs is the table of the PC Client Platform TPM Profile, 4.6.
var pcrAttrs = func() (a [numPCRs]pcrAttr) {
	for i := 0; i < 16; i++ {
		a[i] = pcrAttr{save: true, reset: 0, extend: 0x1F}
	}
	a[16] = pcrAttr{reset: 0x0F, extend: 0x1F, noIncrement: true}
	a[17] = pcrAttr{reset: 0x10, extend: 0x1C}
	a[18] = pcrAttr{reset: 0x10, extend: 0x1C}
	a[19] = pcrAttr{reset: 0x10, extend: 0x0C}
	a[20] = pcrAttr{reset: 0x14, extend: 0x0E}
	a[21] = pcrAttr{reset: 0x14, extend: 0x04, noIncrement: true}
	a[22] = pcrAttr{reset: 0x14, extend: 0x04, noIncrement: true}
	a[23] = pcrAttr{reset: 0x0F, extend: 0x1F, noIncrement: true}
	return a
}()

// isDRTM says whether PCR p belongs to the dynamic root of trust: its value
// after Startup is all ones.
func isDRTM(p int) bool { return p >= 17 && p <= 22 }

// value returns PCR p of bank b. The slice is read only.
func (s *state) pcrValue(b, p int) []byte {
	return s.volatile.pcr[b][p][:bankAlgs[b].DigestSize()]
}

// pcrExists says whether PCR p is allocated in bank b.
func (s *state) pcrExists(b, p int) bool { return s.perm.pcrAlloc[b]>>p&1 == 1 }

// extendPCR sets PCR p of bank b to H(old ‖ digest) if it is allocated.
func (s *state) extendPCR(b, p int, digest []byte) {
	if !s.pcrExists(b, p) {
		return
	}
	copy(s.volatile.pcr[b][p][:], bankAlgs[b].Sum(s.pcrValue(b, p), digest))
	if !pcrAttrs[p].noIncrement {
		s.reset.pcrCounter++
	}
}

// initPCRs gives the PCRs their values after Startup: those that keep says
// stay, the others become zero, or all ones if they belong to the dynamic
// root of trust. PCR 0 records locality 3 or 4 of the start (Part 1, 34.3).
func (s *state) initPCRs(keep func(p int) bool) {
	for b := range bankAlgs {
		size := bankAlgs[b].DigestSize()
		for p := 0; p < numPCRs; p++ {
			if keep(p) {
				continue
			}
			v := &s.volatile.pcr[b][p]
			*v = [tpm2.MaxDigest]byte{}
			if isDRTM(p) {
				for i := range v[:size] {
					v[i] = 0xFF
				}
			}
			if p == 0 && s.volatile.startLocality == 3 {
				v[size-1] = 3
			}
		}
	}
}

// selectPCRs checks a selection against what the TPM has, as PCRComputeCurrentDigest
// of Part 4 did: bits of PCRs or banks that are not there become zero. It
// returns the adjusted selection and the values of all selected PCRs in order.
func (s *state) selectPCRs(sel []tpm2.PCRSelection) (out []tpm2.PCRSelection, values [][]byte) {
	for _, x := range sel {
		y := tpm2.PCRSelection{Hash: x.Hash, Select: make([]byte, len(x.Select))}
		b := bankIndex(x.Hash)
		for p := 0; b >= 0 && p < numPCRs; p++ {
			if x.Has(p) && s.pcrExists(b, p) {
				y.Select[p/8] |= 1 << (p % 8)
				values = append(values, s.pcrValue(b, p))
			}
		}
		out = append(out, y)
	}
	return out, values
}
