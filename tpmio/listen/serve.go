// SPDX-License-Identifier: Apache-2.0

package listen

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// Limits of a Server; zero fields take the defaults.
type Limits struct {
	Connections int           // at once, over all listeners of the Server; default 1024
	Request     time.Duration // from the first to the last byte of a request; default 20 s
	Response    time.Duration // for the peer to take a response; default 20 s
}

func (l *Limits) defaults() {
	if l.Connections == 0 {
		l.Connections = 1024
	}
	if l.Request == 0 {
		l.Request = 20 * time.Second
	}
	if l.Response == 0 {
		l.Response = 20 * time.Second
	}
}

// Server accepts connections. Create it with NewServer.
type Server struct {
	limits Limits
	log    *slog.Logger

	mu        sync.Mutex
	conns     map[*Conn]struct{}
	listeners map[net.Listener]struct{}
	closed    bool
	wg        sync.WaitGroup
}

// NewServer returns a server without listeners. log may be nil.
func NewServer(l Limits, log *slog.Logger) *Server {
	l.defaults()
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Server{limits: l, log: log, conns: map[*Conn]struct{}{}, listeners: map[net.Listener]struct{}{}}
}

// ErrClosed is what Serve returns after Close.
var ErrClosed = errors.New("the server was closed")

// Serve accepts connections from l and runs handle for each in a goroutine of
// its own; the connection is closed when handle returns. Serve returns
// ErrClosed after Close, or the error that ended it.
func (s *Server) Serve(l net.Listener, handle func(*Conn)) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		l.Close()
		return ErrClosed
	}
	s.listeners[l] = struct{}{}
	s.mu.Unlock()
	pause := time.Millisecond
	for {
		nc, err := l.Accept()
		if err != nil {
			s.mu.Lock()
			closed := s.closed
			s.mu.Unlock()
			if closed {
				return ErrClosed
			}
			// Out of descriptors, say: others must not suffer from a busy loop.
			if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ECONNABORTED) || errors.Is(err, syscall.ENOBUFS) || errors.Is(err, syscall.ENOMEM) {
				s.log.Warn("cannot accept a connection", "error", err)
				time.Sleep(pause)
				pause = min(2*pause, time.Second)
				continue
			}
			return fmt.Errorf("cannot accept connections: %w", err)
		}
		pause = time.Millisecond
		if err := checkPeer(nc); err != nil {
			s.log.Warn("connection refused", "error", err)
			nc.Close()
			continue
		}
		s.Handle(nc, handle)
	}
}

// Handle runs handle for a connection that the caller made or was given, such
// as a passed descriptor; the rules of peers do not apply to it. It returns
// false, and has closed the connection, when there are too many.
func (s *Server) Handle(nc net.Conn, handle func(*Conn)) bool {
	c := newConn(nc, s.limits)
	if !s.add(c) {
		s.log.Warn("connection refused: too many", "limit", s.limits.Connections)
		nc.Close()
		return false
	}
	go func() {
		defer s.remove(c)
		handle(c)
	}()
	return true
}

// add registers c. When the house is full, it shows the door to a connection
// that has never sent a whole request, the oldest first: nothing is lost with
// it, and those who work with the TPM stay.
func (s *Server) add(c *Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	if len(s.conns) >= s.limits.Connections {
		var victim *Conn
		for o := range s.conns {
			if !o.served.Load() && (victim == nil || o.opened.Before(victim.opened)) {
				victim = o
			}
		}
		if victim == nil {
			return false
		}
		victim.Conn.Close()
		delete(s.conns, victim)
	}
	s.conns[c] = struct{}{}
	s.wg.Add(1)
	return true
}

func (s *Server) remove(c *Conn) {
	c.Close()
	s.mu.Lock()
	delete(s.conns, c)
	s.mu.Unlock()
	s.wg.Done()
}

// Close closes listeners and connections and waits for the handlers.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	for l := range s.listeners {
		l.Close()
	}
	for c := range s.conns {
		c.Conn.Close()
	}
	s.mu.Unlock()
	s.wg.Wait()
	return nil
}

// checkPeer refuses the peer of a unix socket that is neither our user nor
// root. A TCP peer cannot be told; who opens a TCP port has decided that.
func checkPeer(nc net.Conn) error {
	uc, ok := nc.(*net.UnixConn)
	if !ok {
		return nil
	}
	raw, err := uc.SyscallConn()
	if err != nil {
		return err
	}
	var uid, pid int
	var credErr error
	if err := raw.Control(func(fd uintptr) { uid, pid, credErr = peerOf(fd) }); err != nil {
		return err
	}
	if credErr != nil {
		return fmt.Errorf("cannot tell who the peer is: %w", credErr)
	}
	if uid != 0 && uid != os.Geteuid() {
		return fmt.Errorf("the peer is user %d (pid %d), expected user %d or root", uid, pid, os.Geteuid())
	}
	return nil
}
