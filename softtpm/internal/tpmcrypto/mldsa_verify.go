// SPDX-License-Identifier: Apache-2.0

package tpmcrypto

import (
	"crypto/sha3"
	"crypto/subtle"
	"sync"
)

// This file verifies an ML-DSA signature against a given µ, which
// filippo.io/mldsa does not offer: FIPS 204, Algorithm 8 from line 8 on, and
// what it calls. All inputs are public, so nothing here is constant time.

const (
	dsaQ = 8380417 // FIPS 204, Table 1
	dsaD = 13
	dsaN = 256
)

// dsaParams are the columns of FIPS 204, Table 1.
type dsaParams struct {
	k, l                     int
	tau, gamma1Bits, beta    int
	gamma2                   int32
	omega, challenge, z1Bits int // octets of c~; bits of a packed w1 coefficient
}

func (m MLDSA) table() *dsaParams {
	switch m {
	case MLDSA44:
		return &dsaParams{k: 4, l: 4, tau: 39, gamma1Bits: 17, beta: 78, gamma2: (dsaQ - 1) / 88, omega: 80, challenge: 32, z1Bits: 6}
	case MLDSA65:
		return &dsaParams{k: 6, l: 5, tau: 49, gamma1Bits: 19, beta: 196, gamma2: (dsaQ - 1) / 32, omega: 55, challenge: 48, z1Bits: 4}
	case MLDSA87:
		return &dsaParams{k: 8, l: 7, tau: 60, gamma1Bits: 19, beta: 120, gamma2: (dsaQ - 1) / 32, omega: 75, challenge: 64, z1Bits: 4}
	}
	return nil
}

type dsaPoly [dsaN]uint32 // coefficients below q

// VerifyMu verifies a signature against the message representative mu of 64
// octets.
func (p *MLDSAPublic) VerifyMu(mu, sig []byte) error {
	t := p.Set.table()
	if t == nil || len(mu) != MLDSAMuSize || len(sig) != p.Set.SignatureSize() {
		return ErrSignature
	}
	z, hint, ok := t.decodeSignature(sig)
	if !ok {
		return ErrSignature
	}
	rho, t1 := p.raw[:32], p.raw[32:]
	c := t.sampleInBall(sig[:t.challenge])
	c.ntt()
	for i := range z {
		z[i].ntt()
	}
	x := sha3.NewSHAKE256()
	x.Write(mu)
	packed := make([]byte, 0, dsaN)
	for r := range t.k {
		// w' = NTT^-1(A z - c t1 2^d), one row at a time
		var acc [dsaN]uint64 // at most 8 products below 2^46
		var w dsaPoly
		for s := range t.l {
			a := rejNTTPoly(rho, byte(s), byte(r))
			for i := range acc {
				acc[i] += uint64(a[i]) * uint64(z[s][i])
			}
		}
		unpackT1(&w, t1[320*r:320*(r+1)])
		w.ntt()
		for i := range w {
			w[i] = uint32((acc[i] + uint64(dsaQ-w[i])*uint64(c[i])) % dsaQ)
		}
		w.inverseNTT()
		for i := range w {
			w[i] = uint32(t.useHint(hint[r][i], int32(w[i])))
		}
		packed = w.pack(packed[:0], t.z1Bits)
		x.Write(packed)
	}
	var want [64]byte
	x.Read(want[:t.challenge])
	if subtle.ConstantTimeCompare(want[:t.challenge], sig[:t.challenge]) != 1 {
		return ErrSignature
	}
	return nil
}

// decodeSignature is sigDecode (Algorithm 27) with the norm check on z of
// Algorithm 8 and the checks of HintBitUnpack (Algorithm 21).
func (t *dsaParams) decodeSignature(sig []byte) (z []dsaPoly, hint [][dsaN]bool, ok bool) {
	b := sig[t.challenge:]
	gamma1 := int32(1) << t.gamma1Bits
	bits := t.gamma1Bits + 1
	z = make([]dsaPoly, t.l)
	for i := range z {
		acc, n := uint64(0), 0
		for j := range z[i] {
			for n < bits {
				acc |= uint64(b[0]) << n
				b, n = b[1:], n+8
			}
			v := gamma1 - int32(acc&(1<<bits-1))
			acc >>= bits
			n -= bits
			if v >= gamma1-int32(t.beta) || v <= -(gamma1-int32(t.beta)) {
				return nil, nil, false
			}
			if v < 0 {
				v += dsaQ
			}
			z[i][j] = uint32(v)
		}
	}
	hint = make([][dsaN]bool, t.k)
	index := 0
	for i := range hint {
		end := int(b[t.omega+i])
		if end < index || end > t.omega {
			return nil, nil, false
		}
		for first := index; index < end; index++ {
			if index > first && b[index-1] >= b[index] {
				return nil, nil, false
			}
			hint[i][b[index]] = true
		}
	}
	for _, v := range b[index:t.omega] {
		if v != 0 {
			return nil, nil, false
		}
	}
	return z, hint, true
}

// sampleInBall is Algorithm 29.
func (t *dsaParams) sampleInBall(rho []byte) *dsaPoly {
	x := sha3.NewSHAKE256()
	x.Write(rho)
	var s [8]byte
	x.Read(s[:])
	c := new(dsaPoly)
	for i := dsaN - t.tau; i < dsaN; i++ {
		var j [1]byte
		for x.Read(j[:]); int(j[0]) > i; x.Read(j[:]) {
		}
		c[i] = c[j[0]]
		h := i + t.tau - dsaN
		c[j[0]] = 1
		if s[h/8]>>(h%8)&1 == 1 {
			c[j[0]] = dsaQ - 1
		}
	}
	return c
}

// rejNTTPoly is Algorithm 30 on ρ ‖ s ‖ r (Algorithm 32).
func rejNTTPoly(rho []byte, s, r byte) *dsaPoly {
	x := sha3.NewSHAKE128()
	x.Write(rho)
	x.Write([]byte{s, r})
	a := new(dsaPoly)
	var buf [168]byte // one block of SHAKE128, 56 candidates
	for j := 0; ; {
		x.Read(buf[:])
		for b := buf[:]; len(b) > 0; b = b[3:] {
			v := uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2]&0x7f)<<16
			if v < dsaQ {
				a[j] = v
				if j++; j == dsaN {
					return a
				}
			}
		}
	}
}

// unpackT1 reads 256 coefficients of 10 bits and multiplies them by 2^d.
func unpackT1(p *dsaPoly, b []byte) {
	for i := 0; i < dsaN; i += 4 {
		c := b[5*i/4:]
		v := uint64(c[0]) | uint64(c[1])<<8 | uint64(c[2])<<16 | uint64(c[3])<<24 | uint64(c[4])<<32
		for j := range 4 {
			p[i+j] = uint32(v>>(10*j)&0x3ff) << dsaD
		}
	}
}

// useHint is Algorithm 40 over Decompose (Algorithm 36).
func (t *dsaParams) useHint(h bool, r int32) int32 {
	m := (dsaQ - 1) / (2 * t.gamma2)
	r0 := r % (2 * t.gamma2)
	if r0 > t.gamma2 {
		r0 -= 2 * t.gamma2
	}
	var r1 int32
	if r-r0 == dsaQ-1 {
		r1, r0 = 0, r0-1
	} else {
		r1 = (r - r0) / (2 * t.gamma2)
	}
	switch {
	case h && r0 > 0:
		return (r1 + 1) % m
	case h:
		return (r1 - 1 + m) % m
	}
	return r1
}

// pack is SimpleBitPack (Algorithm 16).
func (p *dsaPoly) pack(out []byte, bits int) []byte {
	acc, n := uint32(0), 0
	for _, v := range p {
		acc |= v << n
		for n += bits; n >= 8; n -= 8 {
			out = append(out, byte(acc))
			acc >>= 8
		}
	}
	return out
}

// zetas holds 1753^brv8(i) mod q (FIPS 204, Appendix B).
var zetas = sync.OnceValue(func() *[dsaN]uint32 {
	var z [dsaN]uint32
	power := uint64(1)
	for i := range dsaN {
		rev := 0
		for b := range 8 {
			rev |= i >> b & 1 << (7 - b)
		}
		z[rev] = uint32(power)
		power = power * 1753 % dsaQ
	}
	return &z
})

// reduceOnce returns v mod q for v below 2q.
func reduceOnce(v uint32) uint32 {
	v -= dsaQ
	return v + dsaQ&-(v>>31)
}

// ntt is Algorithm 41, in place.
func (p *dsaPoly) ntt() {
	z := zetas()
	m := 0
	for size := 128; size >= 1; size /= 2 {
		for start := 0; start < dsaN; start += 2 * size {
			m++
			for j := start; j < start+size; j++ {
				v := uint32(uint64(z[m]) * uint64(p[j+size]) % dsaQ)
				p[j+size] = reduceOnce(p[j] + dsaQ - v)
				p[j] = reduceOnce(p[j] + v)
			}
		}
	}
}

// inverseNTT is Algorithm 42, in place.
func (p *dsaPoly) inverseNTT() {
	z := zetas()
	m := dsaN
	for size := 1; size < dsaN; size *= 2 {
		for start := 0; start < dsaN; start += 2 * size {
			m--
			zeta := uint64(dsaQ - z[m])
			for j := start; j < start+size; j++ {
				v := p[j]
				p[j] = reduceOnce(v + p[j+size])
				p[j+size] = uint32(zeta * uint64(v+dsaQ-p[j+size]) % dsaQ)
			}
		}
	}
	for i := range p {
		p[i] = uint32(uint64(p[i]) * 8347681 % dsaQ) // 256^-1
	}
}
