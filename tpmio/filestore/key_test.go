// SPDX-License-Identifier: Apache-2.0

package filestore

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReadKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	write := func(content string, mode os.FileMode) {
		t.Helper()
		os.Remove(path)
		if err := os.WriteFile(path, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
	}
	digits := strings.Repeat("0f", 32)
	for _, good := range []string{strings.Repeat("\x0f", 32), digits, digits + "\n"} {
		write(good, 0o600)
		key, err := ReadKey(path)
		if err != nil || !bytes.Equal(key, bytes.Repeat([]byte{0x0f}, 32)) {
			t.Errorf("%q: %x, %v", good, key, err)
		}
	}
	for _, bad := range []string{"", "x", digits + "\n\n", digits[1:], digits + "0f", strings.Repeat("zz", 32), strings.Repeat("\x0f", 33), strings.Repeat("\x00", 32), strings.Repeat("00", 32)} {
		write(bad, 0o600)
		if key, err := ReadKey(path); err == nil || key != nil || bad != "" && bad != "x" && strings.Contains(err.Error(), bad) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	write(digits, 0o644)
	os.Chmod(path, 0o644)
	if _, err := ReadKey(path); err == nil || !strings.Contains(err.Error(), "0600") {
		t.Error(err)
	}
	if _, err := ReadKey(path + "x"); err == nil {
		t.Error("no file")
	}
}
