// SPDX-License-Identifier: Apache-2.0

//go:build linux && amd64

package kvm

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

func TestIllegal(t *testing.T) {
	for _, c := range []struct {
		op   string
		want bool
	}{
		{"\x0f\xa2", true}, {"\x48\x0f\xa2", true}, {"\x66\x0f\xa2", true}, {"\x0f\x31", true}, {"\x0f\x01\xf9", true},
		{"\x0f\x01\x04\x24", true}, {"\x0f\x01\x0c\x24", true}, {"\x0f\x01\xe0", true}, {"\x0f\x00\xc0", true}, {"\x0f\x00\xc8", true},
		{"\xcd\x80", true}, {"\xe4\x80", true}, {"\xee", true}, {"\xf3\x6c", true}, {"\x8e\xd8", true}, {"\x48\xcf", true}, {"\xff\x28", true}, {"\xff\x18", true},
		{"\x0f\x34", true}, {"\x0f\x05", true}, {"\x0f\x33", true}, {"\x0f\x01\xc1", true}, {"\x0f\x01\xd9", true},
		{"", false}, {"\x66", false}, {"\x48", false}, {"\x0f", false}, {"\x0f\x01", false}, {"\xf4", false}, {"\x0f\x32", false}, {"\x0f\x30", false}, {"\xcc", false}, {"\xff\xd0", false},
		{"\x48\x8b\x00", false}, {"\x0f\x00\xd0", false}, {"\x0f\x01\x10", false}, {"\x0f\x0b", false}, {"\xff\x10", false}, {"\xe8", false},
	} {
		if got := illegal([]byte(c.op)); got != c.want {
			t.Errorf("% x: %v", c.op, got)
		}
	}
}

// TestStub: stub.go's offsets are those of the code.
func TestStub(t *testing.T) {
	if len(code) != 4096 || code[codeStop] != 0xf4 || code[codeSyscall] != 0xf4 || code[codeFlush] != 0x50 || code[codeResume] != 0x50 {
		t.Error("the offsets are not those of stub.bin")
	}
	for v := range 32 {
		b := code[16*v:]
		b = bytes.TrimPrefix(b[:16], []byte{0x6a, 0, 0x6a})
		b = bytes.TrimPrefix(b, []byte{0x6a})
		if b[0] != byte(v) || b[1] != 0xe9 && b[1] != 0xeb { // JMP, of two lengths
			t.Errorf("vector %d: % x", v, code[16*v:][:8])
		}
	}
	oc, err := exec.LookPath("objcopy")
	if err != nil {
		t.Skip("SKIP[binutils]: no objcopy on this machine")
	}
	dir := t.TempDir()
	o, bin := filepath.Join(dir, "stub.o"), filepath.Join(dir, "stub.bin")
	if out, err := exec.Command("as", "-o", o, "testdata/stub.s").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out, err := exec.Command(oc, "-O", "binary", "-j", ".text", o, bin).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if got, err := os.ReadFile(bin); err != nil || !bytes.Equal(got, code) {
		t.Errorf("stub.bin is not built from stub.s (%v): run go generate ./enclave/kvm", err)
	}
}
