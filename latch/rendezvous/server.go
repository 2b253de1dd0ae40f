// SPDX-License-Identifier: Apache-2.0

package rendezvous

import (
	"crypto/rand"
	"encoding/hex"
	"log/slog"
	"sync"
	"time"

	"holdfast/latch/channel"
)

// Handler takes announcements. It is called from the bus's goroutine; batch
// is its own. Each announcement needs at most one answer by g: an agent that
// observed nothing stays silent.
type Handler func(g *Gate, batch []channel.Announcement)

// Limits bound what all gates of a bus together may ask, since anybody can be
// any number of gates. Zero values take the default.
type Limits struct {
	PerSecond int // announcements; default 20,000
	Gates     int // remembered at once; default 4,096
}

// Stats counts since the start of the server.
type Stats struct {
	Calls     uint64 `json:"calls"`
	Announced uint64 `json:"announced"`
	OverLimit uint64 `json:"over_limit"` // announcements that were dropped
	Malformed uint64 `json:"malformed"`
	Sessions  uint64 `json:"sessions"`
	Refused   uint64 `json:"refused"`
	Failed    uint64 `json:"failed"` // messages that the bus did not take
}

// Server is the agent's end.
type Server struct {
	bus     Bus
	prefix  string
	token   Token
	handler Handler
	find    func(channel.Hash) (*channel.Endorsement, bool)
	limits  Limits

	mu     sync.Mutex
	gates  map[Token]*Gate
	order  []*Gate
	tokens float64
	filled time.Time
	stats  Stats
}

// NewServer joins the bus as an agent. find looks an endorsement up that a
// report needs. The server owns the bus.
func NewServer(b Bus, prefix string, find func(channel.Hash) (*channel.Endorsement, bool), l Limits, h Handler) (*Server, error) {
	if l.PerSecond <= 0 {
		l.PerSecond = 20000
	}
	if l.Gates <= 0 {
		l.Gates = 4096
	}
	s := &Server{bus: b, prefix: prefix, handler: h, find: find, limits: l, gates: map[Token]*Gate{}, tokens: float64(l.PerSecond), filled: time.Now()}
	if _, err := rand.Read(s.token[:]); err != nil {
		return nil, err
	}
	if err := b.Subscribe(callSubject(prefix), s.call); err != nil {
		return nil, err
	}
	return s, nil
}

// Stats returns the counters.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats
}

// Done is closed when the bus is lost for good.
func (s *Server) Done() <-chan struct{} { return s.bus.Done() }

// Close leaves the bus.
func (s *Server) Close() error { return s.bus.Close() }

func (s *Server) call(_ string, data []byte) {
	m, err := channel.ParseCall(data)
	now := time.Now()
	s.mu.Lock()
	if err != nil {
		s.stats.Malformed++
		s.mu.Unlock()
		return
	}
	s.stats.Calls++
	rate := float64(s.limits.PerSecond)
	s.tokens = min(rate, s.tokens+now.Sub(s.filled).Seconds()*rate)
	s.filled = now
	n := min(len(m.Batch), int(s.tokens))
	s.tokens -= float64(n)
	s.stats.Announced += uint64(n)
	s.stats.OverLimit += uint64(len(m.Batch) - n)
	g := s.gate(m.Gate)
	s.mu.Unlock()
	g.mu.Lock()
	g.have = m.Have
	g.mu.Unlock()
	if n > 0 {
		s.handler(g, m.Batch[:n])
	}
}

// gate finds or makes a gate; called with mu held.
func (s *Server) gate(t Token) *Gate {
	if g := s.gates[t]; g != nil {
		return g
	}
	if len(s.order) >= s.limits.Gates {
		delete(s.gates, s.order[0].token)
		s.order[0] = nil
		s.order = s.order[1:]
	}
	g := &Gate{s: s, token: t, subject: gateSubject(s.prefix, t), sent: map[channel.Hash]time.Time{}}
	s.gates[t] = g
	s.order = append(s.order, g)
	return g
}

// Gate is one gate as the agent sees it. Its methods do not block.
type Gate struct {
	s       *Server
	token   Token
	subject string

	mu   sync.Mutex
	have []channel.Hash
	sent map[channel.Hash]time.Time
	buf  []byte
}

// sendAgain is how long a gate has to say that it has an endorsement before it
// is sent with the next report again.
const sendAgain = time.Second

func (g *Gate) publish(last string, add func([]byte) ([]byte, error)) error {
	b, err := add(append(g.buf[:0], g.s.token[:]...))
	g.buf = b
	if err == nil {
		err = g.s.bus.Publish(g.subject+"."+last, b)
	}
	return err
}

// Deliver publishes a report, what it needs and the gate lacks, and the
// sessions of this gate. Numbers of reports must rise.
func (g *Gate) Deliver(r *channel.Report, sessions []channel.Session) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	var failed uint64
	now := time.Now()
	try := func(err error) {
		if err != nil {
			failed++
			slog.Debug("rendezvous", "error", err)
		}
	}
	for _, h := range r.Needs {
		if has(g.have, h) || now.Sub(g.sent[h]) < sendAgain {
			continue
		}
		if e, ok := g.s.find(h); ok {
			g.sent[h] = now
			try(g.publish(tokenEndorsement, func(b []byte) ([]byte, error) { return e.Append(b), nil }))
		}
	}
	try(g.publish(tokenReport, r.Append))
	for i := range sessions {
		s := &sessions[i]
		s.Report = r.ID
		try(g.publish(hex.EncodeToString(s.CH[:]), func(b []byte) ([]byte, error) { return s.Append(b), nil }))
	}
	g.s.mu.Lock()
	g.s.stats.Sessions += uint64(len(sessions))
	g.s.stats.Failed += failed
	g.s.mu.Unlock()
	return nil
}

// Refuse publishes refusals.
func (g *Gate) Refuse(refused []channel.Refused) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range refused {
		r := &refused[i]
		if err := g.publish(hex.EncodeToString(r.CH[:]), func(b []byte) ([]byte, error) { return r.Append(b), nil }); err != nil {
			return err
		}
	}
	g.s.mu.Lock()
	g.s.stats.Refused += uint64(len(refused))
	g.s.mu.Unlock()
	return nil
}
