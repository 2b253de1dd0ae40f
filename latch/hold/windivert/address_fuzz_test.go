// SPDX-License-Identifier: Apache-2.0

package windivert

import (
	"slices"
	"testing"
)

// FuzzAddress: what the driver hands over is written back bit for bit, but for
// what its documentation calls reserved; what is refused is empty.
func FuzzAddress(f *testing.F) {
	good := (&Address{Timestamp: 7, Outbound: true, TCPChecksum: true, Interface: 3, Subinterface: 1}).Encode()
	f.Add(good[:])
	f.Add(slices.Repeat([]byte{0xff}, AddressSize))
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) < AddressSize {
			return
		}
		b := [AddressSize]byte(in)
		a, err := DecodeAddress(&b)
		if err != nil {
			if a != (Address{}) || b[8] == 0 && b[9] == 0 {
				t.Fatalf("%x: %+v, %v", b, a, err)
			}
			return
		}
		out := a.Encode()
		for i := range b {
			if known := i < 11 || i >= 16 && i < 24; known && out[i] != b[i] {
				t.Fatalf("byte %d: %x becomes %x", i, b, out)
			}
		}
	})
}
