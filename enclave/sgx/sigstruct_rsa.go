// SPDX-License-Identifier: Apache-2.0

package sgx

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/subtle"
	"errors"
	"fmt"
	"math/big"
	"slices"
)

// ErrSignature says that a SIGSTRUCT's signature does not verify (EINIT's
// SGX_INVALID_SIGNATURE).
var ErrSignature = errors.New("sgx: SIGSTRUCT: the RSA signature does not verify")

// Verify checks the signature as EINIT does: PKCS #1 v1.5 with SHA-256 under
// the modulus in the structure, and Q1 and Q2, the two quotients that spare the
// processor a division. All inputs are public.
//
//	Q1 = floor(S^2 / M)    Q2 = floor(S * (S^2 mod M) / M)
func (s *SigStruct) Verify() error {
	m, sig := fromLE(s.Modulus[:]), fromLE(s.Signature[:])
	if m.BitLen() != 3072 || m.Bit(0) == 0 || sig.Cmp(m) >= 0 {
		return ErrSignature
	}
	q1, q2 := quotients(sig, m)
	if q1.Cmp(fromLE(s.Q1[:])) != 0 || q2.Cmp(fromLE(s.Q2[:])) != 0 {
		return fmt.Errorf("%w: Q1 or Q2 is not the quotient of the signature", ErrSignature)
	}
	// s^3 mod M by hand, since crypto/rsa refuses the exponent 3 in some modes.
	em := new(big.Int).Mul(sig, sig)
	em.Mod(em, m).Mul(em, sig).Mod(em, m)
	d := s.signedDigest()
	if subtle.ConstantTimeCompare(em.FillBytes(make([]byte, 384)), pkcs1v15(d)) != 1 {
		return ErrSignature
	}
	return nil
}

// Sign fills Modulus, Signature, Q1 and Q2 with a 3072-bit RSA key whose public
// exponent is 3.
func (s *SigStruct) Sign(key *rsa.PrivateKey) error {
	if key.N.BitLen() != 3072 || key.E != sigExponent {
		return fmt.Errorf("sgx: SIGSTRUCT: the signing key must be RSA with 3072 bits and exponent 3, got %d bits and exponent %d", key.N.BitLen(), key.E)
	}
	putLE(s.Modulus[:], key.N)
	d := s.signedDigest()
	b, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, d[:])
	if err != nil {
		return fmt.Errorf("sgx: SIGSTRUCT: sign: %w", err)
	}
	sig := new(big.Int).SetBytes(b)
	q1, q2 := quotients(sig, key.N)
	putLE(s.Signature[:], sig)
	putLE(s.Q1[:], q1)
	putLE(s.Q2[:], q2)
	return nil
}

func quotients(sig, m *big.Int) (q1, q2 *big.Int) {
	sq := new(big.Int).Mul(sig, sig)
	q1, rem := new(big.Int).QuoRem(sq, m, new(big.Int))
	rem.Mul(rem, sig)
	return q1, rem.Quo(rem, m)
}

// pkcs1v15 is EMSA-PKCS1-v1_5 of RFC 8017 section 9.2 for SHA-256, 384 bytes.
func pkcs1v15(d [32]byte) []byte {
	em := make([]byte, 384)
	em[1] = 1
	t := append([]byte{0x30, 0x31, 0x30, 0x0d, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01, 0x05, 0x00, 0x04, 0x20}, d[:]...)
	for i := 2; i < len(em)-len(t)-1; i++ {
		em[i] = 0xff
	}
	copy(em[len(em)-len(t):], t)
	return em
}

func fromLE(b []byte) *big.Int {
	r := slices.Clone(b)
	slices.Reverse(r)
	return new(big.Int).SetBytes(r)
}

func putLE(dst []byte, n *big.Int) {
	n.FillBytes(dst)
	slices.Reverse(dst)
}

// SetSignature takes a signature that was made elsewhere, 384 bytes, most
// significant first, under a public key with 3072 bits and exponent 3. It is an
// error if it does not verify.
func (s *SigStruct) SetSignature(key *rsa.PublicKey, signature []byte) error {
	if key.N.BitLen() != 3072 || key.E != sigExponent {
		return fmt.Errorf("sgx: SIGSTRUCT: the key must be RSA with 3072 bits and exponent 3, got %d bits and exponent %d", key.N.BitLen(), key.E)
	}
	if len(signature) != 384 {
		return fmt.Errorf("sgx: SIGSTRUCT: the signature has %d bytes, expected 384", len(signature))
	}
	sig := new(big.Int).SetBytes(signature)
	if sig.Cmp(key.N) >= 0 {
		return ErrSignature
	}
	q1, q2 := quotients(sig, key.N)
	putLE(s.Modulus[:], key.N)
	putLE(s.Signature[:], sig)
	putLE(s.Q1[:], q1)
	putLE(s.Q2[:], q2)
	return s.Verify()
}
