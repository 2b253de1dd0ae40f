// SPDX-License-Identifier: Apache-2.0

package edl

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files")

func loadAll(t *testing.T) *Interface {
	t.Helper()
	i, err := (&Loader{Read: os.ReadFile}).Load(filepath.Join("testdata", "all.edl"))
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// outputs are the four files of the test's interface.
func outputs(t *testing.T, prefix bool) map[string]string {
	i := loadAll(t)
	tr, un := i.Trusted(), i.Untrusted(prefix)
	return map[string]string{"all_t.h": tr.Header, "all_t.c": tr.Source, "all_u.h": un.Header, "all_u.c": un.Source}
}

// TestGolden: a change of the generated code is seen in review.
func TestGolden(t *testing.T) {
	for name, text := range outputs(t, false) {
		p := filepath.Join("testdata", "golden", name)
		if *update {
			if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(want, []byte(text)) {
			t.Errorf("%s is not what is generated now: look at the difference, then go test ./sdk/edl -run TestGolden -update", p)
		}
	}
}

func cc(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out)
	} else if len(out) > 0 {
		t.Errorf("%v\n%s", args, out)
	}
}

func write(t *testing.T, dir string, prefix bool) {
	for name, text := range outputs(t, prefix) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func abs(t *testing.T, p string) string {
	p, err := filepath.Abs(p)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestCompiles: no warning from gcc as C and as C++, with and without optimizing.
func TestCompiles(t *testing.T) {
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("SKIP[gcc]: no C compiler on this machine")
	}
	languages := [][]string{{"gcc", "-std=gnu11", "-xc", "-O2"}}
	if _, err := exec.LookPath("g++"); err == nil {
		languages = append(languages, []string{"g++", "-std=gnu++17", "-xc++", "-O0"})
	} else {
		t.Log("no g++ here: compiled as C only")
	}
	for _, prefix := range []bool{false, true} {
		dir := t.TempDir()
		write(t, dir, prefix)
		for _, l := range languages {
			for _, f := range []string{"all_t.c", "all_u.c"} {
				cc(t, dir, append(l, "-Wall", "-Wextra", "-Werror", "-I", abs(t, "../include"), "-I", abs(t, "testdata"), "-c", "-o", os.DevNull, f)...)
			}
		}
	}
}

// TestRun: an application and its enclave, in a world where inside and outside are
// exact, use each kind of parameter; then an attacker calls.
func TestRun(t *testing.T) {
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("SKIP[gcc]: no C compiler on this machine")
	}
	dir, data := t.TempDir(), abs(t, "testdata")
	write(t, dir, false)
	include := []string{"-std=gnu11", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-I.", "-I" + abs(t, "../include"), "-I" + data}
	gcc := func(args ...string) { cc(t, dir, append(append([]string{"gcc"}, include...), args...)...) }
	gcc("-fPIC", "-c", "-o", "host.o", filepath.Join(data, "host.c"))
	gcc("-fPIC", "-shared", "-Wl,-Bsymbolic", "-Wl,--no-undefined", "-Dmalloc=enclave_malloc", "-Dcalloc=enclave_calloc", "-Dfree=enclave_free",
		"-o", "enclave.so", filepath.Join(data, "enclave.c"), "all_t.c", "host.o")
	gcc("-o", "app", filepath.Join(data, "app.c"), "all_u.c", "-ldl")
	out, err := exec.Command(filepath.Join(dir, "app"), filepath.Join(dir, "enclave.so")).CombinedOutput()
	if err != nil || string(out) != "all right\n" {
		t.Fatalf("%v\n%s", err, out)
	}
}
