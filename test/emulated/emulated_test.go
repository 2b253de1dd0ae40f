// SPDX-License-Identifier: Apache-2.0

package emulated

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdfast/test/host"
)

// processors are the builds that page 7 of the TPM's design asks for.
var processors = []struct{ name, feature, program, arch, arm string }{
	{"ARMv7", "qemu-user-arm", "qemu-arm-static", "arm", "7"},
	{"RISC-V 64", "qemu-user-riscv64", "qemu-riscv64-static", "riscv64", ""},
}

// rooms are the packages whose tests run. None is in the short run: the first
// test binary for another processor takes minutes to build.
var rooms = []string{"tpm2", "rot", "softtpm/internal/tpmcrypto", "softtpm", "tss", "tpmio/inproc", "tpmio/filestore", "tpmio/mssim", "tpmio/platform", "softtpmtest"}

func TestRooms(t *testing.T) {
	all := os.Getenv("HOLDFAST_TEST_FULL") != ""
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range processors {
		for _, room := range rooms {
			t.Run(p.name+"/"+room, func(t *testing.T) {
				host.Need(t, p.feature)
				if !all {
					t.Skip("SKIP[full]: building and emulating takes minutes")
				}
				bin := filepath.Join(t.TempDir(), "room.test")
				ctx, cancel := context.WithTimeout(context.Background(), 14*time.Minute)
				defer cancel()
				build := exec.CommandContext(ctx, "go", "test", "-c", "-o", bin, "holdfast/"+room)
				build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+p.arch, "GOARM="+p.arm)
				if out, err := build.CombinedOutput(); err != nil {
					t.Fatalf("build: %v\n%s", err, out)
				}
				begin := time.Now()
				run := exec.CommandContext(ctx, p.program, bin, "-test.short", "-test.v", "-test.timeout=13m")
				run.Dir = filepath.Join(root, room)
				out, err := run.CombinedOutput()
				passed := strings.Count(string(out), "--- PASS: ")
				if err != nil || passed == 0 {
					t.Fatalf("%v, %d passed\n%s", err, passed, tail(string(out)))
				}
				t.Logf("%d tests and subtests passed, %d skipped, %.0f s emulated", passed, strings.Count(string(out), "--- SKIP: "), time.Since(begin).Seconds())
			})
		}
	}
}

// tail is the failed tests and the end of an output.
func tail(s string) string {
	var keep []string
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		if strings.Contains(l, "--- FAIL") || i > len(lines)-25 {
			keep = append(keep, l)
		}
	}
	return strings.Join(keep, "\n")
}
