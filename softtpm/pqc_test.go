// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"bytes"
	"crypto/mlkem"
	"crypto/sha256"
	"crypto/sha3"
	"encoding/hex"
	"fmt"
	"testing"

	"github.com/cloudflare/circl/kem/schemes"
	"github.com/cloudflare/circl/sign/mldsa/mldsa44"
	"github.com/cloudflare/circl/sign/mldsa/mldsa65"
	"github.com/cloudflare/circl/sign/mldsa/mldsa87"

	"holdfast/softtpm/internal/tpmcrypto"
	"holdfast/tpm2"
)

// Attributes of keys that the tests make.
const (
	attrsFixed   = tpm2.ObjectFixedTPM | tpm2.ObjectFixedParent | tpm2.ObjectSensitiveDataOrigin | tpm2.ObjectUserWithAuth
	attrsAK      = attrsFixed | tpm2.ObjectRestricted | tpm2.ObjectSignEncrypt
	attrsSign    = attrsFixed | tpm2.ObjectSignEncrypt
	attrsParent  = attrsFixed | tpm2.ObjectRestricted | tpm2.ObjectDecrypt
	attrsDecrypt = attrsFixed | tpm2.ObjectDecrypt
)

// aes is the symmetric algorithm of a parent.
func aes(bits uint16) tpm2.SymDef {
	return tpm2.SymDef{Alg: tpm2.AlgAES, KeyBits: bits, Mode: tpm2.AlgCFB}
}

func mldsaTemplate(set tpm2.MLDSASet, a tpm2.ObjectAttributes, mu bool) tpm2.Public {
	return tpm2.Public{Type: tpm2.AlgMLDSA, NameAlg: tpm2.AlgSHA256, Attributes: a, Parms: tpm2.Parms{MLDSA: set, AllowExternalMu: mu}}
}

func hashMLDSATemplate(set tpm2.MLDSASet, h tpm2.Alg) tpm2.Public {
	return tpm2.Public{Type: tpm2.AlgHashMLDSA, NameAlg: tpm2.AlgSHA256, Attributes: attrsSign, Parms: tpm2.Parms{MLDSA: set, Hash: h}}
}

func mlkemTemplate(set tpm2.MLKEMSet, parent bool) tpm2.Public {
	p := tpm2.Public{Type: tpm2.AlgMLKEM, NameAlg: tpm2.AlgSHA384, Attributes: attrsDecrypt, Parms: tpm2.Parms{Symmetric: tpm2.NoSym, MLKEM: set}}
	if parent {
		p.Attributes, p.Parms.Symmetric = attrsParent, aes(256)
	}
	return p
}

// writeCreate writes the parameters of Create and CreatePrimary.
func writeCreate(auth, data string, p tpm2.Public) func(w *tpm2.Writer) {
	return func(w *tpm2.Writer) {
		m := w.Begin()
		(&tpm2.SensitiveCreate{UserAuth: []byte(auth), Data: []byte(data)}).Marshal(w)
		w.End(m)
		sizedPublic(w, p)
		w.Sized(nil)
		w.U32(0)
	}
}

// made is a key that a test made.
type made struct {
	h    tpm2.Handle
	pub  tpm2.Public
	name []byte
}

func createPrimaryKey(t testing.TB, p *TPM, hierarchy tpm2.Handle, template tpm2.Public) made {
	t.Helper()
	rc, r := request{cc: tpm2.CCCreatePrimary, handles: []tpm2.Handle{hierarchy}, auth: []string{""}, params: writeCreate("", "", template)}.send(t, p)
	if rc != 0 {
		t.Fatalf("CreatePrimary: %v", rc)
	}
	m := made{h: r.Handle()}
	r.U32()
	if err := tpm2.DecodeSized(append([]byte(nil), r.Bytes(2+int(peek16(r)))...), &m.pub); err != nil {
		t.Fatal(err)
	}
	name, err := m.pub.Name()
	if err != nil {
		t.Fatal(err)
	}
	m.name = name
	return m
}

// peek16 returns the next two bytes as a number without moving.
func peek16(r *tpm2.Reader) uint16 {
	q := *r
	return q.U16()
}

// circlVerify verifies pure ML-DSA with an implementation that the engine does not use for it.
func circlVerify(t testing.TB, set tpm2.MLDSASet, pub, msg, ctx, sig []byte) bool {
	t.Helper()
	switch set {
	case tpm2.MLDSA44:
		var k mldsa44.PublicKey
		return k.UnmarshalBinary(pub) == nil && mldsa44.Verify(&k, msg, ctx, sig)
	case tpm2.MLDSA65:
		var k mldsa65.PublicKey
		return k.UnmarshalBinary(pub) == nil && mldsa65.Verify(&k, msg, ctx, sig)
	}
	var k mldsa87.PublicKey
	return k.UnmarshalBinary(pub) == nil && mldsa87.Verify(&k, msg, ctx, sig)
}

var noTicket = tpm2.Ticket{Tag: tpm2.STHashcheck, Hierarchy: tpm2.RHNull}

// TestMLDSAQuote: an ML-DSA AK of each set quotes; the PCR digest is by the
// key's nameAlg (Errata 2.6).
func TestMLDSAQuote(t *testing.T) {
	for set := tpm2.MLDSA44; set <= tpm2.MLDSA87; set++ {
		p := newTPM(t, Options{})
		ak := createPrimaryKey(t, p, tpm2.RHEndorsement, mldsaTemplate(set, attrsAK, false))
		r := request{cc: tpm2.CCQuote, handles: []tpm2.Handle{ak.h}, auth: []string{""}, params: func(w *tpm2.Writer) {
			w.Sized([]byte("nonce"))
			w.Alg(tpm2.AlgNull)
			tpm2.MarshalPCRSelections(w, []tpm2.PCRSelection{tpm2.SelectPCRs(tpm2.AlgSHA256, 0, 1)})
		}}.ok(t, p)
		quoted := r.Sized(4096)
		var sig tpm2.Signature
		sig.Unmarshal(r)
		r.End()
		var a tpm2.Attest
		if err := tpm2.Decode(quoted, &a); err != nil || r.Err() != nil {
			t.Fatal(err, r.Err())
		}
		zero := sha256.Sum256(make([]byte, 64))
		if string(a.ExtraData) != "nonce" || !bytes.Equal(a.Quote.PCRDigest, zero[:]) {
			t.Errorf("set %d: quote holds %+v", set, a)
		}
		if sig.Alg != tpm2.AlgMLDSA || !circlVerify(t, set, ak.pub.Unique, quoted, nil, sig.Sig) {
			t.Errorf("set %d: quote does not verify", set)
		}
		// A restricted ML-DSA key signs no digest at all.
		request{cc: tpm2.CCSignDigest, handles: []tpm2.Handle{ak.h}, auth: []string{""}, params: func(w *tpm2.Writer) {
			w.Sized(nil)
			w.Sized(make([]byte, 64))
			noTicket.Marshal(w)
		}}.refused(t, p, "restricted", tpm2.RCExtMu.Handle(1))
	}
}

// TestExternalMu: SignDigest and VerifyDigestSignature of pure ML-DSA take µ,
// and only for keys that allow it.
func TestExternalMu(t *testing.T) {
	p := newTPM(t, Options{})
	key := createPrimaryKey(t, p, tpm2.RHOwner, mldsaTemplate(tpm2.MLDSA65, attrsSign, true))
	msg, ctx := []byte("message"), []byte("context")
	tr := sha3.SumSHAKE256(key.pub.Unique, 64)
	mu := sha3.SumSHAKE256(append(append(append(append([]byte(nil), tr...), 0, byte(len(ctx))), ctx...), msg...), 64)
	sign := func(h tpm2.Handle, mu []byte) request {
		return request{cc: tpm2.CCSignDigest, handles: []tpm2.Handle{h}, auth: []string{""}, params: func(w *tpm2.Writer) {
			w.Sized(nil)
			w.Sized(mu)
			noTicket.Marshal(w)
		}}
	}
	var sig tpm2.Signature
	sig.Unmarshal(sign(key.h, mu).ok(t, p))
	if !circlVerify(t, tpm2.MLDSA65, key.pub.Unique, msg, ctx, sig.Sig) {
		t.Error("signature over external µ does not verify as one over the message")
	}
	sign(key.h, mu[:63]).refused(t, p, "short µ", tpm2.RCSize.Parameter(2))
	verify := func(h tpm2.Handle, mu []byte) request {
		return request{cc: tpm2.CCVerifyDigestSignature, handles: []tpm2.Handle{h}, params: func(w *tpm2.Writer) {
			w.Sized(nil)
			w.Sized(mu)
			sig.Marshal(w)
		}}
	}
	// Errata 2.5: a null ticket.
	if got := verify(key.h, mu).ok(t, p).Rest(); !bytes.Equal(got, unhex(t, "8027 40000007 0010 0000")) {
		t.Errorf("ticket %x", got)
	}
	bad := bytes.Clone(mu)
	bad[5] ^= 1
	verify(key.h, bad).refused(t, p, "other µ", tpm2.RCSignature.Parameter(3))

	plain := createPrimaryKey(t, p, tpm2.RHOwner, mldsaTemplate(tpm2.MLDSA65, attrsSign, false))
	sign(plain.h, mu).refused(t, p, "not allowed", tpm2.RCExtMu.Handle(1))
	verify(plain.h, mu).refused(t, p, "not allowed", tpm2.RCExtMu.Handle(1))
}

// TestHashMLDSA: digests by the hash of the key, the context and the object
// identifier covered (checked by the vectors of tpmcrypto); tickets carry the hash.
func TestHashMLDSA(t *testing.T) {
	p := newTPM(t, Options{})
	key := createPrimaryKey(t, p, tpm2.RHOwner, hashMLDSATemplate(tpm2.MLDSA44, tpm2.AlgSHA256))
	digest := sha256.Sum256([]byte("message"))
	sign := func(d []byte) request {
		return request{cc: tpm2.CCSignDigest, handles: []tpm2.Handle{key.h}, auth: []string{""}, params: func(w *tpm2.Writer) {
			w.Sized([]byte("ctx"))
			w.Sized(d)
			noTicket.Marshal(w)
		}}
	}
	r := sign(digest[:]).ok(t, p)
	if got := append([]byte(nil), r.Rest()[:6]...); !bytes.Equal(got, unhex(t, "00A2 000B 0974")) {
		t.Errorf("signature begins %x, want sigAlg, hash, size 2420", got)
	}
	var sig tpm2.Signature
	sig.Unmarshal(sign(digest[:]).ok(t, p))
	verify := func(ctx string) request {
		return request{cc: tpm2.CCVerifyDigestSignature, handles: []tpm2.Handle{key.h}, params: func(w *tpm2.Writer) {
			w.Sized([]byte(ctx))
			w.Sized(digest[:])
			sig.Marshal(w)
		}}
	}
	ticket := verify("ctx").ok(t, p).Rest()
	if !bytes.HasPrefix(ticket, unhex(t, "8027 40000001 000B 0040")) {
		t.Errorf("ticket begins %x", ticket[:12])
	}
	verify("other").refused(t, p, "other context", tpm2.RCSignature.Parameter(3))
	sign(digest[:31]).refused(t, p, "short digest", tpm2.RCSize.Parameter(2))
	// TPM2_Sign is not for it (table 115).
	request{cc: tpm2.CCSign, handles: []tpm2.Handle{key.h}, auth: []string{""}, params: func(w *tpm2.Writer) {
		w.Sized(digest[:])
		w.Alg(tpm2.AlgNull)
		noTicket.Marshal(w)
	}}.refused(t, p, "HashML-DSA", tpm2.RCScheme.Parameter(2))
	// FIPS 204 has no HashML-DSA with SHA-1.
	request{cc: tpm2.CCCreatePrimary, handles: []tpm2.Handle{tpm2.RHOwner}, auth: []string{""},
		params: writeCreate("", "", hashMLDSATemplate(tpm2.MLDSA44, tpm2.AlgSHA1))}.refused(t, p, "SHA-1", tpm2.RCHash.Parameter(2))
}

// TestSignSequence: messages in pieces, with a context, for all kinds of keys.
func TestSignSequence(t *testing.T) {
	part := func(n int) []byte { return bytes.Repeat([]byte{byte(n)}, n) }
	ecc := tpm2.Public{Type: tpm2.AlgECC, NameAlg: tpm2.AlgSHA256, Attributes: attrsSign,
		Parms: tpm2.Parms{Symmetric: tpm2.NoSym, Scheme: tpm2.Scheme{Alg: tpm2.AlgECDSA, Hash: tpm2.AlgSHA384}, Curve: tpm2.CurveP384, KDF: tpm2.NoScheme}}
	for _, c := range []struct {
		name     string
		template tpm2.Public
		context  string
	}{
		{"ML-DSA-44", mldsaTemplate(tpm2.MLDSA44, attrsSign, false), "context"},
		{"ML-DSA-87 restricted", mldsaTemplate(tpm2.MLDSA87, attrsAK, false), ""},
		{"HashML-DSA", hashMLDSATemplate(tpm2.MLDSA65, tpm2.AlgSHA512), "context"},
		{"ECDSA", ecc, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newTPM(t, Options{})
			key := createPrimaryKey(t, p, tpm2.RHOwner, c.template)
			other := createPrimaryKey(t, p, tpm2.RHEndorsement, c.template)
			start := func(cc tpm2.CC) tpm2.Handle {
				rc, h := request{cc: cc, handles: []tpm2.Handle{key.h}, params: func(w *tpm2.Writer) {
					w.Sized([]byte("seqauth"))
					if cc == tpm2.CCVerifySequenceStart {
						w.Sized(nil)
					}
					w.Sized([]byte(c.context))
				}}.handle(t, p)
				if rc != 0 {
					t.Fatalf("%v: %v", cc, rc)
				}
				return h
			}
			update := func(seq tpm2.Handle, b []byte) {
				request{cc: tpm2.CCSequenceUpdate, handles: []tpm2.Handle{seq}, auth: []string{"seqauth"}, params: func(w *tpm2.Writer) { w.Sized(b) }}.ok(t, p)
			}
			complete := func(seq, k tpm2.Handle, b []byte) request {
				return request{cc: tpm2.CCSignSequenceComplete, handles: []tpm2.Handle{seq, k}, auth: []string{"seqauth", ""}, params: func(w *tpm2.Writer) { w.Sized(b) }}
			}
			seq := start(tpm2.CCSignSequenceStart)
			update(seq, part(1000))
			update(seq, part(77))
			complete(seq, other.h, part(5)).refused(t, p, "other key", tpm2.RCSignContextKey.Handle(2))
			var sig tpm2.Signature
			sig.Unmarshal(complete(seq, key.h, part(5)).ok(t, p))
			complete(seq, key.h, nil).refused(t, p, "sequence is flushed", tpm2.RCReferenceH0)
			msg := append(append(part(1000), part(77)...), part(5)...)
			if c.template.Type == tpm2.AlgMLDSA && !circlVerify(t, c.template.Parms.MLDSA, key.pub.Unique, msg, []byte(c.context), sig.Sig) {
				t.Error("signature does not verify")
			}
			verify := func(seq tpm2.Handle, s *tpm2.Signature) request {
				return request{cc: tpm2.CCVerifySequenceComplete, handles: []tpm2.Handle{seq, key.h}, auth: []string{"seqauth"}, params: func(w *tpm2.Writer) { s.Marshal(w) }}
			}
			v := start(tpm2.CCVerifySequenceStart)
			update(v, msg[:900])
			update(v, msg[900:])
			ticket := verify(v, &sig).ok(t, p).Rest()
			if !bytes.HasPrefix(ticket, unhex(t, "8026 40000001 0040")) {
				t.Errorf("ticket begins %x", ticket[:8])
			}
			v = start(tpm2.CCVerifySequenceStart)
			update(v, msg[:900])
			verify(v, &sig).refused(t, p, "message cut", tpm2.RCSignature.Parameter(1))

			// TPM_GENERATED_VALUE: a restricted key does not sign what could be an attestation.
			seq = start(tpm2.CCSignSequenceStart)
			q := complete(seq, key.h, []byte("\xffTCGsomething"))
			if c.template.Attributes.Has(tpm2.ObjectRestricted) {
				q.refused(t, p, "generated", tpm2.RCValue.Parameter(1))
			} else {
				q.ok(t, p)
			}
			// Nor when the value comes in pieces. Short first blocks count as if
			// it did, whatever follows (Part 3, 17.7.1).
			for cut := range 4 {
				for _, rest := range []string{"\xffTCGsomething"[cut:], "anything"} {
					for _, late := range []bool{false, true} {
						seq = start(tpm2.CCSignSequenceStart)
						update(seq, []byte("\xffTCG"[:cut]))
						last := []byte(rest)
						if late {
							update(seq, last)
							last = nil
						}
						q := complete(seq, key.h, last)
						if c.template.Attributes.Has(tpm2.ObjectRestricted) && (cut > 0 || rest != "anything") {
							q.refused(t, p, "generated in pieces", tpm2.RCValue.Parameter(1))
							request{cc: tpm2.CCFlushContext, params: func(w *tpm2.Writer) { w.Handle(seq) }}.ok(t, p)
						} else {
							q.ok(t, p)
						}
					}
				}
			}
		})
	}
}

// TestMLKEM: encapsulation by and to outside implementations; the secret
// comes before the ciphertext.
func TestMLKEM(t *testing.T) {
	for set := tpm2.MLKEM512; set <= tpm2.MLKEM1024; set++ {
		t.Run(fmt.Sprint(set), func(t *testing.T) {
			p := newTPM(t, Options{})
			key := createPrimaryKey(t, p, tpm2.RHOwner, mlkemTemplate(set, false))
			decap := func(ct []byte) request {
				return request{cc: tpm2.CCDecapsulate, handles: []tpm2.Handle{key.h}, auth: []string{""}, params: func(w *tpm2.Writer) { w.Sized(ct) }}
			}
			r := request{cc: tpm2.CCEncapsulate, handles: []tpm2.Handle{key.h}}.ok(t, p)
			secret, ct := r.Sized(4096), r.Sized(4096)
			r.End()
			if r.Err() != nil || len(secret) != 32 || len(ct) != set.CiphertextSize() {
				t.Fatalf("secret %d bytes, ciphertext %d", len(secret), len(ct))
			}
			if got := decap(ct).ok(t, p).Sized(64); !bytes.Equal(got, secret) {
				t.Error("Decapsulate does not give the secret of Encapsulate")
			}
			scheme := schemes.ByName([]string{"", "ML-KEM-512", "ML-KEM-768", "ML-KEM-1024"}[set])
			pub, err := scheme.UnmarshalBinaryPublicKey(key.pub.Unique)
			if err != nil {
				t.Fatal(err)
			}
			ct2, secret2, err := scheme.Encapsulate(pub)
			if err != nil {
				t.Fatal(err)
			}
			if got := decap(ct2).ok(t, p).Sized(64); !bytes.Equal(got, secret2) {
				t.Error("Decapsulate of an outside ciphertext")
			}
			decap(ct[:len(ct)-1]).refused(t, p, "short", tpm2.RCSize.Parameter(1))

			parent := createPrimaryKey(t, p, tpm2.RHOwner, mlkemTemplate(set, true))
			request{cc: tpm2.CCDecapsulate, handles: []tpm2.Handle{parent.h}, auth: []string{""}, params: func(w *tpm2.Writer) { w.Sized(ct) }}.
				refused(t, p, "restricted", tpm2.RCAttributes.Handle(1))
			sk := createPrimaryKey(t, p, tpm2.RHOwner, mldsaTemplate(tpm2.MLDSA44, attrsSign, false))
			request{cc: tpm2.CCEncapsulate, handles: []tpm2.Handle{sk.h}}.refused(t, p, "no KEM", tpm2.RCKey.Handle(1))
		})
	}
}

// TestMLKEMParent: children under an ML-KEM storage parent, a session salted
// with it, and a credential for it, against our own computation of the label
// equation (version 185, Part 1, 47.4).
func TestMLKEMParent(t *testing.T) {
	p := newTPM(t, Options{})
	parent := createPrimaryKey(t, p, tpm2.RHEndorsement, mlkemTemplate(tpm2.MLKEM768, true))
	r := request{cc: tpm2.CCCreate, handles: []tpm2.Handle{parent.h}, auth: []string{""}, params: writeCreate("", "", mldsaTemplate(tpm2.MLDSA65, attrsAK, false))}.ok(t, p)
	private, public := r.Sized(4096), r.Sized(4096)
	load := func(private []byte) request {
		return request{cc: tpm2.CCLoad, handles: []tpm2.Handle{parent.h}, auth: []string{""}, params: func(w *tpm2.Writer) {
			w.Sized(private)
			w.Sized(public)
		}}
	}
	bad := bytes.Clone(private)
	bad[len(bad)-1] ^= 1
	load(bad).refused(t, p, "changed private", tpm2.RCIntegrity.Parameter(1))
	rc, child := load(private).handle(t, p)
	if rc != 0 {
		t.Fatal(rc)
	}
	childName := p.state.object(child).name

	ek, err := mlkem.NewEncapsulationKey768(parent.pub.Unique)
	if err != nil {
		t.Fatal(err)
	}
	// Session salt.
	ss, ct := ek.Encapsulate()
	salt := tpmcrypto.KDFa(tpmcrypto.SHA384, ss, "SECRET", ct, parent.pub.Unique, 384)
	nonceCaller := bytes.Repeat([]byte{7}, 32)
	rc, rr := request{cc: tpm2.CCStartAuthSession, handles: []tpm2.Handle{parent.h, tpm2.RHNull}, params: func(w *tpm2.Writer) {
		w.Sized(nonceCaller)
		w.Sized(ct)
		w.U8(uint8(tpm2.SEHMAC))
		w.Alg(tpm2.AlgNull)
		w.Alg(tpm2.AlgSHA256)
	}}.send(t, p)
	if rc != 0 {
		t.Fatal(rc)
	}
	h := rr.Handle()
	nonceTPM := rr.Sized(64)
	if want := tpmcrypto.KDFa(tpmcrypto.SHA256, salt, "ATH", nonceTPM, nonceCaller, 256); !bytes.Equal(p.state.session(h).key, want) {
		t.Error("session key is not that of the salt")
	}
	// Credential from outside.
	ss, ct = ek.Encapsulate()
	seed := tpmcrypto.KDFa(tpmcrypto.SHA384, ss, "IDENTITY", ct, parent.pub.Unique, 384)
	cred := []byte("a credential")
	blob := sealCredential(p.state.object(parent.h), seed, childName, cred)
	activate := func(blob, ct []byte) request {
		return request{cc: tpm2.CCActivateCredential, handles: []tpm2.Handle{child, parent.h}, auth: []string{"", ""}, params: func(w *tpm2.Writer) {
			w.Sized(blob)
			w.Sized(ct)
		}}
	}
	if got := activate(blob, ct).ok(t, p).Sized(64); !bytes.Equal(got, cred) {
		t.Errorf("credential %q", got)
	}
	// And from inside.
	r = request{cc: tpm2.CCMakeCredential, handles: []tpm2.Handle{parent.h}, params: func(w *tpm2.Writer) {
		w.Sized(cred)
		w.Sized(childName)
	}}.ok(t, p)
	blob, ct = r.Sized(4096), r.Sized(4096)
	if got := activate(blob, ct).ok(t, p).Sized(64); !bytes.Equal(got, cred) {
		t.Errorf("credential %q", got)
	}
	bad = bytes.Clone(ct)
	bad[0] ^= 1
	activate(blob, bad).refused(t, p, "changed ciphertext", tpm2.RCIntegrity.Parameter(1))
}

// TestPrimaryPinned: the derivation of primary keys is a promise: with these
// seeds every version of this program makes these keys.
func TestPrimaryPinned(t *testing.T) {
	rsa := tpm2.Public{Type: tpm2.AlgRSA, NameAlg: tpm2.AlgSHA256, Attributes: attrsParent, Parms: tpm2.Parms{Symmetric: aes(128), Scheme: tpm2.NoScheme, KeyBits: 2048}}
	ecc := tpm2.Public{Type: tpm2.AlgECC, NameAlg: tpm2.AlgSHA256, Attributes: attrsParent,
		Parms: tpm2.Parms{Symmetric: aes(128), Scheme: tpm2.NoScheme, Curve: tpm2.CurveP256, KDF: tpm2.NoScheme}}
	for _, c := range []struct {
		name     string
		template tpm2.Public
		want     string
	}{
		{"RSA-2048", rsa, "000b48790494af8b8a9e54f3cc169516889441bd96a82394430dd2315bc59bad1705"},
		{"P-256", ecc, "000ba006b31f46cb27ac8b427d83f1f7bd3876974ae90499e4d9fd71195cf742f551"},
		{"ML-KEM-512", mlkemTemplate(tpm2.MLKEM512, true), "000cd978d37eeff95cd9970cd0abf0b0860965a35b77b0718e31ce63d228db0437d09a6f155458b173c375c538824003ffa4"},
		{"ML-KEM-768", mlkemTemplate(tpm2.MLKEM768, true), "000c82494dd2837894eac775373edbcf65c207266c7530a154e214656bf6ec4ee013f98e5bb616139090a8da32d658157723"},
		{"ML-KEM-1024", mlkemTemplate(tpm2.MLKEM1024, true), "000c9c4cf7471193d17568db39d2a62faff0354f710a8cd51d637dc1cf13277de32677218c1c7d61b9cdaff06dd9ceb7152f"},
		{"ML-DSA-44", mldsaTemplate(tpm2.MLDSA44, attrsAK, false), "000b6e7d1a0464a10bb15b5278e4c4c52af04ea5bc78b9f0ae4c20ba649855639a09"},
		{"ML-DSA-65", mldsaTemplate(tpm2.MLDSA65, attrsAK, false), "000b53751b9ad1154f27261c321c16acabde913f83a297299291ac7cd6fafe4ce6db"},
		{"ML-DSA-87", mldsaTemplate(tpm2.MLDSA87, attrsAK, false), "000b26cb82b538b69ea38624abcf9d143b483353a953a56cbfb01a54077cfd7c5560"},
		{"HashML-DSA-65", hashMLDSATemplate(tpm2.MLDSA65, tpm2.AlgSHA256), "000b62166a00dd00a74ddde70f98ac21632063b33f727f3af9fc146f5deff63e0126"},
	} {
		p := newTPM(t, Options{})
		p.state.perm.spSeed = bytes.Repeat([]byte{0x42}, seedSize)
		a := createPrimaryKey(t, p, tpm2.RHOwner, c.template)
		if got := hex.EncodeToString(a.name); got != c.want {
			t.Errorf("%s: Name %s, want %s", c.name, got, c.want)
		}
		if b := createPrimaryKey(t, p, tpm2.RHOwner, c.template); !bytes.Equal(a.name, b.name) {
			t.Errorf("%s: the second is another key", c.name)
		}
	}
}

// TestPQCGoldenCommand: CreatePrimary of an ML-DSA-65 attestation key typed
// byte by byte from Part 2 and Part 3, and the layout of its response.
func TestPQCGoldenCommand(t *testing.T) {
	p := newTPM(t, Options{})
	rsp := mustRun(t, p, `
		8002 00000038 00000131   4000000B
		00000009 40000009 0000 00 0000
		0004 0000 0000
		000F 00A1 000B 00050072 0000  0002 00  0000
		0000 00000000`)
	if !bytes.HasPrefix(rsp[4+4:], unhex(t, "07AF 00A1 000B 00050072 0000 0002 00 07A0")) {
		t.Errorf("response begins %x", rsp[:40])
	}
	if h := unhex(t, "80000000"); !bytes.HasPrefix(rsp, h) {
		t.Errorf("handle %x", rsp[:4])
	}
	// ML_PARAMETER_SETS: all six and external µ.
	if got := mustRun(t, p, "8001 00000016 0000017A 00000006 00000131 00000001"); !bytes.Equal(got, unhex(t, "01 00000006 00000001 00000131 0000007F")) {
		t.Errorf("capability %x", got)
	}
	// Encapsulate with a handle that is not there.
	if rc, _ := run(t, p, "8001 0000000E 000001A7 80000007"); rc != tpm2.RCReferenceH0 {
		t.Errorf("%v", rc)
	}
}
