// SPDX-License-Identifier: Apache-2.0

package csv

import (
	"crypto/hmac"
	"crypto/rand"
	"encoding/binary"
	"slices"
	"testing"

	"github.com/emmansun/gmsm/sm2"
	"github.com/emmansun/gmsm/sm3"

	"holdfast/attest/evidence"
	"holdfast/attest/evidence/csv"
)

// key is a key of the test's own hierarchy with its user id.
type key struct {
	*sm2.PrivateKey
	uid string
}

func newKey(t testing.TB, uid string) key {
	t.Helper()
	k, err := sm2.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key{k, uid}
}

// put writes a big-endian number of 32 bytes as the firmware does.
func put(at []byte, n []byte) {
	le := slices.Clone(n)
	slices.Reverse(le)
	copy(at, le)
}

func (k key) public(at []byte) {
	x, y := make([]byte, 32), make([]byte, 32)
	put(at, k.X.FillBytes(x))
	put(at[72:], k.Y.FillBytes(y))
}

// sign signs a message with k's user id; at has room for R and S of 72 bytes each.
func (k key) sign(t testing.TB, at, message []byte) {
	t.Helper()
	h, err := sm2.CalculateSM2Hash(&k.PublicKey, message, []byte(k.uid))
	if err != nil {
		t.Fatal(err)
	}
	r, s, err := sm2.Sign(rand.Reader, &k.PrivateKey.PrivateKey, h)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 32)
	put(at, r.FillBytes(b))
	put(at[72:], s.FillBytes(b))
}

// hierarchy is a maker of chips of the test's own, with one chip.
type hierarchy struct {
	hrk, hsk, cek, pek   key
	root, hskCert        []byte
	cekCert, pekCert     []byte
	userPubkey, measured [32]byte
}

func rootCert(t testing.TB, k, by key, id, signer byte, usage uint32) []byte {
	b := make([]byte, csv.RootCertSize)
	binary.LittleEndian.PutUint32(b, 1)
	b[4], b[20] = id, signer
	binary.LittleEndian.PutUint32(b[36:], usage)
	binary.LittleEndian.PutUint32(b[64:], csv.CurveSM2)
	k.public(b[68:])
	binary.LittleEndian.PutUint16(b[212:], uint16(len(k.uid)))
	copy(b[214:], k.uid)
	by.sign(t, b[576:], b[:576])
	return b
}

func chipCert(t testing.TB, k, by key, usage, signer uint32) []byte {
	b := make([]byte, csv.ChipCertSize)
	binary.LittleEndian.PutUint32(b, 1)
	binary.LittleEndian.PutUint32(b[8:], usage)
	binary.LittleEndian.PutUint32(b[12:], csv.AlgoSM2SA)
	binary.LittleEndian.PutUint32(b[16:], csv.CurveSM2)
	k.public(b[20:])
	binary.LittleEndian.PutUint16(b[164:], uint16(len(k.uid)))
	copy(b[166:], k.uid)
	binary.LittleEndian.PutUint32(b[1044:], signer)
	binary.LittleEndian.PutUint32(b[1048:], csv.AlgoSM2SA)
	by.sign(t, b[1052:], b[:1044])
	binary.LittleEndian.PutUint32(b[1564:], csv.UsageNone)
	return b
}

func newHierarchy(t testing.TB) *hierarchy {
	t.Helper()
	h := &hierarchy{hrk: newKey(t, "TEST-HRK"), hsk: newKey(t, "TEST-HSK"), cek: newKey(t, "TEST-CEK"), pek: newKey(t, "TEST-PEK")}
	h.root = rootCert(t, h.hrk, h.hrk, 1, 1, csv.UsageHRK)
	h.hskCert = rootCert(t, h.hsk, h.hrk, 2, 1, csv.UsageHSK)
	h.cekCert = chipCert(t, h.cek, h.hsk, csv.UsageCEK, csv.UsageHSK)
	h.pekCert = chipCert(t, h.pek, h.cek, csv.UsagePEK, csv.UsageCEK)
	h.measured = [32]byte{7, 7, 7}
	return h
}

func (h *hierarchy) chain() []byte { return append(slices.Clone(h.hskCert), h.cekCert...) }

// report makes a report of a version, signed and masked as the firmware does.
func (h *hierarchy) report(t testing.TB, version int, policy uint32, data evidence.ReportData) []byte {
	t.Helper()
	size, signed, sigAt, pek, serial, mac := csv.ReportSizeV1, 0xb4, 0xc0, 0x150, 0x974, 0x9d4
	if version == 2 {
		size, signed, sigAt, pek, serial, mac = csv.ReportSizeV2, 0x400, 0x400, 0x490, 0xcb4, 0xd14
	}
	b := make([]byte, size)
	copy(b, h.userPubkey[:])
	copy(b[0x40:], data[:])
	nonce := b[0x80:0x90]
	if _, err := rand.Read(nonce); err != nil {
		t.Fatal(err)
	}
	nonce = slices.Clone(nonce)
	copy(b[0x90:], h.measured[:])
	binary.LittleEndian.PutUint32(b[0xb0:], policy)
	binary.LittleEndian.PutUint32(b[0xb4:], csv.UsagePEK)
	binary.LittleEndian.PutUint32(b[0xb8:], csv.AlgoSM2SA)
	copy(b[pek:], h.pekCert)
	copy(b[serial:], "TEST0001")
	if version == 1 {
		mask := []byte{0x11, 0x22, 0x33, 0x44}
		for _, part := range [][]byte{b[:0xbc], b[pek:mac]} {
			for i := range part {
				part[i] ^= mask[i%4]
			}
		}
		copy(b[0xbc:], mask)
	} else {
		binary.LittleEndian.PutUint32(b[0xbc:], 2337)
	}
	h.pek.sign(t, b[sigAt:], b[:signed])
	m := hmac.New(sm3.New, nonce)
	m.Write(b[pek:mac])
	copy(b[mac:], m.Sum(nil))
	return b
}
