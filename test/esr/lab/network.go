// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"
)

// timeout bounds one try; a busy machine needs a part of it.
const timeout = 20 * time.Second

// conn is a connection that a party serves.
type conn struct {
	net.Conn
	evidence bool // on the evidence channel of the latch, not on the service's port
}

// route is how a client reaches the service: the addresses that the network
// gives it.
type route struct{ service, evidence string }

// loot is what the adversary copied: power T gives cert, power B the rest.
type loot struct {
	cert tls.Certificate // of the service, with its key
	ra   tls.Certificate // of RA-TLS, with its key and evidence
	app  *appKey         // of the gateway
}

// attack is one try of the adversary: it serves the client's connections, and
// note records what it reads.
type attack struct {
	name  string
	serve func(c *conn, note func(plaintext string)) error
}

// network has the genuine service on one address and the adversary on another;
// the client is sent to whichever the test says.
type network struct {
	w      *world
	s      system
	wg     sync.WaitGroup
	cancel context.CancelFunc
	closes []io.Closer
}

func newNetwork(w *world, s system) *network { return &network{w: w, s: s} }

// listen serves every connection of a new address until the network stops.
func (n *network) listen(ctx context.Context, evidence bool, serve func(*conn) error) (string, io.Closer, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	n.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			n.wg.Go(func() {
				defer c.Close()
				stop := context.AfterFunc(ctx, func() { c.Close() })
				defer stop()
				_ = c.SetDeadline(time.Now().Add(timeout))
				_ = serve(&conn{c, evidence}) // a party that gives up closes; the client sees that
			})
		}
	})
	return l.Addr().String(), l, nil
}

// pair opens the two addresses of a party.
func (n *network) pair(ctx context.Context, serve func(*conn) error) (route, func(), error) {
	var r route
	var closers []io.Closer
	for evidence, to := range map[bool]*string{false: &r.service, true: &r.evidence} {
		a, l, err := n.listen(ctx, evidence, serve)
		if err != nil {
			return r, nil, err
		}
		*to = a
		closers = append(closers, l)
	}
	return r, func() {
		for _, l := range closers {
			l.Close()
		}
	}, nil
}

func (n *network) start(ctx context.Context) error {
	ctx, n.cancel = context.WithCancel(ctx)
	r, stop, err := n.pair(ctx, n.s.genuine)
	if err != nil {
		return err
	}
	n.w.direct = r
	n.closes = append(n.closes, closer(stop))
	return nil
}

type closer func()

func (c closer) Close() error { c(); return nil }

func (n *network) stop() {
	n.cancel()
	for _, c := range n.closes {
		c.Close()
	}
	n.wg.Wait()
}

// secret makes a request that nobody can guess.
func secret() string {
	b := make([]byte, 16)
	rand.Read(b)
	return "secret-" + hex.EncodeToString(b)
}

// answer is what the genuine service says to a request.
func answer(request string) string { return "genuine answer to " + request[len(request)-8:] }

// honest checks that the design works, over a relay that is a mere wire or
// without one.
func (n *network) honest(ctx context.Context, wire bool) error {
	r := n.w.direct
	if wire {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		w, stop, err := n.pair(ctx, func(c *conn) error { return pipe(c, n.w.dialDirect(c.evidence)) })
		if err != nil {
			return err
		}
		defer stop()
		r = w
	}
	ctx, stop := context.WithTimeout(ctx, timeout)
	defer stop()
	request := secret()
	got, err := n.s.client(ctx, r, request)
	if err == nil && got != answer(request) {
		err = fmt.Errorf("expected %q, got %q", answer(request), got)
	}
	return err
}

// dialDirect opens connections to the genuine service.
func (w *world) dialDirect(evidence bool) func() (net.Conn, error) {
	address := w.direct.service
	if evidence {
		address = w.direct.evidence
	}
	return func() (net.Conn, error) {
		c, err := net.DialTimeout("tcp", address, timeout)
		if err == nil {
			_ = c.SetDeadline(time.Now().Add(timeout))
		}
		return c, err
	}
}

// asClient is the adversary using the service as any client can.
func (w *world) asClient(s system) func(request string) (string, error) {
	return func(request string) (string, error) {
		ctx, stop := context.WithTimeout(context.Background(), timeout)
		defer stop()
		return s.client(ctx, w.direct, request)
	}
}

// attack lets an adversary with powers p try everything it can. read says whether it
// got the client's request in plain in one of the tries; why is the client's
// last refusal.
func (n *network) attack(ctx context.Context, p Power, stolen *loot) (read bool, why string, err error) {
	for _, a := range n.s.attacks(p, stolen) {
		ctx, stop := context.WithTimeout(ctx, timeout)
		var mu sync.Mutex
		var seen strings.Builder
		note := func(s string) { mu.Lock(); seen.WriteString(s); mu.Unlock() }
		r, stopListen, err := n.pair(ctx, func(c *conn) error { return a.serve(c, note) })
		if err != nil {
			stop()
			return false, "", err
		}
		request := secret()
		got, refusal := n.s.client(ctx, r, request)
		stopListen()
		stop()
		mu.Lock()
		has := strings.Contains(seen.String(), request)
		mu.Unlock()
		if has {
			if refusal == nil && got != answer(request) {
				return false, "", fmt.Errorf("%s: the adversary read the request, but the client got %q: no relay", a.name, got)
			}
			return true, "", nil
		}
		if refusal == nil {
			return false, "", fmt.Errorf("%s: the client was served, and the adversary read nothing: a wire, not an attack", a.name)
		}
		why = a.name + ": " + refusal.Error()
	}
	return false, why, nil
}

// pipe copies both ways.
func pipe(a net.Conn, dial func() (net.Conn, error)) error {
	b, err := dial()
	if err != nil {
		return err
	}
	defer b.Close()
	done := make(chan struct{})
	go func() { io.Copy(a, b); closeWrite(a); close(done) }()
	_, err = io.Copy(b, a)
	closeWrite(b)
	<-done
	return err
}

func closeWrite(c net.Conn) {
	type half interface{ CloseWrite() error }
	if x, ok := c.(*conn); ok {
		c = x.Conn
	}
	if h, ok := c.(half); ok {
		h.CloseWrite()
	}
}

// writeLine and readLine are the application's protocol: one line each way.
func writeLine(w io.Writer, s string) error {
	_, err := io.WriteString(w, s+"\n")
	return err
}

// maxLine bounds a line; evidence in hexadecimal has a few thousand bytes.
const maxLine = 64 << 10

func readLine(r *bufio.Reader) (string, error) {
	s, err := r.ReadString('\n')
	if len(s) > maxLine {
		return "", errors.New("a line that is too long")
	}
	if err != nil {
		return "", err
	}
	return strings.TrimSuffix(s, "\n"), nil
}

// ask sends a request and reads the answer.
func ask(c io.ReadWriter, request string) (string, error) {
	if err := writeLine(c, request); err != nil {
		return "", err
	}
	return readLine(bufio.NewReader(c))
}

// serveApp answers one request as the genuine service does.
func serveApp(c io.ReadWriter) error {
	q, err := readLine(bufio.NewReader(c))
	if err != nil || len(q) < 8 {
		return errors.New("no request")
	}
	return writeLine(c, answer(q))
}

// handshake ends a TLS session.
func handshake(c net.Conn, conf *tls.Config) (*tls.Conn, error) {
	s := tls.Server(c, conf)
	if err := s.Handshake(); err != nil {
		return nil, err
	}
	return s, nil
}

// dialTLS opens a TLS session.
func dialTLS(ctx context.Context, address string, conf *tls.Config) (*tls.Conn, error) {
	d := tls.Dialer{Config: conf}
	c, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	if t, ok := ctx.Deadline(); ok {
		_ = c.SetDeadline(t)
	}
	return c.(*tls.Conn), nil
}

// readThrough is the adversary's application side: it reads the request in
// plain, asks the genuine service as a client of its own, and passes the answer on.
func readThrough(c io.ReadWriter, note func(string), asClient func(request string) (string, error)) error {
	q, err := readLine(bufio.NewReader(c))
	if err != nil {
		return err
	}
	note(q)
	a, err := asClient(q)
	if err != nil {
		return err
	}
	return writeLine(c, a)
}
