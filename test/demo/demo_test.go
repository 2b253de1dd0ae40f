// SPDX-License-Identifier: Apache-2.0

//go:build linux

package demo

import (
	"testing"

	"holdfast/test/host"
	"holdfast/test/netns"
)

// TestPlainActs: what the adversary can do to unprotected TLS, which the demo
// sets against the gate. If the attack did not work, the demo would show nothing.
func TestPlainActs(t *testing.T) {
	host.Need(t, "root", "netns", "nginx", "curl")
	s, err := newStage(netns.Binary(t), t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.close(); err != nil {
			t.Error(err)
		}
	})
	if err := s.writeNginxConf("X25519"); err != nil {
		t.Fatal(err)
	}
	if err := s.startNginx(""); err != nil {
		t.Fatal(err)
	}
	g, times, err := s.genuinePlain()
	if err != nil || !g.Answered || len(times) != requests || times[0] <= 0 || g.Group != "X25519" {
		t.Errorf("genuine: %+v, %v", g, err)
	}
	for _, flags := range [][]string{nil, {"--decoy"}} {
		r, err := s.underRelay(flags)
		if err != nil || !r.AdversaryReadRequest || !r.Answered || r.RequestBytesLeaked == 0 {
			t.Errorf("relay %v: %+v, %v", flags, r, err)
		}
	}
	if g, _, err = s.genuinePlain(); err != nil || !g.Answered {
		t.Errorf("after the adversary left: %+v, %v", g, err)
	}
}
