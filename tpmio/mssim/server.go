// SPDX-License-Identifier: Apache-2.0

package mssim

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"sync/atomic"

	"holdfast/tpmio/listen"
	"holdfast/tpmio/platform"
)

// Options of a Server.
type Options struct {
	// MaxLocality is the highest locality of a command: 0 to 2. Localities 3
	// and 4, and the hash sequence that acts at 4, belong to hardware, and are
	// not to be had over a network.
	MaxLocality uint8
	Limits      listen.Limits
	Log         *slog.Logger // may be nil
}

// Server serves one machine. Several clients take turns, command by command.
type Server struct {
	machine *platform.Machine
	options Options
	conns   *listen.Server
	log     *slog.Logger

	// Largest command and response so far, with their codes (GET_COMMAND_RESPONSE_SIZES).
	largestCommand, largestResponse atomic.Uint64
}

// NewServer returns a server; call Serve for its two listeners.
func NewServer(m *platform.Machine, o Options) (*Server, error) {
	if o.MaxLocality > 2 {
		return nil, fmt.Errorf("mssim: highest locality %d: over TCP only 0 to 2 can be allowed", o.MaxLocality)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Server{machine: m, options: o, conns: listen.NewServer(o.Limits, o.Log), log: o.Log}, nil
}

// Listen opens the command port at addr (HOST:PORT) and the platform port
// above it. Port 0 takes any two neighbours that are free.
func Listen(addr string) (command, plat net.Listener, err error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, nil, fmt.Errorf("mssim: address %q: expected HOST:PORT", addr)
	}
	tries := 1
	if port == "0" {
		tries = 100
	}
	for ; tries > 0; tries-- {
		if command, err = listen.Open(addr); err != nil {
			return nil, nil, err
		}
		next := command.Addr().(*net.TCPAddr).Port + 1
		if plat, err = listen.Open(net.JoinHostPort(host, strconv.Itoa(next))); err == nil {
			return command, plat, nil
		}
		command.Close()
	}
	return nil, nil, fmt.Errorf("mssim: the platform port, one above the command port: %w", err)
}

// Serve accepts connections on both ports until Close, and returns
// listen.ErrClosed, or why one of the ports failed.
func (s *Server) Serve(command, plat net.Listener) error {
	done := make(chan error, 2)
	go func() { done <- s.conns.Serve(command, func(c *listen.Conn) { s.run(c, s.commandRequest) }) }()
	go func() { done <- s.conns.Serve(plat, func(c *listen.Conn) { s.run(c, s.platformRequest) }) }()
	err := <-done
	s.conns.Close()
	return errors.Join(err, ignoreClosed(<-done))
}

func ignoreClosed(err error) error {
	if errors.Is(err, listen.ErrClosed) {
		return nil
	}
	return err
}

// Close closes the ports and all connections.
func (s *Server) Close() error { return s.conns.Close() }

// errEnd ends a connection in peace.
var errEnd = errors.New("session ended")

// run reads requests until one of them, or the peer, ends the connection.
func (s *Server) run(c *listen.Conn, request func(*listen.Conn, uint32) error) {
	for {
		b, err := c.Peek(4)
		if err == nil {
			err = request(c, binary.BigEndian.Uint32(b))
		}
		if err == nil {
			err = c.EndRequest()
		}
		if err != nil {
			if !errors.Is(err, errEnd) && !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
				s.log.Debug("mssim: connection closed", "peer", c.RemoteAddr(), "error", err)
			}
			return
		}
	}
}

// status answers with a bare status.
func status(c *listen.Conn, v uint32) error {
	_, err := c.Write(binary.BigEndian.AppendUint32(nil, v))
	return err
}

// refuse answers "failed" and ends the connection, since the arguments of an
// unknown request cannot be skipped.
func refuse(c *listen.Conn, format string, args ...any) error {
	return errors.Join(fmt.Errorf(format, args...), status(c, statusFailed))
}
