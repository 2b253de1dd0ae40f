// SPDX-License-Identifier: Apache-2.0

package tsstest

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"testing"

	"holdfast/softtpmtest"
	"holdfast/tpm2"
	"holdfast/tss"
)

// client is a client of a fresh TPM of ours.
func client(t *testing.T) *tss.TPM { return tss.New(softtpmtest.New(t)) }

// TestMLDSA: an attestation key that quotes and certifies, a signing key that
// signs messages; all checked by another implementation of ML-DSA.
func TestMLDSA(t *testing.T) {
	for _, k := range []tss.Kind{tss.MLDSA44, tss.MLDSA65, tss.MLDSA87} {
		t.Run(string(k), func(t *testing.T) {
			c := client(t)
			secret := []byte("the agent's secret, of 32 bytes.")
			srk, err := c.CreatePrimary(tss.Owner(nil), tss.SRKTemplate(tss.MLKEM768), nil)
			ok(t, err)
			made, err := c.Create(srk.Ref(nil), tss.AKTemplate(k), &tss.Secret{Auth: secret})
			ok(t, err)
			ak, err := c.Load(srk.Ref(nil), made.Private, &made.Public)
			ok(t, err)
			nonce := sha256.Sum256([]byte("report data"))
			q, err := c.Quote(ak.Ref(secret), nonce[:], tpm2.NoScheme, pcrs)
			ok(t, err)
			at, sig, err := q.Parse(tpm2.STAttestQuote)
			ok(t, err)
			if !bytes.Equal(at.ExtraData, nonce[:]) {
				t.Fatal("qualifying data")
			}
			ok(t, tss.CheckSignature(&ak.Public, q.Attest, sig))
			changed := bytes.Clone(q.Attest)
			changed[len(changed)-1] ^= 1
			if err := tss.CheckSignature(&ak.Public, changed, sig); !errors.Is(err, tss.ErrSignature) {
				t.Fatalf("a changed quote: %v", err)
			}
			if _, err := c.Quote(ak.Ref([]byte("wrong")), nonce[:], tpm2.NoScheme, pcrs); !errors.Is(err, tpm2.RCAuthFail) {
				t.Fatalf("a stranger quotes: %v", err)
			}
			if _, err := c.Quote(ak.Ref(nil), nonce[:], tpm2.NoScheme, pcrs); !errors.Is(err, tpm2.RCAuthFail) {
				t.Fatalf("a stranger quotes: %v", err)
			}
			flush(t, c, ak.Handle)
			sk, err := c.CreatePrimary(tss.Owner(nil), tss.SigningTemplate(k), &tss.Secret{Auth: secret})
			ok(t, err)
			message := bytes.Repeat([]byte("message "), 500)
			s, err := c.SignMessage(sk.Ref(secret), nil, message)
			ok(t, err)
			ok(t, tss.CheckSignature(&sk.Key.Public, message, s))
			ok(t, c.VerifyMessage(sk.Ref(nil), nil, message, s))
			if err := c.VerifyMessage(sk.Ref(nil), []byte("context"), message, s); !errors.Is(err, tpm2.RCSignature) {
				t.Fatalf("another context: %v", err)
			}
			s, err = c.SignMessage(sk.Ref(secret), []byte("context"), message)
			ok(t, err)
			ok(t, c.VerifyMessage(sk.Ref(nil), []byte("context"), message, s))
		})
	}
}

// TestMLKEM: keys that encapsulate, storage keys, salted sessions, credentials.
func TestMLKEM(t *testing.T) {
	for _, k := range []tss.Kind{tss.MLKEM512, tss.MLKEM768, tss.MLKEM1024} {
		t.Run(string(k), func(t *testing.T) {
			t.Run("kem", func(t *testing.T) {
				c := client(t)
				key, err := c.CreatePrimary(tss.Owner(nil), tss.KEMTemplate(k), &tss.Secret{Auth: []byte("a")})
				ok(t, err)
				ss, ct, err := c.Encapsulate(key.Ref(nil))
				ok(t, err)
				got, err := c.Decapsulate(key.Ref([]byte("a")), ct)
				if err != nil || !bytes.Equal(ss, got) || len(ss) != 32 {
					t.Fatal(err)
				}
				ct[0] ^= 1 // implicit rejection: another secret, no error
				got, err = c.Decapsulate(key.Ref([]byte("a")), ct)
				if err != nil || bytes.Equal(ss, got) {
					t.Fatal(err)
				}
				if _, err := c.Decapsulate(key.Ref([]byte("a")), ct[1:]); err == nil {
					t.Fatal("a short ciphertext")
				}
			})
			t.Run("sessions", func(t *testing.T) { testSessions(t, client(t), k) })
			t.Run("credential", func(t *testing.T) { testCredential(t, client(t), k) })
			t.Run("parent", func(t *testing.T) {
				c := client(t)
				srk, err := c.CreatePrimary(tss.Owner(nil), tss.SRKTemplate(k), nil)
				ok(t, err)
				// A storage parent's child that is a storage parent has its hash and
				// its symmetric algorithm (Part 1, "Storage Parents"); the parameter set may differ.
				template, own := tss.SRKTemplate(tss.MLKEM768), tss.SRKTemplate(k)
				template.NameAlg, template.Parms.Symmetric = own.NameAlg, own.Parms.Symmetric
				made, err := c.Create(srk.Ref(nil), template, nil)
				ok(t, err)
				child, err := c.Load(srk.Ref(nil), made.Private, &made.Public)
				ok(t, err)
				made, err = c.Create(child.Ref(nil), tss.SealTemplate(nil), &tss.Secret{Data: []byte("x")})
				ok(t, err)
				item, err := c.Load(child.Ref(nil), made.Private, &made.Public)
				ok(t, err)
				if got, err := c.Unseal(item.Ref(nil)); err != nil || string(got) != "x" {
					t.Fatal(err)
				}
			})
		})
	}
}

// TestQuoteAllocations: the quote of an agent's loop makes little garbage.
func TestQuoteAllocations(t *testing.T) {
	canned := &canned{next: softtpmtest.New(t)}
	c := tss.New(canned)
	ak, err := c.CreatePrimary(tss.Owner(nil), tss.AKTemplate(tss.ECCP256), &tss.Secret{Auth: []byte("secret")})
	ok(t, err)
	nonce := make([]byte, 32)
	ref := ak.Ref([]byte("secret"))
	quote := func() {
		if _, err := c.Quote(ref, nonce, tpm2.NoScheme, pcrs); err != nil {
			t.Fatal(err)
		}
	}
	quote()
	canned.keep = true // from now on only the client's own allocations count
	if n := testing.AllocsPerRun(100, quote); n > 6 {
		t.Fatalf("%v allocations for each quote, expected at most 6", n)
	}
}

// canned answers with the last response once keep is set.
type canned struct {
	next tss.Transport
	last []byte
	keep bool
}

func (c *canned) Send(b []byte) ([]byte, error) {
	if c.keep {
		return c.last, nil
	}
	r, err := c.next.Send(b)
	c.last = r
	return r, err
}
