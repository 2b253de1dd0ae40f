// SPDX-License-Identifier: Apache-2.0

//go:build linux

package latch

import (
	"fmt"
	"strings"
	"testing"

	"holdfast/test/host"
	"holdfast/test/netns"
)

// TestRelay: an adversary that owns the certificate's key ends the sessions
// and relays to the genuine server. It reads what clients without a gate send,
// and nothing of what clients behind the gate would send.
func TestRelay(t *testing.T) {
	l := newLab(t)
	l.serveGo()
	for _, decoy := range []bool{false, true} {
		port := map[bool]string{false: "9003", true: "9004"}[decoy]
		reason := map[bool]string{false: "not-observed", true: "binder-mismatch"}[decoy]
		// The relay runs outside of the observed group, so as on another machine.
		args := []string{l.bin, "--json", "esr", "--listen", "0.0.0.0:" + port, "--genuine", netns.ServerV4 + ":" + goPort, "--cert", l.path("cert.pem"), "--key", l.path("key.pem")}
		if decoy {
			args = append(args, "--decoy") // the genuine server answers the client's own hello too
		}
		relay := l.start(l.server, netns.Command{Args: args})
		if err := relay.WaitOutput("READY", netnsLimit); err != nil {
			t.Fatalf("%v %s", err, relay.Output())
		}
		wire := watch(t, l.server)
		for i, c := range clients {
			if !decoy && i > 2 {
				break // each waits seconds for an agent that has seen nothing
			}
			t.Run(fmt.Sprintf("%s-decoy=%v", c.name, decoy), func(t *testing.T) {
				if c.feature != "" {
					host.Need(t, c.feature)
				}
				if out, err := l.client.Run(c.args(l, netns.ServerV4, port)...); err != nil || !answered(out) {
					t.Fatalf("without a gate the relay does not work, so the test shows nothing: %v %s", err, out)
				}
				wire.forget()
				l.forget()
				out, _ := l.run(c.args(l, netns.ServerV4, port)...)
				if answered(out) {
					t.Errorf("the relay's answer came through: %s", out)
				}
				e := l.events("refused", "released")
				if len(e) == 0 {
					t.Errorf("the gate says nothing; %s", out)
				}
				for _, x := range e {
					if x.Msg != "refused" || x.Reason != reason {
						t.Errorf("the gate says %+v, want %s", x, reason)
					}
				}
				for src, b := range wire.streams(t, 9003, 9004) {
					if err := onlyHellos(b); err != nil {
						t.Errorf("%v has sent %v", src, err)
					}
				}
			})
		}
		if err := relay.Stop(); err != nil && !strings.Contains(relay.Output(), "requests") {
			t.Logf("relay: %v %s", err, relay.Output())
		}
	}
}
