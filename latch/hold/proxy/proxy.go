// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"holdfast/latch/hold"
)

// Mode is how clients say where they want to go.
type Mode string

// Modes.
const (
	Connect     Mode = "connect"     // HTTP CONNECT
	SOCKS5      Mode = "socks5"      // RFC 1928, without authentication
	Transparent Mode = "transparent" // the system led the connection here: Linux, nft redirect
)

// Pass says how a destination is treated.
type Pass uint8

// Kinds of destinations.
const (
	Gated    Pass = iota
	Plain         // passes unless it begins like TLS
	PlainTLS      // passes
)

// Options of New.
type Options struct {
	// Destination says how an address is treated; nil: all are gated.
	Destination func(netip.AddrPort) Pass
	Connections int // at once, open ones included; default 16,384
	// Dial opens the connection to the server; nil: net.Dialer, without MPTCP.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// SetUp is how long a client may take to say where it wants to go, and to
	// send its first byte; default 30 s.
	SetUp time.Duration
}

const (
	defaultConnections = 16384
	defaultSetUp       = 30 * time.Second
	maxQueue           = 1 << 16 // records
)

// Proxy is a hold in user space. Create it with New.
type Proxy struct {
	o      Options
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu        sync.Mutex
	conns     map[hold.ID]*conn
	listeners []net.Listener
	next      uint64
	queue     []hold.Record
	want      bool // Inbound wakes
	closed    bool

	wake chan struct{}
	quit chan struct{}
	once sync.Once
	spun []hold.Record // memory of Drain
}

var _ hold.Hold = (*Proxy)(nil)

// New makes a proxy without listeners.
func New(o Options) *Proxy {
	if o.Connections <= 0 {
		o.Connections = defaultConnections
	}
	if o.SetUp <= 0 {
		o.SetUp = defaultSetUp
	}
	if o.Destination == nil {
		o.Destination = func(netip.AddrPort) Pass { return Gated }
	}
	if o.Dial == nil {
		d := &net.Dialer{Timeout: o.SetUp}
		d.SetMultipathTCP(false)
		o.Dial = d.DialContext
	}
	p := &Proxy{o: o, conns: map[hold.ID]*conn{}, wake: make(chan struct{}, 1), quit: make(chan struct{})}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// ErrMode is returned by Serve for a mode that this system lacks.
var ErrMode = errors.New("transparent mode needs Linux")

// Serve takes clients from l until Close. It returns nil after that.
func (p *Proxy) Serve(l net.Listener, m Mode) error {
	switch m {
	case Connect, SOCKS5:
	case Transparent:
		if !haveTransparent {
			return ErrMode
		}
	default:
		return fmt.Errorf("proxy mode %q, expected connect, socks5 or transparent", m)
	}
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return l.Close()
	}
	p.listeners = append(p.listeners, l)
	p.mu.Unlock()
	for {
		c, err := l.Accept()
		if err != nil {
			if p.ctx.Err() != nil {
				return nil
			}
			if ne, ok := err.(net.Error); ok && ne.Timeout() || !errors.Is(err, net.ErrClosed) {
				time.Sleep(5 * time.Millisecond) // out of descriptors, say
				continue
			}
			return err
		}
		t, ok := c.(*net.TCPConn)
		if !ok {
			c.Close()
			return fmt.Errorf("proxy: connections of type %T, expected TCP", c)
		}
		x := p.add(t)
		if x == nil {
			reset(t)
			continue
		}
		p.wg.Go(func() { x.run(m) })
	}
}

// add makes a connection, unless there are too many.
func (p *Proxy) add(c *net.TCPConn) *conn {
	var nonce [8]byte
	rand.Read(nonce[:])
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.conns) >= p.o.Connections {
		return nil
	}
	p.next++
	x := &conn{p: p, id: hold.ID{Cookie: p.next, Nonce: binary.NativeEndian.Uint64(nonce[:])}, client: c, opened: make(chan struct{}), retry: make(chan struct{}, 1), gone: make(chan struct{})}
	x.local, _ = netip.ParseAddrPort(c.RemoteAddr().String())
	p.conns[x.id] = x
	return x
}

// put queues a record; called with the lock held. false: the queue is full,
// and the connection can never be released.
func (p *Proxy) put(r hold.Record) bool {
	if len(p.queue) >= maxQueue {
		return false
	}
	p.queue = append(p.queue, r)
	if r.Kind != hold.Inbound || p.want {
		p.want = p.want && r.Kind != hold.Inbound
		select {
		case p.wake <- struct{}{}:
		default:
		}
	}
	return true
}

// Wait implements hold.Hold.
func (p *Proxy) Wait(deadline time.Time) error {
	var late <-chan time.Time
	if !deadline.IsZero() {
		t := time.NewTimer(time.Until(deadline))
		defer t.Stop()
		late = t.C
	}
	select {
	case <-p.quit:
		return net.ErrClosed
	default:
	}
	select {
	case <-p.wake:
		return nil
	case <-late:
		return nil
	case <-p.quit:
		return net.ErrClosed
	}
}

// WantInbound implements hold.Hold.
func (p *Proxy) WantInbound() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.want = true
}

// Drain implements hold.Hold.
func (p *Proxy) Drain(fn func(*hold.Record)) error {
	p.mu.Lock()
	p.queue, p.spun = p.spun[:0], p.queue
	q := p.spun
	p.mu.Unlock()
	now := time.Now()
	for i := range q {
		q[i].At = now
		fn(&q[i])
	}
	clear(q)
	return nil
}

// Release implements hold.Hold.
func (p *Proxy) Release(batch []hold.Verdict) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, v := range batch {
		x := p.conns[v.ID]
		if x == nil || x.state != held {
			continue
		}
		r := hold.Record{Kind: hold.Retry, ID: v.ID, Local: x.local, Remote: x.remote}
		switch {
		case v.Examined != x.count:
			r.Reason = hold.ReasonUnexamined
		case v.End > x.got:
			r.Reason = hold.ReasonNotTaken
		default:
			r.Kind = hold.Released
			x.state = open
			close(x.opened)
		}
		p.put(r)
	}
	return nil
}

// Refuse implements hold.Hold.
func (p *Proxy) Refuse(batch []hold.ID) error {
	for _, id := range batch {
		p.mu.Lock()
		x := p.conns[id]
		p.mu.Unlock()
		if x != nil {
			x.abort()
		}
	}
	return nil
}

// Sweep implements hold.Hold; there is nothing to free.
func (p *Proxy) Sweep() error { return nil }

// Interrupt implements hold.Hold.
func (p *Proxy) Interrupt() error {
	p.once.Do(func() { close(p.quit) })
	return nil
}

// Close resets every connection that was not released, and takes no more.
// Released ones go on as long as the process lives, or until Shut.
func (p *Proxy) Close() error {
	p.Interrupt()
	p.mu.Lock()
	p.closed = true
	listeners := p.listeners
	p.listeners = nil
	var out []*conn
	for _, x := range p.conns {
		if x.state != open {
			out = append(out, x)
		}
	}
	p.mu.Unlock()
	p.cancel()
	var err error
	for _, l := range listeners {
		err = errors.Join(err, l.Close())
	}
	for _, x := range out {
		x.abort()
	}
	return err
}

// Shut is Close that also ends the released connections, and waits.
func (p *Proxy) Shut() error {
	err := p.Close()
	p.mu.Lock()
	var all []*conn
	for _, x := range p.conns {
		all = append(all, x)
	}
	p.mu.Unlock()
	for _, x := range all {
		x.abort()
	}
	p.wg.Wait()
	return err
}

// Live lists the ends of the released connections: the program's end and the server's.
func (p *Proxy) Live() (out [][2]netip.AddrPort) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, x := range p.conns {
		if x.state == open {
			out = append(out, [2]netip.AddrPort{x.local, x.remote})
		}
	}
	return out
}

// reset closes so that the peer gets a RST.
func reset(c *net.TCPConn) {
	c.SetLinger(0)
	c.Close()
}
