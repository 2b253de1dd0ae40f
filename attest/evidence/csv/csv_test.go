// SPDX-License-Identifier: Apache-2.0

package csv_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"holdfast/attest/evidence"
	"holdfast/attest/evidence/csv"
)

// real reads the public files of a real chip; NOTICE beside them says whose.
func real(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "appraise", "csv", "testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// le writes a number as the firmware does: 32 bytes little-endian, filled to 72.
func le(n [32]byte) []byte {
	slices.Reverse(n[:])
	return append(n[:], make([]byte, 40)...)
}

func TestReal(t *testing.T) {
	r, err := csv.ParseReport(real(t, "report.cert"))
	if err != nil {
		t.Fatal(err)
	}
	major, minor := r.API()
	if r.Version != 1 || r.Serial != "NZA9T14052605" || r.ANonce != 0x1291429b || r.Policy != 0x40000001 || major != 0 || minor != 0x40 ||
		r.SigUsage != csv.UsagePEK || r.SigAlgo != csv.AlgoSM2SA || string(bytes.TrimRight(r.UserData[:], "\x00")) != "user data" ||
		string(r.PEK.UID) != "HYGON-SSD-PEK" || r.PEK.Usage != csv.UsagePEK || r.PEK.Slots[0].Usage != csv.UsageCEK || r.PEK.Slots[1].Usage != csv.UsageOCA {
		t.Errorf("got %+v", r)
	}
	c, err := csv.ParseChain(real(t, "hsk_cek.cert"))
	if err != nil {
		t.Fatal(err)
	}
	if c.HSK.Usage != csv.UsageHSK || string(c.HSK.UID) != "HYGON-SSD-HSK" || c.CEK.Usage != csv.UsageCEK || c.CEK.Slots[1].Usage != csv.UsageNone {
		t.Errorf("got %+v, %+v", c.HSK, c.CEK)
	}
}

func TestTrim(t *testing.T) {
	b := real(t, "report.cert")
	padded := append(slices.Clone(b), make([]byte, 4096-len(b))...)
	if got, err := csv.Trim(padded, false); err != nil || !bytes.Equal(got, b) {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
	padded[4095] = 1
	for name, c := range map[string]struct {
		b        []byte
		extended bool
	}{"a byte after the zeros": {padded, false}, "too short": {b[:100], false}, "no version 2": {b, true}} {
		if got, err := csv.Trim(c.b, c.extended); got != nil || !errors.Is(err, evidence.ErrMalformed) {
			t.Errorf("%s: got %d bytes, %v", name, len(got), err)
		}
	}
}

// TestUnsigned: nothing may hide where no signature reaches.
func TestUnsigned(t *testing.T) {
	chain := real(t, "hsk_cek.cert")
	for _, at := range []int{576 + 144, 831, 832 + 1052 + 144, 832 + 1563, 832 + 1568, 832 + 2083} {
		b := slices.Clone(chain)
		b[at] = 1
		if c, err := csv.ParseChain(b); c != nil || !errors.Is(err, evidence.ErrMalformed) {
			t.Errorf("byte %d: got %v, %v", at, c, err)
		}
	}
}

// FuzzParseReport: what is parsed stands in the bytes where the layout says,
// under the mask; an error means no report.
func FuzzParseReport(f *testing.F) {
	b := real(f, "report.cert")
	f.Add(b)
	f.Add(append(slices.Clone(b), make([]byte, csv.ReportSizeV2-csv.ReportSizeV1)...))
	f.Add(make([]byte, csv.ReportSizeV2))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := csv.ParseReport(b)
		if err != nil {
			if r != nil || !errors.Is(err, evidence.ErrMalformed) {
				t.Fatalf("got %v, %v", r, err)
			}
			return
		}
		mask := make([]byte, 4)
		if r.Version == 1 {
			binary.LittleEndian.PutUint32(mask, r.ANonce)
		}
		at := map[int][]byte{0: r.UserPubkeyDigest[:], 0x20: r.VMID[:], 0x30: r.VMVersion[:], 0x40: r.UserData[:], 0x80: r.MNonce[:], 0x90: r.Measure[:],
			0xb0: binary.LittleEndian.AppendUint32(nil, r.Policy), 0xb4: binary.LittleEndian.AppendUint32(nil, r.SigUsage), 0xb8: binary.LittleEndian.AppendUint32(nil, r.SigAlgo)}
		sig := 0xc0
		if r.Version == 1 {
			at[0x150], at[0x974] = r.PEK.Bytes(), []byte(r.Serial)
		} else {
			at[0x490], at[0xcb4], sig = r.PEK.Bytes(), []byte(r.Serial), 0x400
		}
		for off, field := range at {
			for i, c := range field {
				if b[off+i]^mask[(off+i)%4] != c {
					t.Fatalf("the field at %#x is not what the bytes say", off)
				}
			}
		}
		if !bytes.Equal(b[sig:sig+144], append(le(r.Signature.R), le(r.Signature.S)...)) || !bytes.HasPrefix(b, r.Signed()) || !bytes.Equal(r.Bytes(), b) {
			t.Fatal("signature or signed bytes are not what the bytes say")
		}
	})
}

// FuzzParseChain: as FuzzParseReport.
func FuzzParseChain(f *testing.F) {
	f.Add(real(f, "hsk_cek.cert"))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := csv.ParseChain(b)
		if err != nil {
			if c != nil || !errors.Is(err, evidence.ErrMalformed) {
				t.Fatalf("got %v, %v", c, err)
			}
			return
		}
		if !bytes.Equal(append(slices.Clone(c.HSK.Bytes()), c.CEK.Bytes()...), b) {
			t.Fatal("the certificates are not the input")
		}
		if !bytes.Equal(b[68:212], append(le(c.HSK.Key.X), le(c.HSK.Key.Y)...)) || !bytes.Equal(b[832+20:832+164], append(le(c.CEK.Key.X), le(c.CEK.Key.Y)...)) {
			t.Fatal("a key is not what the bytes say")
		}
	})
}
