// SPDX-License-Identifier: Apache-2.0

package swtpm

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync/atomic"

	"holdfast/tpmio/listen"
	"holdfast/tpmio/platform"
)

// Options of a Server.
type Options struct {
	// MaxLocality is the highest locality over the listeners: 0 to 2.
	MaxLocality uint8
	// OnShutdown, if not nil, is called after SHUTDOWN was answered: the one
	// who started the process wants it to end.
	OnShutdown func()
	Limits     listen.Limits
	Log        *slog.Logger // may be nil
}

// Server serves one machine. Several clients take turns, command by command.
type Server struct {
	machine *platform.Machine
	options Options
	conns   *listen.Server
	log     *slog.Logger
	shared  scope
}

// A scope is a set of data connections that share a locality, and the highest
// that it may have. All connections of the listeners form one, as tpm2-tss
// opens new connections for every command and for SET_LOCALITY; a passed
// descriptor forms one with the control connection it came by.
type scope struct {
	locality atomic.Uint32
	max      uint8
}

// NewServer returns a server; call ServeData and ServeControl.
func NewServer(m *platform.Machine, o Options) (*Server, error) {
	if o.MaxLocality > 2 {
		return nil, fmt.Errorf("swtpm: highest locality %d: over a listener only 0 to 2 can be allowed", o.MaxLocality)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{machine: m, options: o, conns: listen.NewServer(o.Limits, o.Log), log: o.Log}
	s.shared.max = o.MaxLocality
	return s, nil
}

// ServeData accepts data connections until Close and returns listen.ErrClosed
// or why the listener failed.
func (s *Server) ServeData(l net.Listener) error {
	return s.conns.Serve(l, func(c *listen.Conn) { s.runData(c, &s.shared) })
}

// ServeControl is ServeData for the control channel.
func (s *Server) ServeControl(l net.Listener) error {
	return s.conns.Serve(l, s.runControl)
}

// ServeOwn serves a data connection that needs no permission, such as the
// descriptor of a kernel's vTPM device: localities 0 to 4, which the other end
// sets by the kernel's command in the data stream. It returns when the
// connection ends.
func (s *Server) ServeOwn(nc net.Conn) {
	done := make(chan struct{})
	own := &scope{max: platform.MaxLocality}
	if !s.conns.Handle(nc, func(c *listen.Conn) {
		defer close(done)
		s.runData(c, own)
	}) {
		return
	}
	<-done
}

// Close closes the listeners and all connections.
func (s *Server) Close() error { return s.conns.Close() }

func (s *Server) ended(c *listen.Conn, channel string, err error) {
	if !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
		s.log.Debug("swtpm: connection closed", "channel", channel, "peer", c.RemoteAddr(), "error", err)
	}
}
