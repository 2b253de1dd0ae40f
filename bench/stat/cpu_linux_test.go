// SPDX-License-Identifier: Apache-2.0

package stat

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestCPU compares the process's clock with getrusage around a busy loop.
func TestCPU(t *testing.T) {
	var before, after syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &before)
	a, err := CPU(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	x := 0
	for start := time.Now(); time.Since(start) < 100*time.Millisecond; {
		x++
	}
	b, err := CPU(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &after)
	want := time.Duration(after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano())
	if got := b - a; got <= 0 || got > want+20*time.Millisecond || got < want-20*time.Millisecond {
		t.Errorf("CPU clock went by %v, getrusage by %v", got, want)
	}
	if _, err := CPU(1 << 22); err == nil {
		t.Error("a process that does not exist has a CPU clock")
	}
}

func TestAppend(t *testing.T) {
	p := filepath.Join(t.TempDir(), "x", "y.csv")
	for range 2 {
		if err := Append(p, []string{"a", "b"}, [][]string{{"1", "2"}}); err != nil {
			t.Fatal(err)
		}
	}
	if b, _ := os.ReadFile(p); string(b) != "a,b\n1,2\n1,2\n" {
		t.Errorf("file: %q", b)
	}
	if err := Append(p, []string{"a", "c"}, nil); err == nil {
		t.Error("other columns were accepted")
	}
	if err := Append(p, []string{"a", "b"}, [][]string{{"1"}}); err == nil {
		t.Error("a short row was accepted")
	}
}
