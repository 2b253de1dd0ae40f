// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// builds are the programs that this process has built, by command line.
var builds struct {
	sync.Mutex
	made map[string]string
}

// GoBinary builds a command of this module for the machine (static, amd64)
// and returns its path. It is built once per test process.
func GoBinary(t testing.TB, pkg string) string {
	t.Helper()
	return build(t, "build", pkg)
}

// GoTest builds the test binary of a package, to be run in the machine:
//
//	Files: map[string]string{"/t": vm.GoTest(t, "holdfast/tpmio/vtpmproxy")}
//	Cmd:   []string{"/t", "-test.v", "-test.run=Kernel"}
//
// Test data that the tests read must be copied too, with Config.Files.
func GoTest(t testing.TB, pkg string) string {
	t.Helper()
	return build(t, "test", pkg)
}

func guestInit(t testing.TB) string { return GoBinary(t, "holdfast/test/vm/guest") }

func build(t testing.TB, verb, pkg string) string {
	t.Helper()
	builds.Lock()
	defer builds.Unlock()
	if path := builds.made[verb+pkg]; path != "" {
		return path
	}
	dir, err := os.MkdirTemp("", "holdfast-vm")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, filepath.Base(pkg))
	args := []string{verb, "-o", path, "-ldflags=-s -w", pkg}
	if verb == "test" {
		args = append([]string{"test", "-c"}, args[1:]...)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64", "GOFLAGS="+without(os.Getenv("GOFLAGS"), "-race"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("vm: go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	if builds.made == nil {
		builds.made = map[string]string{}
	}
	builds.made[verb+pkg] = path
	return path
}

func without(flags, flag string) string {
	var out []string
	for _, f := range strings.Fields(flags) {
		if f != flag {
			out = append(out, f)
		}
	}
	return strings.Join(out, " ")
}

// Clean removes what [GoBinary] and [GoTest] built; call it at the end of a
// TestMain.
func Clean() {
	builds.Lock()
	defer builds.Unlock()
	for _, path := range builds.made {
		os.RemoveAll(filepath.Dir(path))
	}
	builds.made = nil
}

// Main runs a package's tests and cleans up: func TestMain(m *testing.M) { vm.Main(m) }.
func Main(m *testing.M) {
	code := m.Run()
	Clean()
	os.Exit(code)
}
