// SPDX-License-Identifier: Apache-2.0

// Package esr is the endpoint-substitution relay: the adversary that the latch
// is there to stop, as a program that really runs. Call [New], then
// [Relay.Serve] on a listener.
//
// The adversary holds the service's certificate and private key. It ends the
// client's TLS session itself, opens its own session to the genuine server and
// relays between them, so that the client sees a valid certificate and the
// genuine answers. What the client sends it can read; that is what it records.
//
// How it gets between the two is not its matter but the network's: see
// [Capture], by which a router makes itself the end of connections to an
// address that is not its own. The client is configured as ever.
package esr

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// Options of a relay.
type Options struct {
	// Certificate and key of the service, stolen.
	Certificate tls.Certificate
	// Genuine is the address of the genuine server; empty means the address
	// that the client dialled, which a capturing router sees as its own end.
	Genuine string
	// Decoy also passes the client's own ClientHello, bit for bit, to the
	// genuine server on a connection of its own, so that the server's machine
	// sees the very ClientHello that the client announced, and answers it with
	// a share that the adversary does not hold.
	Decoy bool
	// ForwardHello relays the client's whole session untouched (Decoy and
	// the termination are off): the adversary is then a mere wire. It is there
	// to show that a gate lets such a session pass.
	ForwardHello bool
	// Dial opens the adversary's connections; nil means from this process's
	// network. A relay in another namespace needs its own.
	Dial func(ctx context.Context, address string) (net.Conn, error)
	// Deadline bounds a connection; 0 means 30 s.
	Deadline time.Duration
}

// A Relay is a running adversary. It is safe for concurrent use.
type Relay struct {
	o Options

	mu      sync.Mutex
	seen    Seen
	request []byte
}

// Seen counts what the adversary has got.
type Seen struct {
	Connections  int    `json:"connections"`   // TCP connections taken
	ClientHellos int    `json:"client_hellos"` // ClientHellos read
	Handshakes   int    `json:"handshakes"`    // TLS sessions that the client completed with the adversary
	RequestBytes int    `json:"request_bytes"` // bytes of the client's application data read in plain
	ReplyBytes   int    `json:"reply_bytes"`
	Group        string `json:"group,omitempty"` // key exchange of the last session with the client
	ServerName   string `json:"server_name,omitempty"`
	LastError    string `json:"last_error,omitempty"`
}

// maxRequest is how much of the requests the relay keeps to show.
const maxRequest = 64 << 10

// New makes a relay.
func New(o Options) (*Relay, error) {
	if len(o.Certificate.Certificate) == 0 && !o.ForwardHello {
		return nil, errors.New("esr: the relay needs the service's certificate and key")
	}
	if o.Deadline == 0 {
		o.Deadline = 30 * time.Second
	}
	if o.Dial == nil {
		o.Dial = func(ctx context.Context, address string) (net.Conn, error) {
			var d net.Dialer
			d.SetMultipathTCP(false)
			return d.DialContext(ctx, "tcp", address)
		}
	}
	return &Relay{o: o}, nil
}

// Seen tells what the adversary has got up to now.
func (r *Relay) Seen() Seen {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen
}

// Request is what the adversary read of the clients' requests, the first 64 KiB.
func (r *Relay) Request() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]byte(nil), r.request...)
}

func (r *Relay) note(f func(*Seen)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(&r.seen)
}

// Serve takes connections until ctx ends or the listener fails, and returns
// when the last of them is over.
func (r *Relay) Serve(ctx context.Context, l net.Listener) error {
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	var connections sync.WaitGroup
	defer connections.Wait()
	for {
		c, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("esr: accept: %w", err)
		}
		r.note(func(s *Seen) { s.Connections++ })
		connections.Go(func() {
			defer c.Close()
			unblock := context.AfterFunc(ctx, func() { c.Close() })
			defer unblock()
			_ = c.SetDeadline(time.Now().Add(r.o.Deadline))
			if err := r.connection(ctx, c); err != nil {
				r.note(func(s *Seen) { s.LastError = err.Error() })
			}
		})
	}
}

// connection relays one connection of a client.
func (r *Relay) connection(ctx context.Context, client net.Conn) error {
	genuine := r.o.Genuine
	if genuine == "" {
		genuine = client.LocalAddr().String()
	}
	if r.o.ForwardHello {
		return r.wire(ctx, client, genuine)
	}
	recorded := &recorder{Conn: client}
	var decoy net.Conn
	var out *tls.Conn
	defer func() {
		if decoy != nil {
			decoy.Close()
		}
		if out != nil {
			out.Close()
		}
	}()
	// The genuine server answers first, so that the client is offered what that one chose.
	answer := func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		hello := recorded.stop()
		r.note(func(s *Seen) { s.ClientHellos++; s.ServerName = h.ServerName })
		var err error
		if r.o.Decoy {
			if decoy, err = r.sendDecoy(ctx, genuine, hello); err != nil {
				return nil, err
			}
		}
		if out, err = r.openGenuine(ctx, genuine, h); err != nil {
			return nil, err
		}
		c := &tls.Config{Certificates: []tls.Certificate{r.o.Certificate}, MinVersion: tls.VersionTLS12}
		if p := out.ConnectionState().NegotiatedProtocol; p != "" {
			c.NextProtos = []string{p}
		}
		return c, nil
	}
	in := tls.Server(recorded, &tls.Config{GetConfigForClient: answer})
	if err := in.HandshakeContext(ctx); err != nil {
		return fmt.Errorf("handshake with the client: %w", err)
	}
	r.note(func(s *Seen) { s.Handshakes++; s.Group = in.ConnectionState().CurveID.String() })
	return r.relay(in, out)
}

// sendDecoy passes the client's ClientHello records to the genuine server and
// waits for its first answer, so that the server's machine has made a
// ServerHello for it before the client gets the adversary's.
func (r *Relay) sendDecoy(ctx context.Context, genuine string, hello []byte) (net.Conn, error) {
	c, err := r.o.Dial(ctx, genuine)
	if err != nil {
		return nil, fmt.Errorf("decoy: %w", err)
	}
	_ = c.SetDeadline(time.Now().Add(r.o.Deadline))
	var answer [16]byte
	if _, err = c.Write(hello); err == nil {
		_, err = io.ReadFull(c, answer[:])
	}
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("decoy: %w", err)
	}
	return c, nil
}

// openGenuine opens the adversary's own session. It trusts the certificate
// whose key it holds; there is nothing to verify for it.
func (r *Relay) openGenuine(ctx context.Context, genuine string, h *tls.ClientHelloInfo) (*tls.Conn, error) {
	c, err := r.o.Dial(ctx, genuine)
	if err != nil {
		return nil, fmt.Errorf("dial the genuine server: %w", err)
	}
	_ = c.SetDeadline(time.Now().Add(r.o.Deadline))
	out := tls.Client(c, &tls.Config{ServerName: h.ServerName, NextProtos: h.SupportedProtos, InsecureSkipVerify: true, MinVersion: tls.VersionTLS12})
	if err := out.HandshakeContext(ctx); err != nil {
		c.Close()
		return nil, fmt.Errorf("handshake with the genuine server: %w", err)
	}
	return out, nil
}

// relay copies both ways and records the client's direction.
func (r *Relay) relay(client, genuine *tls.Conn) error {
	replies := make(chan error, 1)
	go func() {
		_, err := io.Copy(countingWriter{client, func(n int) { r.note(func(s *Seen) { s.ReplyBytes += n }) }}, genuine)
		_ = client.CloseWrite()
		replies <- err
	}()
	_, err := io.Copy(genuine, io.TeeReader(client, requestRecorder{r}))
	_ = genuine.CloseWrite()
	return errors.Join(err, <-replies)
}

// wire copies bytes both ways without reading them.
func (r *Relay) wire(ctx context.Context, client net.Conn, genuine string) error {
	out, err := r.o.Dial(ctx, genuine)
	if err != nil {
		return fmt.Errorf("dial the genuine server: %w", err)
	}
	defer out.Close()
	_ = out.SetDeadline(time.Now().Add(r.o.Deadline))
	replies := make(chan error, 1)
	go func() {
		_, err := io.Copy(client, out)
		closeWrite(client)
		replies <- err
	}()
	_, err = io.Copy(out, client)
	closeWrite(out)
	return errors.Join(err, <-replies)
}

func closeWrite(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.CloseWrite()
	}
}

// requestRecorder keeps and counts the client's plaintext.
type requestRecorder struct{ r *Relay }

func (w requestRecorder) Write(p []byte) (int, error) {
	w.r.mu.Lock()
	defer w.r.mu.Unlock()
	w.r.seen.RequestBytes += len(p)
	w.r.request = append(w.r.request, p[:min(len(p), maxRequest-len(w.r.request))]...)
	return len(p), nil
}

type countingWriter struct {
	io.Writer
	count func(int)
}

func (w countingWriter) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	w.count(n)
	return n, err
}

// recorder keeps what is read from a connection until stop.
type recorder struct {
	net.Conn
	stopped bool
	kept    []byte
}

func (c *recorder) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if !c.stopped {
		c.kept = append(c.kept, p[:n]...)
	}
	return n, err
}

// stop ends the recording. It is called by the handshake, on the goroutine
// that reads.
func (c *recorder) stop() []byte {
	c.stopped = true
	return c.kept
}
