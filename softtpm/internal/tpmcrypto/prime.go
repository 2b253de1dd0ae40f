// SPDX-License-Identifier: Apache-2.0

package tpmcrypto

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"sync"

	"filippo.io/bigmod"
)

// sieveLimit bounds the primes of the sieve; sieveWidth is the number of odd
// candidates that one start value covers. With these a 1024-bit prime costs
// about 36 Miller-Rabin tests, and one start in 300 has none in its width.
const (
	sieveLimit = 1 << 16
	sieveWidth = 2048
)

// smallPrimes returns the odd primes below sieveLimit.
var smallPrimes = sync.OnceValue(func() []uint16 {
	composite := make([]bool, sieveLimit)
	var out []uint16
	for i := 3; i < sieveLimit; i += 2 {
		if composite[i] {
			continue
		}
		out = append(out, uint16(i))
		if i >= sieveLimit/i { // no multiple left that a smaller prime has not struck; and i*i would not fit 32 bits
			continue
		}
		for j := i * i; j < sieveLimit; j += 2 * i {
			composite[j] = true
		}
	}
	return out
})

// generatePrime returns a probable prime of exactly size octets whose two top
// bits are set (so the product of two has full length and each is above
// sqrt(2)*2^(bits-1), FIPS 186-5, A.1.3) and with gcd(p-1, e) = 1. It depends
// on nothing but what rand gives, on any machine: start values are read, a
// sieve removes most composites after each, and what is left is tested by
// Miller-Rabin with base 2 and then with random bases.
//
// How many candidates were tested shows in the time, as in any such search;
// the arithmetic on a candidate is constant time but for the remainders that
// the sieve takes with the processor's divide instruction.
func generatePrime(size int, e uint32, rand io.Reader) ([]byte, error) {
	if size < 32 || size%8 != 0 {
		return nil, fmt.Errorf("tpmcrypto: primes of %d octets are not supported", size)
	}
	words := make([]uint64, size/8) // start value, little-endian words
	buf := make([]byte, size)
	defer clear(words)
	defer clear(buf)
	// One start fails with probability 1/300; 100 in a row mean that rand
	// is broken.
	for range 100 {
		if _, err := io.ReadFull(rand, buf); err != nil {
			return nil, err
		}
		buf[0] |= 0xC0
		buf[size-1] |= 1
		for i := range words {
			words[i] = binary.BigEndian.Uint64(buf[size-8*(i+1):])
		}
		var composite [sieveWidth]bool
		for _, p := range smallPrimes() {
			// Candidate j is start + 2j; the first multiple of p has
			// j = -start/2 mod p.
			r := remainder(words, uint64(p))
			j := (uint64(p) - r) % uint64(p)
			if j&1 != 0 {
				j += uint64(p)
			}
			for j /= 2; j < sieveWidth; j += uint64(p) {
				composite[j] = true
			}
		}
		startModE := remainder(words, uint64(e))
		for j := range uint64(sieveWidth) {
			if composite[j] || gcd((startModE+2*j+uint64(e)-1)%uint64(e), uint64(e)) != 1 {
				continue
			}
			candidate, ok := addSmall(words, 2*j)
			if !ok {
				break // ran over the top of the range
			}
			prime, err := probablyPrime(candidate, rand)
			if err != nil {
				return nil, err
			}
			if prime {
				return candidate, nil
			}
			clear(candidate)
		}
	}
	return nil, errors.New("tpmcrypto: no prime found; the random source is broken")
}

// remainder returns words mod p.
func remainder(words []uint64, p uint64) uint64 {
	r := uint64(0)
	for i := len(words) - 1; i >= 0; i-- {
		_, r = bits.Div64(r, words[i], p)
	}
	return r
}

func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// addSmall returns words + n as big-endian octets, and false on overflow.
func addSmall(words []uint64, n uint64) ([]byte, bool) {
	out := make([]byte, 8*len(words))
	carry := n
	for i, w := range words {
		var c uint64
		w, c = bits.Add64(w, carry, 0)
		carry = c
		binary.BigEndian.PutUint64(out[len(out)-8*(i+1):], w)
	}
	return out, carry == 0
}

// rounds returns how many Miller-Rabin rounds with random bases a candidate of
// the given bits gets after the one with base 2: no fewer than FIPS 186-5,
// Appendix B.3, asks of random candidates.
func rounds(bits int) int {
	switch {
	case bits >= 1536:
		return 4
	case bits >= 1024:
		return 5
	default:
		return 10
	}
}

// probablyPrime tests an odd number above 3 (big-endian).
func probablyPrime(w []byte, rand io.Reader) (bool, error) {
	m, err := bigmod.NewModulus(w)
	if err != nil {
		return false, err
	}
	// w-1 = 2^a * d
	d := append([]byte(nil), w...)
	defer clear(d)
	d[len(d)-1] &^= 1
	a := trailingZeros(d)
	if a == 0 {
		return false, errors.New("tpmcrypto: zero candidate")
	}
	shiftRight(d, a)
	two := make([]byte, len(w))
	two[len(two)-1] = 2
	if ok, err := millerRabin(m, d, a, two); !ok || err != nil {
		return false, err
	}
	base := make([]byte, len(w))
	for range rounds(8 * len(w)) {
		// A base above w-2 or below 2 is drawn again (FIPS 186-5, B.3.1).
		for {
			if _, err := io.ReadFull(rand, base); err != nil {
				return false, err
			}
			b, err := bigmod.NewNat().SetBytes(base, m)
			if err != nil || b.IsZero()|b.IsOne() == 1 || b.IsMinusOne(m) == 1 {
				continue
			}
			break
		}
		if ok, err := millerRabin(m, d, a, base); !ok || err != nil {
			return false, err
		}
	}
	return true, nil
}

// millerRabin reports whether base does not prove m composite; m-1 = 2^a * d.
func millerRabin(m *bigmod.Modulus, d []byte, a int, base []byte) (bool, error) {
	b, err := bigmod.NewNat().SetBytes(base, m)
	if err != nil {
		return false, err
	}
	z := bigmod.NewNat().Exp(b, d, m)
	if z.IsOne() == 1 || z.IsMinusOne(m) == 1 {
		return true, nil
	}
	for range a - 1 {
		z.Mul(z, m)
		if z.IsMinusOne(m) == 1 {
			return true, nil
		}
	}
	return false, nil
}

// trailingZeros returns the number of low zero bits of a big-endian number, 0
// for zero.
func trailingZeros(b []byte) int {
	n := 0
	for i := len(b) - 1; i >= 0; i-- {
		if b[i] != 0 {
			return n + bits.TrailingZeros8(b[i])
		}
		n += 8
	}
	return 0
}

// shiftRight shifts a big-endian number by n bits in place.
func shiftRight(b []byte, n int) {
	k, r := n/8, uint(n%8)
	for i := len(b) - 1; i >= 0; i-- {
		var v uint16
		if j := i - k; j >= 0 {
			v = uint16(b[j])
			if j > 0 {
				v |= uint16(b[j-1]) << 8
			}
		}
		b[i] = byte(v >> r)
	}
}
