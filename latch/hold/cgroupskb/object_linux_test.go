// SPDX-License-Identifier: Apache-2.0

package cgroupskb

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
)

// TestObject builds the object anew, in another folder, and compares.
func TestObject(t *testing.T) {
	for _, tool := range []string{"clang-14", "llvm-strip-14"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("SKIP[clang-14]: %s is not installed: the committed object is not compared", tool)
		}
	}
	if _, err := os.Stat("/usr/include/bpf/bpf_helpers.h"); err != nil {
		t.Skip("SKIP[clang-14]: libbpf-dev is not installed: the committed object is not compared")
	}
	src, err := os.ReadFile("generate.go")
	if err != nil {
		t.Fatal(err)
	}
	c, err := os.ReadFile("bpf/hold.bpf.c")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "bpf"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "bpf/hold.bpf.c"), c, 0o644); err != nil {
		t.Fatal(err)
	}
	lines := regexp.MustCompile(`(?m)^//go:generate (.*)$`).FindAllStringSubmatch(string(src), -1)
	if len(lines) != 2 {
		t.Fatalf("%d generate lines, expected 2", len(lines))
	}
	for _, l := range lines {
		f := strings.Fields(strings.ReplaceAll(l[1], "$PWD", dir))
		cmd := exec.Command(f[0], f[1:]...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", f, err, out)
		}
	}
	got, err := os.ReadFile(filepath.Join(dir, "bpf/hold.bpf.o"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, object) {
		t.Errorf("the object built from bpf/hold.bpf.c has %d bytes and differs from the committed one (%d bytes): run go generate ./latch/hold/cgroupskb with Debian 12's clang-14", len(got), len(object))
	}
}

// TestObjectLicence: the kernel's verifier reads it, and so do people.
func TestObjectLicence(t *testing.T) {
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(object))
	if err != nil {
		t.Fatal(err)
	}
	for n, p := range spec.Programs {
		if p.License != "Dual BSD/GPL" {
			t.Errorf("%s: licence %q", n, p.License)
		}
	}
}
