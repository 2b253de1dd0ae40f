// SPDX-License-Identifier: Apache-2.0

package rendezvous

import (
	"bytes"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/latch/channel"
)

// hub is a message system inside the test: it delivers at once, in order.
type hub struct {
	mu   sync.Mutex
	subs []sub
	log  []string
}

type sub struct {
	subject string
	fn      func(string, []byte)
}

// end is one connection to a hub.
type end struct {
	h    *hub
	done chan struct{}
	once sync.Once
}

func (h *hub) join() *end { return &end{h: h, done: make(chan struct{})} }

func (e *end) Publish(subject string, data []byte) error {
	e.h.mu.Lock()
	subs := append([]sub(nil), e.h.subs...)
	e.h.log = append(e.h.log, subject)
	e.h.mu.Unlock()
	for _, s := range subs {
		if s.subject == subject || strings.HasSuffix(s.subject, ">") && strings.HasPrefix(subject, strings.TrimSuffix(s.subject, ">")) {
			s.fn(subject, bytes.Clone(data))
		}
	}
	return nil
}

func (e *end) Subscribe(subject string, fn func(string, []byte)) error {
	e.h.mu.Lock()
	e.h.subs = append(e.h.subs, sub{subject, fn})
	e.h.mu.Unlock()
	return nil
}

func (e *end) Done() <-chan struct{} { return e.done }
func (e *end) Close() error          { e.once.Do(func() { close(e.done) }); return nil }

var endorsement = channel.Endorsement{Type: "application/x-chain", Body: []byte("chain")}

func find(h channel.Hash) (*channel.Endorsement, bool) {
	return &endorsement, h == endorsement.Hash()
}

func recv(t *testing.T, c *Client) []channel.Event {
	t.Helper()
	got := make(chan []channel.Event, 1)
	go func() {
		ev, _ := c.Recv(nil)
		got <- ev
	}()
	select {
	case ev := <-got:
		return ev
	case <-time.After(5 * time.Second):
		t.Fatal("nothing came")
		return nil
	}
}

// TestTwoAgents: two agents with the same numbers of reports answer one gate;
// sessions stay with their reports, and another gate hears nothing.
func TestTwoAgents(t *testing.T) {
	h := &hub{}
	var gates [2]*Gate
	var servers [2]*Server
	for i := range gates {
		s, err := NewServer(h.join(), "p", find, Limits{}, func(g *Gate, batch []channel.Announcement) {
			if len(batch) != 1 || batch[0].CH != (channel.Hash{7}) || batch[0].Grade != 1 {
				t.Errorf("announced %+v", batch)
			}
			gates[i] = g
		})
		if err != nil {
			t.Fatal(err)
		}
		servers[i] = s
	}
	c, err := Dial(h.join(), "p", nil)
	if err != nil {
		t.Fatal(err)
	}
	other, err := Dial(h.join(), "p", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Announce([]channel.Announcement{{CH: channel.Hash{7}, Random: channel.Hash{8}, Grade: 1}}); err != nil {
		t.Fatal(err)
	}
	for i, g := range gates {
		r := channel.Report{ID: 5, Type: "t", Body: []byte{byte(i)}, Needs: []channel.Hash{endorsement.Hash()}, Size: 1}
		if err := g.Deliver(&r, []channel.Session{{CH: channel.Hash{7}, Claims: []byte{byte(i)}}}); err != nil {
			t.Fatal(err)
		}
	}
	ev := recv(t, c)
	var kinds []channel.Kind
	bodies := map[uint64]byte{}
	for _, e := range ev {
		kinds = append(kinds, e.Kind)
		switch e.Kind {
		case channel.KindReport:
			bodies[e.Report.ID] = e.Report.Body[0]
		case channel.KindSession:
			if b, ok := bodies[e.Session.Report]; !ok || b != e.Session.Claims[0] {
				t.Errorf("session of agent %d with the report of %d (%v)", e.Session.Claims[0], b, ok)
			}
		}
	}
	// The first agent's endorsement reaches the gate before the second answers; that one
	// does not know, since the gate has not called again.
	if want := []channel.Kind{1, 2, 3, 1, 2, 3}; !reflect.DeepEqual(kinds, want) {
		t.Errorf("kinds %v, expected %v", kinds, want)
	}
	if len(other.in) != 0 {
		t.Errorf("another gate got %d messages", len(other.in))
	}
	// The next call tells that the gate has it.
	if err := c.Announce([]channel.Announcement{{CH: channel.Hash{7}, Grade: 1}}); err != nil {
		t.Fatal(err)
	}
	gates[0].Deliver(&channel.Report{ID: 6, Type: "t", Needs: []channel.Hash{endorsement.Hash()}, Size: 1}, nil)
	if ev := recv(t, c); len(ev) != 1 || ev[0].Kind != channel.KindReport {
		t.Errorf("got %+v, expected the report alone", ev)
	}
	if s := servers[0].Stats(); s.Calls != 2 || s.Announced != 2 || s.Sessions != 1 {
		t.Errorf("stats %+v", s)
	}
}

// TestStrangers: what others publish on a gate's subjects is ignored when it
// does not fit together.
func TestStrangers(t *testing.T) {
	h := &hub{}
	c, err := Dial(h.join(), "p", nil)
	if err != nil {
		t.Fatal(err)
	}
	agent := Token{1}
	session := (&channel.Session{CH: channel.Hash{1}, Report: 9, Claims: []byte{1}}).Append(agent[:])
	ch := strings.Repeat("0", 62)
	for name, m := range map[string]struct {
		last string
		data []byte
	}{
		"short":                         {"report", []byte{1, 2}},
		"no message":                    {"report", append(agent[:], 0xff)},
		"session without a report":      {"01" + ch, session},
		"session of another":            {"02" + ch, session},
		"refusal for another":           {"02" + ch, (&channel.Refused{CH: channel.Hash{1}, Code: "x"}).Append(agent[:])},
		"a gate's message to its agent": {"report", append(agent[:], (&channel.Call{Batch: make([]channel.Announcement, 1)}).Append(nil)...)},
	} {
		c.message(c.subject+"."+m.last, m.data)
		if len(c.in) != 0 {
			t.Errorf("%s was taken", name)
			<-c.in
		}
	}
	// Made-up agents and reports do not grow without bound.
	for i := range 3 * maxAgents {
		for j := range 2 * maxReports {
			c.number(Token{byte(i), byte(i >> 8)}, uint64(j))
		}
	}
	if len(c.agents) > maxAgents {
		t.Errorf("%d agents remembered", len(c.agents))
	}
	for _, a := range c.agents {
		if len(a.ids) > maxReports {
			t.Errorf("%d reports remembered", len(a.ids))
		}
	}
	// A flood fills the queue and no more.
	for range 2 * maxEvents {
		c.message(c.subject+".01"+ch, (&channel.Refused{CH: channel.Hash{1}, Code: "x"}).Append(agent[:]))
	}
	if len(c.in) != maxEvents || c.Dropped() != maxEvents {
		t.Errorf("%d wait, %d dropped", len(c.in), c.Dropped())
	}
}

// TestFlood: all gates of a bus together get no more than the limit, and gates
// are forgotten beyond theirs.
func TestFlood(t *testing.T) {
	h := &hub{}
	got := 0
	s, err := NewServer(h.join(), "p", find, Limits{PerSecond: 100, Gates: 10}, func(_ *Gate, batch []channel.Announcement) { got += len(batch) })
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	bus := h.join()
	for i := range 50 {
		call := channel.Call{Gate: Token{byte(i)}, Batch: make([]channel.Announcement, 20)}
		bus.Publish("p.call", call.Append(nil))
	}
	most := 100 + int(time.Since(start).Seconds()*100) + 1
	if got < 100 || got > most || len(s.gates) != 10 {
		t.Errorf("%d announcements, expected 100 to %d; %d gates, expected 10", got, most, len(s.gates))
	}
	if st := s.Stats(); st.OverLimit+st.Announced != 1000 {
		t.Errorf("stats %+v", st)
	}
	bus.Publish("p.call", []byte("junk"))
	if st := s.Stats(); st.Malformed != 1 {
		t.Errorf("stats %+v", st)
	}
}

func TestLost(t *testing.T) {
	h := &hub{}
	e := h.join()
	c, err := Dial(e, "p", nil)
	if err != nil {
		t.Fatal(err)
	}
	e.Close()
	if _, err := c.Recv(nil); err != ErrLost {
		t.Errorf("%v, expected ErrLost", err)
	}
}

func TestAddress(t *testing.T) {
	for in, want := range map[string][2]string{
		"192.0.2.1:4222":        {"192.0.2.1:4222", "holdfast"},
		"nats.test:4222/prod.a": {"nats.test:4222", "prod.a"},
		"[2001:db8::1]:4222":    {"[2001:db8::1]:4222", "holdfast"},
	} {
		if hp, p, err := ParseAddress(in); err != nil || hp != want[0] || p != want[1] {
			t.Errorf("%s: %q %q %v", in, hp, p, err)
		}
	}
	for _, in := range []string{"", "host", "host:", ":1", "h:1/", "h:1/a..b", "h:1/a.>", "h:1/*", "h:1/a b"} {
		if _, _, err := ParseAddress(in); err == nil {
			t.Errorf("%q was accepted", in)
		}
	}
	if _, _, err := ParseNATS("tcp:h:1"); err == nil {
		t.Error("tcp: was accepted")
	}
}
