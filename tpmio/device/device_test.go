// SPDX-License-Identifier: Apache-2.0

package device

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRefused(t *testing.T) {
	p := filepath.Join(t.TempDir(), "f")
	os.WriteFile(p, nil, 0o600)
	if _, err := Open(p); err == nil || !strings.Contains(err.Error(), "character device") {
		t.Fatal(err)
	}
	if _, err := Open(p + "x"); err == nil {
		t.Fatal("a device that does not exist was opened")
	}
	// /dev/null takes commands but gives no response.
	d, err := Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Send(make([]byte, 10)); err == nil {
		t.Fatal("a response from /dev/null")
	}
	if ok, err := d.Exclusive(); ok || err != nil {
		t.Fatal("a device that everybody can open was called exclusive", err)
	}
	d.Close()
	if _, err := d.Send(make([]byte, 10)); err == nil {
		t.Fatal("Send after Close")
	}
}
