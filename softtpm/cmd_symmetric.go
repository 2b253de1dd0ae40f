// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"bytes"

	"holdfast/softtpm/internal/tpmcrypto"
	"holdfast/tpm2"
)

// Symmetric encryption: Part 3, 15.2 and 15.3.

func init() {
	key := []slot{{kObject, roleUser}}
	register(&command{code: tpm2.CCEncryptDecrypt, slots: key, flags: fEncrypt, run: encryptDecrypt})
	register(&command{code: tpm2.CCEncryptDecrypt2, slots: key, flags: fDecrypt | fEncrypt, run: encryptDecrypt2})
}

// readCipherMode reads a TPMI_ALG_CIPHER_MODE+.
func readCipherMode(r *tpm2.Reader) tpm2.Alg {
	m := r.Alg()
	switch m {
	case tpm2.AlgCTR, tpm2.AlgOFB, tpm2.AlgCBC, tpm2.AlgCFB, tpm2.AlgECB, tpm2.AlgNull:
	default:
		r.Fail(tpm2.RCMode)
	}
	return m
}

// encryptDecrypt is TPM2_EncryptDecrypt (Part 3, 15.2).
func encryptDecrypt(c *call) tpm2.RC {
	decrypt := c.next().Bool()
	mode := readCipherMode(c.next())
	iv := bytes.Clone(c.next().Sized(ivSize))
	data := c.next().Sized(tpm2.MaxBuffer)
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	return c.crypt(decrypt, mode, iv, data, 2, 3, 4)
}

// encryptDecrypt2 is TPM2_EncryptDecrypt2 (Part 3, 15.3): the data come first,
// so that a session can encrypt them.
func encryptDecrypt2(c *call) tpm2.RC {
	data := c.next().Sized(tpm2.MaxBuffer)
	decrypt := c.next().Bool()
	mode := readCipherMode(c.next())
	iv := bytes.Clone(c.next().Sized(ivSize))
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	return c.crypt(decrypt, mode, iv, data, 3, 4, 1)
}

// crypt is what both commands do; the last arguments are the numbers of the
// parameters to blame.
func (c *call) crypt(decrypt bool, mode tpm2.Alg, iv, data []byte, modeP, ivP, dataP int) tpm2.RC {
	o := c.object(0)
	if o.isSequence() || o.pub.Type != tpm2.AlgSymCipher {
		return tpm2.RCKey.Handle(1)
	}
	need := tpm2.ObjectSignEncrypt
	if decrypt {
		need = tpm2.ObjectDecrypt
	}
	if a := o.pub.Attributes; a.Has(tpm2.ObjectRestricted) || !a.Has(need) {
		return tpm2.RCAttributes.Handle(1)
	}
	if k := o.pub.Parms.Symmetric.Mode; k != tpm2.AlgNull {
		if mode != tpm2.AlgNull && mode != k {
			return tpm2.RCMode.Parameter(modeP)
		}
		mode = k
	}
	if mode == tpm2.AlgNull {
		return tpm2.RCMode.Parameter(modeP)
	}
	b, err := o.cipher()
	if err != nil {
		return tpm2.RCKey.Handle(1)
	}
	want := ivSize
	if mode == tpm2.AlgECB {
		want = 0
	}
	if len(iv) != want {
		return tpm2.RCSize.Parameter(ivP)
	}
	if (mode == tpm2.AlgCBC || mode == tpm2.AlgECB) && len(data)%ivSize != 0 {
		return tpm2.RCSize.Parameter(dataP)
	}
	out := bytes.Clone(data)
	defer tpmcrypto.Zero(out)
	if err := tpmcrypto.Crypt(b, tpmcrypto.Mode(mode), decrypt, iv, out); err != nil {
		return tpm2.RCMode.Parameter(modeP)
	}
	c.out.Sized(out)
	c.out.Sized(iv)
	return tpm2.RCSuccess
}
