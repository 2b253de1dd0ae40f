// SPDX-License-Identifier: Apache-2.0

package channel

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"
)

func TestBucket(t *testing.T) {
	t0 := time.Unix(1000, 0)
	b := newBucket(100, 10, t0)
	if n := b.take(25, t0); n != 10 {
		t.Errorf("full bucket gave %d, want 10", n)
	}
	if n := b.take(25, t0.Add(50*time.Millisecond)); n != 5 {
		t.Errorf("after 50 ms at 100/s: %d, want 5", n)
	}
	if n := b.take(25, t0.Add(time.Hour)); n != 10 {
		t.Errorf("after an hour: %d, want the burst, 10", n)
	}
	if n := b.take(1, t0); n != 0 {
		t.Errorf("clock set back gave %d tokens", n)
	}
}

// TestFlood: a client far above its rate gets refusals, not service, and
// another client is served meanwhile.
func TestFlood(t *testing.T) {
	h := &echo{}
	s, addr := startServer(t, h, ServerOptions{Limits: Limits{PerSecond: 1000, Burst: 100}}, "tcp")
	flood := dial(t, "tcp", addr, Options{})
	go func() { // it reads its refusals
		for {
			if _, err := flood.Recv(nil); err != nil {
				return
			}
		}
	}()
	stop := make(chan struct{})
	flooded := make(chan struct{})
	go func() {
		defer close(flooded)
		batch := make([]Announcement, 100)
		for i := range batch {
			batch[i] = ann(2, byte(i))
		}
		for {
			select {
			case <-stop:
				return
			default:
				if flood.Announce(batch) != nil { // its own bound was reached: the agent reads it slowly
					return
				}
			}
		}
	}()
	good := dial(t, "tcp", addr, Options{})
	for i := byte(0); i < 20; i++ {
		start := time.Now()
		if err := good.Announce([]Announcement{ann(2, i)}); err != nil {
			t.Fatal(err)
		}
		collect(t, good, 1)
		if d := time.Since(start); d > 2*time.Second {
			t.Errorf("answer %d took %v beside a flood", i, d)
		}
		time.Sleep(5 * time.Millisecond)
	}
	close(stop)
	<-flooded
	st := s.Stats()
	if st.OverLimit == 0 {
		t.Error("the flood was not limited")
	}
	if st.Announced > 3000 {
		t.Errorf("%d announcements were accepted at a limit of 1,000/s", st.Announced)
	}
}

// TestSlowClient: a client that never reads is cut off at its bound and its
// memory given back.
func TestSlowClient(t *testing.T) {
	h := &echo{}
	h.needs = nil
	s, addr := startServer(t, h, ServerOptions{Limits: Limits{PerSecond: 1 << 30, Burst: 1 << 30, Outstanding: 1 << 30, Queue: 1}}, "tcp")
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(20 * time.Second))
	c.Write(frame(nil, (&gateHello{1, 1, "", nil, nil}).append))
	batch := make([]Announcement, MaxBatch)
	for i := range batch {
		batch[i] = ann(2, byte(i))
	}
	msg := frame(nil, func(b []byte) []byte { return appendAnnounce(b, batch) })
	sent := 0
	for ; sent < 4000; sent++ {
		if _, err := c.Write(msg); err != nil {
			break
		}
	}
	if sent == 4000 {
		t.Fatal("a client that does not read was never cut off")
	}
	for i := 0; s.Stats().Slow != 1 || s.Stats().Clients != 0; i++ {
		if i == 500 {
			t.Fatalf("stats %+v", s.Stats())
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// TestOutstanding: announcements without an answer are counted.
func TestOutstanding(t *testing.T) {
	h := &echo{silent: true}
	_, addr := startServer(t, h, ServerOptions{Limits: Limits{Outstanding: 5}}, "unix")
	c := dial(t, "unix", addr, Options{})
	c.Announce([]Announcement{ann(2, 0), ann(2, 1), ann(2, 2), ann(2, 3)})
	c.Announce([]Announcement{ann(2, 4), ann(2, 5), ann(2, 6)})
	ev := collect(t, c, 2)
	for i, e := range ev {
		if e.Kind != KindRefused || e.Refused.Code != CodeBusy || e.Refused.CH != ann(2, byte(5+i)).CH {
			t.Errorf("event %d: %+v", i, e)
		}
	}
}

func TestProtocolErrors(t *testing.T) {
	_, addr := startServer(t, &echo{}, ServerOptions{Limits: Limits{HelloTimeout: 200 * time.Millisecond}}, "tcp")
	hello := frame(nil, (&gateHello{1, 1, "", nil, nil}).append)
	for name, c := range map[string]struct {
		send []byte
		code string
	}{
		"silence":            {nil, CodeProtocol},
		"not the protocol":   {[]byte("GET / HTTP/1.1\r\n\r\n"), CodeProtocol},
		"empty frame":        {[]byte{0, 0, 0, 0}, CodeProtocol},
		"frame too large":    {[]byte{0, 2, 0, 0}, CodeProtocol},
		"announce first":     {frame(nil, func(b []byte) []byte { return appendAnnounce(b, []Announcement{ann(2, 2)}) }), CodeProtocol},
		"two hellos":         {append(clone(hello), hello...), CodeProtocol},
		"only later version": {frame(nil, (&gateHello{7, 9, "", nil, nil}).append), CodeVersion},
	} {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		conn.SetDeadline(time.Now().Add(5 * time.Second))
		conn.Write(c.send)
		fr := frameReader{r: conn, max: MaxFrameFromAgent}
		var last agentMessage
		for {
			f, err := fr.next()
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if f == nil {
				if fr.fill() != nil {
					break
				}
				continue
			}
			var p []Hash
			if last, err = decodeAgent(f, &p); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		if last.goodbye == nil || last.goodbye.code != c.code {
			t.Errorf("%s: last message %+v, want Goodbye with %s", name, last, c.code)
		}
		conn.Close()
	}
}

// TestClientRefuses: an agent that breaks the order of messages is not believed.
func TestClientRefuses(t *testing.T) {
	hello := (&agentHello{1, "a", nil}).append
	report := func(id uint64) func([]byte) []byte { return (&Report{id, "t", nil, nil, 1}).append }
	session := func(id uint64) func([]byte) []byte { return (&Session{Report: id}).append }
	for name, msgs := range map[string][]func([]byte) []byte{
		"session without report": {hello, session(1)},
		"session of old report":  {hello, report(1), report(2), session(1)},
		"report id falls":        {hello, report(2), report(1)},
		"second hello":           {hello, hello},
		"tree of no leaves":      {hello, (&Report{1, "t", nil, nil, 0}).append},
		"unknown version":        {(&agentHello{9, "a", nil}).append},
		"hello missing":          {report(1)},
		"goodbye":                {(&goodbye{CodeShutdown, "x"}).append},
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			c, err := l.Accept()
			if err != nil {
				return
			}
			var b []byte
			for _, m := range msgs {
				b = frame(b, m)
			}
			c.Write(b)
			time.Sleep(100 * time.Millisecond)
			c.Close()
		}()
		c, err := Dial(context.Background(), "tcp", l.Addr().String(), Options{})
		for err == nil {
			_, err = c.Recv(nil)
		}
		if ne := net.Error(nil); errors.As(err, &ne) || err.Error() == "EOF" {
			t.Errorf("%s: accepted (%v)", name, err)
		}
		l.Close()
	}
}
