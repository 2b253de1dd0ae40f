// SPDX-License-Identifier: Apache-2.0

//go:build linux

package agent

import (
	"context"
	"errors"
	"testing"
	"time"

	"holdfast/attest/provider"
)

// Reopen takes the new key with the next report, and a key that cannot be
// opened is tried again without waiting for long.
func TestReopen(t *testing.T) {
	open, _ := processor(t, 0)
	broken := false
	o := Options{Services: []Service{{Name: "shop", Address: freePort(t)}}, Open: func(ctx context.Context) (provider.Provider, error) {
		if broken {
			return nil, errors.New("no key file")
		}
		return open(ctx)
	}}
	a, err := New(nil, o)
	if err != nil {
		t.Fatal(err)
	}
	var x result
	make := func() error {
		a.rep.make(t.Context(), [][32]byte{{1}}, &x)
		return x.err
	}
	if err := a.rep.open(t.Context()); err != nil || make() != nil || a.rep.opened != 1 {
		t.Fatal(err, x.err, a.rep.opened)
	}
	a.Reopen()
	if a.rep.opened != 1 {
		t.Error("opened before the next report")
	}
	if make() != nil || a.rep.opened != 2 || make() != nil || a.rep.opened != 2 {
		t.Errorf("%v, opened %d times, expected 2", x.err, a.rep.opened)
	}
	broken = true
	a.Reopen()
	if make() == nil {
		t.Error("a report with a key that is gone")
	}
	broken = false
	for end := time.Now().Add(3 * time.Second); make() != nil; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(x.err)
		}
	}
	a.rep.close()
}
