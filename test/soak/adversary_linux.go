// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	mrand "math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Ports of the adversary's host.
const (
	portThief   = "10443" // ends TLS with the stolen key
	portRelay   = "10444" // the same, after it passed the hello on to the genuine server
	portNoise   = "10445" // answers nonsense
	portSink    = "10446" // reads: where malformed clients connect
	portService = "443"
	portAgent   = "7443"
)

// adversary runs everything of the adversary's until ctx ends. genuine is a
// server, agents are addresses of agents.
func adversary(ctx context.Context, cert tls.Certificate, genuine string, agents []string) error {
	var beyond, connections, noise atomic.Int64
	tell := func(local, remote string, b []byte) {
		fmt.Printf("VIOLATION: %s got %d bytes behind the ClientHello from %s: %s\n", local, len(b), remote, hex.EncodeToString(b[:min(len(b), 64)]))
	}
	a := &actor{config: &tls.Config{Certificates: []tls.Certificate{cert}}, genuine: genuine}
	var wg sync.WaitGroup
	for port, serve := range map[string]func(context.Context, *guard){portThief: a.thief, portRelay: a.relay, portNoise: a.noise, portSink: a.sink} {
		l, err := net.Listen("tcp", ":"+port)
		if err != nil {
			return err
		}
		stop := context.AfterFunc(ctx, func() { l.Close() })
		defer stop()
		wg.Go(func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				connections.Add(1)
				wg.Go(func() {
					defer c.Close()
					c.SetDeadline(time.Now().Add(20 * time.Second))
					serve(ctx, &guard{Conn: c, counter: &beyond, log: tell})
				})
			}
		})
	}
	wg.Go(func() { pester(ctx, agents, &noise) })
	fmt.Println("ready")
	<-ctx.Done()
	wg.Wait()
	fmt.Printf("END connections=%d agent-noise=%d beyond=%d\n", connections.Load(), noise.Load(), beyond.Load())
	return nil
}

type actor struct {
	config  *tls.Config
	genuine string
}

// thief ends the session with the stolen key and would answer a request.
func (a *actor) thief(ctx context.Context, g *guard) {
	s := tls.Server(g, a.config)
	if s.HandshakeContext(ctx) == nil {
		serveLines(s, nil)
	}
}

// relay passes the hello on first, so that the agent attests what the genuine
// server answers to it, then answers itself.
func (a *actor) relay(ctx context.Context, g *guard) {
	hello := make([]byte, 5)
	if _, err := io.ReadFull(g, hello); err != nil {
		return
	}
	hello = append(hello, make([]byte, int(hello[3])<<8+int(hello[4]))...)
	if _, err := io.ReadFull(g, hello[5:]); err != nil {
		return
	}
	var d net.Dialer
	d.SetMultipathTCP(false)
	c, err := d.DialContext(ctx, "tcp", a.genuine)
	if err != nil {
		return
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(20 * time.Second))
	var answer [1]byte
	if _, err = c.Write(hello); err == nil {
		_, err = io.ReadFull(c, answer[:])
	}
	if err != nil {
		return
	}
	s := tls.Server(&replay{Conn: g, first: bytes.NewReader(hello)}, a.config)
	if s.HandshakeContext(ctx) == nil {
		serveLines(s, nil)
	}
}

// replay gives bytes back that were read already.
type replay struct {
	net.Conn
	first *bytes.Reader
}

func (r *replay) Read(p []byte) (int, error) {
	if r.first.Len() > 0 {
		return r.first.Read(p)
	}
	return r.Conn.Read(p)
}

// noise answers the hello with one of several kinds of nonsense and reads on.
func (a *actor) noise(_ context.Context, g *guard) {
	b := make([]byte, 4096)
	if _, err := g.Read(b); err != nil {
		return
	}
	record := func(kind byte, body []byte) []byte {
		return append([]byte{kind, 3, 3, byte(len(body) >> 8), byte(len(body))}, body...)
	}
	random := make([]byte, 1+mrand.IntN(3000))
	rand.Read(random)
	hello := append([]byte{2, 0, 0, 70, 3, 3}, random[:min(len(random), 32)]...)
	switch mrand.IntN(8) {
	case 0:
		g.Write(random)
	case 1:
		g.Write(record(22, random))
	case 2:
		g.Write(record(22, hello))
	case 3: // a hello that promises more than comes
		g.Write([]byte{22, 3, 3, 0x40, 0, 2, 0, 0x3f, 0xfc, 3, 3})
	case 4:
		g.Write(record(21, []byte{2, 40})) // alert
		return
	case 5:
		g.Write(record(23, random)) // application data, out of nowhere
	case 6:
		for _, x := range random[:min(len(random), 200)] {
			g.Write([]byte{x})
		}
	case 7: // a reset
		g.Conn.(*net.TCPConn).SetLinger(0)
		return
	}
	io.Copy(io.Discard, g)
}

// sink reads.
func (a *actor) sink(_ context.Context, g *guard) { io.Copy(io.Discard, g) }

// pester sends nonsense to the agents, about three peers a second.
func pester(ctx context.Context, agents []string, n *atomic.Int64) {
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(200+mrand.IntN(250)) * time.Millisecond):
		}
		c, err := net.DialTimeout("tcp", agents[mrand.IntN(len(agents))], time.Second)
		if err != nil {
			continue
		}
		n.Add(1)
		b := make([]byte, 1+mrand.IntN(400))
		rand.Read(b)
		if mrand.IntN(2) == 0 && len(b) > 4 { // a length that may be believed
			b[0], b[1], b[2], b[3] = 0, 0, 0, byte(len(b)-4)
		}
		c.SetDeadline(time.Now().Add(time.Second))
		c.Write(b)
		c.Read(b)
		c.Close()
	}
}

// serveLines answers each line with itself; first is told of the first one.
func serveLines(c net.Conn, first func()) {
	b := make([]byte, 256)
	n := 0
	for {
		m, err := c.Read(b[n:])
		if err != nil {
			return
		}
		for n += m; ; {
			i := bytes.IndexByte(b[:n], '\n')
			if i < 0 {
				break
			}
			if first != nil {
				first()
				first = nil
			}
			if _, err := c.Write(b[:i+1]); err != nil {
				return
			}
			n = copy(b, b[i+1:n])
		}
		if n == len(b) {
			return
		}
	}
}

var errWrongAnswer = errors.New("the answer is not the line that was sent")
