// SPDX-License-Identifier: Apache-2.0

package channel

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// echo answers every announcement at once: even first byte of CH gets a
// session, odd a refusal.
type echo struct {
	mu     sync.Mutex
	id     uint64
	closed int
	seen   int
	needs  []Hash
	silent bool
	ids    map[*Conn]uint64
}

func (e *echo) Announced(c *Conn, batch []Announcement) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.seen += len(batch)
	if e.silent {
		return
	}
	var ss []Session
	var rs []Refused
	for _, a := range batch {
		if a.CH[0]&1 == 0 {
			ss = append(ss, Session{CH: a.CH, Index: uint64(a.CH[1]), Path: []Hash{a.Random}, Claims: []byte{0xa0}})
		} else {
			rs = append(rs, Refused{a.CH, "not-observed", "no"})
		}
	}
	e.id++
	c.Refuse(rs)
	if len(ss) > 0 {
		c.Deliver(&Report{ID: e.id, Type: "application/test", Body: []byte("body"), Needs: e.needs, Size: 4}, ss)
	}
}

func (e *echo) Closed(*Conn) { e.mu.Lock(); e.closed++; e.mu.Unlock() }

// withLoop gives the server a Loop, in the tests that want one.
var withLoop = func(*testing.T, *ServerOptions) {}

func startServer(t *testing.T, h Handler, o ServerOptions, network string) (*Server, string) {
	t.Helper()
	addr := "127.0.0.1:0"
	if network == "unix" {
		addr = filepath.Join(t.TempDir(), "s")
	}
	l, err := net.Listen(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	withLoop(t, &o)
	s, err := NewServer(h, o)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Close()
		if err := <-done; err != ErrClosed {
			t.Errorf("Serve returned %v, expected ErrClosed", err)
		}
	})
	return s, l.Addr().String()
}

func dial(t *testing.T, network, addr string, o Options) *Client {
	t.Helper()
	c, err := Dial(context.Background(), network, addr, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// collect receives until n sessions and refusals have come, with a bound in time.
func collect(t *testing.T, c *Client, n int) []Event {
	t.Helper()
	timer := time.AfterFunc(10*time.Second, func() { c.Close() })
	defer timer.Stop()
	var all []Event
	for got := 0; got < n; {
		ev, err := c.Recv(nil)
		if err != nil {
			t.Fatalf("after %d of %d answers: %v", got, n, err)
		}
		for _, e := range ev {
			if e.Kind == KindSession {
				e.Session.Path = append([]Hash(nil), e.Session.Path...)
				e.Session.Claims = clone(e.Session.Claims)
			}
			if e.Kind >= KindSession {
				got++
			}
			all = append(all, e)
		}
	}
	return all
}

func ann(i, j byte) Announcement { return Announcement{CH: Hash{i, j}, Random: Hash{j, i}, Grade: 1} }

func TestExchange(t *testing.T) {
	chain := Endorsement{"application/chain", []byte("a chain")}
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			h := &echo{needs: []Hash{chain.Hash()}}
			s, addr := startServer(t, h, ServerOptions{Software: "agent 1", Services: []string{"bank", "mail"}}, network)
			if err := s.SetEndorsements([]Endorsement{chain}); err != nil {
				t.Fatal(err)
			}
			c := dial(t, network, addr, Options{Software: "gate 1"})
			if c.Software() != "agent 1" || len(c.Services()) != 2 || c.Services()[1] != "mail" || c.Version() != 2 {
				t.Fatalf("Hello: %q %q %d", c.Software(), c.Services(), c.Version())
			}
			var all []Event
			for round := byte(0); round < 3; round++ {
				if err := c.Announce([]Announcement{ann(2, round), ann(3, round), ann(4, round)}); err != nil {
					t.Fatal(err)
				}
				all = append(all, collect(t, c, 3)...)
			}
			var kinds []Kind
			for _, e := range all {
				kinds = append(kinds, e.Kind)
				switch e.Kind {
				case KindSession:
					if a := ann(e.Session.CH[0], e.Session.CH[1]); e.Session.Path[0] != a.Random || string(e.Session.Claims) != "\xa0" || e.Session.Index != uint64(a.CH[1]) {
						t.Errorf("session %+v", e.Session)
					}
				case KindEndorsement:
					if e.Endorsement.Hash() != chain.Hash() {
						t.Error("the endorsement changed on its way")
					}
				}
			}
			want := []Kind{KindRefused, KindEndorsement, KindReport, KindSession, KindSession,
				KindRefused, KindReport, KindSession, KindSession, KindRefused, KindReport, KindSession, KindSession}
			if len(kinds) != len(want) {
				t.Fatalf("kinds %v, want %v", kinds, want)
			}
			for i := range want {
				if kinds[i] != want[i] {
					t.Fatalf("kinds %v, want %v", kinds, want)
				}
			}
			if err := c.Want([]Hash{chain.Hash(), {9}}); err != nil {
				t.Fatal(err)
			}
			if ev, err := c.Recv(nil); err != nil || len(ev) != 1 || ev[0].Kind != KindEndorsement {
				t.Fatalf("Want: %v, %v", ev, err)
			}

			c2 := dial(t, network, addr, Options{Have: []Hash{chain.Hash()}})
			c2.Announce([]Announcement{ann(2, 1)})
			if ev := collect(t, c2, 1); len(ev) != 2 || ev[0].Kind != KindReport {
				t.Errorf("a gate that has the endorsement got %d events, first of kind %d", len(ev), ev[0].Kind)
			}
		})
	}
}

func TestNotAllowed(t *testing.T) {
	_, addr := startServer(t, &echo{}, ServerOptions{Allow: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}, "tcp")
	_, err := Dial(context.Background(), "tcp", addr, Options{})
	if g := (*GoodbyeError)(nil); !errors.As(err, &g) || g.Code != CodeNotAllowed {
		t.Errorf("address outside the list: %v", err)
	}
	_, addr = startServer(t, &echo{}, ServerOptions{AllowUIDs: []uint32{uint32(os.Getuid()) + 1}}, "unix")
	_, err = Dial(context.Background(), "unix", addr, Options{})
	if g := (*GoodbyeError)(nil); !errors.As(err, &g) || g.Code != CodeNotAllowed {
		t.Errorf("user outside the list: %v", err)
	}
	_, addr = startServer(t, &echo{}, ServerOptions{AllowUIDs: []uint32{uint32(os.Getuid())}}, "unix")
	dial(t, "unix", addr, Options{})
}

func TestTooManyClients(t *testing.T) {
	_, addr := startServer(t, &echo{}, ServerOptions{Limits: Limits{Clients: 2}}, "tcp")
	a := dial(t, "tcp", addr, Options{})
	dial(t, "tcp", addr, Options{})
	_, err := Dial(context.Background(), "tcp", addr, Options{})
	if g := (*GoodbyeError)(nil); !errors.As(err, &g) || g.Code != CodeTooMany {
		t.Fatalf("third client: %v", err)
	}
	a.Close()
	for i := 0; ; i++ { // the place becomes free when the agent has seen the end
		c, err := Dial(context.Background(), "tcp", addr, Options{})
		if err == nil {
			c.Close()
			break
		}
		if i == 100 {
			t.Fatalf("place not given back: %v", err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
