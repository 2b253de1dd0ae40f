// SPDX-License-Identifier: Apache-2.0

package rot

import "encoding/binary"

// poly is an element of the ring, coefficients below q. Whether it is in the
// coefficient or the NTT domain, the code around it says.
//
// All arithmetic here is straight-line code over all coefficients: additions,
// multiplications and masks, no branch and no index that depends on a
// coefficient. That is why it is constant time.
type poly [N]uint16

// polySize is the size of a polynomial on the wire: u16 little-endian.
const polySize = 2 * N

// below returns 1 if a < b, else 0, for a and b below 2^31.
func below(a, b uint32) uint32 { return (a - b) >> 31 }

// reduceOnce returns a mod q for a below 2q.
func (p *Params) reduceOnce(a uint32) uint32 {
	a -= p.q
	return a + p.q&-(a>>31)
}

// reduce returns a mod q for any a (Barrett): the estimated quotient is at most
// one short of the true one.
func (p *Params) reduce(a uint32) uint32 {
	return p.reduceOnce(a - uint32(uint64(a)*p.barrett>>32)*p.q)
}

func (p *Params) add(dst, a, b *poly) {
	for i := range dst {
		dst[i] = uint16(p.reduceOnce(uint32(a[i]) + uint32(b[i])))
	}
}

func (p *Params) sub(dst, a, b *poly) {
	for i := range dst {
		dst[i] = uint16(p.reduceOnce(uint32(a[i]) + p.q - uint32(b[i])))
	}
}

// mul is the product of two elements of the NTT domain.
func (p *Params) mul(dst, a, b *poly) {
	for i := range dst {
		dst[i] = uint16(p.reduce(uint32(a[i]) * uint32(b[i])))
	}
}

// ntt goes from coefficients to the NTT domain in place: the result at k is
// a(psi^(2*brv9(k)+1)), brv9 reversing nine bits; not scaled.
func (p *Params) ntt(a *poly) {
	k := 1
	for size := N / 2; size >= 1; size /= 2 {
		for start := 0; start < N; start += 2 * size {
			w := uint32(p.psi[k])
			k++
			for j := start; j < start+size; j++ {
				v := p.reduce(w * uint32(a[j+size]))
				u := uint32(a[j])
				a[j] = uint16(p.reduceOnce(u + v))
				a[j+size] = uint16(p.reduceOnce(u + p.q - v))
			}
		}
	}
}

// inverseNTT is the inverse of ntt.
func (p *Params) inverseNTT(a *poly) {
	for size := 1; size < N; size *= 2 {
		k := N / 2 / size
		for start := 0; start < N; start += 2 * size {
			w := uint32(p.psiInv[k])
			k++
			for j := start; j < start+size; j++ {
				u, v := uint32(a[j]), uint32(a[j+size])
				a[j] = uint16(p.reduceOnce(u + v))
				a[j+size] = uint16(p.reduce(w * (u + p.q - v)))
			}
		}
	}
	for i := range a {
		a[i] = uint16(p.reduce(uint32(a[i]) * p.nInv))
	}
}

// append appends the wire form.
func (a *poly) append(b []byte) []byte {
	for _, c := range a {
		b = binary.LittleEndian.AppendUint16(b, c)
	}
	return b
}

// decode reads the wire form and reports whether it has the right size and all
// coefficients are below q. It looks at all of them in any case.
func (a *poly) decode(p *Params, b []byte) bool {
	if len(b) != polySize {
		return false
	}
	ok := uint32(1)
	for i := range a {
		a[i] = binary.LittleEndian.Uint16(b[2*i:])
		ok &= below(uint32(a[i]), p.q)
	}
	return ok == 1
}
