// SPDX-License-Identifier: Apache-2.0

package tpmcrypto

import (
	"bytes"
	"compress/gzip"
	"crypto/mlkem"
	"crypto/mlkem/mlkemtest"
	"crypto/sha256"
	"crypto/sha3"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"sync"
	"testing"

	"filippo.io/mldsa"
	"filippo.io/mldsa/mldsacrypto"
)

type hexBytes []byte

func (h *hexBytes) UnmarshalText(b []byte) (err error) {
	*h, err = hex.DecodeString(string(b))
	return err
}

type kemVectors struct {
	Set    MLKEM
	Keygen []struct {
		From string
		Seed hexBytes
		EK   hexBytes `json:"ek_sha256"`
	}
	Encaps []struct {
		From     string
		EK, M, K hexBytes
		C        hexBytes `json:"c_sha256"`
		OK       bool
	}
	Decaps []struct {
		From       string
		Seed, C, K hexBytes
		OK         bool
	}
}

type dsaVectors struct {
	Set    MLDSA
	Keygen []struct {
		From string
		Seed hexBytes
		PK   hexBytes `json:"pk_sha256"`
	}
	VerifyMu []struct {
		From    string
		PK, Sig hexBytes
		MPrime  hexBytes `json:"m_prime"`
		OK      bool
	} `json:"verify_mu"`
	Verify []struct {
		From              string
		PK, Ctx, Msg, Sig hexBytes
		OK                bool
	}
	Sign []struct {
		From               string
		Seed, Ctx, Msg, Mu hexBytes
		Sig                hexBytes `json:"sig_sha256"`
		OK                 bool
	}
}

type vectors struct {
	MLKEM []kemVectors
	MLDSA []dsaVectors
}

var loadVectors = sync.OnceValues(func() (*vectors, error) {
	f, err := os.Open("testdata/pqc.json.gz")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	v := new(vectors)
	if err := json.NewDecoder(z).Decode(v); err != nil {
		return nil, err
	}
	if len(v.MLKEM) != 3 || len(v.MLDSA) != 3 {
		return nil, errors.New("testdata does not hold three sets of each")
	}
	return v, nil
})

func sha(b []byte) []byte { h := sha256.Sum256(b); return h[:] }

// encapsulateWith is the derandomized encapsulation, which exists in tests only.
func encapsulateWith(t *testing.T, p *MLKEMPublic, m []byte) (ss, ct []byte) {
	t.Helper()
	var err error
	switch k := p.key.(type) {
	case kem512:
		return k.derandomized(m)
	case *mlkem.EncapsulationKey768:
		ss, ct, err = mlkemtest.Encapsulate768(k, m)
	case *mlkem.EncapsulationKey1024:
		ss, ct, err = mlkemtest.Encapsulate1024(k, m)
	default:
		t.Fatalf("unknown key %T", k)
	}
	if err != nil {
		t.Fatal(err)
	}
	return ss, ct
}

func TestMLKEMVectors(t *testing.T) {
	v, err := loadVectors()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range v.MLKEM {
		for _, c := range s.Keygen {
			k, err := NewMLKEMPrivate(s.Set, c.Seed)
			if err != nil {
				t.Fatalf("%s: %v", c.From, err)
			}
			if !bytes.Equal(sha(k.Bytes()), c.EK) || !bytes.Equal(k.Seed(), c.Seed) {
				t.Errorf("%s: another public key", c.From)
			}
		}
		for _, c := range s.Encaps {
			p, err := NewMLKEMPublic(s.Set, c.EK)
			if (err == nil) != c.OK {
				t.Errorf("%s: error %v, want valid %v", c.From, err, c.OK)
			}
			if err != nil {
				continue
			}
			ss, ct := encapsulateWith(t, p, c.M)
			if !bytes.Equal(ss, c.K) || !bytes.Equal(sha(ct), c.C) {
				t.Errorf("%s: another secret or ciphertext", c.From)
			}
		}
		for _, c := range s.Decaps {
			k, err := NewMLKEMPrivate(s.Set, c.Seed)
			var ss []byte
			if err == nil {
				ss, err = k.Decapsulate(c.C)
			}
			if (err == nil) != c.OK {
				t.Errorf("%s: error %v, want valid %v", c.From, err, c.OK)
			} else if err == nil && !bytes.Equal(ss, c.K) {
				t.Errorf("%s: another secret", c.From)
			}
		}
	}
}

func TestMLKEM(t *testing.T) {
	for _, m := range []MLKEM{MLKEM512, MLKEM768, MLKEM1024} {
		seed := bytes.Repeat([]byte{byte(m)}, 64)
		k, err := NewMLKEMPrivate(m, seed)
		if err != nil {
			t.Fatal(err)
		}
		p, err := NewMLKEMPublic(m, k.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		ss, ct := p.Encapsulate()
		if len(ss) != MLKEMSecretSize || len(ct) != m.CiphertextSize() || len(k.Bytes()) != m.PublicKeySize() {
			t.Errorf("set %d: sizes %d %d %d", m, len(ss), len(ct), len(k.Bytes()))
		}
		if got, err := k.Decapsulate(ct); err != nil || !bytes.Equal(got, ss) {
			t.Errorf("set %d: %v", m, err)
		}
		if got, err := k.Decapsulate(flip(ct, 9)); err != nil || bytes.Equal(got, ss) {
			t.Errorf("set %d: a changed ciphertext gives the secret, or an error: %v", m, err)
		}
		if _, ct2 := p.Encapsulate(); bytes.Equal(ct, ct2) {
			t.Errorf("set %d: two encapsulations are equal", m)
		}
		for name, f := range map[string]func() error{
			"short seed": func() error { _, err := NewMLKEMPrivate(m, seed[:32]); return err },
			"short key":  func() error { _, err := NewMLKEMPublic(m, k.Bytes()[1:]); return err },
			"key not reduced": func() error {
				_, err := NewMLKEMPublic(m, bytes.Repeat([]byte{0xff}, m.PublicKeySize()))
				return err
			},
			"short ct":    func() error { _, err := k.Decapsulate(ct[1:]); return err },
			"long ct":     func() error { _, err := k.Decapsulate(append(ct[:len(ct):len(ct)], 0)); return err },
			"unknown set": func() error { _, err := NewMLKEMPrivate(4, seed); return err },
			"no set":      func() error { _, err := NewMLKEMPublic(0, nil); return err },
		} {
			if err := f(); !errors.Is(err, ErrMLKEM) {
				t.Errorf("set %d, %s: %v", m, name, err)
			}
		}
		k.Zero()
		if _, err := k.Decapsulate(ct); err == nil {
			t.Error("an erased key still works")
		}
	}
}

// The KDFa of Part 1, 47.4 with its inputs spelled out.
func TestLabeledKEM(t *testing.T) {
	got := LabeledKEM(SHA384, []byte("K"), "DUPLICATE", []byte("ct"), []byte("pk"))
	want := HMAC(SHA384, []byte("K"), []byte{0, 0, 0, 1}, []byte("DUPLICATE\x00"), []byte("ct"), []byte("pk"), []byte{0, 0, 1, 0x80})
	if !bytes.Equal(got, want) {
		t.Errorf("%x, want %x", got, want)
	}
	if LabeledKEM(0x10, nil, "SECRET", nil, nil) != nil {
		t.Error("a seed for TPM_ALG_NULL")
	}
}

func TestMLDSAVectors(t *testing.T) {
	v, err := loadVectors()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range v.MLDSA {
		for _, c := range s.Keygen {
			k, err := NewMLDSAPrivate(s.Set, c.Seed)
			if err != nil {
				t.Fatalf("%s: %v", c.From, err)
			}
			if !bytes.Equal(sha(k.Bytes()), c.PK) || !bytes.Equal(k.Seed(), c.Seed) {
				t.Errorf("%s: another public key", c.From)
			}
		}
		// ACVP's internal interface: the message is M', so µ follows from tr.
		for _, c := range s.VerifyMu {
			p, err := NewMLDSAPublic(s.Set, c.PK)
			if err != nil {
				t.Fatalf("%s: %v", c.From, err)
			}
			mu := &Mu{sha3New(p.tr[:], c.MPrime)}
			if err := p.VerifyMu(mu.Sum(), c.Sig); (err == nil) != c.OK {
				t.Errorf("%s: error %v, want valid %v", c.From, err, c.OK)
			}
		}
		for _, c := range s.Verify {
			p, err := NewMLDSAPublic(s.Set, c.PK)
			if err != nil {
				if c.OK {
					t.Errorf("%s: %v", c.From, err)
				}
				continue
			}
			if err := p.Verify(c.Ctx, c.Msg, c.Sig); (err == nil) != c.OK {
				t.Errorf("%s: error %v, want valid %v", c.From, err, c.OK)
			}
			mu, err := p.NewMu(c.Ctx)
			if err != nil {
				if c.OK {
					t.Errorf("%s: %v", c.From, err)
				}
				continue
			}
			mu.Write(c.Msg)
			if err := p.VerifyMu(mu.Sum(), c.Sig); (err == nil) != c.OK {
				t.Errorf("%s: by µ: error %v, want valid %v", c.From, err, c.OK)
			}
		}
		for _, c := range s.Sign {
			k, err := NewMLDSAPrivate(s.Set, c.Seed)
			if err != nil {
				if !c.OK {
					continue
				}
				t.Fatalf("%s: %v", c.From, err)
			}
			var sig []byte
			if len(c.Mu) != 0 {
				sig, err = k.sign(c.Mu, mldsacrypto.MLDSAMu, true)
			} else {
				sig, err = k.sign(c.Msg, &mldsa.Options{Context: string(c.Ctx)}, true)
			}
			if (err == nil) != c.OK {
				t.Errorf("%s: error %v, want valid %v", c.From, err, c.OK)
			} else if err == nil && !bytes.Equal(sha(sig), c.Sig) {
				t.Errorf("%s: another signature", c.From)
			}
			if len(c.Mu) == 0 && !c.OK {
				if _, err := k.Sign(c.Ctx, c.Msg); err == nil {
					t.Errorf("%s: Sign accepts what is invalid", c.From)
				}
			}
		}
	}
}

func TestMLDSA(t *testing.T) {
	for _, m := range []MLDSA{MLDSA44, MLDSA65, MLDSA87} {
		k, err := NewMLDSAPrivate(m, bytes.Repeat([]byte{byte(m)}, 32))
		if err != nil {
			t.Fatal(err)
		}
		p, err := NewMLDSAPublic(m, k.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		ctx, msg := []byte("context"), []byte("message in two pieces")
		mu, err := p.NewMu(ctx)
		if err != nil {
			t.Fatal(err)
		}
		mu.Write(msg[:7])
		// A saved and reloaded sequence goes on where it was.
		state, err := mu.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		if mu, err = UnmarshalMu(state); err != nil {
			t.Fatal(err)
		}
		mu.Write(msg[7:])
		rep := mu.Sum()
		bySig, err := k.SignMu(rep)
		if err != nil {
			t.Fatal(err)
		}
		sig, err := k.Sign(ctx, msg)
		if err != nil || len(sig) != m.SignatureSize() {
			t.Fatalf("%d octets, %v", len(sig), err)
		}
		again, _ := k.Sign(ctx, msg)
		if bytes.Equal(sig, again) {
			t.Error("hedged signatures are equal")
		}
		for _, s := range [][]byte{sig, bySig} {
			if err := p.Verify(ctx, msg, s); err != nil {
				t.Errorf("set %d: %v", m, err)
			}
			if err := p.VerifyMu(rep, s); err != nil {
				t.Errorf("set %d: by µ: %v", m, err)
			}
		}
		for i := 0; i < len(sig); i += 97 {
			if p.VerifyMu(rep, flip(sig, i)) == nil || p.Verify(ctx, msg, flip(sig, i)) == nil {
				t.Errorf("set %d: accepted with octet %d changed", m, i)
			}
		}
		if p.Verify(nil, msg, sig) == nil || p.Verify(ctx, msg[1:], sig) == nil || p.VerifyMu(flip(rep, 0), sig) == nil ||
			p.VerifyMu(rep[:63], sig) == nil || p.VerifyMu(rep, sig[1:]) == nil || p.VerifyMu(rep, nil) == nil {
			t.Errorf("set %d: accepted with something changed", m)
		}
		for _, h := range Hashes() {
			d := h.Sum(msg)
			sig, err := k.SignHash(h, ctx, d)
			if h == SHA1 || h == SM3_256 {
				if err == nil {
					t.Errorf("HashML-DSA with hash %x", h)
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := p.VerifyHash(h, ctx, d, sig); err != nil {
				t.Errorf("set %d hash %x: %v", m, h, err)
			}
			if p.VerifyHash(h, nil, d, sig) == nil || p.VerifyHash(h, ctx, flip(d, 1), sig) == nil || p.Verify(ctx, d, sig) == nil {
				t.Errorf("set %d hash %x: accepted with something changed", m, h)
			}
			if p.VerifyHash(h, ctx, d[1:], sig) == nil {
				t.Errorf("set %d hash %x: short digest accepted", m, h)
			}
		}
		long := make([]byte, 256)
		for name, err := range map[string]error{
			"long context, sign":   second(k.Sign(long, msg)),
			"long context, hash":   second(k.SignHash(SHA256, long, make([]byte, 32))),
			"long context, verify": p.Verify(long, msg, sig),
			"short mu":             second(k.SignMu(rep[:32])),
			"short seed":           second(NewMLDSAPrivate(m, make([]byte, 31))),
			"long key":             second(NewMLDSAPublic(m, append(k.Bytes(), 0))),
			"no set":               second(NewMLDSAPublic(0, nil)),
			"unknown set":          second(NewMLDSAPrivate(4, make([]byte, 32))),
		} {
			if err == nil {
				t.Errorf("set %d: %s: no error", m, name)
			}
		}
		k.Zero()
		if _, err := k.Sign(nil, msg); err == nil {
			t.Error("an erased key still signs")
		}
	}
}

func second[T any](_ T, err error) error { return err }

// HashML-DSA against the definition (FIPS 204, Algorithm 4) through the one
// independent entry that filippo.io/mldsa has: M' built by hand.
func TestHashMLDSARepresentative(t *testing.T) {
	k, err := NewMLDSAPrivate(MLDSA65, make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	d := SHA512.Sum([]byte("m"))
	mu, err := k.hashMu(SHA512, []byte("c"), d)
	if err != nil {
		t.Fatal(err)
	}
	mPrime := append([]byte{1, 1, 'c', 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x03}, d...)
	want := (&Mu{sha3New(k.tr[:], mPrime)}).Sum()
	if !bytes.Equal(mu, want) {
		t.Errorf("µ is %x, want %x", mu, want)
	}
}

// FuzzVerifyMu: our verification by µ and the library's agree on any input.
func FuzzVerifyMu(f *testing.F) {
	k, err := NewMLDSAPrivate(MLDSA44, make([]byte, 32))
	if err != nil {
		f.Fatal(err)
	}
	sig, err := k.sign([]byte("message"), &mldsa.Options{}, true)
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte("message"), sig, uint16(0), byte(0))
	f.Add([]byte("message"), sig, uint16(2420-40), byte(1))
	f.Add([]byte("massage"), sig, uint16(7), byte(0))
	f.Add([]byte{}, []byte{}, uint16(0), byte(0))
	f.Fuzz(func(t *testing.T, msg, s []byte, at uint16, x byte) {
		s = append([]byte(nil), s...)
		if int(at) < len(s) {
			s[at] ^= x
		}
		mu, err := k.NewMu(nil)
		if err != nil {
			t.Fatal(err)
		}
		mu.Write(msg)
		a, b := k.Public().VerifyMu(mu.Sum(), s), k.Public().Verify(nil, msg, s)
		if (a == nil) != (b == nil) {
			t.Fatalf("by µ: %v; by message: %v", a, b)
		}
	})
}

func BenchmarkMLDSA65(b *testing.B) {
	k, err := NewMLDSAPrivate(MLDSA65, make([]byte, 32))
	if err != nil {
		b.Fatal(err)
	}
	msg := []byte("message")
	sig, err := k.Sign(nil, msg)
	if err != nil {
		b.Fatal(err)
	}
	mu, _ := k.NewMu(nil)
	mu.Write(msg)
	rep := mu.Sum()
	b.Run("Expand", func(b *testing.B) {
		for b.Loop() {
			if _, err := NewMLDSAPrivate(MLDSA65, k.seed); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("Sign", func(b *testing.B) {
		for b.Loop() {
			if _, err := k.Sign(nil, msg); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("Verify", func(b *testing.B) {
		for b.Loop() {
			if err := k.Verify(nil, msg, sig); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("VerifyMu", func(b *testing.B) {
		for b.Loop() {
			if err := k.VerifyMu(rep, sig); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func sha3New(parts ...[]byte) *sha3.SHAKE {
	x := sha3.NewSHAKE256()
	for _, p := range parts {
		x.Write(p)
	}
	return x
}
