// SPDX-License-Identifier: Apache-2.0

package cgroupskb

import (
	"io"
	"net/netip"
	"os"
	"strconv"
	"testing"
	"time"
)

// A process that ends leaves its sockets to the kernel, which goes on trying to
// send what is queued for a minute and more. The end of the hold, in whatever
// way it comes, must not let that out.
func TestOrphan(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(t *testing.T, l *lab){
		"detach": func(t *testing.T, l *lab) {
			if err := l.hold.Detach(); err != nil {
				t.Error(err)
			}
		},
		"dead gate, repaired": func(t *testing.T, l *lab) {
			l.hold.Close()
			for _, x := range mustStatus(t) {
				if x.Cgroup == l.cgroup {
					if err := Reclaim(x, false); err != nil {
						t.Error(err)
					}
				}
			}
		},
		"dead gate, folder gone, swept": func(t *testing.T, l *lab) {
			l.hold.Close()
			if err := os.Remove(l.cgroup); err != nil {
				t.Fatal(err)
			}
			sweepGone()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, Options{}, never)
			s := l.fakeServer(at, false)
			l.commandIn(l.client, "", "sleep", "30") // by which the namespace is found
			c := l.helper("leave", at)
			if out, err := wait(t, c, 5*time.Second); err != nil {
				t.Fatal(out, err)
			}
			l.gate.stop()
			end(t, l)
			select {
			case <-s.ended: // the server read until a reset or the end
			case <-time.After(6 * time.Second):
			}
			s.leaked(t)
			os.MkdirAll(l.cgroup, 0o755) // for the lab's clean-up
		})
	}
}

// What a process that ended still sends to a plain destination is not lost with
// the hold.
func TestOrphanPlain(t *testing.T) {
	t.Parallel()
	l := newLab(t, Options{Plain: []Plain{{Prefix: netip.MustParsePrefix(server4 + "/32"), Port: 443, TLS: true}}}, never)
	ln := l.listen(at)
	block := make(chan struct{})
	got := make(chan int64, 1)
	go func() {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		<-block // until then the client's queue is full
		c.SetDeadline(time.Now().Add(5 * time.Second))
		n, _ := io.Copy(io.Discard, c)
		got <- n
	}()
	l.commandIn(l.client, "", "sleep", "30")
	out, err := wait(t, l.helper("leave-full", at), 5*time.Second)
	if err != nil {
		t.Fatal(out, err)
	}
	l.gate.stop()
	if err := l.hold.Detach(); err != nil {
		t.Fatal(err)
	}
	close(block)
	select {
	case n := <-got:
		if strconv.FormatInt(n, 10) != out {
			t.Errorf("%d bytes came of %s", n, out)
		}
	case <-time.After(time.Minute):
		t.Error("no connection came to its end at the server")
	}
}

// A service manager removes a service's cgroup at its stop and makes another
// one at the same path at its start. That one must be held too: by the gate
// that runs, and by one that starts while an orphan keeps the old cgroup alive.
func TestNewCgroupSamePath(t *testing.T) {
	t.Parallel()
	for name, again := range map[string]func(t *testing.T, l *lab){
		"gate runs": func(t *testing.T, l *lab) {
			if again, err := l.hold.Follow(); err != nil || !again {
				t.Fatal(again, err)
			}
			if again, err := l.hold.Follow(); err != nil || again {
				t.Fatal(again, err)
			}
		},
		"gate starts": func(t *testing.T, l *lab) {
			l.hold.Close()
			h, err := Attach(Options{Cgroup: l.cgroup})
			if err != nil {
				t.Fatal(err)
			}
			l.hold = h
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, Options{}, never)
			s := l.fakeServer(at, false)
			l.commandIn(l.client, "", "sleep", "30")
			wait(t, l.helper("leave", at), 5*time.Second)
			l.gate.stop()
			if err := os.Remove(l.cgroup); err != nil {
				t.Fatal(err)
			}
			if _, err := l.hold.Follow(); err != nil {
				t.Fatal(err)
			}
			if err := os.Mkdir(l.cgroup, 0o755); err != nil {
				t.Fatal(err)
			}
			again(t, l)
			wait(t, l.helper("leave", at), 5*time.Second)
			if err := l.hold.Detach(); err != nil {
				t.Error(err)
			}
			for range 2 {
				select {
				case <-s.ended:
				case <-time.After(6 * time.Second):
				}
			}
			s.leaked(t)
		})
	}
}
