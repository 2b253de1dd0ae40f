// SPDX-License-Identifier: Apache-2.0

package rot

import (
	"errors"
	"fmt"
	"sync"
)

// N is the degree of the ring Z_q[X]/(X^N + 1).
const N = 512

// Params is a parameter set: a modulus and the common polynomial m. It is
// immutable and safe for concurrent use; both parties must use the same.
type Params struct {
	q       uint32
	barrett uint64    // floor(2^32 / q)
	psi     [N]uint16 // powers of the 2N-th root of unity, bit-reversed order
	psiInv  [N]uint16 // their inverses
	nInv    uint32    // N^-1 mod q
	m       *poly     // common polynomial, NTT domain
}

// The two moduli of the paper's artifact. Both are 1 mod 1024 and 1 mod 4.
const (
	Q13313 = 13313 // the paper's default
	Q15361 = 15361 // what the artifact runs with
)

// root returns the primitive 1024-th root of unity that the artifact uses.
func root(q int) (uint32, bool) {
	switch q {
	case Q13313:
		return 10076, true
	case Q15361:
		return 4989, true
	}
	return 0, false
}

// crsLabel is the public string from which the common polynomial of
// Standard is derived: nothing up our sleeve.
const crsLabel = "holdfast/rot/v1/common polynomial"

var standard = sync.OnceValue(func() map[int]*Params {
	out := map[int]*Params{}
	for _, q := range []int{Q13313, Q15361} {
		p := newParams(q)
		p.m = p.rom1([]byte(crsLabel))
		out[q] = p
	}
	return out
})

// Standard returns the parameter set for modulus q (Q13313 or Q15361) whose
// common polynomial is ROM1("holdfast/rot/v1/common polynomial"), nil for any
// other modulus.
func Standard(q int) *Params { return standard()[q] }

// WithCommonPolynomial returns the parameter set for modulus q with the given
// common polynomial, for peers that agreed on another: 1024 octets, 512
// coefficients of the NTT domain as u16 little-endian, each below q. The
// polynomial must come from a source that neither party controls.
func WithCommonPolynomial(q int, m []byte) (*Params, error) {
	if _, ok := root(q); !ok {
		return nil, fmt.Errorf("rot: modulus %d, want %d or %d", q, Q13313, Q15361)
	}
	p := newParams(q)
	p.m = new(poly)
	if !p.m.decode(p, m) {
		return nil, errors.New("rot: common polynomial is not 512 coefficients below the modulus")
	}
	return p, nil
}

// Modulus returns q.
func (p *Params) Modulus() int { return int(p.q) }

func newParams(q int) *Params {
	r, ok := root(q)
	if !ok {
		panic("rot: unknown modulus")
	}
	p := &Params{q: uint32(q), barrett: (1 << 32) / uint64(q)}
	pow := func(b uint32, e int) uint32 {
		x := uint32(1)
		for range e {
			x = p.reduce(x * b)
		}
		return x
	}
	for i := range N {
		e := 0
		for b := range 9 {
			e |= i >> b & 1 << (8 - b)
		}
		p.psi[i] = uint16(pow(r, e))
		p.psiInv[i] = uint16(pow(r, 2*N-e)) // r^-e
	}
	// N^-1: N divides q-1, so N * (q - (q-1)/N) = N*q - (q-1) = 1 mod q.
	p.nInv = p.q - (p.q-1)/N
	return p
}
