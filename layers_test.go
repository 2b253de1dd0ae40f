// SPDX-License-Identifier: Apache-2.0

package holdfast

import (
	"go/build"
	"io/fs"
	"path"
	"path/filepath"
	"sort"
	"strings"
	"testing"
)

// A rule places a folder (and what is below it) in a layer and says which
// packages of ours it may import. The longest matching prefix wins. This is
// the table of ARCHITECTURE.md; change both in one commit.
type rule struct {
	prefix string
	layer  int
	room   string   // a room may import downwards inside itself
	also   []string // further allowed prefixes
}

var rules = []rule{
	{"internal", 0, "", nil},
	{"rot", 0, "", nil},

	{"tpm2", 1, "tpm", nil},
	{"enclave/sgx", 1, "enclave", nil},
	{"enclave/report", 1, "enclave", []string{"enclave/sgx", "tpm2", "latch/binder", "attest/evidence"}},
	{"latch/tlshello", 1, "latch", nil},
	{"latch/binder", 1, "latch", nil},
	{"latch/proxyproto", 1, "latch", nil},
	{"attest/evidence", 1, "attest", []string{"tpm2", "enclave/sgx", "enclave/report", "latch/binder"}},

	{"softtpm", 2, "tpm", nil},
	{"tss", 2, "tss", nil},
	{"enclave/pagetable", 2, "enclave", nil},
	{"enclave/pager", 2, "enclave", nil},
	{"enclave/sigma", 2, "enclave", nil},
	{"enclave/monitor", 2, "enclave", nil},
	{"sdk", 2, "sdk", nil},
	{"attest/trust", 2, "attest", nil},
	{"attest/verify", 2, "attest", nil},
	{"attest/policy", 2, "attest", nil},
	{"attest/ear", 2, "attest", nil},
	{"latch/flow", 2, "latch", nil},
	{"latch/batch", 2, "latch", nil},

	{"tpmio", 3, "tpm", []string{"tss"}},
	{"enclave/epc", 3, "enclave", nil},
	{"enclave/kvm", 3, "enclave", []string{"tss"}},
	{"enclave/host", 3, "enclave", []string{"tss"}},
	{"enclave/urts", 3, "enclave", []string{"tss"}},
	{"attest/appraise", 3, "attest", nil},
	{"attest/collateral", 3, "attest", nil},
	{"attest/provider", 3, "attest", []string{"tss"}},
	{"latch/hold", 3, "latch", nil},
	{"latch/observe", 3, "latch", nil},
	{"latch/channel", 3, "latch", nil},
	{"latch/rendezvous", 3, "latch", nil},
	{"latch/door", 3, "latch", nil},
	{"latch/sockdiag", 3, "latch", nil},
	{"latch/audit", 3, "latch", nil},
	{"latch/ops", 3, "latch", nil},

	{"latch/agent", 4, "latch", []string{"attest", "tss", "tpmio"}},
	{"latch/appraisal", 4, "latch", []string{"attest"}},
	{"latch/attester", 4, "latch", []string{"attest"}},
	{"latch/watch", 4, "latch", []string{"attest"}},
	{"latch/gate", 4, "latch", []string{"attest", "tss", "tpmio"}},
	{"latch/metrics", 4, "latch", nil},
	{"enclave/daemon", 4, "enclave", []string{"attest", "tss", "tpmio", "softtpm"}},

	{"cmd", 5, "", nil},
	{"bench", 5, "", nil},
	{"test", 5, "", nil},
	{"tools", 5, "", nil},
	{"softtpmtest", 5, "", nil},
}

// forbidden holds what no layer arithmetic would catch, each with its reason.
var forbidden = []struct{ from, to, why string }{
	{"softtpm", "tss", "engine and client meet only through bytes, so that golden bytes from the specification check both"},
	{"tss", "softtpm", "engine and client meet only through bytes, so that golden bytes from the specification check both"},
	{"attest/verify", "softtpm", "the verifier is audited alone"},
	{"attest/verify", "enclave/monitor", "the verifier is audited alone"},
	{"attest/verify", "latch", "the verifier is audited alone"},
	{"attest/policy", "softtpm", "the verifier is audited alone"},
	{"attest/policy", "enclave/monitor", "the verifier is audited alone"},
	{"attest/policy", "latch", "the verifier is audited alone"},
	{"enclave/monitor", "enclave/kvm", "the core must run on any backend"},
	{"enclave/monitor", "enclave/host", "the core must run on any backend"},
}

// under reports whether package p is prefix or lies below it.
func under(p, prefix string) bool { return p == prefix || strings.HasPrefix(p, prefix+"/") }

func ruleFor(p string) *rule {
	var best *rule
	for i := range rules {
		if r := &rules[i]; under(p, r.prefix) && (best == nil || len(r.prefix) > len(best.prefix)) {
			best = r
		}
	}
	return best
}

// verdict says why package from may not import package to, or "".
func verdict(from, to string) string {
	for _, f := range forbidden {
		if under(from, f.from) && under(to, f.to) {
			return f.why
		}
	}
	a, b := ruleFor(from), ruleFor(to)
	switch {
	case a == nil:
		return "the importing package is in no layer: add it to the table in layers_test.go and ARCHITECTURE.md"
	case b == nil:
		return "the imported package is in no layer: add it to the table in layers_test.go and ARCHITECTURE.md"
	case a.layer == 5 && b.layer == 5 && b.prefix != a.prefix && under(to, "cmd"):
		return "nothing imports a command"
	case a.layer == 5:
		return ""
	case b.layer == 5:
		return "layers 0 to 4 do not import layer 5 (commands, benchmarks, tests, tools)"
	case under(to, a.prefix):
		return "" // inside one entry of the table
	case b.layer == 0 && a.layer > 0:
		return ""
	}
	for _, p := range a.also {
		if under(to, p) {
			return ""
		}
	}
	switch {
	case b.layer > a.layer:
		return "imports go downwards only"
	case b.layer == a.layer && (a.room != b.room || a.room == ""):
		return "packages of one layer do not import each other across rooms"
	case b.layer == a.layer && a.layer == 1:
		return "words (layer 1) do not import each other"
	case b.layer == 1:
		return "" // words of any room
	case a.room == b.room && a.room != "":
		return ""
	}
	return "a room imports only words (layer 1) of another room"
}

// goPackages lists every folder of the module that holds Go files.
func goPackages(t *testing.T) []string {
	t.Helper()
	seen := map[string]bool{}
	err := filepath.WalkDir(".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && p != "." && (strings.HasPrefix(name, ".") || name == "testdata" || name == "bin" || name == "out") {
			return filepath.SkipDir
		}
		if strings.HasSuffix(name, ".go") {
			seen[filepath.ToSlash(filepath.Dir(p))] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for p := range seen {
		out = append(out, p)
	}
	sort.Strings(out)
	return out
}

func TestLayers(t *testing.T) {
	for _, dir := range goPackages(t) {
		if dir == "." {
			continue
		}
		ctx := build.Default
		ctx.UseAllFiles = false
		pkg, err := ctx.ImportDir(dir, 0)
		if err != nil {
			if _, ok := err.(*build.NoGoError); ok {
				continue // only tests, or another operating system
			}
			t.Errorf("%s: %v", dir, err)
			continue
		}
		for _, imp := range pkg.Imports {
			to, ours := strings.CutPrefix(imp, "holdfast/")
			if !ours {
				if imp == "C" {
					t.Errorf("%s uses cgo; Go code here is free of it, so that one static binary runs anywhere", dir)
				}
				continue
			}
			if why := verdict(path.Clean(dir), to); why != "" {
				t.Errorf("%s imports %s: %s", dir, to, why)
			}
		}
	}
}

// TestLayerTable breaks the table on purpose: the checker must object.
func TestLayerTable(t *testing.T) {
	for _, c := range []struct {
		from, to string
		ok       bool
	}{
		{"softtpm", "tpm2", true},
		{"softtpm", "tss", false},
		{"tss", "softtpm", false},
		{"tpmio/inproc", "softtpm", true},
		{"tpmio/mssim", "tss", true},
		{"attest/verify", "latch/binder", false},
		{"attest/verify", "attest/trust", true},
		{"attest/policy", "attest/verify", true},
		{"attest/evidence", "tpm2", true},
		{"latch/tlshello", "latch/binder", false},
		{"latch/flow", "latch/tlshello", true},
		{"latch/flow", "latch/channel", false},
		{"latch/gate", "attest/verify", true},
		{"latch/hold/cgroupskb", "attest/verify", false},
		{"enclave/monitor", "enclave/kvm", false},
		{"tpm2", "softtpm", false},
		{"tpm2", "internal/wire", true},
		{"internal/wire", "tpm2", false},
		{"softtpm", "test/esr", false},
		{"cmd/holdfast", "latch/gate", true},
		{"nowhere", "tpm2", false},
	} {
		if got := verdict(c.from, c.to) == ""; got != c.ok {
			t.Errorf("verdict(%s, %s): allowed %v, want %v (%s)", c.from, c.to, got, c.ok, verdict(c.from, c.to))
		}
	}
}
