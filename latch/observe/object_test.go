// SPDX-License-Identifier: Apache-2.0

//go:build linux

package observe

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestObject builds the eBPF object with the commands of generate.go and
// compares it with the committed one.
func TestObject(t *testing.T) {
	for _, p := range []string{"clang-14", "llvm-strip-14"} {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("SKIP[clang-14]: %v", err)
		}
	}
	src, err := os.ReadFile("generate.go")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "bpf"), 0o755); err != nil {
		t.Fatal(err)
	}
	c, err := os.ReadFile("bpf/observe.bpf.c")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "bpf/observe.bpf.c"), c, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, l := range strings.Split(string(src), "\n") {
		line, ok := strings.CutPrefix(l, "//go:generate ")
		if !ok {
			continue
		}
		f := strings.Fields(strings.ReplaceAll(line, "$PWD", dir))
		cmd := exec.Command(f[0], f[1:]...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", line, err, out)
		}
	}
	got, err := os.ReadFile(filepath.Join(dir, "bpf/observe.bpf.o"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, object) {
		t.Errorf("the committed object (%d bytes) is not what the source gives (%d bytes): run go generate ./latch/observe", len(object), len(got))
	}
}
