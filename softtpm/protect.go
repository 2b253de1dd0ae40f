// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"bytes"

	"holdfast/softtpm/internal/tpmcrypto"
	"holdfast/tpm2"
)

// ivSize is the block size of all ciphers that protect.
const ivSize = 16

// protection holds the two keys that a secret seed gives (Part 1, 23.4 and
// 24): one to encrypt what is named name, one for its integrity.
type protection struct {
	hash   tpm2.Alg
	cipher uint16
	sym    []byte
	mac    []byte
}

// newProtection derives the keys for an object or credential with the given
// Name under seed. sym is the symmetric algorithm of the protecting key.
func newProtection(hash tpm2.Alg, seed []byte, sym tpm2.SymDef, name []byte) protection {
	h := tpmcrypto.Hash(hash)
	return protection{
		hash: hash, cipher: uint16(sym.Alg),
		sym: tpmcrypto.KDFa(h, seed, "STORAGE", name, nil, int(sym.KeyBits)),
		mac: tpmcrypto.KDFa(h, seed, "INTEGRITY", nil, nil, 8*h.Size()),
	}
}

func (p protection) wipe() {
	tpmcrypto.Zero(p.sym)
	tpmcrypto.Zero(p.mac)
}

// cfb encrypts or decrypts data in place.
func (p protection) cfb(iv, data []byte, decrypt bool) {
	b, err := tpmcrypto.NewCipher(p.cipher, p.sym)
	if err != nil {
		panic(err) // objects have known ciphers and key sizes only
	}
	if decrypt {
		tpmcrypto.CFBDecrypt(b, iv, data)
	} else {
		tpmcrypto.CFBEncrypt(b, iv, data)
	}
}

// integrity is the HMAC over the encrypted parts and the Name.
func (p protection) integrity(parts ...[]byte) []byte {
	return tpmcrypto.HMAC(tpmcrypto.Hash(p.hash), p.mac, parts...)
}

// wrap returns the content of the TPM2B_PRIVATE of a child of parent:
// integrity ‖ iv ‖ encrypted TPM2B_SENSITIVE (Part 1, 23.4).
func (t *TPM) wrap(parent *object, name []byte, s *tpm2.Sensitive) []byte {
	plain, err := tpm2.EncodeSized(s)
	if err != nil {
		panic(err) // sensitive areas are far below 64 KiB
	}
	p := newProtection(parent.pub.NameAlg, parent.sens.Seed, parent.pub.Parms.Symmetric, name)
	defer p.wipe()
	iv := t.random(ivSize)
	p.cfb(iv, plain, false)
	var body, w tpm2.Writer
	body.Sized(iv)
	body.Raw(plain)
	w.Sized(p.integrity(body.Bytes(), name))
	w.Raw(body.Bytes())
	return w.Bytes()
}

// unwrap is the inverse of wrap. TPM_RC_INTEGRITY if the integrity value is
// wrong.
func unwrap(parent *object, name, private []byte) (*tpm2.Sensitive, tpm2.RC) {
	r := tpm2.NewReader(private)
	mac := r.Sized(tpm2.MaxDigest)
	if rc := r.Code(); rc != tpm2.RCSuccess {
		return nil, rc
	}
	body := bytes.Clone(r.Rest())
	p := newProtection(parent.pub.NameAlg, parent.sens.Seed, parent.pub.Parms.Symmetric, name)
	defer p.wipe()
	if !tpmcrypto.Equal(p.integrity(body, name), mac) {
		return nil, tpm2.RCIntegrity
	}
	r.Reset(body)
	iv := r.Sized(ivSize)
	enc := r.Rest()
	if r.Code() != tpm2.RCSuccess || len(iv) != ivSize {
		return nil, tpm2.RCSize
	}
	p.cfb(iv, enc, true)
	defer tpmcrypto.Zero(enc)
	var s tpm2.Sensitive
	if err := tpm2.DecodeSized(enc, &s); err != nil {
		return nil, rcOfError(err)
	}
	return cloneSensitive(&s), tpm2.RCSuccess
}

// cloneSensitive returns s with memory of its own.
func cloneSensitive(s *tpm2.Sensitive) *tpm2.Sensitive {
	return &tpm2.Sensitive{Type: s.Type, Auth: bytes.Clone(s.Auth), Seed: bytes.Clone(s.Seed), Value: bytes.Clone(s.Value)}
}

// rcOfError returns the response code in an error of package tpm2.
func rcOfError(err error) tpm2.RC {
	if rc, ok := err.(tpm2.RC); ok {
		return rc
	}
	return tpm2.RCFailure
}

// Labels of secret sharing (Part 1, annex B and C; version 185, 47.4).
const (
	labelIdentity  = "IDENTITY"
	labelSecret    = "SECRET"
	labelDuplicate = "DUPLICATE"
)

// shareSecret makes a fresh secret and encrypts it to the public key of o. It
// returns the secret and the content of the TPM2B_ENCRYPTED_SECRET.
func (t *TPM) shareSecret(o *object, label string) (secret, encrypted []byte, rc tpm2.RC) {
	h := tpmcrypto.Hash(o.pub.NameAlg)
	bits := 8 * h.Size()
	switch o.pub.Type {
	case tpm2.AlgRSA:
		k, err := o.rsaPublic()
		if err != nil {
			return nil, nil, tpm2.RCKey
		}
		oaep, rc := secretHash(o)
		if rc != tpm2.RCSuccess {
			return nil, nil, rc
		}
		secret = t.random(h.Size())
		// The OAEP label has its terminating zero (Part 1, B.4).
		encrypted, err = k.EncryptOAEP(oaep, t.rng, secret, append([]byte(label), 0))
		if err != nil {
			return nil, nil, tpm2.RCKey
		}
		return secret, encrypted, tpm2.RCSuccess
	case tpm2.AlgECC:
		pub, err := o.ecPublic()
		if err != nil {
			return nil, nil, tpm2.RCKey
		}
		e, err := tpmcrypto.GenerateEC(pub.Curve, t.rng)
		if err != nil {
			return nil, nil, tpm2.RCFailure
		}
		defer e.Zero()
		z, err := e.ECDH(pub.X, pub.Y)
		if err != nil {
			return nil, nil, tpm2.RCKey
		}
		secret = tpmcrypto.KDFe(h, z.X, label, e.X, pub.X, bits)
		encrypted, _ = tpm2.Encode(tpm2.Point{X: e.X, Y: e.Y})
		return secret, encrypted, tpm2.RCSuccess
	case tpm2.AlgMLKEM:
		pub, err := o.mlkemPublic()
		if err != nil {
			return nil, nil, tpm2.RCKey
		}
		k, ct := pub.Encapsulate()
		defer tpmcrypto.Zero(k)
		return tpmcrypto.KDFa(h, k, label, ct, o.pub.Unique, bits), ct, tpm2.RCSuccess
	}
	return nil, nil, tpm2.RCKey
}

// secretHash is the hash of OAEP in secret sharing: the scheme's if the key
// has one, else its nameAlg. TPM_RC_VALUE if the key has another scheme (Part 1,
// 43.10, labeled KEM of RSA).
func secretHash(o *object) (tpmcrypto.Hash, tpm2.RC) {
	switch o.pub.Parms.Scheme.Alg {
	case tpm2.AlgOAEP:
		return tpmcrypto.Hash(o.pub.Parms.Scheme.Hash), tpm2.RCSuccess
	case tpm2.AlgNull:
		return tpmcrypto.Hash(o.pub.NameAlg), tpm2.RCSuccess
	}
	return 0, tpm2.RCValue
}

// recoverSecret decrypts what shareSecret encrypted to o, which must have its
// private part.
func recoverSecret(o *object, label string, encrypted []byte) ([]byte, tpm2.RC) {
	h := tpmcrypto.Hash(o.pub.NameAlg)
	bits := 8 * h.Size()
	switch o.pub.Type {
	case tpm2.AlgRSA:
		k, err := o.rsaPrivate()
		if err != nil {
			return nil, tpm2.RCKey
		}
		if len(encrypted) != k.Size() {
			return nil, tpm2.RCSize
		}
		oaep, rc := secretHash(o)
		if rc != tpm2.RCSuccess {
			return nil, rc
		}
		s, err := k.DecryptOAEP(oaep, encrypted, append([]byte(label), 0))
		if err != nil || len(s) > h.Size() {
			return nil, tpm2.RCValue
		}
		return s, tpm2.RCSuccess
	case tpm2.AlgECC:
		var p tpm2.Point
		if err := tpm2.Decode(encrypted, &p); err != nil {
			return nil, rcOfError(err)
		}
		k, err := o.ecPrivate()
		if err != nil {
			return nil, tpm2.RCKey
		}
		e, err := k.Curve.CheckPoint(p.X, p.Y)
		if err != nil {
			return nil, tpm2.RCECCPoint
		}
		z, err := k.ECDH(e.X, e.Y)
		if err != nil {
			return nil, tpm2.RCECCPoint
		}
		// The coordinate counts as it was sent: tpm2-tools 5.4 leaves leading zeros
		// out, of the point and of its own KDFe, and the reference TPM takes that too.
		return tpmcrypto.KDFe(h, z.X, label, p.X, k.X, bits), tpm2.RCSuccess
	case tpm2.AlgMLKEM:
		k, err := o.mlkemPrivate()
		if err != nil {
			return nil, tpm2.RCKey
		}
		if len(encrypted) != o.pub.Parms.MLKEM.CiphertextSize() {
			return nil, tpm2.RCSize
		}
		ss, err := k.Decapsulate(encrypted)
		if err != nil {
			return nil, tpm2.RCValue
		}
		defer tpmcrypto.Zero(ss)
		return tpmcrypto.KDFa(h, ss, label, encrypted, o.pub.Unique, bits), tpm2.RCSuccess
	}
	return nil, tpm2.RCKey
}

// sealCredential encrypts a credential to a secret seed (Part 1, 24.4): the
// content of a TPM2B_ID_OBJECT.
func sealCredential(key *object, seed, objectName, credential []byte) []byte {
	p := newProtection(key.pub.NameAlg, seed, key.pub.Parms.Symmetric, objectName)
	defer p.wipe()
	var w tpm2.Writer
	w.Sized(credential)
	enc := w.Bytes()
	p.cfb(make([]byte, ivSize), enc, false)
	o := tpm2.IDObject{IntegrityHMAC: p.integrity(enc, objectName), EncIdentity: enc}
	var out tpm2.Writer
	o.Marshal(&out)
	return out.Bytes()
}

// openCredential is the inverse of sealCredential.
func openCredential(key *object, seed, objectName, blob []byte) ([]byte, tpm2.RC) {
	var o tpm2.IDObject
	if err := tpm2.Decode(blob, &o); err != nil {
		return nil, rcOfError(err)
	}
	p := newProtection(key.pub.NameAlg, seed, key.pub.Parms.Symmetric, objectName)
	defer p.wipe()
	if !tpmcrypto.Equal(p.integrity(o.EncIdentity, objectName), o.IntegrityHMAC) {
		return nil, tpm2.RCIntegrity
	}
	enc := bytes.Clone(o.EncIdentity)
	p.cfb(make([]byte, ivSize), enc, true)
	r := tpm2.NewReader(enc)
	cred := r.Sized(tpm2.MaxDigest)
	r.End()
	if rc := r.Code(); rc != tpm2.RCSuccess {
		return nil, rc
	}
	return cred, tpm2.RCSuccess
}
