// SPDX-License-Identifier: Apache-2.0

package filelock

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Two open files stand for two processes: the lock belongs to the open file.
func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	open := func() *os.File {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|NoFollow, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	a, b := open(), open()
	defer b.Close()
	if err := TryLock(a); err != nil {
		t.Fatal(err)
	}
	if err := TryLock(b); !errors.Is(err, ErrHeld) {
		t.Fatalf("the second one got %v", err)
	}
	got := make(chan error, 1)
	go func() { got <- Lock(b) }()
	select {
	case err := <-got:
		t.Fatalf("Lock did not wait: %v", err)
	case <-time.After(30 * time.Millisecond):
	}
	a.Close()
	if err := <-got; err != nil {
		t.Fatal(err)
	}
}
