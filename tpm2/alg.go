// SPDX-License-Identifier: Apache-2.0

package tpm2

import (
	"crypto"
	"crypto/sha1" // Names and policy digests of SHA-1 objects need it
	_ "crypto/sha256"
	_ "crypto/sha3"
	_ "crypto/sha512"
	"fmt"
	"hash"

	"github.com/emmansun/gmsm/sm3"
)

// Alg is an algorithm identifier, TPM_ALG_ID (Part 2, 6.3).
type Alg uint16

// Algorithm identifiers (Part 2, 6.3).
const (
	AlgError         Alg = 0x0000
	AlgRSA           Alg = 0x0001
	AlgTDES          Alg = 0x0003
	AlgSHA1          Alg = 0x0004
	AlgHMAC          Alg = 0x0005
	AlgAES           Alg = 0x0006
	AlgMGF1          Alg = 0x0007
	AlgKeyedHash     Alg = 0x0008
	AlgXOR           Alg = 0x000A
	AlgSHA256        Alg = 0x000B
	AlgSHA384        Alg = 0x000C
	AlgSHA512        Alg = 0x000D
	AlgSHA256_192    Alg = 0x000E
	AlgNull          Alg = 0x0010
	AlgSM3_256       Alg = 0x0012
	AlgSM4           Alg = 0x0013
	AlgRSASSA        Alg = 0x0014
	AlgRSAES         Alg = 0x0015
	AlgRSAPSS        Alg = 0x0016
	AlgOAEP          Alg = 0x0017
	AlgECDSA         Alg = 0x0018
	AlgECDH          Alg = 0x0019
	AlgECDAA         Alg = 0x001A
	AlgSM2           Alg = 0x001B
	AlgECSchnorr     Alg = 0x001C
	AlgECMQV         Alg = 0x001D
	AlgHKDF          Alg = 0x001F
	AlgKDF1SP800_56A Alg = 0x0020
	AlgKDF2          Alg = 0x0021
	AlgKDF1SP800_108 Alg = 0x0022
	AlgECC           Alg = 0x0023
	AlgSymCipher     Alg = 0x0025
	AlgCamellia      Alg = 0x0026
	AlgSHA3_256      Alg = 0x0027
	AlgSHA3_384      Alg = 0x0028
	AlgSHA3_512      Alg = 0x0029
	AlgSHAKE128      Alg = 0x002A
	AlgSHAKE256      Alg = 0x002B
	AlgSHAKE256_192  Alg = 0x002C
	AlgSHAKE256_256  Alg = 0x002D
	AlgSHAKE256_512  Alg = 0x002E
	AlgCMAC          Alg = 0x003F
	AlgCTR           Alg = 0x0040
	AlgOFB           Alg = 0x0041
	AlgCBC           Alg = 0x0042
	AlgCFB           Alg = 0x0043
	AlgECB           Alg = 0x0044
	AlgCCM           Alg = 0x0050
	AlgGCM           Alg = 0x0051
	AlgKW            Alg = 0x0052
	AlgKWP           Alg = 0x0053
	AlgEAX           Alg = 0x0054
	AlgEdDSA         Alg = 0x0060
	AlgHashEdDSA     Alg = 0x0061
	AlgLMS           Alg = 0x0070
	AlgXMSS          Alg = 0x0071
	AlgKeyedXOF      Alg = 0x0080
	AlgKMACXOF128    Alg = 0x0081
	AlgKMACXOF256    Alg = 0x0082
	AlgKMAC128       Alg = 0x0090
	AlgKMAC256       Alg = 0x0091
	AlgMLKEM         Alg = 0x00A0
	AlgMLDSA         Alg = 0x00A1
	AlgHashMLDSA     Alg = 0x00A2
)

var algNames = map[Alg]string{
	AlgError: "error", AlgRSA: "rsa", AlgTDES: "tdes", AlgSHA1: "sha1", AlgHMAC: "hmac", AlgAES: "aes", AlgMGF1: "mgf1",
	AlgKeyedHash: "keyedhash", AlgXOR: "xor", AlgSHA256: "sha256", AlgSHA384: "sha384", AlgSHA512: "sha512", AlgSHA256_192: "sha256_192",
	AlgNull: "null", AlgSM3_256: "sm3_256", AlgSM4: "sm4", AlgRSASSA: "rsassa", AlgRSAES: "rsaes", AlgRSAPSS: "rsapss", AlgOAEP: "oaep",
	AlgECDSA: "ecdsa", AlgECDH: "ecdh", AlgECDAA: "ecdaa", AlgSM2: "sm2", AlgECSchnorr: "ecschnorr", AlgECMQV: "ecmqv",
	AlgHKDF: "hkdf", AlgKDF1SP800_56A: "kdf1_sp800_56a", AlgKDF2: "kdf2", AlgKDF1SP800_108: "kdf1_sp800_108", AlgECC: "ecc", AlgSymCipher: "symcipher",
	AlgCamellia: "camellia", AlgSHA3_256: "sha3_256", AlgSHA3_384: "sha3_384", AlgSHA3_512: "sha3_512", AlgSHAKE128: "shake128",
	AlgSHAKE256: "shake256", AlgSHAKE256_192: "shake256_192", AlgSHAKE256_256: "shake256_256", AlgSHAKE256_512: "shake256_512",
	AlgCMAC: "cmac", AlgCTR: "ctr", AlgOFB: "ofb", AlgCBC: "cbc", AlgCFB: "cfb", AlgECB: "ecb", AlgCCM: "ccm", AlgGCM: "gcm", AlgKW: "kw",
	AlgKWP: "kwp", AlgEAX: "eax", AlgEdDSA: "eddsa", AlgHashEdDSA: "hash_eddsa", AlgLMS: "lms", AlgXMSS: "xmss", AlgKeyedXOF: "keyedxof",
	AlgKMACXOF128: "kmacxof128", AlgKMACXOF256: "kmacxof256", AlgKMAC128: "kmac128", AlgKMAC256: "kmac256", AlgMLKEM: "mlkem",
	AlgMLDSA: "mldsa", AlgHashMLDSA: "hash_mldsa",
}

// String returns the name in tpm2-tools' lower-case style, for example "sha256".
func (a Alg) String() string {
	if n, ok := algNames[a]; ok {
		return n
	}
	return fmt.Sprintf("alg(0x%04x)", uint16(a))
}

// MaxDigest is the size in bytes of the largest digest, SHA-512's.
const MaxDigest = 64

// DigestSize returns the size of a hash algorithm's digest in bytes, 0 for
// what is no hash that we know.
func (a Alg) DigestSize() int {
	switch a {
	case AlgSHA1:
		return sha1.Size
	case AlgSHA256, AlgSM3_256, AlgSHA3_256:
		return 32
	case AlgSHA384, AlgSHA3_384:
		return 48
	case AlgSHA512, AlgSHA3_512:
		return 64
	}
	return 0
}

// IsHash says whether a is a hash algorithm that this package can compute.
func (a Alg) IsHash() bool { return a.DigestSize() != 0 }

// CryptoHash returns the crypto.Hash of a, 0 if there is none (SM3 has none).
func (a Alg) CryptoHash() crypto.Hash {
	switch a {
	case AlgSHA1:
		return crypto.SHA1
	case AlgSHA256:
		return crypto.SHA256
	case AlgSHA384:
		return crypto.SHA384
	case AlgSHA512:
		return crypto.SHA512
	case AlgSHA3_256:
		return crypto.SHA3_256
	case AlgSHA3_384:
		return crypto.SHA3_384
	case AlgSHA3_512:
		return crypto.SHA3_512
	}
	return 0
}

// New returns a fresh hash, or nil for what is no hash that we know. Check
// IsHash first where a comes from the wire.
func (a Alg) New() hash.Hash {
	if a == AlgSM3_256 {
		return sm3.New()
	}
	if h := a.CryptoHash(); h != 0 {
		return h.New()
	}
	return nil
}

// Sum returns the digest of the concatenated parts, nil if a is no hash.
func (a Alg) Sum(parts ...[]byte) []byte {
	h := a.New()
	if h == nil {
		return nil
	}
	for _, p := range parts {
		h.Write(p)
	}
	return h.Sum(nil)
}

// Curve is an elliptic curve, TPM_ECC_CURVE (Part 2, 6.4).
type Curve uint16

// Elliptic curves (Part 2, 6.4).
const (
	CurveNone   Curve = 0x0000
	CurveP192   Curve = 0x0001
	CurveP224   Curve = 0x0002
	CurveP256   Curve = 0x0003
	CurveP384   Curve = 0x0004
	CurveP521   Curve = 0x0005
	CurveBNP256 Curve = 0x0010
	CurveBNP638 Curve = 0x0011
	CurveSM2    Curve = 0x0020
	Curve25519  Curve = 0x0040
	Curve448    Curve = 0x0041
)

var curveNames = map[Curve]string{
	CurveP192: "nist_p192", CurveP224: "nist_p224", CurveP256: "nist_p256", CurveP384: "nist_p384", CurveP521: "nist_p521",
	CurveBNP256: "bn_p256", CurveBNP638: "bn_p638", CurveSM2: "sm2_p256", Curve25519: "curve_25519", Curve448: "curve_448",
}

// String returns the curve's name in the specification's style, lower case.
func (c Curve) String() string {
	if n, ok := curveNames[c]; ok {
		return n
	}
	return fmt.Sprintf("curve(0x%04x)", uint16(c))
}

// Bits returns the size of the curve's field in bits, 0 if it is not known.
func (c Curve) Bits() int {
	switch c {
	case CurveP192:
		return 192
	case CurveP224:
		return 224
	case CurveP256, CurveBNP256, CurveSM2:
		return 256
	case CurveP384:
		return 384
	case CurveP521:
		return 521
	case CurveBNP638:
		return 638
	case Curve25519:
		return 255
	case Curve448:
		return 448
	}
	return 0
}

// MLKEMSet is an ML-KEM parameter set, TPMI_MLKEM_PARMS (Part 2, 11.2.6).
type MLKEMSet uint16

// ML-KEM parameter sets.
const (
	MLKEMNone MLKEMSet = 0
	MLKEM512  MLKEMSet = 1
	MLKEM768  MLKEMSet = 2
	MLKEM1024 MLKEMSet = 3
)

// PublicKeySize returns the size of the encapsulation key in bytes (FIPS 203,
// table 3), 0 for an unknown set.
func (s MLKEMSet) PublicKeySize() int {
	if s < MLKEM512 || s > MLKEM1024 {
		return 0
	}
	return [...]int{0, 800, 1184, 1568}[s]
}

// CiphertextSize returns the size of a ciphertext in bytes, 0 for an unknown set.
func (s MLKEMSet) CiphertextSize() int {
	if s < MLKEM512 || s > MLKEM1024 {
		return 0
	}
	return [...]int{0, 768, 1088, 1568}[s]
}

// MLKEMSeedSize is the size of an ML-KEM private key, the seed d ‖ z.
const MLKEMSeedSize = 64

// MLDSASet is an ML-DSA parameter set, TPMI_MLDSA_PARMS (Part 2, 11.2.7).
type MLDSASet uint16

// ML-DSA parameter sets.
const (
	MLDSANone MLDSASet = 0
	MLDSA44   MLDSASet = 1
	MLDSA65   MLDSASet = 2
	MLDSA87   MLDSASet = 3
)

// PublicKeySize returns the size of the public key in bytes (FIPS 204, table
// 2), 0 for an unknown set.
func (s MLDSASet) PublicKeySize() int {
	if s < MLDSA44 || s > MLDSA87 {
		return 0
	}
	return [...]int{0, 1312, 1952, 2592}[s]
}

// SignatureSize returns the size of a signature in bytes, 0 for an unknown set.
func (s MLDSASet) SignatureSize() int {
	if s < MLDSA44 || s > MLDSA87 {
		return 0
	}
	return [...]int{0, 2420, 3309, 4627}[s]
}

// MLDSASeedSize is the size of an ML-DSA private key, the seed ξ.
const MLDSASeedSize = 32
