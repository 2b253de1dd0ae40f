// SPDX-License-Identifier: Apache-2.0

package rot

import (
	"crypto/subtle"
	"encoding/binary"

	"lukechampine.com/blake3"
)

// hash is the protocol's H: BLAKE3 with 32 octets.
func hash(b []byte) [32]byte { return blake3.Sum256(b) }

// hashPoly is H over the wire form of a polynomial.
func hashPoly(a *poly) [32]byte {
	b := a.append(make([]byte, 0, polySize))
	defer clear(b)
	return hash(b)
}

// rom1 maps a public string to a uniform polynomial, taken as one of the NTT
// domain: with a = H(x), block j is H(a ‖ j) read as a string of bits from the
// lowest on, 18 words of 14 bits each, of which those below q are kept. Its time
// depends on x, which is public.
func (p *Params) rom1(x []byte) *poly {
	a := hash(x)
	out := new(poly)
	in := append(a[:], 0)
	n := 0
	for j := 0; j < 256; j++ { // 36 blocks are typical
		in[32] = byte(j)
		b := hash(in)
		for w := range 18 {
			bit := 14 * w
			v := uint32(b[bit/8]) | uint32(b[bit/8+1])<<8
			if bit/8+2 < len(b) {
				v |= uint32(b[bit/8+2]) << 16
			}
			if v = v >> (bit % 8) & 0x3fff; v < p.q {
				out[n] = uint16(v)
				if n++; n == N {
					return out
				}
			}
		}
	}
	// 256 blocks hold 4608 words, each kept with probability above 0.8.
	panic("rot: BLAKE3 does not look uniform")
}

// output is H(sid ‖ (K16(sk) ^ mask ^ u)), K16 being the first 128 bits of sk
// packed from the lowest bit on.
func output(sid uint32, sk *poly, mask, u *[16]byte) [32]byte {
	var in [20]byte
	defer clear(in[:])
	binary.LittleEndian.PutUint32(in[:], sid)
	k := in[4:]
	for i := range 128 {
		k[i/8] |= byte(sk[i]) << (i % 8)
	}
	subtle.XORBytes(k, k, mask[:])
	subtle.XORBytes(k, k, u[:])
	return hash(in[:])
}
