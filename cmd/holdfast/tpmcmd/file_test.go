// SPDX-License-Identifier: Apache-2.0

package tpmcmd

import (
	"os"
	"path/filepath"
	"testing"
)

// A secret that replaces a file which others can read must not be readable.
func TestWriteFileMode(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "secret")
	if err := os.WriteFile(path, []byte("old"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(path, []byte("new")); err != nil {
		t.Fatal(err)
	}
	i, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil || string(b) != "new" || i.Mode().Perm() != 0o600 {
		t.Errorf("content %q, mode %v, %v", b, i.Mode(), err)
	}
	if err := WriteFile(filepath.Join(dir, "no", "where"), nil); err == nil {
		t.Error("a folder that is not there was no error")
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Errorf("left over: %v %v", left, err)
	}
}
