// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"bytes"
	"crypto/ecdh"
	"crypto/hkdf"
	"fmt"
	"math/big"
	"testing"

	"holdfast/softtpm/internal/tpmcrypto"
	"holdfast/tpm2"
)

// dhkemVectors are from RFC 9180, A.3.1 (P-256) and A.6.1 (P-521). The RFC has none
// for P-384.
var dhkemVectors = []struct {
	curve                       tpm2.Curve
	ikmE, skR, pkR, enc, shared string
}{
	{tpm2.CurveP256,
		"4270e54ffd08d79d5928020af4686d8f6b7d35dbe470265f1f5aa22816ce860e",
		"f3ce7fdae57e1a310d87f1ebbde6f328be0a99cdbcadf4d6589cf29de4b8ffd2",
		"04fe8c19ce0905191ebc298a9245792531f26f0cece2460639e8bc39cb7f706a826a779b4cf969b8a0e539c7f62fb3d30ad6aa8f80e30f1d128aafd68a2ce72ea0",
		"04a92719c6195d5085104f469a8b9814d5838ff72b60501e2c4466e5e67b325ac98536d7b61a1af4b78e5b7f951c0900be863c403ce65c9bfcb9382657222d18c4",
		"c0d26aeab536609a572b07695d933b589dcf363ff9d93c93adea537aeabb8cb8"},
	{tpm2.CurveP521,
		"7f06ab8215105fc46aceeb2e3dc5028b44364f960426eb0d8e4026c2f8b5d7e7a986688f1591abf5ab753c357a5d6f0440414b4ed4ede71317772ac98d9239f70904",
		"01462680369ae375e4b3791070a7458ed527842f6a98a79ff5e0d4cbde83c27196a3916956655523a6a2556a7af62c5cadabe2ef9da3760bb21e005202f7b2462847",
		"0401b45498c1714e2dce167d3caf162e45e0642afc7ed435df7902ccae0e84ba0f7d373f646b7738bbbdca11ed91bdeae3cdcba3301f2457be452f271fa6837580e661012af49583a62e48d44bed350c7118c0d8dc861c238c72a2bda17f64704f464b57338e7f40b60959480c0e58e6559b190d81663ed816e523b6b6a418f66d2451ec64",
		"040138b385ca16bb0d5fa0c0665fbbd7e69e3ee29f63991d3e9b5fa740aab8900aaeed46ed73a49055758425a0ce36507c54b29cc5b85a5cee6bae0cf1c21f2731ece2013dc3fb7c8d21654bb161b463962ca19e8c654ff24c94dd2898de12051f1ed0692237fb02b2f8d1dc1c73e9b366b529eb436e98a996ee522aef863dd5739d2f29b0",
		"776ab421302f6eff7d7cb5cb1adaea0cd50872c71c2d63c30c4f1d5e43653336fef33b103c67e7a98add2d3b66e2fda95b5b2a667aa9dac7e59cc1d46d30e818"},
}

// derive is DeriveKeyPair of RFC 9180, 7.1.3, written here again.
func deriveScalar(t *testing.T, d *dhkem, c *tpmcrypto.Curve, ikm []byte) []byte {
	suite := append([]byte("KEM"), byte(d.id>>8), byte(d.id))
	label := func(l string) []byte { return append(append([]byte("HPKE-v1"), suite...), l...) }
	prk, err := hkdf.Extract(d.hash.New, append(label("dkp_prk"), ikm...), nil)
	if err != nil {
		t.Fatal(err)
	}
	n := c.Size()
	for counter := 0; ; counter++ {
		info := append(append([]byte{byte(n >> 8), byte(n)}, label("candidate")...), byte(counter))
		sk, err := hkdf.Expand(d.hash.New, prk, string(info), n)
		if err != nil {
			t.Fatal(err)
		}
		if c.ID == tpmcrypto.P521 {
			sk[0] &= 1
		}
		if x := new(big.Int).SetBytes(sk); x.Sign() > 0 && x.Cmp(new(big.Int).SetBytes(c.Parameters().N)) < 0 {
			return sk
		}
	}
}

// TestDHKEMVectors: RFC 9180's vectors, in both directions: Encap with the ephemeral key
// of the vector, Decap, and TPM2_Decapsulate with the vector's key from outside.
func TestDHKEMVectors(t *testing.T) {
	for _, v := range dhkemVectors {
		curve, suite := tpmcrypto.CurveByID(uint16(v.curve)), dhkemSuite(v.curve)
		n := curve.Size()
		pkR, enc, want := unhex(t, v.pkR), unhex(t, v.enc), unhex(t, v.shared)
		k, err := tpmcrypto.NewECPrivate(curve, unhex(t, v.skR))
		if err != nil || !bytes.Equal(serialize(k.Point), pkR) {
			t.Fatalf("%v: public key %x, want %x (%v)", v.curve, serialize(k.Point), pkR, err)
		}
		if got, err := dhkemDecap(k, enc); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%v: Decap gives %x, want %x (%v)", v.curve, got, want, err)
		}
		// GenerateEC makes c mod (n-1) + 1 of what it reads.
		skE := new(big.Int).SetBytes(deriveScalar(t, suite, curve, unhex(t, v.ikmE)))
		rand := bytes.NewReader(skE.Sub(skE, big.NewInt(1)).FillBytes(make([]byte, n+8)))
		got, e, err := dhkemEncap(k.Public(), rand)
		if err != nil || !bytes.Equal(got, want) || !bytes.Equal(e, enc) {
			t.Errorf("%v: Encap gives %x and %x, want %x and %x (%v)", v.curve, got, e, want, enc, err)
		}
		// By commands.
		p := newTPM(t, Options{})
		pub := onCurve(eccKeyTemplate(tpm2.ObjectUserWithAuth|tpm2.ObjectDecrypt, tpm2.NoScheme), v.curve)
		pub.Parms.KDF = tpm2.Scheme{Alg: tpm2.AlgHKDF, Hash: tpm2.AlgSHA256} // its hash does not count
		pub.Point = tpm2.Point{X: pkR[1 : 1+n], Y: pkR[1+n:]}
		rc, h := externalRequest(&tpm2.Sensitive{Type: tpm2.AlgECC, Value: unhex(t, v.skR)}, pub, tpm2.RHNull).handle(t, p)
		if rc != 0 {
			t.Fatalf("%v: %v", v.curve, rc)
		}
		if got := by(tpm2.CCDecapsulate, h, sized(string(enc))).ok(t, p).Sized(99); !bytes.Equal(got, want) {
			t.Errorf("%v: Decapsulate gives %x, want %x", v.curve, got, want)
		}
		r := request{cc: tpm2.CCEncapsulate, handles: []tpm2.Handle{h}}.ok(t, p)
		secret, ct := bytes.Clone(r.Sized(99)), bytes.Clone(r.Sized(999))
		if got := by(tpm2.CCDecapsulate, h, sized(string(ct))).ok(t, p).Sized(99); !bytes.Equal(got, secret) {
			t.Errorf("%v: Decapsulate gives another secret than Encapsulate", v.curve)
		}
		bad := bytes.Clone(enc)
		bad[n] ^= 1
		by(tpm2.CCDecapsulate, h, sized(string(bad))).refused(t, p, "a point off the curve", tpm2.RCValue.Parameter(1))
	}
}

// TestDHKEMAgreesWithStd: P-384, which RFC 9180 has no vector for, and the
// others, against crypto/ecdh and RFC 9180's equations written again.
func TestDHKEMAgreesWithStd(t *testing.T) {
	for c, std := range map[tpm2.Curve]ecdh.Curve{tpm2.CurveP256: ecdh.P256(), tpm2.CurveP384: ecdh.P384(), tpm2.CurveP521: ecdh.P521()} {
		k, err := tpmcrypto.GenerateEC(tpmcrypto.CurveByID(uint16(c)), tpmcrypto.Random)
		if err != nil {
			t.Fatal(err)
		}
		secret, enc, err := dhkemEncap(k.Public(), tpmcrypto.Random)
		if err != nil {
			t.Fatal(err)
		}
		priv, err := std.NewPrivateKey(k.Scalar())
		if err != nil {
			t.Fatal(err)
		}
		pub, err := std.NewPublicKey(enc)
		if err != nil {
			t.Fatal(err)
		}
		z, err := priv.ECDH(pub)
		if err != nil {
			t.Fatal(err)
		}
		suite := dhkemSuite(c)
		id := fmt.Sprintf("HPKE-v1KEM%c%c", 0, suite.id)
		prk, _ := hkdf.Extract(suite.hash.New, append([]byte(id+"eae_prk"), z...), nil)
		size := suite.hash.Size()
		info := fmt.Sprintf("%c%c%sshared_secret%s%s", 0, size, id, enc, priv.PublicKey().Bytes())
		want, _ := hkdf.Expand(suite.hash.New, prk, info, size)
		if !bytes.Equal(secret, want) {
			t.Errorf("%v: %x, want %x", c, secret, want)
		}
	}
}
