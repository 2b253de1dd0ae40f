// SPDX-License-Identifier: Apache-2.0

package tpmcrypto

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	_ "crypto/sha1"
	"crypto/sha256"
	_ "crypto/sha3"
	_ "crypto/sha512"
	"encoding/hex"
	"math/big"
	"sync"
	"testing"
)

var stdHash = map[Hash]crypto.Hash{
	SHA1: crypto.SHA1, SHA256: crypto.SHA256, SHA384: crypto.SHA384, SHA512: crypto.SHA512,
	SHA3_256: crypto.SHA3_256, SHA3_384: crypto.SHA3_384, SHA3_512: crypto.SHA3_512,
}

// RFC 6979 draws k from HMAC_DRBG seeded with x and H(m): its A.2.5 gives the
// first octets of two instances.
func TestDRBGAgreesWithRFC6979(t *testing.T) {
	x := unhex(t, "C9AFA9D845BA75166B5C215767B1D6934E50C3DB36E89B127B8A622B120F6721")
	for msg, want := range map[string]string{
		"sample": "a6e3c57dd01abe90086538398355dd4c3b17aa873382b0f24d6129493d8aad60",
		"test":   "d16b6ae827f17175e040871a1c7ec3500192c4c92677336ec2537acaee0008e0",
	} {
		h := sha256.Sum256([]byte(msg))
		d := NewDRBG(SHA256, x, h[:])
		got := make([]byte, 32)
		d.Read(got)
		if hex.EncodeToString(got) != want {
			t.Errorf("%s: %x", msg, got)
		}
		again := make([]byte, 32)
		d.Read(again)
		if bytes.Equal(got, again) {
			t.Error("the generator repeats itself")
		}
		d.Close()
	}
}

// std turns one of ours into a key of crypto/rsa, which validates it.
func std(t testing.TB, k *RSAPrivate) *rsa.PrivateKey {
	t.Helper()
	n, p := new(big.Int).SetBytes(k.Modulus()), new(big.Int).SetBytes(k.Prime())
	q := new(big.Int).Div(n, p)
	one := big.NewInt(1)
	phi := new(big.Int).Mul(new(big.Int).Sub(p, one), new(big.Int).Sub(q, one))
	d := new(big.Int).ModInverse(big.NewInt(int64(k.Exponent())), phi)
	s := &rsa.PrivateKey{PublicKey: rsa.PublicKey{N: n, E: int(k.Exponent())}, D: d, Primes: []*big.Int{p, q}}
	s.Precompute()
	if err := s.Validate(); err != nil {
		t.Fatalf("crypto/rsa says: %v", err)
	}
	if !p.ProbablyPrime(20) || !q.ProbablyPrime(20) {
		t.Fatal("factors are not prime")
	}
	return s
}

var key2048 = sync.OnceValue(func() *RSAPrivate {
	k, err := GenerateRSA(2048, 0, NewDRBG(SHA512, []byte("test key")))
	if err != nil {
		panic(err)
	}
	return k
})

func TestGenerateRSAIsDeterministic(t *testing.T) {
	for _, bits := range []int{512, 1024, 2048, 3072} {
		a, err := GenerateRSA(bits, 0, NewDRBG(SHA512, []byte("seed"), []byte{byte(bits >> 8)}))
		if err != nil {
			t.Fatal(err)
		}
		b, err := GenerateRSA(bits, 0, NewDRBG(SHA512, []byte("seed"), []byte{byte(bits >> 8)}))
		if err != nil {
			t.Fatal(err)
		}
		c, err := GenerateRSA(bits, 0, NewDRBG(SHA512, []byte("tree"), []byte{byte(bits >> 8)}))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(a.Modulus(), b.Modulus()) || bytes.Equal(a.Modulus(), c.Modulus()) {
			t.Errorf("%d bits: same seed, other key, or other seed, same key", bits)
		}
		if a.Size() != bits/8 || a.Modulus()[0]&0x80 == 0 {
			t.Errorf("%d bits: modulus of %d octets, first %x", bits, a.Size(), a.Modulus()[0])
		}
		if bits >= 1024 { // crypto/rsa refuses less
			std(t, a)
		}
		r, err := NewRSAPrivate(a.Modulus(), a.Prime(), 0)
		if err != nil {
			t.Fatal(err)
		}
		m := append([]byte{0}, bytes.Repeat([]byte{7}, a.Size()-1)...)
		x, err := a.RawPrivate(m)
		if err != nil {
			t.Fatal(err)
		}
		y, err := r.RawPrivate(m)
		if err != nil || !bytes.Equal(x, y) {
			t.Errorf("the rebuilt key computes something else: %v", err)
		}
		if back, err := a.Raw(x); err != nil || !bytes.Equal(back, m) {
			t.Errorf("raw round trip: %v", err)
		}
	}
}

// A golden key: a change of the search would change every primary key.
func TestGenerateRSAGolden(t *testing.T) {
	k := key2048()
	got := SHA256.Sum(k.Modulus())
	if want := "da18b8d441a9f2f70789216d170ecfd70122bf6246d4b35985577c7373b78c6c"; hex.EncodeToString(got) != want {
		t.Errorf("SHA-256 of the modulus is %x, was %s", got, want)
	}
}

func TestGenerateRSAExponents(t *testing.T) {
	for _, e := range []uint32{3, 17, 65537, 65539, 4294967291} {
		k, err := GenerateRSA(1024, e, Random)
		if err != nil {
			t.Fatal(err)
		}
		if e < 1<<31 {
			std(t, k)
		}
		m := make([]byte, 128)
		m[127] = 42
		c, err := k.Raw(m)
		if err != nil {
			t.Fatal(err)
		}
		if p, err := k.RawPrivate(c); err != nil || !bytes.Equal(p, m) {
			t.Errorf("e=%d: %v", e, err)
		}
	}
	for _, c := range []struct {
		bits int
		e    uint32
	}{{2048, 2}, {2048, 65536}, {2048, 1}, {2000, 0}, {256, 0}, {8192, 0}} {
		if _, err := GenerateRSA(c.bits, c.e, Random); err == nil {
			t.Errorf("%+v accepted", c)
		}
	}
}

func TestRSAKeysAreChecked(t *testing.T) {
	k := key2048()
	n, p := k.Modulus(), k.Prime()
	bad := append([]byte(nil), p...)
	bad[len(bad)-1] ^= 2
	other := append([]byte(nil), n...)
	other[100] ^= 1
	even := append([]byte(nil), n...)
	even[255] ^= 1
	for name, f := range map[string]func() error{
		"wrong prime":    func() error { _, err := NewRSAPrivate(n, bad, 0); return err },
		"wrong modulus":  func() error { _, err := NewRSAPrivate(other, p, 0); return err },
		"short prime":    func() error { _, err := NewRSAPrivate(n, p[1:], 0); return err },
		"no prime":       func() error { _, err := NewRSAPrivate(n, nil, 0); return err },
		"low prime":      func() error { _, err := NewRSAPrivate(n, make([]byte, 128), 0); return err },
		"even modulus":   func() error { _, err := NewRSAPublic(even, 0); return err },
		"short modulus":  func() error { _, err := NewRSAPublic(n[:32], 0); return err },
		"even exponent":  func() error { _, err := NewRSAPublic(n, 4); return err },
		"leading zero":   func() error { _, err := NewRSAPublic(append(make([]byte, 8), n...), 0); return err },
		"input too big":  func() error { _, err := k.Raw(bytes.Repeat([]byte{255}, 256)); return err },
		"input too big2": func() error { _, err := k.RawPrivate(n); return err },
	} {
		if f() == nil {
			t.Errorf("%s: no error", name)
		}
	}
	// A composite that passes as factor: n = p * (composite) with the composite
	// in the place of p.
	three := new(big.Int).SetBytes(p)
	c := new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 1024), big.NewInt(1)) // 2^1024-1, divisible by 3
	cn := new(big.Int).Mul(three, c)
	if cn.BitLen() == 2048 {
		if _, err := NewRSAPrivate(cn.FillBytes(make([]byte, 256)), c.FillBytes(make([]byte, 128)), 0); err == nil {
			t.Error("composite factor accepted")
		}
	}
}

func TestRSAZero(t *testing.T) {
	k, err := GenerateRSA(1024, 0, Random)
	if err != nil {
		t.Fatal(err)
	}
	dp, p := k.dp, k.pBytes
	k.Zero()
	if !bytes.Equal(dp, make([]byte, 64)) || !bytes.Equal(p, make([]byte, 64)) {
		t.Error("private values remain")
	}
	if _, err := k.RawPrivate([]byte{1}); err == nil {
		t.Error("an erased key still works")
	}
}

func TestRSASSAAgreesWithStd(t *testing.T) {
	k := key2048()
	s := std(t, k)
	for _, h := range Hashes() {
		if stdHash[h] == 0 {
			continue // SM3: TestSM
		}
		d := h.Sum([]byte("message"))
		sig, err := k.SignPKCS1(h, d)
		if err != nil {
			t.Fatal(err)
		}
		if err := rsa.VerifyPKCS1v15(&s.PublicKey, stdHash[h], d, sig); err != nil {
			t.Errorf("%x: crypto/rsa: %v", h, err)
		}
		if err := k.VerifyPKCS1(h, d, sig); err != nil {
			t.Errorf("%x: %v", h, err)
		}
		refused(t, k.Public().VerifyPKCS1, h, d, sig)

		sig, err = k.SignPSS(h, Random, d)
		if err != nil {
			t.Fatal(err)
		}
		if err := rsa.VerifyPSS(&s.PublicKey, stdHash[h], d, sig, &rsa.PSSOptions{SaltLength: h.Size()}); err != nil {
			t.Errorf("%x: crypto/rsa PSS: %v", h, err)
		}
		refused(t, k.Public().VerifyPSS, h, d, sig)
		for _, salt := range []int{0, 5, h.Size(), rsa.PSSSaltLengthAuto} {
			theirs, err := rsa.SignPSS(rand.Reader, s, stdHash[h], d, &rsa.PSSOptions{SaltLength: max(salt, rsa.PSSSaltLengthEqualsHash)})
			if err != nil {
				t.Fatal(err)
			}
			if err := k.VerifyPSS(h, d, theirs); err != nil {
				t.Errorf("%x salt %d: %v", h, salt, err)
			}
		}
	}
}

// refused checks that a good signature stops verifying when anything changes.
func refused(t *testing.T, verify func(Hash, []byte, []byte) error, h Hash, d, sig []byte) {
	t.Helper()
	if err := verify(h, d, sig); err != nil {
		t.Errorf("%x: good signature refused: %v", h, err)
	}
	for name, f := range map[string]func() error{
		"digest": func() error { return verify(h, flip(d, 3), sig) },
		"first":  func() error { return verify(h, d, flip(sig, 0)) },
		"last":   func() error { return verify(h, d, flip(sig, len(sig)-1)) },
		"short":  func() error { return verify(h, d, sig[1:]) },
		"long":   func() error { return verify(h, d, append([]byte{0}, sig...)) },
		"empty":  func() error { return verify(h, d, nil) },
		"size":   func() error { return verify(h, d[1:], sig) },
		"null":   func() error { return verify(0x10, d, sig) },
	} {
		if f() == nil {
			t.Errorf("%x: accepted with changed %s", h, name)
		}
	}
}

func flip(b []byte, i int) []byte {
	c := append([]byte(nil), b...)
	c[i] ^= 1
	return c
}

// A 1024-bit key has no room for a 64-octet salt beside a 64-octet hash.
func TestPSSSmallKey(t *testing.T) {
	k, err := GenerateRSA(1024, 0, Random)
	if err != nil {
		t.Fatal(err)
	}
	d := SHA512.Sum([]byte("m"))
	sig, err := k.SignPSS(SHA512, Random, d)
	if err != nil {
		t.Fatal(err)
	}
	if err := k.VerifyPSS(SHA512, d, sig); err != nil {
		t.Error(err)
	}
	if err := rsa.VerifyPSS(&std(t, k).PublicKey, crypto.SHA512, d, sig, &rsa.PSSOptions{SaltLength: 62}); err != nil {
		t.Errorf("crypto/rsa with a salt of 62: %v", err)
	}
	tiny, err := GenerateRSA(512, 0, Random)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tiny.SignPSS(SHA512, Random, d); err != ErrTooLong {
		t.Errorf("64-octet hash under a 64-octet key: %v", err)
	}
	if _, err := tiny.SignPKCS1(SHA512, d); err != ErrTooLong {
		t.Errorf("64-octet hash under a 64-octet key: %v", err)
	}
}

func TestRSAEncryptionAgreesWithStd(t *testing.T) {
	k := key2048()
	s := std(t, k)
	msg := []byte("a secret of the TPM")
	for _, h := range Hashes() {
		if stdHash[h] == 0 {
			continue
		}
		label := []byte("IDENTITY\x00")
		c, err := k.EncryptOAEP(h, Random, msg, label)
		if err != nil {
			t.Fatal(err)
		}
		got, err := rsa.DecryptOAEP(stdHash[h].New(), nil, s, c, label)
		if err != nil || !bytes.Equal(got, msg) {
			t.Errorf("%x: crypto/rsa: %q %v", h, got, err)
		}
		theirs, err := rsa.EncryptOAEP(stdHash[h].New(), rand.Reader, &s.PublicKey, msg, label)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := k.DecryptOAEP(h, theirs, label); err != nil || !bytes.Equal(got, msg) {
			t.Errorf("%x: %q %v", h, got, err)
		}
		if got, err := k.DecryptOAEP(h, theirs, []byte("IDENTITY")); err != ErrPadding || got != nil {
			t.Errorf("%x: other label: %q %v", h, got, err)
		}
		if got, err := k.DecryptOAEP(h, flip(theirs, 200), label); err != ErrPadding || got != nil {
			t.Errorf("%x: changed: %q %v", h, got, err)
		}
		empty, err := k.EncryptOAEP(h, Random, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := k.DecryptOAEP(h, empty, nil); err != nil || len(got) != 0 {
			t.Errorf("%x: empty message: %q %v", h, got, err)
		}
		if _, err := k.EncryptOAEP(h, Random, make([]byte, 256-2*h.Size()-1), nil); err != ErrTooLong {
			t.Errorf("%x: one octet too long: %v", h, err)
		}
	}
	c, err := k.EncryptPKCS1(Random, msg)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := rsa.DecryptPKCS1v15(nil, s, c); err != nil || !bytes.Equal(got, msg) {
		t.Errorf("crypto/rsa: %q %v", got, err)
	}
	theirs, err := rsa.EncryptPKCS1v15(rand.Reader, &s.PublicKey, msg)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := k.DecryptPKCS1(theirs); err != nil || !bytes.Equal(got, msg) {
		t.Errorf("%q %v", got, err)
	}
	if _, err := k.EncryptPKCS1(Random, make([]byte, 246)); err != ErrTooLong {
		t.Errorf("one octet too long: %v", err)
	}
	// Encodings that are wrong in one place each.
	good := make([]byte, 256)
	good[1] = 2
	for i := 2; i < 240; i++ {
		good[i] = 9
	}
	for name, em := range map[string][]byte{
		"block type 1":  set(good, 1, 1),
		"no separator":  bytes.Repeat([]byte{1}, 256),
		"short padding": set(good, 9, 0),
	} {
		em[0] = 0
		c, err := k.Raw(em)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := k.DecryptPKCS1(c); err != ErrPadding || got != nil {
			t.Errorf("%s: %q %v", name, got, err)
		}
	}
	c, _ = k.Raw(good)
	if got, err := k.DecryptPKCS1(c); err != nil || len(got) != 15 {
		t.Errorf("eight or more octets of padding are right: %d octets, %v", len(got), err)
	}
}

func set(b []byte, i int, v byte) []byte {
	c := append([]byte(nil), b...)
	c[i] = v
	return c
}

func TestProbablyPrime(t *testing.T) {
	for range 20 {
		p, err := rand.Prime(rand.Reader, 512)
		if err != nil {
			t.Fatal(err)
		}
		if ok, err := probablyPrime(p.Bytes(), Random); !ok || err != nil {
			t.Errorf("%x: not prime? %v", p, err)
		}
		q, _ := rand.Prime(rand.Reader, 256)
		r, _ := rand.Prime(rand.Reader, 256)
		if ok, _ := probablyPrime(new(big.Int).Mul(q, r).Bytes(), Random); ok {
			t.Errorf("%x * %x called prime", q, r)
		}
	}
	// 3215031751 is a strong pseudoprime to the bases 2, 3, 5 and 7; random
	// bases find it.
	if ok, _ := probablyPrime(big.NewInt(3215031751).FillBytes(make([]byte, 32)), Random); ok {
		t.Error("strong pseudoprime called prime")
	}
}

func BenchmarkGenerateRSA2048(b *testing.B) {
	for i := 0; b.Loop(); i++ {
		if _, err := GenerateRSA(2048, 0, NewDRBG(SHA512, big.NewInt(int64(i)).Bytes())); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSignPKCS1(b *testing.B) {
	k, d := key2048(), SHA256.Sum()
	for b.Loop() {
		if _, err := k.SignPKCS1(SHA256, d); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkNewRSAPrivate2048(b *testing.B) {
	k := key2048()
	n, p := k.Modulus(), k.Prime()
	for b.Loop() {
		if _, err := NewRSAPrivate(n, p, 0); err != nil {
			b.Fatal(err)
		}
	}
}
