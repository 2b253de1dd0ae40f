// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"bytes"
	stdaes "crypto/aes"
	"crypto/cipher"

	"holdfast/softtpm/internal/tpmcrypto"
	"holdfast/tpm2"
)

// Data encryption with a KEM key as two vendor commands, since version 185 has
// a KEM but no way to use it on data within the TPM.
//
//	command      in                                              out
//	KEM_Encrypt  key, TPM2B message, TPM2B label                 TPM2B sealed, TPM2B ciphertext of the KEM
//	KEM_Decrypt  @key, TPM2B sealed, TPM2B ciphertext, TPM2B label  TPM2B message
//
// message has at most 1024 octets, label at most 66. With K, ct =
// Encapsulate(key):
//
//	key ‖ nonce = KDFa(SHA-512, K, "holdfast/kem-data/v1", ct, public key, 256 + 96 bits)
//	sealed      = AES-256-GCM(key, nonce, message, additional data = label)
//
// where the public key is that of FIPS 203, or the uncompressed point of an
// ECC key with DHKEM. K is fresh for each message, so the nonce may follow
// from it. KEM_Encrypt needs no authorization, like Encapsulate; who may have
// encrypted a message is not known. KEM_Decrypt asks of the key what
// Decapsulate asks. A message or label that was changed is TPM_RC_INTEGRITY.

func init() {
	register(&command{code: tpm2.CCKEMEncrypt, slots: []slot{{kObject, roleNone}}, flags: fDecrypt | fEncrypt, run: kemEncrypt})
	register(&command{code: tpm2.CCKEMDecrypt, slots: []slot{{kObject, roleUser}}, flags: fDecrypt | fEncrypt, run: kemDecrypt})
}

const kemTagSize = 16

// kemAEAD derives the AEAD and its nonce from the shared secret.
func kemAEAD(o *object, secret, ct []byte) (cipher.AEAD, []byte, error) {
	public := o.pub.Unique
	if o.pub.Type == tpm2.AlgECC {
		k, err := o.ecPublic()
		if err != nil {
			return nil, nil, err
		}
		public = serialize(k.Point)
	}
	const keySize, nonceSize = 32, 12
	b := tpmcrypto.KDFa(tpmcrypto.SHA512, secret, "holdfast/kem-data/v1", ct, public, 8*(keySize+nonceSize))
	defer tpmcrypto.Zero(b[:keySize])
	block, err := stdaes.NewCipher(b[:keySize])
	if err != nil {
		return nil, nil, err
	}
	a, err := cipher.NewGCM(block)
	return a, b[keySize:], err
}

func kemEncrypt(c *call) tpm2.RC {
	message := c.next().Sized(tpm2.MaxBuffer)
	label := c.next().Sized(tpm2.MaxData)
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	o := c.object(0)
	secret, ct, rc := c.kemEncap(o)
	if rc != tpm2.RCSuccess {
		return rc
	}
	defer tpmcrypto.Zero(secret)
	a, nonce, err := kemAEAD(o, secret, ct)
	if err != nil {
		return tpm2.RCFailure
	}
	c.out.Sized(a.Seal(nil, nonce, message, label))
	c.out.Sized(ct)
	return tpm2.RCSuccess
}

func kemDecrypt(c *call) tpm2.RC {
	sealed := c.next().Sized(tpm2.MaxBuffer + kemTagSize)
	ct := bytes.Clone(c.next().Sized(tpm2.MaxKEM))
	label := c.next().Sized(tpm2.MaxData)
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	o := c.object(0)
	secret, rc := kemDecap(o, ct, 2)
	if rc != tpm2.RCSuccess {
		return rc
	}
	defer tpmcrypto.Zero(secret)
	a, nonce, err := kemAEAD(o, secret, ct)
	if err != nil {
		return tpm2.RCFailure
	}
	message, err := a.Open(nil, nonce, sealed, label)
	if err != nil {
		return tpm2.RCIntegrity.Parameter(1)
	}
	defer tpmcrypto.Zero(message)
	c.out.Sized(message)
	return tpm2.RCSuccess
}
