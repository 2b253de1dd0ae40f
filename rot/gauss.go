// SPDX-License-Identifier: Apache-2.0

package rot

import (
	"encoding/binary"
	"io"
	"math/bits"

	"lukechampine.com/blake3"
)

// thresholds holds, for the discrete Gaussian with standard deviation 2 (weight
// exp(-x^2/8)), the numbers 2^127 * P(|X| <= i), rounded, as 64 high and 63 low
// bits. What lies beyond |x| = 26 has probability below 2^-127. A test computes
// the table again.
var thresholds = [...][2]uint64{
	{0x33108a67a86ca11a, 0x0fcb3c500bab809b}, // |x| <= 0
	{0x8d317e702a8751bf, 0x26ddf1763207bdad}, // |x| <= 1
	{0xcb23498c90b5c0a0, 0x6a6ae3c5a37e9525}, // |x| <= 2
	{0xec4b5a3a34f2c976, 0x617e9de8ec7eb1e6}, // |x| <= 3
	{0xfa1db455a91033ad, 0x7a1c950b61a61b47}, // |x| <= 4
	{0xfe9a706b08e4c937, 0x0cc0335aa3830771}, // |x| <= 5
	{0xffbce27f065c31c0, 0x4e5ad7d99ee135fa}, // |x| <= 6
	{0xfff613aea8ebfdfe, 0x7dc53838c9fe64fe}, // |x| <= 7
	{0xfffed8fb1a4c5859, 0x184ed0635dfcc7e7}, // |x| <= 8
	{0xffffe524bf802915, 0x3fe38b8500c49b7c}, // |x| <= 9
	{0xfffffe1628e4f212, 0x5f75afceb4cece7d}, // |x| <= 10
	{0xffffffe4b7a88463, 0x2b1f6534263af4b2}, // |x| <= 11
	{0xfffffffed0298033, 0x6f1d884e5189ff7d}, // |x| <= 12
	{0xfffffffff5aed6e2, 0x1311504837d7479f}, // |x| <= 13
	{0xffffffffffba08db, 0x5a7da2fc63b6df13}, // |x| <= 14
	{0xfffffffffffe8dfc, 0x3f2d7a3d44e60406}, // |x| <= 15
	{0xfffffffffffffa0a, 0x38fdc47ee8641207}, // |x| <= 16
	{0xffffffffffffffec, 0x6cc749d95d201317}, // |x| <= 17
	{0xffffffffffffffff, 0x68057916aa3ca043}, // |x| <= 18
	{0xffffffffffffffff, 0x7fd1360e47671247}, // |x| <= 19
	{0xffffffffffffffff, 0x7fffb8ded4d0bdfa}, // |x| <= 20
	{0xffffffffffffffff, 0x7fffffabc2e80189}, // |x| <= 21
	{0xffffffffffffffff, 0x7fffffffb249486c}, // |x| <= 22
	{0xffffffffffffffff, 0x7fffffffffc82793}, // |x| <= 23
	{0xffffffffffffffff, 0x7fffffffffffe0be}, // |x| <= 24
	{0xffffffffffffffff, 0x7ffffffffffffff2}, // |x| <= 25
}

// sampleOctets is what one coefficient takes from the random stream: 127 bits
// for the magnitude and one for the sign.
const sampleOctets = 16

// gaussian returns one sample in [-26, 26] from 16 random octets. It compares
// with every threshold and adds up borrows, so its time is constant.
func gaussian(b []byte) int32 {
	hi, lo := binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
	sign := int32(lo & 1)
	lo >>= 1
	x := int32(0)
	for i := range thresholds {
		_, c := bits.Sub64(lo, thresholds[i][1], 0)
		_, c = bits.Sub64(hi, thresholds[i][0], c)
		x += int32(1 - c) // no borrow: the number is not below the threshold
	}
	return (x ^ -sign) + sign
}

// sample fills dst with scale times a Gaussian per coefficient (scale is 1 for
// secrets, 2 for errors), reduced into [0, q).
func (p *Params) sample(dst *poly, scale int32, stream io.Reader) {
	var buf [N * sampleOctets]byte
	defer clear(buf[:])
	io.ReadFull(stream, buf[:]) // an XOF does not fail
	for i := range dst {
		x := scale * gaussian(buf[sampleOctets*i:])
		dst[i] = uint16(uint32(x) + p.q&uint32(x>>31))
	}
}

// expand turns 32 octets of entropy from rand into a stream (BLAKE3 in its
// keyed mode), so that one read of the random source feeds a whole run.
func expand(rand io.Reader) (io.Reader, error) {
	var seed [32]byte
	defer clear(seed[:])
	if _, err := io.ReadFull(rand, seed[:]); err != nil {
		return nil, err
	}
	h := blake3.New(32, seed[:])
	h.Write([]byte("holdfast/rot/v1/random"))
	return h.XOF(), nil
}
