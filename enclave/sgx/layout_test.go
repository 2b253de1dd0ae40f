// SPDX-License-Identifier: Apache-2.0

package sgx

import (
	"bytes"
	"errors"
	"testing"
)

// structure is one layout with a good example and its reserved ranges, typed
// from the SDM's tables (not from the code).
type structure struct {
	name     string
	size     int
	good     func() []byte
	parse    func([]byte) (again func([]byte) []byte, err error)
	reserved [][2]int
}

func structures() []structure {
	secs := SECS{Size: 0x10000, BaseAddr: 0x7f0000000000, SSAFrameSize: 1, MiscSelect: MiscExInfo,
		Attributes: Attributes{FlagMode64 | FlagDebug | FlagKSS, 7}, ConfigID: [64]byte{1, 2}, ISVProdID: 3, ISVSVN: 4, ConfigSVN: 5, MREnclave: [32]byte{6}, MRSigner: [32]byte{7}}
	tcs := TCS{Flags: TCSAEXNotify, OSSA: 0x3000, CSSA: 0, NSSA: 2, OEntry: 0x1234, OFSBase: 0x5000, OGSBase: 0x6000, FSLimit: 0xffff, GSLimit: 0xfff}
	sig := SigStruct{Vendor: 0x8086, Date: 0x20261130, SWDefined: 9, MiscSelect: 1, MiscMask: 1, Attributes: Attributes{FlagMode64, 3},
		AttrMask: Attributes{^FlagDebug, 0xfb}, EnclaveHash: [32]byte{1}, ISVProdID: 2, ISVSVN: 3, ISVFamilyID: [16]byte{4}, ISVExtProdID: [16]byte{5},
		Modulus: [384]byte{6}, Signature: [384]byte{7}, Q1: [384]byte{8}, Q2: [384]byte{9}}
	rep := Report{CPUSVN: [16]byte{1}, MiscSelect: 1, ISVExtProdID: [16]byte{2}, Attributes: Attributes{FlagInit | FlagMode64, 3}, MREnclave: [32]byte{3},
		MRSigner: [32]byte{4}, ConfigID: [64]byte{5}, ISVProdID: 6, ISVSVN: 7, ConfigSVN: 8, ISVFamilyID: [16]byte{9}, ReportData: [64]byte{10}, KeyID: [32]byte{11}, MAC: [16]byte{12}}
	ti := TargetOf(&rep)
	kr := KeyRequest{Name: KeySeal, Policy: PolicyMRSigner | PolicyConfigID, ISVSVN: 3, CPUSVN: [16]byte{1}, AttrMask: Attributes{0xf, 3}, KeyID: [32]byte{2}, MiscMask: 5, ConfigSVN: 6}
	si := SecInfo{PermR | PermX, PageREG}
	return []structure{
		{"SECS", 4096, func() []byte { return secs.AppendTo(nil) }, func(b []byte) (func([]byte) []byte, error) {
			s, err := ParseSECS(b)
			return func(x []byte) []byte { return s.AppendTo(x) }, err
		}, [][2]int{{24, 48}, {96, 128}, {160, 192}, {262, 4096}}},
		{"TCS", 4096, func() []byte { return tcs.AppendTo(nil) }, func(b []byte) (func([]byte) []byte, error) {
			s, err := ParseTCS(b)
			return func(x []byte) []byte { return s.AppendTo(x) }, err
		}, [][2]int{{0, 8}, {72, 4096}}},
		{"SIGSTRUCT", 1808, func() []byte { return sig.AppendTo(nil) }, func(b []byte) (func([]byte) []byte, error) {
			s, err := ParseSigStruct(b)
			return func(x []byte) []byte { return s.AppendTo(x) }, err
		}, [][2]int{{0, 16}, {24, 40}, {44, 128}, {512, 516}, {908, 912}, {992, 1008}, {1028, 1040}}},
		{"REPORT", 432, func() []byte { return rep.AppendTo(nil) }, func(b []byte) (func([]byte) []byte, error) {
			s, err := ParseReport(b)
			return func(x []byte) []byte { return s.AppendTo(x) }, err
		}, [][2]int{{20, 32}, {96, 128}, {160, 192}, {262, 304}}},
		{"TARGETINFO", 512, func() []byte { return ti.AppendTo(nil) }, func(b []byte) (func([]byte) []byte, error) {
			s, err := ParseTargetInfo(b)
			return func(x []byte) []byte { return s.AppendTo(x) }, err
		}, [][2]int{{48, 50}, {56, 64}, {128, 512}}},
		{"KEYREQUEST", 512, func() []byte { return kr.AppendTo(nil) }, func(b []byte) (func([]byte) []byte, error) {
			s, err := ParseKeyRequest(b)
			return func(x []byte) []byte { return s.AppendTo(x) }, err
		}, [][2]int{{6, 8}, {78, 512}}},
		{"SECINFO", 64, func() []byte { return si.AppendTo(nil) }, func(b []byte) (func([]byte) []byte, error) {
			s, err := ParseSecInfo(b)
			return s.AppendTo, err
		}, [][2]int{{2, 64}}},
	}
}

func TestLayouts(t *testing.T) {
	for _, s := range structures() {
		t.Run(s.name, func(t *testing.T) {
			good := s.good()
			if len(good) != s.size {
				t.Fatalf("size %d, want %d", len(good), s.size)
			}
			again, err := s.parse(good)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(again(nil), good) {
				t.Error("parse and append do not give the same bytes")
			}
			for _, n := range []int{0, s.size - 1, s.size + 1} {
				if _, err := s.parse(make([]byte, n)); err == nil {
					t.Errorf("%d bytes were accepted", n)
				}
			}
			reserved := make([]bool, s.size)
			for _, r := range s.reserved {
				for i := r[0]; i < r[1]; i++ {
					reserved[i] = true
				}
			}
			for i := range good {
				bad := bytes.Clone(good)
				bad[i] ^= 0x80
				again, err := s.parse(bad)
				var le *LayoutError
				switch {
				case reserved[i] && err == nil:
					t.Errorf("reserved byte %d was changed and accepted", i)
				case err != nil && !errors.As(err, &le):
					t.Errorf("byte %d: error %v is no LayoutError", i, err)
				case err == nil && !bytes.Equal(again(nil), bad):
					t.Errorf("byte %d is not carried", i)
				}
			}
		})
	}
}

func TestECREATEChecks(t *testing.T) {
	base := SECS{Size: 0x2000, BaseAddr: 0x4000, SSAFrameSize: 1, Attributes: Attributes{FlagMode64, 3}}
	for name, change := range map[string]func(*SECS){
		"size not a power of two": func(s *SECS) { s.Size = 0x3000 },
		"one page":                func(s *SECS) { s.Size = 0x1000 },
		"base not aligned":        func(s *SECS) { s.BaseAddr = 0x5000 },
		"no SSA frame":            func(s *SECS) { s.SSAFrameSize = 0 },
		"reserved MISCSELECT":     func(s *SECS) { s.MiscSelect = 2 },
		"reserved attribute":      func(s *SECS) { s.Attributes.Flags |= 1 << 3 },
		"INIT set":                func(s *SECS) { s.Attributes.Flags |= FlagInit },
		"XFRM without SSE":        func(s *SECS) { s.Attributes.XFRM = 1 },
		"CONFIGID without KSS":    func(s *SECS) { s.ConfigID[5] = 1 },
		"CONFIGSVN without KSS":   func(s *SECS) { s.ConfigSVN = 1 },
	} {
		s := base
		change(&s)
		if _, err := ParseSECS(s.AppendTo(nil)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := ParseSECS(base.AppendTo(nil)); err != nil {
		t.Error(err)
	}
}

func TestGPR(t *testing.T) {
	var b [GPRSize]byte
	for i := range b {
		b[i] = byte(i)
	}
	b[164], b[165], b[166] = 0, 0, 0 // reserved, written as zero
	g, err := ParseGPR(b[:])
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(g.AppendTo(nil), b[:]) {
		t.Error("parse and append differ")
	}
	// Offsets of the SDM's table.
	if g.RDI != 0x3f3e3d3c3b3a3938 || g.RIP != 0x8f8e8d8c8b8a8988 || g.URSP != 0x9796959493929190 || g.AEXNotify != 167 || g.GSBase != 0xb7b6b5b4b3b2b1b0 {
		t.Errorf("offsets are wrong: %+x", g)
	}
	e := NewExitInfo(VectorPF, ExitHardware)
	if uint32(e) != 0x8000030e || !e.Valid() || e.Vector() != 14 || e.Type() != 3 {
		t.Errorf("EXITINFO %#x", uint32(e))
	}
	if Reported(VectorPF, 0) || !Reported(VectorPF, MiscExInfo) || !Reported(VectorUD, 0) || Reported(2, MiscExInfo) {
		t.Error("Reported does not follow the table of vectors")
	}
	if GPROffset(1) != 3912 || ExInfoOffset(1) != 3896 || CheckFrame(1, MiscExInfo, 3897) == nil || CheckFrame(1, 0, 3897) != nil {
		t.Error("offsets in the SSA frame are wrong")
	}
}

func FuzzStructures(f *testing.F) {
	all := structures()
	for i, s := range all {
		f.Add(uint8(i), s.good())
	}
	f.Fuzz(func(t *testing.T, i uint8, b []byte) {
		s := all[int(i)%len(all)]
		again, err := s.parse(b)
		if err == nil && !bytes.Equal(again(nil), b) {
			t.Errorf("%s: accepted bytes do not come out again", s.name)
		}
	})
}
