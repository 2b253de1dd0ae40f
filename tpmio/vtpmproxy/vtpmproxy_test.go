// SPDX-License-Identifier: Apache-2.0

package vtpmproxy

import (
	"errors"
	"os"
	"testing"
)

func TestNew(t *testing.T) {
	_, err := os.Stat(controlDevice)
	d, newErr := New()
	if errors.Is(err, os.ErrNotExist) {
		if !errors.Is(newErr, ErrUnsupported) {
			t.Fatalf("without %s: %v", controlDevice, newErr)
		}
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("SKIP[root]: /dev/vtpmx is for root only")
	}
	if newErr != nil {
		t.Fatal(newErr)
	}
	defer d.Conn().Close()
	// The kernel sends its first command at once.
	b := make([]byte, 4096)
	if n, err := d.Conn().Read(b); err != nil || n < 10 {
		t.Fatal(n, err)
	}
}
