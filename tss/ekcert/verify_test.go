// SPDX-License-Identifier: Apache-2.0

package ekcert_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdfast/softtpmtest"
	"holdfast/tss"
	"holdfast/tss/ekcert"
)

// TestVerify: each profile's certificate is accepted with its own authority
// and refused with another, after its end, changed, and for another key.
func TestVerify(t *testing.T) {
	dir, other := filepath.Join(t.TempDir(), "ca"), filepath.Join(t.TempDir(), "ca")
	ca, err := ekcert.OpenCA(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ekcert.OpenCA(other); err != nil {
		t.Fatal(err)
	}
	all := func(dir string) (b []byte) {
		for _, n := range []string{"ca-ecdsa.pem", "ca-mldsa65.pem"} {
			p, err := os.ReadFile(filepath.Join(dir, n))
			if err != nil {
				t.Fatal(err)
			}
			b = append(b, p...)
		}
		return b
	}
	good, foreign := all(dir), all(other)
	c := tss.New(softtpmtest.New(t))
	for _, p := range ekcert.Profiles() {
		r, err := ekcert.Provision(c, ca, p, ekcert.Options{})
		if err != nil {
			t.Fatal(err)
		}
		ek, err := c.CreatePrimary(tss.Endorsement(nil), p.Template, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.FlushContext(ek.Handle); err != nil {
			t.Fatal(err)
		}
		now := time.Now()
		if err := ekcert.Verify(r.DER, &ek.Key.Public, good, now); err != nil {
			t.Errorf("%v: %v", p.Kind, err)
		}
		changed := append([]byte(nil), r.DER...)
		changed[len(changed)-1] ^= 1
		elsewhere := ek.Key.Public
		elsewhere.Unique = append([]byte{1}, elsewhere.Unique...)
		elsewhere.Point.X, elsewhere.Point.Y = elsewhere.Point.Y, elsewhere.Point.X
		for name, f := range map[string]func() error{
			"another authority": func() error { return ekcert.Verify(r.DER, &ek.Key.Public, foreign, now) },
			"no authority":      func() error { return ekcert.Verify(r.DER, &ek.Key.Public, nil, now) },
			"after its end":     func() error { return ekcert.Verify(r.DER, &ek.Key.Public, good, now.AddDate(30, 0, 0)) },
			"changed":           func() error { return ekcert.Verify(changed, &ek.Key.Public, good, now) },
			"another key":       func() error { return ekcert.Verify(r.DER, &elsewhere, good, now) },
			"no certificate":    func() error { return ekcert.Verify([]byte(strings.Repeat("x", 9)), &ek.Key.Public, good, now) },
		} {
			if f() == nil {
				t.Errorf("%v: %s: accepted", p.Kind, name)
			}
		}
	}
}
