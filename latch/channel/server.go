// SPDX-License-Identifier: Apache-2.0

package channel

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"
)

// Codes of refusal that the channel itself gives. The rest of the vocabulary
// is in latch/flow.
const (
	CodeBusy       = "busy" // above the client's rate or its outstanding announcements
	CodeDuplicate  = "announced-twice"
	CodeVersion    = "channel-version"
	CodeNotAllowed = "client-not-allowed"
	CodeTooMany    = "too-many-clients"
	CodeProtocol   = "channel-protocol"
	CodeShutdown   = "agent-stopping"
)

// Handler receives what gates say. Methods are called from the goroutine of
// the connection, so that a slow handler slows that client alone.
type Handler interface {
	// Announced takes announcements within the client's limits. batch is valid
	// only during the call. Each needs one answer: Conn.Deliver or Conn.Refuse.
	Announced(c *Conn, batch []Announcement)
	// Closed says that no more announcements come from c and that no answer
	// reaches it. It is called once, after the last Announced.
	Closed(c *Conn)
}

// ServerOptions describe the agent to its gates.
type ServerOptions struct {
	Software string
	Services []string
	Limits   Limits
	// Allow lists the clients that may ask, by address (TCP) or user id (unix
	// sockets, on Linux). Both empty: everybody who reaches the socket. With
	// one of them set, a client that cannot be identified is refused.
	Allow     []netip.Prefix
	AllowUIDs []uint32
	// Loop, if set, reads the connections once they said Hello; its owner must
	// call its Read. On Linux only.
	Loop *Loop
}

// Server is the agent's end of the channel.
type Server struct {
	o       ServerOptions
	handler Handler

	mu           sync.Mutex
	listeners    map[net.Listener]struct{}
	conns        map[*Conn]struct{}
	closed       bool
	wg           sync.WaitGroup
	endorsements map[Hash]*Endorsement
	stats        Stats
	turning      int // connections that are being turned away
}

// maxTurning bounds the connections that wait for their Goodbye to be read;
// beyond it a client that is turned away may not learn why.
const maxTurning = 64

// Stats counts since the start of the server.
type Stats struct {
	Clients   int    `json:"clients"` // now
	Accepted  uint64 `json:"accepted"`
	Turned    uint64 `json:"turned_away"` // not allowed, too many, protocol errors
	Announced uint64 `json:"announced"`
	OverLimit uint64 `json:"over_limit"` // announcements refused by the limits
	Slow      uint64 `json:"slow"`       // clients cut off because they did not read
	Sessions  uint64 `json:"sessions"`
	Refused   uint64 `json:"refused"`
	Reports   uint64 `json:"reports"`
}

// NewServer returns a server that waits for Serve.
func NewServer(h Handler, o ServerOptions) (*Server, error) {
	if len(o.Services) > MaxServices || len(o.Software) > MaxName {
		return nil, fmt.Errorf("channel: %d services, software name of %d bytes; at most %d and %d", len(o.Services), len(o.Software), MaxServices, MaxName)
	}
	for _, s := range o.Services {
		if len(s) > MaxName {
			return nil, fmt.Errorf("channel: service name of %d bytes, at most %d", len(s), MaxName)
		}
	}
	o.Limits = o.Limits.withDefaults()
	return &Server{o: o, handler: h, listeners: map[net.Listener]struct{}{}, conns: map[*Conn]struct{}{}, endorsements: map[Hash]*Endorsement{}}, nil
}

// SetEndorsements replaces what reports may need. Deliver sends each once per
// connection, before the first report that needs it.
func (s *Server) SetEndorsements(es []Endorsement) error {
	m := make(map[Hash]*Endorsement, len(es))
	for i := range es {
		e := &es[i]
		if len(e.Body) > MaxEndorsement || len(e.Type) > MaxName {
			return fmt.Errorf("channel: endorsement %q of %d bytes, expected at most %d", e.Type, len(e.Body), MaxEndorsement)
		}
		m[e.Hash()] = e
	}
	s.mu.Lock()
	s.endorsements = m
	s.mu.Unlock()
	return nil
}

func (s *Server) endorsement(h Hash) *Endorsement {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.endorsements[h]
}

// ErrClosed is returned by Serve after Close.
var ErrClosed = errors.New("channel: server closed")

// Serve accepts clients on l until Close or an error that is not temporary.
func (s *Server) Serve(l net.Listener) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		l.Close()
		return ErrClosed
	}
	s.listeners[l] = struct{}{}
	s.mu.Unlock()
	defer l.Close()
	for {
		c, err := l.Accept()
		if err != nil {
			s.mu.Lock()
			closed := s.closed
			delete(s.listeners, l)
			s.mu.Unlock()
			if closed {
				return ErrClosed
			}
			if ne := net.Error(nil); errors.As(err, &ne) && !errors.Is(err, net.ErrClosed) {
				s.mu.Lock()
				s.listeners[l] = struct{}{}
				s.mu.Unlock()
				time.Sleep(10 * time.Millisecond) // out of descriptors, aborted connection: others come
				continue
			}
			return err
		}
		s.start(c)
	}
}

// start admits a connection or turns it away with a Goodbye.
func (s *Server) start(c net.Conn) {
	q := newQueue(c, s.o.Limits.Queue)
	conn := &Conn{s: s, conn: c, q: q, sent: map[Hash]bool{}, remote: c.RemoteAddr(), fr: frameReader{r: c, max: MaxFrameFromGate}, bucket: newBucket(s.o.Limits.PerSecond, s.o.Limits.Burst, time.Now())}
	code, text := "", ""
	if err := s.allowed(c); err != nil {
		code, text = CodeNotAllowed, err.Error()
	}
	s.mu.Lock()
	switch {
	case s.closed:
		code, text = CodeShutdown, "the agent is stopping"
	case code == "" && len(s.conns) >= s.o.Limits.Clients:
		code, text = CodeTooMany, fmt.Sprintf("the agent serves %d clients already, its limit", s.o.Limits.Clients)
	}
	if code != "" {
		s.stats.Turned++
		stay := s.turning < maxTurning && !s.closed
		if stay {
			s.turning++
			s.wg.Add(1)
		}
		s.mu.Unlock()
		conn.goodbye(code, text)
		if !stay {
			c.Close()
			return
		}
		go func() {
			defer s.wg.Done()
			conn.drain()
			c.Close()
			s.mu.Lock()
			s.turning--
			s.mu.Unlock()
		}()
		return
	}
	s.stats.Accepted++
	s.conns[conn] = struct{}{}
	s.wg.Add(1)
	s.mu.Unlock()
	go q.writer()
	go func() {
		defer s.wg.Done()
		conn.serve()
		s.mu.Lock()
		delete(s.conns, conn)
		s.mu.Unlock()
	}()
}

func (s *Server) allowed(c net.Conn) error {
	if len(s.o.Allow) == 0 && len(s.o.AllowUIDs) == 0 {
		return nil
	}
	if a, err := netip.ParseAddrPort(c.RemoteAddr().String()); err == nil {
		for _, p := range s.o.Allow {
			if p.Contains(a.Addr().Unmap().WithZone("")) {
				return nil
			}
		}
		return fmt.Errorf("clients from %s may not ask this agent", a.Addr())
	}
	uid, err := peerUID(c)
	if err != nil {
		return fmt.Errorf("the client cannot be identified: %v", err)
	}
	for _, u := range s.o.AllowUIDs {
		if u == uid {
			return nil
		}
	}
	return fmt.Errorf("user %d may not ask this agent", uid)
}

// Stats returns the counters.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.stats
	st.Clients = len(s.conns)
	return st
}

// Close says goodbye to every client, closes the listeners and waits for the
// connections to end.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	for l := range s.listeners {
		l.Close()
	}
	conns := make([]*Conn, 0, len(s.conns))
	for c := range s.conns {
		conns = append(conns, c)
	}
	s.mu.Unlock()
	for _, c := range conns {
		c.goodbye(CodeShutdown, "the agent is stopping")
	}
	s.wg.Wait()
	return nil
}
