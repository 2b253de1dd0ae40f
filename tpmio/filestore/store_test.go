// SPDX-License-Identifier: Apache-2.0

package filestore

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func mustOpen(t *testing.T, dir string, o Options) *Store {
	t.Helper()
	s, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestRoundTrip(t *testing.T) {
	for name, key := range map[string][]byte{"plain": nil, "encrypted": bytes.Repeat([]byte{7}, 32)} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "s")
			s := mustOpen(t, dir, Options{Key: key})
			if b, err := s.Load(); b != nil || err != nil {
				t.Fatalf("empty folder: %x, %v", b, err)
			}
			for _, state := range [][]byte{[]byte("one"), bytes.Repeat([]byte("two"), 40000), []byte("3")} {
				if err := s.Save(state); err != nil {
					t.Fatal(err)
				}
				if got, err := s.Load(); err != nil || !bytes.Equal(got, state) {
					t.Fatalf("got %d bytes, %v", len(got), err)
				}
			}
			s.Close()
			if _, err := s.Load(); !errors.Is(err, ErrClosed) {
				t.Fatalf("Load after Close: %v", err)
			}
			if err := s.Save([]byte("x")); !errors.Is(err, ErrClosed) {
				t.Fatalf("Save after Close: %v", err)
			}
			s = mustOpen(t, dir, Options{Key: key})
			if got, err := s.Load(); err != nil || string(got) != "3" {
				t.Fatalf("reopened: %q, %v", got, err)
			}
			raw, _ := os.ReadFile(filepath.Join(dir, stateName))
			if found := bytes.HasSuffix(raw, []byte("3")) && len(raw) == headerSize+1; found != (key == nil) {
				t.Fatalf("state in clear: %v", found)
			}
			info, _ := os.Stat(filepath.Join(dir, stateName))
			if info.Mode().Perm() != 0o600 {
				t.Fatalf("mode %#o", info.Mode().Perm())
			}
			if info, _ := os.Stat(dir); info.Mode().Perm() != 0o700 {
				t.Fatalf("folder mode %#o", info.Mode().Perm())
			}
		})
	}
}

func TestTwoProcesses(t *testing.T) {
	dir := t.TempDir()
	os.Chmod(dir, 0o700)
	s := mustOpen(t, dir, Options{})
	if _, err := Open(dir, Options{}); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Fatalf("second Open: %v", err)
	}
	s.Close()
	mustOpen(t, dir, Options{})
}

// TestRefusedFiles changes a good file in every way that must be noticed; each
// time Load fails and the file stays as it is.
func TestRefusedFiles(t *testing.T) {
	key := bytes.Repeat([]byte{1}, 32)
	plain, _ := encode([]byte("the state"), nil)
	sealed, _ := encode([]byte("the state"), key)
	newer := bytes.Clone(plain)
	newer[9] = version + 1
	cases := map[string]struct {
		file, key []byte
		want      string
	}{
		"empty":     {nil, nil, "damaged"},
		"foreign":   {[]byte("hello, I am something else entirely, and long enough to be a header"), nil, "not a TPM state"},
		"newer":     {newer, nil, "version 2"},
		"longer":    {append(bytes.Clone(plain), 0), nil, "damaged"},
		"no key":    {sealed, nil, "no key"},
		"wrong key": {sealed, bytes.Repeat([]byte{2}, 32), "decrypted"},
		"plain":     {plain, key, "not encrypted"},
	}
	try := func(t *testing.T, file, key []byte, want string) {
		t.Helper()
		dir := t.TempDir()
		os.Chmod(dir, 0o700)
		p := filepath.Join(dir, stateName)
		if err := os.WriteFile(p, file, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := Open(dir, Options{Key: key})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		got, err := s.Load()
		if err == nil || got != nil || !strings.Contains(err.Error(), want) {
			t.Fatalf("got %q, %v; want an error with %q", got, err, want)
		}
		if after, _ := os.ReadFile(p); !bytes.Equal(after, file) {
			t.Fatal("the refused file was changed")
		}
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { try(t, c.file, c.key, c.want) })
	}
	for n := range plain {
		if got, err := decode(plain[:n], nil); err == nil || got != nil {
			t.Fatalf("truncated to %d bytes: accepted", n)
		}
	}
	for i := 0; i < 8*len(plain); i++ {
		bad := bytes.Clone(plain)
		bad[i/8] ^= 1 << (i % 8)
		if got, err := decode(bad, nil); err == nil || got != nil {
			t.Fatalf("bit %d flipped: accepted", i)
		}
	}
	for i := 0; i < 8*len(sealed); i++ {
		bad := bytes.Clone(sealed)
		bad[i/8] ^= 1 << (i % 8)
		if got, err := decode(bad, key); err == nil || got != nil {
			t.Fatalf("encrypted, bit %d flipped: accepted", i)
		}
	}
}

func TestRefusedFolders(t *testing.T) {
	for _, mode := range []os.FileMode{0o777, 0o770, 0o702, 0o720} {
		dir := filepath.Join(t.TempDir(), "s")
		os.Mkdir(dir, 0o700)
		os.Chmod(dir, mode)
		if _, err := Open(dir, Options{}); err == nil || !strings.Contains(err.Error(), "others can replace") {
			t.Errorf("mode %#o: %v", mode, err)
		}
	}
	file := filepath.Join(t.TempDir(), "f")
	os.WriteFile(file, nil, 0o600)
	if _, err := Open(file, Options{}); err == nil {
		t.Error("a file as folder was accepted")
	}
	if os.Geteuid() == 0 {
		dir := filepath.Join(t.TempDir(), "s")
		os.Mkdir(dir, 0o700)
		os.Chown(dir, 65534, 65534)
		if _, err := Open(dir, Options{}); err == nil || !strings.Contains(err.Error(), "belongs to user 65534") {
			t.Errorf("a stranger's folder: %v", err)
		}
	}
	dir := t.TempDir()
	os.Chmod(dir, 0o700)
	good, _ := encode([]byte("s"), nil)
	os.WriteFile(filepath.Join(dir, stateName), good, 0o644)
	os.Chmod(filepath.Join(dir, stateName), 0o644)
	s := mustOpen(t, dir, Options{})
	if _, err := s.Load(); err == nil || !strings.Contains(err.Error(), "0600") {
		t.Errorf("a readable state file: %v", err)
	}
	os.Remove(filepath.Join(dir, stateName))
	os.WriteFile(filepath.Join(dir, "other"), good, 0o600)
	os.Symlink("other", filepath.Join(dir, stateName))
	if _, err := s.Load(); err == nil {
		t.Error("a symbolic link as state file was followed")
	}
}

func FuzzDecode(f *testing.F) {
	good, _ := encode([]byte("state"), nil)
	f.Add(good)
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, file []byte) {
		state, err := decode(file, nil)
		if err != nil {
			if state != nil {
				t.Fatal("a state beside an error")
			}
			return
		}
		again, err := encode(state, nil)
		if err != nil || !bytes.Equal(again, file) {
			t.Fatalf("decoded, but encodes to something else (%v)", err)
		}
	})
}
