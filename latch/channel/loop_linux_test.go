// SPDX-License-Identifier: Apache-2.0

package channel

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"holdfast/internal/hot"
)

// drive runs a loop until the test has ended.
func drive(t *testing.T, l *Loop) {
	outer, err := hot.New()
	if err != nil {
		t.Fatal(err)
	}
	if err := outer.Add(l.FD(), 0); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(func() {
		stop()
		outer.Wake()
		wg.Wait()
		outer.Close()
		l.Close()
	})
	wg.Go(func() {
		for ctx.Err() == nil {
			d := time.Second
			if next := l.Read(time.Now()); !next.IsZero() {
				d = max(time.Until(next), 0)
			}
			outer.Wait(nil, d, false)
		}
	})
}

// The rules of the channel hold in a loop as they do without one.
func TestServerLoop(t *testing.T) {
	withLoop = func(t *testing.T, o *ServerOptions) {
		l, err := NewLoop()
		if err != nil {
			t.Fatal(err)
		}
		drive(t, l)
		o.Loop = l
	}
	defer func() { withLoop = func(*testing.T, *ServerOptions) {} }()
	for name, f := range map[string]func(*testing.T){
		"Exchange": TestExchange, "NotAllowed": TestNotAllowed, "TooManyClients": TestTooManyClients, "Flood": TestFlood,
		"SlowClient": TestSlowClient, "Outstanding": TestOutstanding, "ProtocolErrors": TestProtocolErrors,
	} {
		t.Run(name, f)
	}
}

// A client in a set gets what one in Recv gets.
func TestClientLoop(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		s, addr := startServer(t, &echo{}, ServerOptions{}, network)
		c := dial(t, network, addr, Options{})
		p, err := hot.New()
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		if err := c.Join(p, 5); err != nil {
			t.Fatal(err)
		}
		if ev, err := c.RecvNow(nil); len(ev) != 0 || err != nil {
			t.Fatal(ev, err)
		}
		const rounds = 250 // more than one buffer full
		go func() {
			for i := range rounds {
				c.Announce([]Announcement{ann(2, byte(i)), ann(3, byte(i))})
			}
		}()
		next := byte(0)
		for answers := 0; answers < 2*rounds; {
			tok, err := p.Wait(nil, 5*time.Second, true)
			if err != nil || len(tok) != 1 || tok[0] != 5 {
				t.Fatalf("%d of %d answers, then %v, %v", answers, 2*rounds, tok, err)
			}
			ev, err := c.RecvNow(nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range ev {
				if e.Kind == KindSession {
					if a := ann(2, next); e.Session.CH != a.CH || len(e.Session.Path) != 1 || e.Session.Path[0] != a.Random || string(e.Session.Claims) != "\xa0" {
						t.Fatalf("session %+v, want number %d", e.Session, next)
					}
					next++
				}
				if e.Kind >= KindSession {
					answers++
				}
			}
		}
		go s.Close()
		for {
			p.Wait(nil, 5*time.Second, true)
			if _, err = c.RecvNow(nil); err != nil {
				break
			}
		}
		if _, ok := err.(*GoodbyeError); !ok {
			t.Errorf("%v, want the agent's goodbye", err)
		}
		select {
		case <-c.Done():
		default:
			t.Error("not done")
		}
	}
}

// Who closes the client's end finds it done, whoever waits for it.
func TestClientLoopClosed(t *testing.T) {
	_, addr := startServer(t, &echo{}, ServerOptions{}, "tcp")
	c := dial(t, "tcp", addr, Options{})
	p, err := hot.New()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if err := c.Join(p, 0); err != nil {
		t.Fatal(err)
	}
	c.Close()
	<-c.Done()
	if c.Err() != net.ErrClosed {
		t.Error(c.Err())
	}
	if _, err := c.RecvNow(nil); err == nil {
		t.Error("no error from a closed connection")
	}
	if err := c.Join(p, 0); err == nil {
		t.Error("a closed connection joined")
	}
}

// A client above its limits is read again after its penalty.
func TestLoopRests(t *testing.T) {
	l, err := NewLoop()
	if err != nil {
		t.Fatal(err)
	}
	drive(t, l)
	_, addr := startServer(t, &echo{}, ServerOptions{Loop: l, Limits: Limits{PerSecond: 10, Burst: 10}}, "tcp")
	c := dial(t, "tcp", addr, Options{})
	var flood []Announcement
	for i := range 50 {
		flood = append(flood, ann(2, byte(i)))
	}
	if err := c.Announce(flood); err != nil {
		t.Fatal(err)
	}
	busy := 0
	for _, e := range collect(t, c, 50) {
		if e.Kind == KindRefused && e.Refused.Code == CodeBusy {
			busy++
		}
	}
	if busy != 40 {
		t.Errorf("%d of 50 announcements were too many, want 40", busy)
	}
	time.Sleep(300 * time.Millisecond)
	if err := c.Announce([]Announcement{ann(2, 99)}); err != nil {
		t.Fatal(err)
	}
	if ev := collect(t, c, 1); ev[len(ev)-1].Kind != KindSession {
		t.Errorf("after the rest: %+v, want a session", ev)
	}
}
