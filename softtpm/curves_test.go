// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"bytes"
	"testing"

	"holdfast/softtpm/internal/tpmcrypto"
	"holdfast/tpm2"
)

func onCurve(p tpm2.Public, c tpm2.Curve) tpm2.Public {
	p.Parms.Curve = c
	return p
}

// TestCurvesBeyondNIST: keys on BN-P256 and SM2's curve are made, sign, verify,
// agree, and wrap children and salts.
func TestCurvesBeyondNIST(t *testing.T) {
	digest := []byte(sha("message"))
	for _, c := range []tpm2.Curve{tpm2.CurveBNP256, tpm2.CurveSM2} {
		p := newTPM(t, Options{Objects: 16})
		for _, s := range []tpm2.Scheme{{Alg: tpm2.AlgSM2, Hash: tpm2.AlgSM3_256}, {Alg: tpm2.AlgSM2, Hash: tpm2.AlgSHA256}, ecdsa256, {Alg: tpm2.AlgECSchnorr, Hash: tpm2.AlgSHA256}} {
			k := createPrimaryKey(t, p, tpm2.RHOwner, onCurve(eccTemplate(attrsSign, s), c))
			var sig tpm2.Signature
			sig.Unmarshal(by(tpm2.CCSign, k.h, func(w *tpm2.Writer) { w.Sized(digest); tpm2.NoScheme.Marshal(w); noTicket.Marshal(w) }).ok(t, p))
			if sig.Alg != s.Alg || sig.Hash != s.Hash {
				t.Errorf("%v: signature of %v with %v, want %v", c, sig.Alg, sig.Hash, s)
			}
			verify := func(d []byte) request {
				return request{cc: tpm2.CCVerifySignature, handles: []tpm2.Handle{k.h}, params: func(w *tpm2.Writer) { w.Sized(d); sig.Marshal(w) }}
			}
			verify(digest).ok(t, p)
			verify([]byte(sha("another"))).refused(t, p, "another digest", tpm2.RCSignature.Parameter(2))
			flush(t, p, k.h)
		}
		srk := createPrimaryKey(t, p, tpm2.RHOwner, onCurve(eccTemplate(attrsParent, tpm2.NoScheme), c))
		request{cc: tpm2.CCCreate, handles: []tpm2.Handle{srk.h}, auth: noAuth, params: writeCreate("", "sealed", sealTemplate())}.ok(t, p)
		secret, encrypted, rc := p.shareSecret(p.state.object(srk.h), labelSecret)
		if got, rc2 := recoverSecret(p.state.object(srk.h), labelSecret, encrypted); rc != 0 || rc2 != 0 || !bytes.Equal(secret, got) {
			t.Errorf("%v: salt %x came back as %x (%v, %v)", c, secret, got, rc, rc2)
		}
		// ECDH, and the two agreements of one point, with our own keys on the other side.
		key := createPrimaryKey(t, p, tpm2.RHOwner, onCurve(eccKeyTemplate(attrsDecrypt, tpm2.NoScheme), c))
		curve := tpmcrypto.CurveByID(uint16(c))
		static, _ := tpmcrypto.GenerateEC(curve, tpmcrypto.Random)
		ephemeral, _ := tpmcrypto.GenerateEC(curve, tpmcrypto.Random)
		own := tpmcrypto.Point{X: key.pub.Point.X, Y: key.pub.Point.Y}
		for _, scheme := range []tpm2.Alg{tpm2.AlgECMQV, tpm2.AlgSM2, tpm2.AlgECDH} {
			r := request{cc: tpm2.CCECEphemeral, params: func(w *tpm2.Writer) { w.U16(uint16(c)) }}.ok(t, p)
			q, count := readPoint(r), r.U16()
			r = by(tpm2.CCZGen2Phase, key.h, func(w *tpm2.Writer) {
				point(tpm2.Point{X: static.X, Y: static.Y})(w)
				point(tpm2.Point{X: ephemeral.X, Y: ephemeral.Y})(w)
				w.Alg(scheme)
				w.U16(count)
			}).ok(t, p)
			z1, z2 := readPoint(r), readPoint(r)
			var want tpmcrypto.Point
			var err error
			switch scheme {
			case tpm2.AlgECMQV:
				want, err = static.MQV(ephemeral.Scalar(), own, tpmcrypto.Point{X: q.X, Y: q.Y})
			case tpm2.AlgSM2:
				want, err = static.SM2Exchange(ephemeral.Scalar(), own, tpmcrypto.Point{X: q.X, Y: q.Y})
			default:
				want, err = static.ECDH(own.X, own.Y)
			}
			if err != nil || !bytes.Equal(z1.X, want.X) || !bytes.Equal(z1.Y, want.Y) || (len(z2.X) != 0) != (scheme == tpm2.AlgECDH) {
				t.Errorf("%v, %v: %x and %x, want %x (%v)", c, scheme, z1, z2, want, err)
			}
		}
	}
}

// TestCommitBN: the commit and signature of ECDAA on the curve that it is made
// for, as its verifier computes: s*P1 = E + T*(d*P1).
func TestCommitBN(t *testing.T) {
	p := newTPM(t, Options{})
	key := createPrimaryKey(t, p, tpm2.RHOwner, onCurve(eccKeyTemplate(attrsSign, tpm2.Scheme{Alg: tpm2.AlgECDAA, Hash: tpm2.AlgSHA256}), tpm2.CurveBNP256))
	curve := tpmcrypto.CurveByID(uint16(tpm2.CurveBNP256))
	r := by(tpm2.CCCommit, key.h, func(w *tpm2.Writer) { point(tpm2.Point{X: []byte{1}, Y: []byte{2}})(w); w.Sized(nil); w.Sized(nil) }).ok(t, p)
	readPoint(r)
	readPoint(r)
	e, count := readPoint(r), r.U16()
	digest := []byte(sha("message"))
	var sig tpm2.Signature
	sig.Unmarshal(by(tpm2.CCSign, key.h, func(w *tpm2.Writer) {
		w.Sized(digest)
		tpm2.Scheme{Alg: tpm2.AlgECDAA, Hash: tpm2.AlgSHA256, Count: count}.Marshal(w)
		noTicket.Marshal(w)
	}).ok(t, p))
	verifyECDAA(t, curve, key.pub.Point, e, digest, &sig)
}

// TestSaltUnderOtherSchemes: a secret is shared with RSA keys by OAEP only.
func TestSaltUnderOtherSchemes(t *testing.T) {
	p := newTPM(t, Options{})
	key := createPrimaryKey(t, p, tpm2.RHOwner, rsaTemplate(attrsDecrypt, tpm2.Scheme{Alg: tpm2.AlgRSAES}))
	if _, _, rc := p.shareSecret(p.state.object(key.h), labelSecret); rc != tpm2.RCValue {
		t.Errorf("a secret for a key with RSAES: %v", rc)
	}
	request{cc: tpm2.CCStartAuthSession, handles: []tpm2.Handle{key.h, tpm2.RHNull}, params: func(w *tpm2.Writer) {
		w.Sized(make([]byte, 16))
		w.Sized(make([]byte, 128))
		w.U8(0)
		tpm2.NoSym.Marshal(w)
		w.Alg(tpm2.AlgSHA256)
	}}.refused(t, p, "salt under RSAES", tpm2.RCValue.Parameter(2))
}

// TestSecretWithoutLeadingZeros: a caller may leave leading zeros of the
// ephemeral point's coordinates out, in the point and in its KDFe (tpm2-tools
// 5.4 does, once in 256 secrets).
func TestSecretWithoutLeadingZeros(t *testing.T) {
	p := newTPM(t, Options{})
	key := p.state.object(createPrimaryKey(t, p, tpm2.RHOwner, eccTemplate(attrsParent, tpm2.NoScheme)).h)
	random := tpmcrypto.NewDRBG(tpmcrypto.SHA256, []byte("a point with a leading zero"))
	for {
		e, err := tpmcrypto.GenerateEC(tpmcrypto.CurveByID(uint16(tpm2.CurveP256)), random)
		if err != nil {
			t.Fatal(err)
		}
		if e.X[0] != 0 {
			continue
		}
		z, err := e.ECDH(key.pub.Point.X, key.pub.Point.Y)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range [][]byte{e.X, e.X[1:]} {
			encrypted, err := tpm2.Encode(tpm2.Point{X: x, Y: e.Y})
			if err != nil {
				t.Fatal(err)
			}
			want := tpmcrypto.KDFe(tpmcrypto.SHA256, z.X, labelDuplicate, x, key.pub.Point.X, 256)
			if got, rc := recoverSecret(key, labelDuplicate, encrypted); rc != 0 || !bytes.Equal(got, want) {
				t.Errorf("x of %d octets: %x, want %x (%v)", len(x), got, want, rc)
			}
		}
		return
	}
}
