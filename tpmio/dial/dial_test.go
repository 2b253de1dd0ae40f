// SPDX-License-Identifier: Apache-2.0

package dial_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"holdfast/tpmio/dial"
	"holdfast/tpmio/serve"
	"holdfast/tss"
)

func TestDial(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(context.Background())
	ready := make(chan serve.Addresses, 1)
	done := make(chan error, 1)
	go func() {
		done <- serve.Run(ctx, serve.Config{Startup: serve.StartupClear, MSSIM: "127.0.0.1:0", SWTPM: "unix:" + filepath.Join(dir, "d"),
			OnReady: func(a serve.Addresses) error { ready <- a; return nil }})
	}()
	var a serve.Addresses
	select {
	case a = <-ready:
	case err := <-done:
		t.Fatal(err)
	}
	for _, spec := range []string{a.MSSIM, a.SWTPM, "inproc:" + filepath.Join(dir, "state")} {
		c, err := dial.Dial(ctx, spec)
		if err != nil {
			t.Fatalf("%s: %v", spec, err)
		}
		if b, err := tss.New(c).GetRandom(40); err != nil || len(b) != 40 {
			t.Fatalf("%s: %v", spec, err)
		}
		if err := c.Close(); err != nil {
			t.Fatalf("%s: %v", spec, err)
		}
	}
	for spec, want := range map[string]string{
		"": "expected inproc", "inproc": "expected inproc", "inproc:": "expected inproc", "tcp:x": "unknown kind",
		"mssim:x": "HOST:PORT", "mssim:127.0.0.1:0": "1 to 65534", "swtpm:x": "HOST:PORT or unix:PATH",
		"swtpm:unix:" + dir + "/none": "no such file", "device:" + dir: "directory",
	} {
		c, err := dial.Dial(ctx, spec)
		if err == nil || c != nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, expected an error with %q", spec, err, want)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if _, err := dial.Dial(context.Background(), a.SWTPM); err == nil {
		t.Fatal("the server is still there")
	}
}
