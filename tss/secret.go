// SPDX-License-Identifier: Apache-2.0

package tss

import (
	"crypto/ecdh"
	"crypto/hmac"
	"crypto/mlkem"
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"fmt"
	"hash"
	"math/big"

	"github.com/cloudflare/circl/kem/mlkem/mlkem512"

	"holdfast/tpm2"
)

// makeSecret makes a secret that only the holder of a decryption key learns,
// and the TPM2B_ENCRYPTED_SECRET content that carries it (Part 1, 11.4.10.5,
// annexes B.10.3 and C.6.1, and 47.4 for ML-KEM). label is "SECRET",
// "IDENTITY" or "DUPLICATE".
func makeSecret(pub *tpm2.Public, label string) (secret, encrypted []byte, err error) {
	if !pub.NameAlg.IsHash() {
		return nil, nil, fmt.Errorf("the key's nameAlg is %v, expected a hash", pub.NameAlg)
	}
	switch pub.Type {
	case tpm2.AlgRSA:
		return rsaSecret(pub, label)
	case tpm2.AlgECC:
		return eccSecret(pub, label)
	case tpm2.AlgMLKEM:
		return mlkemSecret(pub, label)
	}
	return nil, nil, fmt.Errorf("a key of type %v cannot receive a secret, expected rsa, ecc or mlkem", pub.Type)
}

func rsaSecret(pub *tpm2.Public, label string) (secret, encrypted []byte, err error) {
	key, err := rsaPublic(pub)
	if err != nil {
		return nil, nil, err
	}
	secret = make([]byte, pub.NameAlg.DigestSize())
	if _, err := rand.Read(secret); err != nil {
		return nil, nil, err
	}
	// A TPM's OAEP hashes with the key's scheme hash, or nameAlg for storage
	// keys, whose scheme is null.
	h := pub.NameAlg
	if pub.Parms.Scheme.Alg == tpm2.AlgOAEP {
		h = pub.Parms.Scheme.Hash
	}
	if !h.IsHash() {
		return nil, nil, fmt.Errorf("OAEP with %v: not a hash that this program knows", h)
	}
	encrypted, err = rsa.EncryptOAEP(h.New(), rand.Reader, key, secret, append([]byte(label), 0))
	return secret, encrypted, err
}

// rsaPublic returns the public key of a TPM's RSA key.
func rsaPublic(pub *tpm2.Public) (*rsa.PublicKey, error) {
	e := pub.Parms.Exponent
	if e == 0 {
		e = 65537
	}
	if len(pub.Unique)*8 < 1024 || e < 3 || e > 1<<31-1 {
		return nil, fmt.Errorf("an RSA key of %d bytes with exponent %d", len(pub.Unique), e)
	}
	return &rsa.PublicKey{N: new(big.Int).SetBytes(pub.Unique), E: int(e)}, nil
}

// ecdhCurve returns the curve of crypto/ecdh.
func ecdhCurve(c tpm2.Curve) (ecdh.Curve, error) {
	switch c {
	case tpm2.CurveP256:
		return ecdh.P256(), nil
	case tpm2.CurveP384:
		return ecdh.P384(), nil
	case tpm2.CurveP521:
		return ecdh.P521(), nil
	case tpm2.Curve25519:
		return ecdh.X25519(), nil
	}
	return nil, fmt.Errorf("curve %v: expected P-256, P-384, P-521 or Curve25519", c)
}

// pad returns b with leading zeros, n bytes long.
func pad(b []byte, n int) ([]byte, error) {
	if len(b) > n {
		return nil, fmt.Errorf("a coordinate of %d bytes, expected at most %d", len(b), n)
	}
	return append(make([]byte, n-len(b)), b...), nil
}

// eccPublic returns the public key of a TPM's ECC key; a point that is not on
// the curve is an error.
func eccPublic(c tpm2.Curve, p tpm2.Point) (*ecdh.PublicKey, error) {
	curve, err := ecdhCurve(c)
	if err != nil {
		return nil, err
	}
	if c == tpm2.Curve25519 {
		if len(p.Y) != 0 {
			return nil, fmt.Errorf("a point of %v with a y-coordinate", c)
		}
		return curve.NewPublicKey(p.X)
	}
	n := (c.Bits() + 7) / 8
	x, err := pad(p.X, n)
	if err != nil {
		return nil, err
	}
	y, err := pad(p.Y, n)
	if err != nil {
		return nil, err
	}
	return curve.NewPublicKey(append(append([]byte{4}, x...), y...))
}

func eccSecret(pub *tpm2.Public, label string) (secret, encrypted []byte, err error) {
	key, err := eccPublic(pub.Parms.Curve, pub.Point)
	if err != nil {
		return nil, nil, err
	}
	eph, err := key.Curve().GenerateKey(rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	z, err := eph.ECDH(key)
	if err != nil {
		return nil, nil, err
	}
	defer clear(z)
	n := len(z)
	ephPub, keyPub := eph.PublicKey().Bytes(), key.Bytes()
	if pub.Parms.Curve == tpm2.Curve25519 { // the u-coordinate alone (Part 1, 44.5.1)
		secret = kdfe(pub.NameAlg, z, label, ephPub, keyPub, pub.NameAlg.DigestSize()*8)
		encrypted, err = tpm2.Encode(tpm2.Point{X: ephPub})
		return secret, encrypted, err
	}
	ephX, ephY, keyX := ephPub[1:1+n], ephPub[1+n:], keyPub[1:1+n]
	secret = kdfe(pub.NameAlg, z, label, ephX, keyX, pub.NameAlg.DigestSize()*8)
	encrypted, err = tpm2.Encode(tpm2.Point{X: ephX, Y: ephY})
	return secret, encrypted, err
}

// mlkemSecret is the labeled KEM of Part 1, 47.4. The shared secret that
// enters KDFa has 32 bytes, as FIPS 203 gives it.
func mlkemSecret(pub *tpm2.Public, label string) (secret, encrypted []byte, err error) {
	k, ct, err := encapsulate(pub.Parms.MLKEM, pub.Unique)
	if err != nil {
		return nil, nil, err
	}
	defer clear(k)
	return kdfa(pub.NameAlg, k, label, ct, pub.Unique, pub.NameAlg.DigestSize()*8), ct, nil
}

// encapsulate is ML-KEM.Encaps in software.
func encapsulate(set tpm2.MLKEMSet, key []byte) (shared, ciphertext []byte, err error) {
	switch set {
	case tpm2.MLKEM512:
		// circl's Unpack checks the modulus as FIPS 203, 7.2 asks.
		p, err := mlkem512.Scheme().UnmarshalBinaryPublicKey(key)
		if err != nil {
			return nil, nil, err
		}
		ct, ss, err := mlkem512.Scheme().Encapsulate(p)
		return ss, ct, err
	case tpm2.MLKEM768:
		p, err := mlkem.NewEncapsulationKey768(key)
		if err != nil {
			return nil, nil, err
		}
		ss, ct := p.Encapsulate()
		return ss, ct, nil
	case tpm2.MLKEM1024:
		p, err := mlkem.NewEncapsulationKey1024(key)
		if err != nil {
			return nil, nil, err
		}
		ss, ct := p.Encapsulate()
		return ss, ct, nil
	}
	return nil, nil, fmt.Errorf("ML-KEM parameter set %d is unknown", set)
}

// outerWrap encrypts data for a protector with seed, and returns integrity
// (a TPM2B) ‖ encrypted data (Part 1, 22.4 to 22.6): the protection that
// credentials and duplicated objects share.
func outerWrap(pub *tpm2.Public, seed, name, data []byte) ([]byte, error) {
	sym := pub.Parms.Symmetric
	if sym.Alg != tpm2.AlgAES || sym.Mode != tpm2.AlgCFB {
		return nil, fmt.Errorf("the protector's symmetric algorithm is %v in mode %v, expected aes in mode cfb", sym.Alg, sym.Mode)
	}
	symKey := kdfa(pub.NameAlg, seed, "STORAGE", name, nil, int(sym.KeyBits))
	defer clear(symKey)
	enc := append([]byte(nil), data...)
	if err := cfb(symKey, make([]byte, 16), enc, true); err != nil {
		return nil, err
	}
	macKey := kdfa(pub.NameAlg, seed, "INTEGRITY", nil, nil, pub.NameAlg.DigestSize()*8)
	defer clear(macKey)
	m := hmac.New(func() hash.Hash { return pub.NameAlg.New() }, macKey)
	m.Write(enc)
	m.Write(name)
	var w tpm2.Writer
	w.Sized(m.Sum(nil))
	w.Raw(enc)
	return w.Bytes(), w.Err()
}

// MakeCredential makes a credential in software, without a TPM, as
// TPM2_MakeCredential does (Part 3, 12.6; Part 1, 24): only the TPM that holds
// the private part of ek, and an object with the given Name, can recover
// secret by ActivateCredential. It returns the TPMS_ID_OBJECT and the content
// of the TPM2B_ENCRYPTED_SECRET.
func MakeCredential(ek *tpm2.Public, name, secret []byte) (idObject, encryptedSecret []byte, err error) {
	if !ek.Attributes.Has(tpm2.ObjectRestricted | tpm2.ObjectDecrypt) {
		return nil, nil, errors.New("tss: credential: the key is not a restricted decryption key")
	}
	if len(secret) > ek.NameAlg.DigestSize() {
		return nil, nil, fmt.Errorf("tss: credential: a secret of %d bytes, at most %d fit", len(secret), ek.NameAlg.DigestSize())
	}
	seed, encryptedSecret, err := makeSecret(ek, "IDENTITY")
	if err != nil {
		return nil, nil, fmt.Errorf("tss: credential: %w", err)
	}
	defer clear(seed)
	var w tpm2.Writer
	w.Sized(secret)
	defer clear(w.Bytes())
	idObject, err = outerWrap(ek, seed, name, w.Bytes())
	if err != nil {
		return nil, nil, fmt.Errorf("tss: credential: %w", err)
	}
	return idObject, encryptedSecret, nil
}
