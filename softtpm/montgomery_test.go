// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"bytes"
	"slices"
	"testing"

	"github.com/cloudflare/circl/hpke"

	"holdfast/softtpm/internal/tpmcrypto"
	"holdfast/tpm2"
)

var (
	ecdh256   = tpm2.Scheme{Alg: tpm2.AlgECDH, Hash: tpm2.AlgSHA256}
	edwards   = []tpm2.Curve{tpm2.Curve25519, tpm2.Curve448}
	edwardsID = map[tpm2.Curve]hpke.KEM{tpm2.Curve25519: hpke.KEM_X25519_HKDF_SHA256, tpm2.Curve448: hpke.KEM_X448_HKDF_SHA512}
)

func zgen(h tpm2.Handle, q tpm2.Point) request { return by(tpm2.CCECDHZGen, h, point(q)) }

// TestRFC7748: sections 6.1 and 6.2, with Alice's key from outside.
func TestRFC7748(t *testing.T) {
	for _, v := range []struct {
		curve                       tpm2.Curve
		private, bob, want, another string
	}{{
		tpm2.Curve25519, "77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a",
		"de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f", "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742",
		"8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a", // Alice's public key
	}, {
		tpm2.Curve448, "9a8f4925d1519f5775cf46b04b5800d4ee9ee8bae8bc5565d498c28dd9c9baf574a9419744897391006382a6f127ab1d9ac2d8c0a598726b",
		"3eb7a829b0cd20f5bcfc0b599b6feccf6da4627107bdb0d4f345b43027d8b972fc3e34fb4232a13ca706dcb57aec3dae07bdc1c67bf33609",
		"07fff4181ac6cc95ec1c16a94a0f74d12da232ce40a77552281d282bb60c0b56fd2464c335543936521c24403085d59a449a5037514a879d", "",
	}} {
		p := newTPM(t, Options{})
		alice := &tpm2.Sensitive{Type: tpm2.AlgECC, Value: unhex(t, v.private)}
		own, err := tpmcrypto.NewECPrivate(tpmcrypto.CurveByID(uint16(v.curve)), alice.Value)
		if err != nil || v.another != "" && !bytes.Equal(own.X, unhex(t, v.another)) {
			t.Fatalf("%v: public key %x (%v)", v.curve, own.X, err)
		}
		pub := onCurve(eccKeyTemplate(tpm2.ObjectUserWithAuth|tpm2.ObjectDecrypt, ecdh256), v.curve)
		pub.Point = tpm2.Point{X: own.X}
		rc, h := externalRequest(alice, pub, tpm2.RHNull).handle(t, p)
		if rc != 0 {
			t.Fatal(rc)
		}
		bob := unhex(t, v.bob)
		z := readPoint(zgen(h, tpm2.Point{X: bob}).ok(t, p))
		if !bytes.Equal(z.X, unhex(t, v.want)) || len(z.Y) != 0 {
			t.Errorf("%v: shared secret %+v", v.curve, z)
		}
		short := &tpm2.Sensitive{Type: tpm2.AlgECC, Value: alice.Value[1:]}
		externalRequest(short, pub, tpm2.RHNull).refused(t, p, "a short private key", tpm2.RCKeySize.Parameter(1))
		other := clonePublic(pub)
		other.Point.X = bob
		externalRequest(alice, other, tpm2.RHNull).refused(t, p, "Bob's public key", tpm2.RCBinding.Parameter(2))
		other.Point.X = make([]byte, len(bob)) // of low order
		externalRequest(nil, other, tpm2.RHOwner).refused(t, p, "low order", tpm2.RCECCPoint.Parameter(2))
	}
}

// TestMontgomeryExchange: ECDH_KeyGen, ECDH_ZGen, EC_Ephemeral and ZGen_2Phase
// on both curves, and what they refuse.
func TestMontgomeryExchange(t *testing.T) {
	for _, c := range edwards {
		p := newTPM(t, Options{})
		key := createPrimaryKey(t, p, tpm2.RHOwner, onCurve(eccKeyTemplate(attrsDecrypt, ecdh256), c))
		n := map[tpm2.Curve]int{tpm2.Curve25519: 32, tpm2.Curve448: 56}[c]
		r := request{cc: tpm2.CCECDHKeyGen, handles: []tpm2.Handle{key.h}}.ok(t, p)
		z, q := readPoint(r), readPoint(r)
		z.X, q.X = bytes.Clone(z.X), bytes.Clone(q.X)
		if got := readPoint(zgen(key.h, q).ok(t, p)); len(z.X) != n || !bytes.Equal(got.X, z.X) || len(got.Y)+len(z.Y)+len(q.Y) != 0 {
			t.Errorf("%v: %+v, want %+v", c, got, z)
		}
		for name, bad := range map[string]tpm2.Point{
			"low order": {X: make([]byte, n)}, "short": {X: q.X[1:]}, "a y-coordinate": {X: q.X, Y: q.X}, "empty": {},
		} {
			zgen(key.h, bad).refused(t, p, name, tpm2.RCECCPoint.Parameter(1))
		}
		curve := tpmcrypto.CurveByID(uint16(c))
		static, _ := tpmcrypto.GenerateEC(curve, tpmcrypto.Random)
		ephemeral, _ := tpmcrypto.GenerateEC(curve, tpmcrypto.Random)
		two := func(scheme tpm2.Alg, count uint16, qe []byte) request {
			return by(tpm2.CCZGen2Phase, key.h, func(w *tpm2.Writer) {
				point(tpm2.Point{X: static.X})(w)
				point(tpm2.Point{X: qe})(w)
				w.Alg(scheme)
				w.U16(count)
			})
		}
		r = request{cc: tpm2.CCECEphemeral, params: func(w *tpm2.Writer) { w.U16(uint16(c)) }}.ok(t, p)
		qe, count := readPoint(r), r.U16()
		qe.X = bytes.Clone(qe.X)
		two(tpm2.AlgECMQV, count, ephemeral.X).refused(t, p, "MQV", tpm2.RCScheme.Parameter(3))
		two(tpm2.AlgECDH, count, ephemeral.X[1:]).refused(t, p, "short", tpm2.RCECCPoint.Parameter(2))
		r = two(tpm2.AlgECDH, count, ephemeral.X).ok(t, p)
		z1, z2 := readPoint(r), readPoint(r)
		w1, err1 := static.ECDH(key.pub.Point.X, nil)
		w2, err2 := ephemeral.ECDH(qe.X, nil)
		if err1 != nil || err2 != nil || !bytes.Equal(z1.X, w1.X) || !bytes.Equal(z2.X, w2.X) {
			t.Errorf("%v: %x and %x, want %x and %x", c, z1.X, z2.X, w1.X, w2.X)
		}
		// ECC_Encrypt masks with both coordinates, of which there is one.
		kdf2 := tpm2.Scheme{Alg: tpm2.AlgKDF2, Hash: tpm2.AlgSHA256}
		request{cc: tpm2.CCECCEncrypt, handles: []tpm2.Handle{key.h}, params: func(w *tpm2.Writer) { w.Sized([]byte("text")); kdf2.Marshal(w) }}.
			refused(t, p, "one coordinate", tpm2.RCKey.Handle(1))
		by(tpm2.CCECCDecrypt, key.h, func(w *tpm2.Writer) { point(q)(w); sized("text", "")(w); kdf2.Marshal(w) }).
			refused(t, p, "one coordinate", tpm2.RCKey.Handle(1))
	}
}

// TestMontgomeryDHKEM: RFC 9180, A.1.1 (X25519), and circl's KEM on the other
// side for both curves (no RFC has vectors of X448).
func TestMontgomeryDHKEM(t *testing.T) {
	k, err := tpmcrypto.NewECPrivate(tpmcrypto.CurveByID(tpmcrypto.Curve25519), unhex(t, "4612c550263fc8ad58375df3f557aac531d26850903e55a9f23f21d8534e8ac8"))
	if err != nil {
		t.Fatal(err)
	}
	skE := unhex(t, "52c4a758a802cd8b936eceea314432798d5baf2d7e9235dc084ab1b9cfa2f736")
	enc := unhex(t, "37fda3567bdbd628e88668c3c8d7e97d1d1253b6d4ea6d44c150f741f1bf4431")
	want := unhex(t, "fe0e18c9f024ce43799ae393c7e8fe8fce9d218875e8227b0187c04e7d2ea1fc")
	if got, e, err := dhkemEncap(k.Public(), bytes.NewReader(skE)); err != nil || !bytes.Equal(got, want) || !bytes.Equal(e, enc) {
		t.Errorf("Encap gives %x and %x (%v)", got, e, err)
	}
	if got, err := dhkemDecap(k, enc); err != nil || !bytes.Equal(got, want) {
		t.Errorf("Decap gives %x (%v)", got, err)
	}
	for _, c := range edwards {
		p := newTPM(t, Options{})
		pub := onCurve(eccKeyTemplate(attrsDecrypt, ecdh256), c)
		pub.Parms.KDF = tpm2.Scheme{Alg: tpm2.AlgHKDF, Hash: tpm2.AlgSHA512}
		key := createPrimaryKey(t, p, tpm2.RHOwner, pub)
		scheme := edwardsID[c].Scheme()
		peer, err := scheme.UnmarshalBinaryPublicKey(key.pub.Point.X)
		if err != nil {
			t.Fatal(err)
		}
		ct, secret, err := scheme.Encapsulate(peer)
		if err != nil {
			t.Fatal(err)
		}
		if got := by(tpm2.CCDecapsulate, key.h, sized(string(ct))).ok(t, p).Sized(99); !bytes.Equal(got, secret) {
			t.Errorf("%v: Decapsulate gives %x, want %x", c, got, secret)
		}
		by(tpm2.CCDecapsulate, key.h, sized(string(ct[1:]))).refused(t, p, "short", tpm2.RCValue.Parameter(1))
		by(tpm2.CCDecapsulate, key.h, sized(string(make([]byte, len(ct))))).refused(t, p, "low order", tpm2.RCValue.Parameter(1))
		r := request{cc: tpm2.CCEncapsulate, handles: []tpm2.Handle{key.h}}.ok(t, p)
		secret, ct = bytes.Clone(r.Sized(99)), bytes.Clone(r.Sized(999))
		private, err := scheme.UnmarshalBinaryPrivateKey(p.state.object(key.h).sens.Value)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := scheme.Decapsulate(private, ct); err != nil || !bytes.Equal(got, secret) {
			t.Errorf("%v: circl gets %x, want %x (%v)", c, got, secret, err)
		}
		// The vendor commands that encrypt data work on it.
		r = request{cc: tpm2.CCKEMEncrypt, handles: []tpm2.Handle{key.h}, params: sized("secret text", "label")}.ok(t, p)
		sealed, kem := string(r.Sized(9999)), string(r.Sized(999))
		if got := by(tpm2.CCKEMDecrypt, key.h, sized(sealed, kem, "label")).ok(t, p).Sized(99); string(got) != "secret text" {
			t.Errorf("%v: KEM_Decrypt gives %q", c, got)
		}
	}
}

// TestMontgomeryParent: a storage key on each curve wraps children, takes salts
// and credentials, and is the new parent of a duplicate.
func TestMontgomeryParent(t *testing.T) {
	for _, c := range edwards {
		p := newTPM(t, Options{Objects: 16})
		srk := createPrimaryKey(t, p, tpm2.RHOwner, onCurve(eccTemplate(attrsParent, tpm2.NoScheme), c))
		r := request{cc: tpm2.CCCreate, handles: []tpm2.Handle{srk.h}, auth: noAuth, params: writeCreate("", "sealed", sealTemplate())}.ok(t, p)
		private := bytes.Clone(r.Sized(999))
		var pub tpm2.Public
		if err := tpm2.DecodeSized(bytes.Clone(r.Bytes(2+int(peek16(r)))), &pub); err != nil {
			t.Fatal(err)
		}
		loadObject(srk.h, private, pub).ok(t, p)
		for _, label := range []string{labelSecret, labelIdentity, labelDuplicate} {
			secret, encrypted, rc := p.shareSecret(p.state.object(srk.h), label)
			if got, rc2 := recoverSecret(p.state.object(srk.h), label, encrypted); rc != 0 || rc2 != 0 || !bytes.Equal(secret, got) {
				t.Errorf("%v, %s: %x came back as %x (%v, %v)", c, label, secret, got, rc, rc2)
			}
		}
		salt := func(x []byte) request {
			enc, err := tpm2.Encode(tpm2.Point{X: x})
			if err != nil {
				t.Fatal(err)
			}
			return request{cc: tpm2.CCStartAuthSession, handles: []tpm2.Handle{srk.h, tpm2.RHNull}, params: func(w *tpm2.Writer) {
				w.Sized(make([]byte, 16))
				w.Sized(enc)
				w.U8(0)
				tpm2.NoSym.Marshal(w)
				w.Alg(tpm2.AlgSHA256)
			}}
		}
		e, _ := tpmcrypto.GenerateEC(tpmcrypto.CurveByID(uint16(c)), tpmcrypto.Random)
		salt(e.X).ok(t, p)
		salt(make([]byte, len(e.X))).refused(t, p, "low order", tpm2.RCECCPoint.Parameter(2))
		salt(e.X[1:]).refused(t, p, "short", tpm2.RCECCPoint.Parameter(2))
		r = request{cc: tpm2.CCMakeCredential, handles: []tpm2.Handle{srk.h}, params: sized("credential", string(srk.name))}.ok(t, p)
		blob, enc := string(r.Sized(999)), string(r.Sized(999))
		if got := (request{cc: tpm2.CCActivateCredential, handles: []tpm2.Handle{srk.h, srk.h}, auth: []string{"", ""}, params: sized(blob, enc)}).ok(t, p).Sized(99); string(got) != "credential" {
			t.Errorf("%v: credential %q", c, got)
		}
	}
}

// TestMontgomeryCapabilities: the curves are named, with RFC 7748's parameters,
// but for the profile of old clients.
func TestMontgomeryCapabilities(t *testing.T) {
	curves := func(p *TPM) []tpm2.Curve {
		r := request{cc: tpm2.CCGetCapability, params: func(w *tpm2.Writer) { w.U32(uint32(tpm2.CapECCCurves)); w.U32(0); w.U32(99) }}.ok(t, p)
		r.Bool()
		var d tpm2.CapabilityData
		d.Unmarshal(r)
		return d.Curves
	}
	p := newTPM(t, Options{})
	if l := curves(p); !slices.Contains(l, tpm2.Curve25519) || !slices.Contains(l, tpm2.Curve448) {
		t.Errorf("curves %v", l)
	}
	if l := curves(newTPM(t, Options{Profile: ProfileClassic})); slices.Contains(l, tpm2.Curve25519) || slices.Contains(l, tpm2.Curve448) {
		t.Errorf("profile classic: curves %v", l)
	}
	// TPMS_ALGORITHM_DETAIL_ECC: curve, bits, no kdf, no scheme, p, a, b, x, y, n, h.
	got := request{cc: tpm2.CCECCParameters, params: func(w *tpm2.Writer) { w.U16(0x40) }}.ok(t, p).Rest()
	want := unhex(t, "0040 00FF 0010 0010 0020 7FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFED"+
		"0020 0000000000000000000000000000000000000000000000000000000000076D06"+
		"0020 0000000000000000000000000000000000000000000000000000000000000001"+
		"0020 0000000000000000000000000000000000000000000000000000000000000009"+
		"0020 20AE19A1B8A086B4E01EDD2C7748D14C923D4D7E6D7C61B229E9C5A27ECED3D9"+
		"0020 1000000000000000000000000000000014DEF9DEA2F79CD65812631A5CF5D3ED 0001 08")
	if !bytes.Equal(got, want) {
		t.Errorf("ECC_Parameters %x", got)
	}
}
