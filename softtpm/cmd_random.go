// SPDX-License-Identifier: Apache-2.0

package softtpm

import "holdfast/tpm2"

func init() {
	register(&command{code: tpm2.CCGetRandom, flags: fEncrypt, run: getRandom})
	register(&command{code: tpm2.CCStirRandom, flags: fNV | fDecrypt, run: stirRandom})
}

// getRandom is TPM2_GetRandom (Part 3, 16.1): at most as many bytes as the largest digest has.
func getRandom(c *call) tpm2.RC {
	n := int(c.next().U16())
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	if n > tpm2.MaxDigest {
		n = tpm2.MaxDigest
	}
	c.t.fill(c.t.rnd[:n])
	c.out.Sized(c.t.rnd[:n])
	return tpm2.RCSuccess
}

// stirRandom is TPM2_StirRandom (Part 3, 16.2). The system's source takes care
// of its entropy; what a caller adds can do no harm there, nor any good.
func stirRandom(c *call) tpm2.RC {
	c.next().Sized(128)
	return c.done()
}
