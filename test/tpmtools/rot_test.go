// SPDX-License-Identifier: Apache-2.0

package tpmtools

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestROTCommands: a transfer between two servers by command line, as files
// and over TCP; the receiver's M_b is the sender's, and only that one.
func TestROTCommands(t *testing.T) {
	dir := t.TempDir()
	var side [2]*cli
	for i := range side {
		a, stop := serve(t, "--ephemeral", "--startup", "clear", "--swtpm", "unix:"+filepath.Join(t.TempDir(), "s"))
		defer stop()
		side[i] = &cli{T: t, spec: a[0], dir: dir, pq: true}
	}
	r, s := side[0], side[1]
	for _, q := range []string{"13313", "15361"} {
		rState := strings.TrimSpace(r.run("tpm rot msg1 --sid 7 -q " + q + " -p pw -o m1"))
		sState := strings.TrimSpace(s.run("tpm rot msg2 -q " + q + " -i m1 -o m2"))
		r.fails(1, "tpm rot msg3 -c "+rState+" -i m2 -o m3 -r b", "TPM_RC_BAD_AUTH")
		r.run("tpm rot msg3 -c " + rState + " -p pw -i m2 -o m3 -r b")
		s.run("tpm rot msg4 -c " + sState + " -i m3 -r m")
		oneOf(t, r)
		r.fails(1, "tpm rot msg3 -c "+rState+" -p pw -i m2 -o m3 -r b2", "TPM_RC_REFERENCE_H0")

		port := pair(t)
		sent := make(chan string, 1)
		go func() {
			out, code := s.exec(fmt.Sprintf("tpm rot send -q %s --connect 127.0.0.1:%d -o m", q, port))
			sent <- fmt.Sprint(code, out)
		}()
		r.run(fmt.Sprintf("tpm rot receive -q %s --listen 127.0.0.1:%d -o b", q, port))
		if out := <-sent; out != "0" {
			t.Fatal(out)
		}
		oneOf(t, r)
	}
	for _, n := range []string{"b", "m"} {
		if i, err := os.Stat(filepath.Join(dir, n)); err != nil || i.Mode().Perm() != 0o600 {
			t.Fatal(i, err)
		}
	}
	for _, c := range side {
		if out := c.run("tpm getcap handles-transient"); strings.TrimSpace(out) != "" {
			t.Fatalf("left behind: %s", out)
		}
	}
	r.fails(2, "tpm rot msg1 -q 12289 -o m1", "13313 or 15361")
	r.fails(2, "tpm rot msg1 -o m1 --tpm inproc:x", "tpm serve")
	r.fails(2, "tpm rot receive --listen :7", "HOST:PORT")
	r.fails(1, "tpm rot receive --listen 127.0.0.1:0 --timeout 200ms", "did not do its part")
	s.fails(1, fmt.Sprintf("tpm rot send --connect 127.0.0.1:%d --timeout 300ms", pair(t)), "did not do its part")
}

// oneOf checks the results in the files b and m.
func oneOf(t *testing.T, c *cli) {
	t.Helper()
	b, m := c.file("b"), c.file("m")
	if len(b) != 33 || len(m) != 64 || b[0] > 1 || m[:32] == m[32:] {
		t.Fatalf("%x %x", b, m)
	}
	if i := 32 * int(b[0]); b[1:] != m[i:i+32] {
		t.Fatalf("M_b %x, sender has %x", b, m)
	}
}
