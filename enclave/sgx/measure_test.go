// SPDX-License-Identifier: Apache-2.0

package sgx

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"
)

// TestMeasurement: the value was computed with Python's hashlib and struct from
// the SDM's pseudo-code:
//
//	h = sha256(b"ECREATE\0" + pack("<IQ", 1, 0x4000) + bytes(44))
//	h += b"EADD\0\0\0\0" + pack("<QQ", 0, 0x205) + bytes(40)
//	for i in range(16): h += b"EEXTEND\0" + pack("<Q", 256*i) + bytes(48) + bytes([i])*256
//	h += b"EADD\0\0\0\0" + pack("<QQ", 0x1000, 0x100) + bytes(40)
func TestMeasurement(t *testing.T) {
	m := NewMeasurement()
	m.Create(1, 0x4000)
	m.Add(0, SecInfo{PermR | PermX, PageREG})
	var page [PageSize]byte
	for i := range page {
		page[i] = byte(i / 256)
	}
	m.ExtendPage(0, &page)
	m.Add(0x1000, SecInfo{PermRWX, PageTCS}) // permissions of a TCS count as zero
	got := m.Sum()
	const want = "188ba9252d94eaf239d7c25d61083bbeedff64eed74633f673a355f21a10c655"
	if hex.EncodeToString(got[:]) != want {
		t.Errorf("MRENCLAVE %x, want %s", got, want)
	}
	if m.Sum() != got {
		t.Error("Sum changes the measurement")
	}
}

// TestMeasurementIsSGXS: what is hashed is the .sgxs stream.
func TestMeasurementIsSGXS(t *testing.T) {
	var stream []byte
	b := make([]byte, 64)
	copy(b, "ECREATE\x00")
	le.PutUint32(b[8:], 2)
	le.PutUint64(b[12:], 0x8000)
	stream = append(stream, b...)
	m := NewMeasurement()
	m.Create(2, 0x8000)
	if m.Sum() != sha256.Sum256(stream) {
		t.Error("the ECREATE block differs from the .sgxs format")
	}
}
