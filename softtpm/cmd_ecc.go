// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"bytes"
	"crypto/subtle"
	"encoding/binary"

	"holdfast/softtpm/internal/tpmcrypto"
	"holdfast/tpm2"
)

// Elliptic curves beyond keys and ECDH: curve parameters and encryption
// (Part 3, 14), ephemeral keys and commits (19).

func init() {
	key := []slot{{kObject, roleUser}}
	register(&command{code: tpm2.CCECCParameters, run: eccParameters})
	register(&command{code: tpm2.CCECEphemeral, flags: fEncrypt, run: ecEphemeral})
	register(&command{code: tpm2.CCCommit, slots: key, flags: fDecrypt | fEncrypt, run: commit})
	register(&command{code: tpm2.CCZGen2Phase, slots: key, flags: fDecrypt | fEncrypt, run: zGen2Phase})
	register(&command{code: tpm2.CCECCEncrypt, slots: []slot{{kObject, roleNone}}, flags: fDecrypt | fEncrypt, run: eccEncrypt})
	register(&command{code: tpm2.CCECCDecrypt, slots: key, flags: fDecrypt | fEncrypt, run: eccDecrypt})
}

// readCurve reads a TPMI_ECC_CURVE.
func readCurve(r *tpm2.Reader) *tpmcrypto.Curve {
	c := tpmcrypto.CurveByID(r.U16())
	if c == nil {
		r.Fail(tpm2.RCCurve)
	}
	return c
}

// curveHash is the hash that ECC_Parameters names for a curve's KDF.
func curveHash(c *tpmcrypto.Curve) tpm2.Alg {
	switch {
	case c.ID == tpmcrypto.SM2:
		return tpm2.AlgSM3_256
	case c.Bits <= 256:
		return tpm2.AlgSHA256
	case c.Bits <= 384:
		return tpm2.AlgSHA384
	}
	return tpm2.AlgSHA512
}

// eccParameters is TPM2_ECC_Parameters (Part 3, 14.6).
func eccParameters(c *call) tpm2.RC {
	curve := readCurve(c.next())
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	p := curve.Parameters()
	c.out.U16(curve.ID)
	c.out.U16(uint16(curve.Bits))
	kdf := tpm2.Scheme{Alg: tpm2.AlgKDF1SP800_56A, Hash: curveHash(curve)}
	if curve.ID == tpmcrypto.BNP256 || curve.IsMontgomery() { // no KDF belongs to them
		kdf = tpm2.NoScheme
	}
	kdf.Marshal(&c.out)
	tpm2.NoScheme.Marshal(&c.out)
	for _, b := range [][]byte{p.P, p.A, p.B, p.Gx, p.Gy, p.N, p.H} {
		c.out.Sized(b)
	}
	return tpm2.RCSuccess
}

// ecEphemeral is TPM2_EC_Ephemeral (Part 3, 19.3): the public half of a key that
// a later ZGen_2Phase finds again by the counter.
func ecEphemeral(c *call) tpm2.RC {
	curve := readCurve(c.next())
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	count, r, rc := c.newCommit(curve)
	if rc != tpm2.RCSuccess {
		return rc
	}
	defer tpmcrypto.Zero(r)
	q, err := curve.BaseMult(r)
	if err != nil {
		return tpm2.RCNoResult
	}
	c.writePoint(q)
	c.out.U16(count)
	return tpm2.RCSuccess
}

// eccKey returns the ECC key of handle 1, TPM_RC_KEY if it is another kind.
func (c *call) eccKey() (*object, tpm2.RC) {
	o := c.object(0)
	if o.isSequence() || o.pub.Type != tpm2.AlgECC {
		return nil, tpm2.RCKey.Handle(1)
	}
	return o, tpm2.RCSuccess
}

// commit is TPM2_Commit (Part 3, 19.2), the first step of ECDAA: K = d*P2,
// L = r*P2, and E = r*P1, or r*G if neither point is given.
func commit(c *call) tpm2.RC {
	p1 := c.readPoint()
	s2 := c.next().Sized(tpm2.MaxSymData)
	y2 := c.next().Sized(tpm2.MaxECCKeyBytes)
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	o, rc := c.eccKey()
	if rc != tpm2.RCSuccess {
		return rc
	}
	if o.pub.Parms.Scheme.Alg != tpm2.AlgECDAA {
		return tpm2.RCScheme.Handle(1)
	}
	if (len(s2) == 0) != (len(y2) == 0) {
		return tpm2.RCSize.Parameter(3)
	}
	curve := o.curve()
	count, r, rc := c.newCommit(curve)
	if rc != tpm2.RCSuccess {
		return rc
	}
	defer tpmcrypto.Zero(r)
	var k, l, e tpmcrypto.Point
	var err error
	if len(s2) != 0 {
		p2, err := curve.HashToPoint(tpmcrypto.Hash(o.pub.NameAlg), s2, y2)
		if err != nil {
			return tpm2.RCECCPoint.Parameter(2)
		}
		priv, err := o.ecPrivate()
		if err != nil {
			return tpm2.RCKey.Handle(1)
		}
		if k, err = priv.ECDH(p2.X, p2.Y); err != nil {
			return tpm2.RCNoResult
		}
		if l, err = curve.Mult(r, p2); err != nil {
			return tpm2.RCNoResult
		}
	}
	switch {
	case len(p1.X)+len(p1.Y) != 0:
		p, err := curve.CheckPoint(p1.X, p1.Y)
		if err != nil {
			return tpm2.RCECCPoint.Parameter(1)
		}
		if e, err = curve.Mult(r, p); err != nil {
			return tpm2.RCNoResult
		}
	case len(s2) == 0:
		if e, err = curve.BaseMult(r); err != nil {
			return tpm2.RCNoResult
		}
	}
	c.writePoint(k)
	c.writePoint(l)
	c.writePoint(e)
	c.out.U16(count)
	return tpm2.RCSuccess
}

// decryptingKey is eccKey with the attributes of an unrestricted decryption key.
func (c *call) decryptingKey() (*object, tpm2.RC) {
	o, rc := c.eccKey()
	if rc != tpm2.RCSuccess {
		return nil, rc
	}
	if a := o.pub.Attributes; a.Has(tpm2.ObjectRestricted) || !a.Has(tpm2.ObjectDecrypt) {
		return nil, tpm2.RCAttributes.Handle(1)
	}
	return o, tpm2.RCSuccess
}

// zGen2Phase is TPM2_ZGen_2Phase (Part 3, 14.7): two ECDH, of the static keys
// of both sides and of the ephemeral ones, or the one point of MQV or SM2.
func zGen2Phase(c *call) tpm2.RC {
	qs, qe := c.readPoint(), c.readPoint()
	r := c.next()
	scheme := r.Alg()
	switch {
	case r.Code() != tpm2.RCSuccess:
	case scheme != tpm2.AlgNull && scheme != tpm2.AlgECDH && scheme != tpm2.AlgECMQV && scheme != tpm2.AlgSM2:
		r.Fail(tpm2.RCScheme)
	}
	count := c.next().U16()
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	o, rc := c.decryptingKey()
	if rc != tpm2.RCSuccess {
		return rc
	}
	if k := o.pub.Parms.Scheme.Alg; k != tpm2.AlgNull && k != scheme {
		return tpm2.RCScheme.Parameter(3)
	}
	if scheme == tpm2.AlgNull {
		return tpm2.RCScheme.Parameter(3)
	}
	curve := o.curve()
	static, err := curve.CheckPoint(qs.X, qs.Y)
	if err != nil {
		return tpm2.RCECCPoint.Parameter(1)
	}
	ephemeral, err := curve.CheckPoint(qe.X, qe.Y)
	if err != nil {
		return tpm2.RCECCPoint.Parameter(2)
	}
	d, rc := c.takeCommit(curve, count)
	if rc != tpm2.RCSuccess {
		return rc.Parameter(4)
	}
	defer tpmcrypto.Zero(d)
	priv, err := o.ecPrivate()
	if err != nil {
		return tpm2.RCKey.Handle(1)
	}
	var z1, z2 tpmcrypto.Point
	switch scheme {
	case tpm2.AlgECMQV:
		z1, err = priv.MQV(d, static, ephemeral)
	case tpm2.AlgSM2:
		z1, err = priv.SM2Exchange(d, static, ephemeral)
	default:
		if z1, err = priv.ECDH(static.X, static.Y); err == nil {
			z2, err = curve.Mult(d, ephemeral)
		}
	}
	if err != nil {
		return tpm2.RCNoResult
	}
	c.writePoint(z1)
	c.writePoint(z2)
	return tpm2.RCSuccess
}

// eccScheme reads the TPMT_KDF_SCHEME+ of ECC_Encrypt and ECC_Decrypt.
func (c *call) eccScheme() (s tpm2.Scheme) {
	r := c.next()
	s.UnmarshalKDF(r)
	if r.Code() == tpm2.RCSuccess && s.Alg != tpm2.AlgNull && !hashImplemented(s.Hash) {
		r.Fail(tpm2.RCHash)
	}
	return s
}

// kdf2 checks that key and caller mean KDF2 and returns its hash.
func kdf2(o *object, s tpm2.Scheme, param int) (tpm2.Alg, tpm2.RC) {
	if k := o.pub.Parms.KDF; k.Alg != tpm2.AlgNull {
		if s.Alg != tpm2.AlgNull && s != k {
			return 0, tpm2.RCScheme.Parameter(param)
		}
		s = k
	}
	if s.Alg != tpm2.AlgKDF2 {
		return 0, tpm2.RCScheme.Parameter(param)
	}
	return s.Hash, tpm2.RCSuccess
}

// kdf2Mask is KDF2 of ISO 18033-2: MGF1 with a counter from 1 (Part 1, C.8).
func kdf2Mask(alg tpm2.Alg, z tpmcrypto.Point, n int) []byte {
	var out []byte
	for i := uint32(1); len(out) < n; i++ {
		out = append(out, alg.Sum(z.X, z.Y, binary.BigEndian.AppendUint32(nil, i))...)
	}
	return out[:n]
}

// eccEncrypt is TPM2_ECC_Encrypt (Part 3, 14.8): C1 an ephemeral public key,
// C2 the text under a mask from the shared point, C3 its digest between the
// point's coordinates.
func eccEncrypt(c *call) tpm2.RC {
	text := bytes.Clone(c.next().Sized(tpm2.MaxBuffer))
	in := c.eccScheme()
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	o, rc := c.eccKey()
	if rc != tpm2.RCSuccess {
		return rc
	}
	if o.curve().IsMontgomery() { // the mask is of both coordinates
		return tpm2.RCKey.Handle(1)
	}
	alg, rc := kdf2(o, in, 2)
	if rc != tpm2.RCSuccess {
		return rc
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
	digest := alg.Sum(z.X, text, z.Y)
	mask := kdf2Mask(alg, z, len(text))
	subtle.XORBytes(text, text, mask)
	c.writePoint(e.Point)
	c.out.Sized(text)
	c.out.Sized(digest)
	return tpm2.RCSuccess
}

// eccDecrypt is TPM2_ECC_Decrypt (Part 3, 14.9). TPM_RC_VALUE if C3 is wrong.
func eccDecrypt(c *call) tpm2.RC {
	c1 := c.readPoint()
	text := bytes.Clone(c.next().Sized(tpm2.MaxBuffer))
	c3 := c.next().Sized(tpm2.MaxDigest)
	in := c.eccScheme()
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	o, rc := c.decryptingKey()
	if rc != tpm2.RCSuccess {
		return rc
	}
	if o.curve().IsMontgomery() {
		return tpm2.RCKey.Handle(1)
	}
	alg, rc := kdf2(o, in, 4)
	if rc != tpm2.RCSuccess {
		return rc
	}
	priv, err := o.ecPrivate()
	if err != nil {
		return tpm2.RCKey.Handle(1)
	}
	z, err := priv.ECDH(c1.X, c1.Y)
	if err != nil {
		return tpm2.RCECCPoint.Parameter(1)
	}
	defer tpmcrypto.Zero(text)
	mask := kdf2Mask(alg, z, len(text))
	subtle.XORBytes(text, text, mask)
	if !tpmcrypto.Equal(alg.Sum(z.X, text, z.Y), c3) {
		return tpm2.RCValue
	}
	c.out.Sized(text)
	return tpm2.RCSuccess
}
