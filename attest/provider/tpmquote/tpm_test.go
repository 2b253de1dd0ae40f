// SPDX-License-Identifier: Apache-2.0

package tpmquote_test

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"holdfast/attest/provider/tpmquote"
	"holdfast/softtpm"
	"holdfast/tpmio/inproc"
	"holdfast/tpmio/swtpm"
	"holdfast/tss"
)

// startSwtpm runs Debian's swtpm, an independent TPM, for one test.
func startSwtpm(t *testing.T) tss.Transport {
	t.Helper()
	tr, _ := swtpmAt(t)
	return tr
}

// swtpmAt also tells where the socket is. swtpm serves one client at a time.
func swtpmAt(t *testing.T) (*swtpm.Client, string) {
	t.Helper()
	path, err := exec.LookPath("swtpm")
	if err != nil {
		t.Skip("SKIP[swtpm]: swtpm is not installed")
	}
	dir, err := os.MkdirTemp("", "hf") // unix socket paths are short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	sock := filepath.Join(dir, "s")
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, path, "socket", "--tpm2", "--tpmstate", "dir="+dir, "--server", "type=unixio,path="+sock, "--flags", "not-need-init,startup-clear")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	for range 200 {
		if c, err := net.Dial("unix", sock); err == nil {
			client := swtpm.NewClient(c, sock)
			t.Cleanup(func() { client.Close() })
			return client, sock
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatal("swtpm does not listen")
	return nil, ""
}

// startOurs makes a TPM of ours in memory.
func startOurs(t *testing.T) tss.Transport {
	t.Helper()
	tpm, err := inproc.Memory(softtpm.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tpm.Close() })
	return tpm
}

// tpms are the TPMs that each test runs on, with the key that it can make.
var tpms = []struct {
	name  string
	kind  tpmquote.Kind
	start func(*testing.T) tss.Transport
}{
	{"swtpm ES256", tpmquote.ES256, startSwtpm},
	{"ours ES256", tpmquote.ES256, startOurs},
	{"ours ML-DSA-65", tpmquote.MLDSA65, startOurs},
}
