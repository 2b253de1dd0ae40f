// SPDX-License-Identifier: Apache-2.0

//go:build linux

package latch

import (
	"testing"

	"holdfast/test/netns"
)

// TestUrgentData: a relay passes the genuine ServerHello on, but as TCP urgent
// data. The client's kernel takes urgent bytes out of the stream, so what the
// program reads is not what the gate examined. It must not be released.
// The same relay without the flag is no attack and passes.
func TestUrgentData(t *testing.T) {
	l := newLab(t)
	l.serveGo()
	for _, mode := range []string{"split", "urgent"} {
		t.Run(mode, func(t *testing.T) {
			port := map[string]string{"split": "9001", "urgent": "9002"}[mode]
			// On the server's machine, so that the agent sees the genuine server
			// answer; the relay itself is unprotected.
			relay := l.start(l.server, netns.Command{Args: l.helperArgs("relay", ":"+port, netns.ServerV4+":"+goPort, mode)})
			if err := l.server.WaitTCP("127.0.0.1:"+port, netnsLimit); err != nil {
				t.Fatalf("%v %s", err, relay.Output())
			}
			l.forget()
			wire := watch(t, l.server)
			out, err := l.help("get", netns.ServerV4+":"+port, name, "/", "1")
			e := l.events("released", "refused")
			t.Logf("%v %s %+v", err, out, e)
			if mode == "split" {
				if len(e) != 1 || e[0].Msg != "released" || !answered(out) {
					t.Errorf("an honest relay: %v, the gate says %+v; %s", err, e, out)
				}
				return
			}
			for _, x := range e {
				if x.Msg == "released" {
					t.Errorf("released on bytes that the client never read")
				}
			}
			for _, b := range wire.streams(t, 9002) {
				if err := onlyHellos(b); err != nil {
					t.Errorf("sent %v", err)
				}
			}
		})
	}
}
