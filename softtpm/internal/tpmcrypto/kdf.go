// SPDX-License-Identifier: Apache-2.0

package tpmcrypto

import (
	"crypto/subtle"
	"encoding/binary"
)

// KDFa derives bits bits from key: the KDF in counter mode of SP 800-108 with
// HMAC (Part 1, "KDFa()"). The label is followed by one zero octet, which the
// caller does not give. The result has ceil(bits/8) octets; when bits is not a
// multiple of 8 the unused high bits of the first octet are zero. The result
// is nil if h is not Available or bits is not positive.
func KDFa(h Hash, key []byte, label string, contextU, contextV []byte, bits int) []byte {
	if !h.Available() || bits <= 0 {
		return nil
	}
	m := NewHMAC(h, key)
	n := (bits + 7) / 8
	out := make([]byte, 0, n+h.Size())
	var counter, length [4]byte
	binary.BigEndian.PutUint32(length[:], uint32(bits))
	for i := uint32(1); len(out) < n; i++ {
		binary.BigEndian.PutUint32(counter[:], i)
		m.Reset()
		m.Write(counter[:])
		m.Write([]byte(label))
		m.Write([]byte{0})
		m.Write(contextU)
		m.Write(contextV)
		m.Write(length[:])
		out = m.Sum(out)
	}
	return cut(out, n, bits)
}

// KDFe derives bits bits from the x-coordinate z of an ECDH result: the
// concatenation KDF of SP 800-56A (Part 1, "KDFe for ECDH"). z keeps its
// leading zeros (size of a field element). Label and result as for KDFa.
func KDFe(h Hash, z []byte, label string, partyU, partyV []byte, bits int) []byte {
	if !h.Available() || bits <= 0 {
		return nil
	}
	d := h.New()
	n := (bits + 7) / 8
	out := make([]byte, 0, n+h.Size())
	var counter [4]byte
	for i := uint32(1); len(out) < n; i++ {
		binary.BigEndian.PutUint32(counter[:], i)
		d.Reset()
		d.Write(counter[:])
		d.Write(z)
		d.Write([]byte(label))
		d.Write([]byte{0})
		d.Write(partyU)
		d.Write(partyV)
		out = d.Sum(out)
	}
	return cut(out, n, bits)
}

// cut shortens the blocks of a KDF to n octets that hold bits bits, and
// clears the rest.
func cut(out []byte, n, bits int) []byte {
	clear(out[n:])
	out = out[:n:n]
	if r := bits % 8; r != 0 {
		out[0] &= 1<<r - 1
	}
	return out
}

// MGF1 returns n octets of the mask generation function of RFC 8017, B.2.1,
// nil if h is not Available.
func MGF1(h Hash, seed []byte, n int) []byte {
	if !h.Available() || n < 0 {
		return nil
	}
	d := h.New()
	out := make([]byte, 0, n+h.Size())
	var counter [4]byte
	for i := uint32(0); len(out) < n; i++ {
		binary.BigEndian.PutUint32(counter[:], i)
		d.Reset()
		d.Write(seed)
		d.Write(counter[:])
		out = d.Sum(out)
	}
	return out[:n:n]
}

// XORObfuscate encrypts or decrypts data in place with the mask
// KDFa(h, key, "XOR", nonceNewer, nonceOlder, 8*len(data)) (Part 1, "XOR
// Obfuscation").
func XORObfuscate(h Hash, key, nonceNewer, nonceOlder, data []byte) {
	if len(data) == 0 {
		return
	}
	mask := KDFa(h, key, "XOR", nonceNewer, nonceOlder, 8*len(data))
	if mask == nil {
		// A caller that got here would send plain text: fail loudly.
		panic("tpmcrypto: XOR obfuscation with a hash that is not implemented")
	}
	subtle.XORBytes(data, data, mask)
	clear(mask)
}
