// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"holdfast/softtpm/internal/tpmcrypto"
	"holdfast/tpm2"
)

func init() {
	pub, priv := []slot{{kObject, roleNone}}, []slot{{kObject, roleUser}}
	register(&command{code: tpm2.CCRSAEncrypt, slots: pub, flags: fDecrypt | fEncrypt, run: rsaEncrypt})
	register(&command{code: tpm2.CCRSADecrypt, slots: priv, flags: fDecrypt | fEncrypt, run: rsaDecrypt})
	register(&command{code: tpm2.CCECDHKeyGen, slots: pub, flags: fEncrypt, run: ecdhKeyGen})
	register(&command{code: tpm2.CCECDHZGen, slots: priv, flags: fDecrypt | fEncrypt, run: ecdhZGen})
	register(&command{code: tpm2.CCEncapsulate, slots: pub, flags: fEncrypt, run: encapsulate})
	register(&command{code: tpm2.CCDecapsulate, slots: priv, flags: fDecrypt | fEncrypt, run: decapsulate})
}

// rsaScheme selects the scheme of RSA_Encrypt and RSA_Decrypt as
// CryptRsaSelectScheme of Part 4 did.
func rsaScheme(o *object, in tpm2.Scheme) (tpm2.Scheme, tpm2.RC) {
	have := o.pub.Parms.Scheme
	switch {
	case have.Alg == tpm2.AlgNull:
		return in, tpm2.RCSuccess
	case in.Alg == tpm2.AlgNull || in == have:
		return have, tpm2.RCSuccess
	}
	return in, tpm2.RCScheme
}

// readRSACrypt reads the parameters that both commands have: data, scheme, label.
func (c *call) readRSACrypt() (data []byte, s tpm2.Scheme, label []byte, rc tpm2.RC) {
	data = c.next().Sized(tpm2.MaxRSAKeyBytes)
	r := c.next()
	s.UnmarshalRSADecrypt(r)
	if r.Code() == tpm2.RCSuccess {
		schemeImplemented(r, s)
	}
	label = c.next().Sized(tpm2.MaxData)
	if rc := c.done(); rc != tpm2.RCSuccess {
		return nil, s, nil, rc
	}
	o := c.object(0)
	if o.isSequence() || o.pub.Type != tpm2.AlgRSA {
		return nil, s, nil, tpm2.RCKey.Handle(1)
	}
	if !o.pub.Attributes.Has(tpm2.ObjectDecrypt) {
		return nil, s, nil, tpm2.RCAttributes.Handle(1)
	}
	if s, rc = rsaScheme(o, s); rc != tpm2.RCSuccess {
		return nil, s, nil, rc.Parameter(2)
	}
	// A label ends in a zero byte (Part 3, 14.2.1).
	if n := len(label); n != 0 && label[n-1] != 0 {
		return nil, s, nil, tpm2.RCValue.Parameter(3)
	}
	return data, s, label, tpm2.RCSuccess
}

// rsaEncrypt is TPM2_RSA_Encrypt (Part 3, 14.2).
func rsaEncrypt(c *call) tpm2.RC {
	msg, s, label, rc := c.readRSACrypt()
	if rc != tpm2.RCSuccess {
		return rc
	}
	k, err := c.object(0).rsaPublic()
	if err != nil {
		return tpm2.RCKey.Handle(1)
	}
	var out []byte
	switch s.Alg {
	case tpm2.AlgNull:
		if len(msg) > k.Size() {
			return tpm2.RCSize.Parameter(1)
		}
		out, err = k.Raw(msg)
	case tpm2.AlgRSAES:
		out, err = k.EncryptPKCS1(c.t.rng, msg)
	case tpm2.AlgOAEP:
		out, err = k.EncryptOAEP(tpmcrypto.Hash(s.Hash), c.t.rng, msg, label)
	default:
		return tpm2.RCScheme.Parameter(2)
	}
	if err != nil {
		return tpm2.RCValue.Parameter(1)
	}
	c.out.Sized(out)
	return tpm2.RCSuccess
}

// rsaDecrypt is TPM2_RSA_Decrypt (Part 3, 14.3).
func rsaDecrypt(c *call) tpm2.RC {
	ct, s, label, rc := c.readRSACrypt()
	if rc != tpm2.RCSuccess {
		return rc
	}
	o := c.object(0)
	if o.pub.Attributes.Has(tpm2.ObjectRestricted) {
		return tpm2.RCAttributes.Handle(1)
	}
	k, err := o.rsaPrivate()
	if err != nil {
		return tpm2.RCKey.Handle(1)
	}
	if len(ct) != k.Size() { // "an encrypted RSA data block is the size of the public modulus"
		return tpm2.RCSize.Parameter(1)
	}
	var out []byte
	switch s.Alg {
	case tpm2.AlgNull:
		out, err = k.RawPrivate(ct)
	case tpm2.AlgRSAES:
		out, err = k.DecryptPKCS1(ct)
	case tpm2.AlgOAEP:
		out, err = k.DecryptOAEP(tpmcrypto.Hash(s.Hash), ct, label)
	default:
		return tpm2.RCScheme.Parameter(2)
	}
	if err != nil {
		return tpm2.RCValue.Parameter(1)
	}
	c.out.Sized(out)
	return tpm2.RCSuccess
}

// writePoint writes a TPM2B_ECC_POINT.
func (c *call) writePoint(p tpmcrypto.Point) {
	m := c.out.Begin()
	tpm2.Point{X: p.X, Y: p.Y}.Marshal(&c.out)
	c.out.End(m)
}

// readPoint reads a TPM2B_ECC_POINT.
func (c *call) readPoint() (p tpm2.Point) {
	c.sized(func(r *tpm2.Reader) { p.Unmarshal(r) })
	return p
}

// ecdhKeyGen is TPM2_ECDH_KeyGen (Part 3, 14.4): any loaded ECC key will do,
// with whatever attributes, since its public half alone is used; but for one of
// EdDSA, whose point is not of a key exchange.
func ecdhKeyGen(c *call) tpm2.RC {
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	o := c.object(0)
	if o.isSequence() || o.pub.Type != tpm2.AlgECC || o.isEd() {
		return tpm2.RCKey.Handle(1)
	}
	pub, err := o.ecPublic()
	if err != nil {
		return tpm2.RCKey.Handle(1)
	}
	e, err := tpmcrypto.GenerateEC(pub.Curve, c.t.rng)
	if err != nil {
		return tpm2.RCNoResult
	}
	defer e.Zero()
	z, err := e.ECDH(pub.X, pub.Y)
	if err != nil {
		return tpm2.RCNoResult
	}
	c.writePoint(z)
	c.writePoint(e.Point)
	return tpm2.RCSuccess
}

// ecdhZGen is TPM2_ECDH_ZGen (Part 3, 14.5).
func ecdhZGen(c *call) tpm2.RC {
	p := c.readPoint()
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	o := c.object(0)
	if o.isSequence() || o.pub.Type != tpm2.AlgECC {
		return tpm2.RCKey.Handle(1)
	}
	if a := o.pub.Attributes; a.Has(tpm2.ObjectRestricted) || !a.Has(tpm2.ObjectDecrypt) {
		return tpm2.RCAttributes.Handle(1)
	}
	if s := o.pub.Parms.Scheme.Alg; s != tpm2.AlgECDH && s != tpm2.AlgNull {
		return tpm2.RCScheme.Handle(1)
	}
	k, err := o.ecPrivate()
	if err != nil {
		return tpm2.RCKey.Handle(1)
	}
	z, err := k.ECDH(p.X, p.Y)
	if err != nil {
		return tpm2.RCECCPoint.Parameter(1)
	}
	c.writePoint(z)
	return tpm2.RCSuccess
}

// encapsulate is TPM2_Encapsulate (version 185, Part 3, 14.10): the secret
// comes first in the response. Attributes are not checked.
func encapsulate(c *call) tpm2.RC {
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	secret, ct, rc := c.kemEncap(c.object(0))
	if rc != tpm2.RCSuccess {
		return rc
	}
	c.out.Sized(secret)
	c.out.Sized(ct)
	tpmcrypto.Zero(secret)
	return tpm2.RCSuccess
}

// kemEncap makes a shared secret for o, which is the object of handle 1.
func (c *call) kemEncap(o *object) (secret, ct []byte, rc tpm2.RC) {
	if !isKEM(o) {
		return nil, nil, tpm2.RCKey.Handle(1)
	}
	if o.pub.Type == tpm2.AlgMLKEM {
		k, err := o.mlkemPublic()
		if err != nil {
			return nil, nil, tpm2.RCKey.Handle(1)
		}
		secret, ct = k.Encapsulate()
		return secret, ct, tpm2.RCSuccess
	}
	k, err := o.ecPublic()
	if err != nil {
		return nil, nil, tpm2.RCKey.Handle(1)
	}
	if secret, ct, err = dhkemEncap(k, c.t.rng); err != nil {
		return nil, nil, tpm2.RCNoResult
	}
	return secret, ct, tpm2.RCSuccess
}

// isKEM says whether o can encapsulate: ML-KEM, or ECC with HKDF (DHKEM).
func isKEM(o *object) bool {
	return !o.isSequence() && (o.pub.Type == tpm2.AlgMLKEM || o.pub.Type == tpm2.AlgECC && o.pub.Parms.KDF.Alg == tpm2.AlgHKDF && dhkemSuite(o.pub.Parms.Curve) != nil)
}

// decapsulate is TPM2_Decapsulate (version 185, Part 3, 14.11).
func decapsulate(c *call) tpm2.RC {
	ct := c.next().Sized(tpm2.MaxKEM)
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	secret, rc := kemDecap(c.object(0), ct, 1)
	if rc != tpm2.RCSuccess {
		return rc
	}
	c.out.Sized(secret)
	tpmcrypto.Zero(secret)
	return tpm2.RCSuccess
}

// kemDecap recovers the shared secret with o, the object of handle 1. ct is
// parameter number position.
func kemDecap(o *object, ct []byte, position int) ([]byte, tpm2.RC) {
	if !isKEM(o) {
		return nil, tpm2.RCKey.Handle(1)
	}
	if a := o.pub.Attributes; a.Has(tpm2.ObjectRestricted) || !a.Has(tpm2.ObjectDecrypt) {
		return nil, tpm2.RCAttributes.Handle(1)
	}
	if o.pub.Type == tpm2.AlgMLKEM {
		k, err := o.mlkemPrivate()
		if err != nil {
			return nil, tpm2.RCKey.Handle(1)
		}
		if len(ct) != o.pub.Parms.MLKEM.CiphertextSize() {
			return nil, tpm2.RCSize.Parameter(position)
		}
		secret, err := k.Decapsulate(ct)
		if err != nil {
			return nil, tpm2.RCValue.Parameter(position)
		}
		return secret, tpm2.RCSuccess
	}
	k, err := o.ecPrivate()
	if err != nil {
		return nil, tpm2.RCKey.Handle(1)
	}
	secret, err := dhkemDecap(k, ct)
	if err != nil {
		return nil, tpm2.RCValue.Parameter(position)
	}
	return secret, tpm2.RCSuccess
}
