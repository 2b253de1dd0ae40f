// SPDX-License-Identifier: Apache-2.0

package tpmquote

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"holdfast/tpm2"
)

func TestCheckExclusive(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	sock := filepath.Join(dir, "s")
	l, err := net.Listen("unix", sock)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	mode := func(p string, m os.FileMode) func() {
		return func() {
			if err := os.Chmod(p, m); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, c := range []struct {
		spec  string
		setup func()
		says  string // "" means accepted
	}{
		{"swtpm:unix:" + sock, mode(sock, 0o600), ""},
		{"swtpm:unix:" + sock, mode(sock, 0o660), "0660"},
		{"swtpm:unix:" + sock, mode(sock, 0o666), "others can open"},
		{"swtpm:unix:" + sock, func() { mode(sock, 0o600)(); mode(dir, 0o777)() }, "replace the socket"},
		{"inproc:" + dir, mode(dir, 0o700), ""},
		{"inproc:" + dir, mode(dir, 0o750), "0750"},
		{"inproc:" + sock, mode(dir, 0o700), "file type"},
		{"inproc:" + dir + "/none", nil, "no such file"},
		{"device:" + sock, nil, "file type"},
		{"device:/dev/null", nil, "others can open"},
		{"mssim:127.0.0.1:2321", nil, "TCP port"},
		{"swtpm:127.0.0.1:2321", nil, "TCP port"},
		{"mssim:", nil, "expected inproc"},
		{"other:x", nil, "expected inproc"},
		{"", nil, "expected inproc"},
	} {
		if c.setup != nil {
			c.setup()
		}
		err := CheckExclusive(c.spec)
		if (err == nil) != (c.says == "") || (err != nil && !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: expected %q, got %v", c.spec, c.says, err)
		}
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(sock, 12345, -1); err != nil {
			t.Fatal(err)
		}
		if err := CheckExclusive("swtpm:unix:" + sock); err == nil || !strings.Contains(err.Error(), "12345") {
			t.Errorf("another user's socket: got %v", err)
		}
	}
}

func TestParseSelection(t *testing.T) {
	sel, err := ParseSelection([]string{"sha256:0,7,14", "sha1:23"})
	if err != nil || len(sel) != 2 || !reflect.DeepEqual(sel[0].PCRs(), []int{0, 7, 14}) || sel[1].Hash != tpm2.AlgSHA1 {
		t.Errorf("got %+v, %v", sel, err)
	}
	for _, bad := range [][]string{{"sha256"}, {"sha256:"}, {"sha256:24"}, {"sha256:-1"}, {"sha256:1,"}, {"md5:1"}, {"sha256:1", "sha256:2"}, {":1"}} {
		if sel, err := ParseSelection(bad); err == nil || sel != nil {
			t.Errorf("%q: got %+v", bad, sel)
		}
	}
}

func keyFile(t testing.TB) *KeyFile {
	t.Helper()
	p := akTemplate(ES256, nil)
	p.Point = tpm2.Point{X: make([]byte, 32), Y: make([]byte, 32)}
	b, err := tpm2.Encode(&p)
	if err != nil {
		t.Fatal(err)
	}
	return &KeyFile{Version: 1, Kind: ES256, Public: b, Private: []byte{1}, PolicyPCRs: []string{"sha256:14"}, Persistent: 0x81010000}
}

func TestKeyFile(t *testing.T) {
	k := keyFile(t)
	b, err := k.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if back, err := ParseKeyFile(b); err != nil || !reflect.DeepEqual(back, k) {
		t.Errorf("got %+v, %v", back, err)
	}
	for _, c := range [][2]string{{"version: 1", "version: 2"}, {"kind: ES256", "kind: RS256"}, {"sha256:14", "sha256:99"}, {"persistent: 2164326400", "persistent: 5"}, {"version: 1", "version: 1\nmore: 1"}, {"public: ", "public: AAAA"}} {
		s := strings.Replace(string(b), c[0], c[1], 1)
		if s == string(b) {
			t.Fatalf("%q is not in\n%s", c[0], b)
		}
		if k, err := ParseKeyFile([]byte(s)); err == nil || k != nil {
			t.Errorf("%q: accepted", c[1])
		}
	}
}

func TestSecretFile(t *testing.T) {
	s, err := NewSecret()
	if err != nil {
		t.Fatal(err)
	}
	f := FormatSecret(s)
	if back, err := ParseSecret(f); err != nil || !bytes.Equal(back, s) {
		t.Errorf("got %x, %v", back, err)
	}
	for _, bad := range [][]byte{nil, f[:63], append(bytes.Clone(f), '\n'), bytes.Replace(f, f[:1], []byte("z"), 1)} {
		if back, err := ParseSecret(bad); err == nil || back != nil || strings.Contains(err.Error(), string(f[8:40])) {
			t.Errorf("%q: got %v", bad, err)
		}
	}
}

func TestDERPrefix(t *testing.T) {
	cert := append([]byte{0x30, 0x82, 0, 3}, 1, 2, 3)
	if got := derPrefix(append(bytes.Clone(cert), 0xff, 0xff)); !bytes.Equal(got, cert) {
		t.Errorf("got %x", got)
	}
	for _, bad := range [][]byte{nil, cert[:6], {0xff, 0xff, 0xff, 0xff}, {0x30, 0x03, 1, 2, 3}} {
		if got := derPrefix(bad); got != nil {
			t.Errorf("%x: got %x", bad, got)
		}
	}
}

// TestPolicyA: the EK profile prints this constant for SHA-256.
func TestPolicyA(t *testing.T) {
	want := mustHex("837197674484b3f81a90cc8d46a5d724fd52d76e06520b64f2a1da1b331469aa")
	if got := ekOf(ES256).template.AuthPolicy; !bytes.Equal(got, want) {
		t.Errorf("got %x", got)
	}
}

func FuzzKeyFile(f *testing.F) {
	k := keyFile(f)
	b, err := k.Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		k, err := ParseKeyFile(b)
		if (err == nil) == (k == nil) {
			t.Fatalf("key file %v with error %v", k, err)
		}
		if err != nil {
			return
		}
		enc, err := k.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if again, err := ParseKeyFile(enc); err != nil || !bytes.Equal(again.Public, k.Public) || again.Persistent != k.Persistent {
			t.Fatalf("%q does not read back: %v", enc, err)
		}
	})
}
