// SPDX-License-Identifier: Apache-2.0

package tpmcrypto

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"

	"filippo.io/bigmod"
)

// RSAPublic is an RSA public key. It is immutable and safe for concurrent use.
type RSAPublic struct {
	n *bigmod.Modulus
	e uint32
	k int // size of the modulus in octets
}

// NewRSAPublic takes the modulus (big-endian, full length: top bit set) and
// the exponent; 0 stands for 65537, as on the wire (Part 2, 12.2.3.5).
func NewRSAPublic(n []byte, e uint32) (*RSAPublic, error) {
	if e == 0 {
		e = 65537
	}
	if e < 3 || e&1 == 0 {
		return nil, fmt.Errorf("tpmcrypto: RSA exponent %d is not odd and above 2", e)
	}
	if len(n) < 64 || len(n) > 512 || len(n)%8 != 0 {
		return nil, fmt.Errorf("tpmcrypto: RSA modulus of %d octets, want 64 to 512 in steps of 8", len(n))
	}
	if n[0]&0x80 == 0 || n[len(n)-1]&1 == 0 {
		return nil, errors.New("tpmcrypto: RSA modulus is even or has leading zero bits")
	}
	m, err := bigmod.NewModulus(n)
	if err != nil {
		return nil, err
	}
	return &RSAPublic{n: m, e: e, k: len(n)}, nil
}

// Size returns the size of the modulus in octets.
func (p *RSAPublic) Size() int { return p.k }

// Modulus returns the modulus, big-endian, Size octets.
func (p *RSAPublic) Modulus() []byte { return p.n.Nat().Bytes(p.n) }

// Exponent returns the public exponent.
func (p *RSAPublic) Exponent() uint32 { return p.e }

// Raw computes m^e mod n (RSAEP). m has at most Size octets and must be below
// the modulus; the result has Size octets.
func (p *RSAPublic) Raw(m []byte) ([]byte, error) {
	x, err := bigmod.NewNat().SetBytes(m, p.n)
	if err != nil {
		return nil, errors.New("tpmcrypto: RSA input is not below the modulus")
	}
	return bigmod.NewNat().ExpShortVarTime(x, uint(p.e), p.n).Bytes(p.n), nil
}

// RSAPrivate is an RSA private key with its CRT values. It is immutable but
// for Zero, and safe for concurrent use.
type RSAPrivate struct {
	RSAPublic
	p, q         *bigmod.Modulus
	dp, dq, qinv []byte // e^-1 mod p-1, e^-1 mod q-1, q^-1 mod p; half the size
	pBytes       []byte
}

// GenerateRSA makes a key of bits bits (a multiple of 128 from 512 on) with
// exponent e (0 = 65537). What rand gives determines the key: with a DRBG the
// same key comes out on every machine; with Random it is fresh.
func GenerateRSA(bits int, e uint32, rand io.Reader) (*RSAPrivate, error) {
	if e == 0 {
		e = 65537
	}
	if bits < 512 || bits > 4096 || bits%128 != 0 || e < 3 || e&1 == 0 {
		return nil, fmt.Errorf("tpmcrypto: no RSA key of %d bits with exponent %d", bits, e)
	}
	size := bits / 16
	for {
		p, err := generatePrime(size, e, rand)
		if err != nil {
			return nil, err
		}
		q, err := generatePrime(size, e, rand)
		if err != nil {
			return nil, err
		}
		if near(p, q) {
			continue
		}
		// FIPS 186-5 also bounds d from below; with a 32-bit e, d falls
		// short with probability below 2^-200 and nobody can find out.
		n := mulWords(words(p), words(q))
		return newRSA(octets(n), p, q, e)
	}
}

// near reports |p-q| <= 2^(bits-100), which would make n easy to factor
// (FIPS 186-5, A.1.3): equality in the first 99 bits, to be safe by one.
func near(p, q []byte) bool {
	d := byte(0)
	for i := range 12 {
		d |= p[i] ^ q[i]
	}
	d |= (p[12] ^ q[12]) & 0xE0
	return d == 0
}

// NewRSAPrivate rebuilds a key from what a TPM keeps: the modulus and one of
// its two primes, half the modulus' size (Part 2, 12.3.2.3). It checks that
// the prime divides the modulus and that a private exponent exists.
func NewRSAPrivate(n, p []byte, e uint32) (*RSAPrivate, error) {
	if len(n) != 2*len(p) || len(n)%16 != 0 {
		return nil, fmt.Errorf("tpmcrypto: RSA prime of %d octets for a modulus of %d, want half", len(p), len(n))
	}
	if p[0]&0x80 == 0 || p[len(p)-1]&1 == 0 {
		return nil, errors.New("tpmcrypto: RSA prime is even or has leading zero bits")
	}
	q, ok := divideExactly(words(n), words(p))
	if !ok {
		return nil, errors.New("tpmcrypto: RSA prime does not divide the modulus")
	}
	return newRSA(n, p, octets(q), e)
}

func newRSA(n, p, q []byte, e uint32) (*RSAPrivate, error) {
	pub, err := NewRSAPublic(n, e)
	if err != nil {
		return nil, err
	}
	k := &RSAPrivate{RSAPublic: *pub, pBytes: append([]byte(nil), p...)}
	if k.p, err = bigmod.NewModulus(p); err != nil {
		return nil, err
	}
	if k.q, err = bigmod.NewModulus(q); err != nil {
		return nil, err
	}
	if k.dp, err = inverseExponent(p, k.e); err != nil {
		return nil, err
	}
	if k.dq, err = inverseExponent(q, k.e); err != nil {
		return nil, err
	}
	// q^-1 = q^(p-2) mod p (Fermat), constant time where Euclid is not.
	pm2 := append([]byte(nil), p...)
	defer clear(pm2)
	pm2[len(pm2)-1] -= 2 // p is odd and the low octet at least 3 or borrows
	if p[len(p)-1] < 2 {
		borrow(pm2[:len(pm2)-1])
	}
	qn, err := bigmod.NewNat().SetOverflowingBytes(q, k.p)
	if err != nil {
		return nil, err
	}
	qi := bigmod.NewNat().Exp(qn, pm2, k.p)
	k.qinv = qi.Bytes(k.p)
	// If p is not prime, this fails (or Fermat was lucky and nothing breaks:
	// each private operation is checked again).
	if qi.Mul(qn, k.p).IsOne() != 1 {
		return nil, errors.New("tpmcrypto: RSA factors are not primes")
	}
	return k, nil
}

// borrow subtracts one from a big-endian number.
func borrow(b []byte) {
	for i := len(b) - 1; i >= 0; i-- {
		b[i]--
		if b[i] != 0xff {
			return
		}
	}
}

// Prime returns a copy of the first prime, Size()/2 octets.
func (k *RSAPrivate) Prime() []byte { return append([]byte(nil), k.pBytes...) }

// Public returns the public half.
func (k *RSAPrivate) Public() *RSAPublic { return &k.RSAPublic }

// Zero erases what can be erased; the key is unusable afterwards.
func (k *RSAPrivate) Zero() {
	clear(k.dp)
	clear(k.dq)
	clear(k.qinv)
	clear(k.pBytes)
	clear(k.p.Nat().Bits())
	clear(k.q.Nat().Bits())
	k.dp, k.dq, k.qinv, k.pBytes, k.p, k.q = nil, nil, nil, nil, nil, nil
}

// RawPrivate computes c^d mod n (RSADP) by the Chinese remainder theorem in
// constant time, and checks the result against the public exponent so that a
// fault cannot leak a prime. c has at most Size octets and must be below the
// modulus; the result has Size octets.
func (k *RSAPrivate) RawPrivate(c []byte) ([]byte, error) {
	if k.p == nil {
		return nil, errors.New("tpmcrypto: RSA key was erased")
	}
	x, err := bigmod.NewNat().SetBytes(c, k.n)
	if err != nil {
		return nil, errors.New("tpmcrypto: RSA input is not below the modulus")
	}
	t := bigmod.NewNat()
	m1 := bigmod.NewNat().Exp(t.Mod(x, k.p), k.dp, k.p)
	m2 := bigmod.NewNat().Exp(t.Mod(x, k.q), k.dq, k.q)
	qinv, err := bigmod.NewNat().SetBytes(k.qinv, k.p)
	if err != nil {
		return nil, err
	}
	// h = (m1 - m2) * qinv mod p; m = m2 + h*q
	m1.Sub(t.Mod(m2, k.p), k.p)
	m1.Mul(qinv, k.p)
	m1.ExpandFor(k.n)
	m1.Mul(bigmod.NewNat().Mod(k.q.Nat(), k.n), k.n)
	m1.Add(m2.ExpandFor(k.n), k.n)
	if bigmod.NewNat().ExpShortVarTime(m1, uint(k.e), k.n).Equal(x) != 1 {
		return nil, errors.New("tpmcrypto: RSA private operation failed its check")
	}
	return m1.Bytes(k.n), nil
}

// inverseExponent returns e^-1 mod (p-1) as len(p) octets. With
// r = -(p-1)^-1 mod e, the number (r*(p-1)+1)/e is an integer and the answer:
// one multiplication and one division by a word, in place of Euclid on secrets.
func inverseExponent(p []byte, e uint32) ([]byte, error) {
	w := words(p)
	defer clear(w)
	w[0]-- // p is odd
	inv, ok := inverseWord(remainder(w, uint64(e)), uint64(e))
	if !ok {
		return nil, errors.New("tpmcrypto: RSA exponent has no inverse for this prime")
	}
	r := uint64(e) - inv
	prod := make([]uint64, len(w)+1)
	defer clear(prod)
	carry := uint64(1)
	for i, x := range w {
		hi, lo := bits.Mul64(x, r)
		var c uint64
		prod[i], c = bits.Add64(lo, carry, 0)
		carry = hi + c
	}
	prod[len(w)] = carry
	rem := uint64(0)
	for i := len(prod) - 1; i >= 0; i-- {
		prod[i], rem = bits.Div64(rem, prod[i], uint64(e))
	}
	if rem != 0 || prod[len(w)] != 0 {
		return nil, errors.New("tpmcrypto: RSA private exponent is out of range")
	}
	return octets(prod[:len(w)]), nil
}

// inverseWord returns a^-1 mod m for m below 2^32.
func inverseWord(a, m uint64) (uint64, bool) {
	r0, r1 := int64(m), int64(a%m)
	s0, s1 := int64(0), int64(1)
	for r1 != 0 {
		q := r0 / r1
		r0, r1 = r1, r0-q*r1
		s0, s1 = s1, s0-q*s1
	}
	if r0 != 1 {
		return 0, false
	}
	if s0 < 0 {
		s0 += int64(m)
	}
	return uint64(s0), true
}

// words converts big-endian octets (a multiple of 8) to little-endian words.
func words(b []byte) []uint64 {
	w := make([]uint64, len(b)/8)
	for i := range w {
		w[i] = binary.BigEndian.Uint64(b[len(b)-8*(i+1):])
	}
	return w
}

// octets is the inverse of words.
func octets(w []uint64) []byte {
	b := make([]byte, 8*len(w))
	for i, x := range w {
		binary.BigEndian.PutUint64(b[len(b)-8*(i+1):], x)
	}
	return b
}

// mulWords returns the full product, len(a)+len(b) words.
func mulWords(a, b []uint64) []uint64 {
	out := make([]uint64, len(a)+len(b))
	for i, x := range a {
		carry := uint64(0)
		for j, y := range b {
			hi, lo := bits.Mul64(x, y)
			var c uint64
			lo, c = bits.Add64(lo, carry, 0)
			hi += c
			out[i+j], c = bits.Add64(out[i+j], lo, 0)
			carry = hi + c
		}
		out[i+len(b)] = carry
	}
	return out
}

// divideExactly returns n/p for odd p of half the size by division from the
// low end (Jebelean), which has no data-dependent branch, and whether
// p*quotient is n.
func divideExactly(n, p []uint64) ([]uint64, bool) {
	inv := p[0] // Newton: p*inv = 1 mod 2^3, doubled each round
	for range 5 {
		inv *= 2 - p[0]*inv
	}
	rest := append([]uint64(nil), n[:len(p)]...)
	defer clear(rest)
	q := make([]uint64, len(p))
	for i := range q {
		q[i] = rest[i] * inv
		borrow, carry := uint64(0), uint64(0)
		for j := 0; i+j < len(rest); j++ {
			hi, lo := bits.Mul64(q[i], p[j])
			var c uint64
			lo, c = bits.Add64(lo, carry, 0)
			carry = hi + c
			rest[i+j], borrow = bits.Sub64(rest[i+j], lo, borrow)
		}
	}
	prod := mulWords(p, q)
	defer clear(prod)
	d := uint64(0)
	for i := range prod {
		d |= prod[i] ^ n[i]
	}
	return q, d == 0
}
