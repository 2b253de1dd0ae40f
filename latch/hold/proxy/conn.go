// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	"holdfast/latch/hold"
	"holdfast/latch/tlshello"
)

// state of a connection; guarded by the proxy's lock.
type state uint8

const (
	starting state = iota // no byte of the client was read
	passing               // to a plain destination: nothing is gated
	held
	open
	dead
)

// conn is one connection through the proxy.
type conn struct {
	p      *Proxy
	id     hold.ID
	client *net.TCPConn
	server *net.TCPConn
	rest   []byte // read from the client and not consumed

	local, remote netip.AddrPort
	state         state
	spoke         bool   // the server has sent something
	got           uint32 // bytes of the server's stream
	count         uint32 // copies among them
	first         []byte // the server's stream while it is watched for a retry request
	x             tlshello.Exchange
	sent          []byte // the client's stream

	opened chan struct{} // closed by Release
	retry  chan struct{} // a retry request came
	ended  chan struct{} // closed when the server's side is over
	gone   chan struct{} // closed by abort
	once   sync.Once
}

// abort resets both ends.
func (c *conn) abort() {
	c.p.mu.Lock()
	if c.state != open {
		c.state = dead
	}
	s := c.server
	delete(c.p.conns, c.id)
	c.p.mu.Unlock()
	c.once.Do(func() { close(c.gone) })
	reset(c.client)
	if s != nil {
		reset(s)
	}
}

// run serves one client to its end.
func (c *conn) run(m Mode) {
	defer c.abort() // of what has ended properly nothing is left to reset
	c.client.SetDeadline(time.Now().Add(c.p.o.SetUp))
	if err := c.begin(m); err != nil {
		return
	}
	c.client.SetDeadline(time.Time{})
	c.ended = make(chan struct{})
	go func() {
		defer close(c.ended)
		c.fromServer()
	}()
	c.fromClient()
	<-c.ended
}

// begin learns where the client wants to go and connects there.
func (c *conn) begin(m Mode) error {
	var t Target
	var err error
	switch m {
	case Connect:
		t, err = c.readConnect()
	case SOCKS5:
		t, err = c.readSOCKS()
	case Transparent:
		t, err = original(c.client)
	}
	if err != nil {
		return err
	}
	s, err := c.p.o.Dial(c.p.ctx, "tcp", t.String())
	if err != nil {
		c.answer(m, false, err)
		return err
	}
	server, ok := s.(*net.TCPConn)
	if !ok {
		s.Close()
		return fmt.Errorf("the connection to %v is a %T, expected TCP", t, s)
	}
	remote, _ := netip.ParseAddrPort(server.RemoteAddr().String())
	remote = netip.AddrPortFrom(remote.Addr().Unmap(), remote.Port())
	c.p.mu.Lock()
	c.server, c.remote = server, remote
	gone := c.state == dead
	if !gone && c.p.o.Destination(remote) == PlainTLS {
		c.state = passing
	}
	c.p.mu.Unlock()
	if gone {
		reset(server)
		return net.ErrClosed
	}
	return c.answer(m, true, nil)
}

// answer tells the client that the way is open, or why not.
func (c *conn) answer(m Mode, good bool, why error) (err error) {
	switch {
	case m == Connect && good:
		_, err = io.WriteString(c.client, "HTTP/1.1 200 Connected\r\n\r\n")
	case m == Connect:
		_, err = fmt.Fprintf(c.client, "HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\nholdfast: %v\n", why)
		c.client.CloseWrite()
	case m == SOCKS5:
		code := byte(socksOK)
		if !good {
			code = socksRefused
		}
		_, err = c.client.Write([]byte{socksVersion, code, 0, socksIPv4, 0, 0, 0, 0, 0, 0})
		if !good {
			c.client.CloseWrite()
		}
	}
	return err
}

// more reads at least one byte behind rest.
func (c *conn) more() error {
	b := make([]byte, 2048)
	n, err := c.client.Read(b)
	c.rest = append(c.rest, b[:n]...)
	if n > 0 {
		return nil
	}
	return err
}

const maxHead = 16 << 10

func (c *conn) readConnect() (Target, error) {
	for {
		if i := bytes.Index(c.rest, []byte("\r\n\r\n")); i >= 0 {
			t, err := ParseConnect(c.rest[:i+4])
			if err != nil {
				fmt.Fprintf(c.client, "HTTP/1.1 403 Forbidden\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\nholdfast: %v\n", err)
				c.client.CloseWrite()
			}
			c.rest = c.rest[i+4:]
			return t, err
		}
		if len(c.rest) > maxHead {
			return Target{}, errors.New("the request's head is too long")
		}
		if err := c.more(); err != nil {
			return Target{}, err
		}
	}
}

func (c *conn) readSOCKS() (Target, error) {
	for len(c.rest) < 2 || c.rest[0] == socksVersion && len(c.rest) < 2+int(c.rest[1]) { // RFC 1928 section 3
		if err := c.more(); err != nil {
			return Target{}, err
		}
	}
	n := min(len(c.rest), 2+int(c.rest[1]))
	if c.rest[0] != socksVersion || bytes.IndexByte(c.rest[2:n], socksNoAuth) < 0 {
		c.client.Write([]byte{socksVersion, socksNoMethod})
		return Target{}, errors.New("SOCKS5: version 5 without authentication is what there is")
	}
	c.rest = c.rest[n:]
	if _, err := c.client.Write([]byte{socksVersion, socksNoAuth}); err != nil {
		return Target{}, err
	}
	for {
		t, n, err := ParseSOCKS(c.rest)
		switch {
		case err == nil:
			c.rest = c.rest[n:]
			return t, nil
		case !errors.Is(err, errMore):
			code := byte(socksFailed)
			if errors.Is(err, errCommand) {
				code = socksCommand
			}
			c.client.Write([]byte{socksVersion, code, 0, socksIPv4, 0, 0, 0, 0, 0, 0})
			return Target{}, err
		}
		if err := c.more(); err != nil {
			return Target{}, err
		}
	}
}

// fromClient carries the client's bytes, as far as they may leave.
func (c *conn) fromClient() {
	if !c.plain() {
		c.client.SetReadDeadline(time.Now().Add(c.p.o.SetUp))
		if !c.hello() {
			return
		}
		c.client.SetReadDeadline(time.Time{})
		for waiting := true; waiting; {
			select {
			case <-c.opened:
				waiting = false
			case <-c.retry: // the second ClientHello may leave
				if !c.hello() {
					return
				}
			case <-c.gone: // refused; at the latest when the gate's patience ends
				return
			}
		}
	}
	if len(c.rest) > 0 {
		if _, err := c.server.Write(c.rest); err != nil {
			return
		}
		c.rest = nil
	}
	if _, err := io.Copy(c.server, c.client); err != nil { // splices on Linux
		c.abort()
		return
	}
	c.server.CloseWrite()
}

// plain decides whether the connection is gated. To a plain destination the
// client's first byte tells.
func (c *conn) plain() bool {
	c.p.mu.Lock()
	done, kind := c.state == passing, Gated
	if !done {
		if kind = c.p.o.Destination(c.remote); kind == Gated {
			c.state = held
		}
	}
	c.p.mu.Unlock()
	if done {
		return true
	}
	if kind == Gated {
		return false
	}
	if len(c.rest) == 0 && c.more() != nil {
		c.server.CloseWrite() // nothing of the client's ever left
		return true
	}
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	if c.rest[0] != recordHandshake {
		c.state = passing
		return true
	}
	if c.spoke {
		c.deny(hold.ReasonServerFirst)
		return false
	}
	c.state = held
	return false
}

const (
	recordCCS       = 20
	recordHandshake = 22
	recordHeader    = 5
)

// hello reads one ClientHello record and lets it out; before the second one a
// change_cipher_spec record may come (RFC 8446 appendix D.4).
func (c *conn) hello() bool {
	for {
		b, reason, err := c.record()
		if err != nil {
			return false
		}
		c.p.mu.Lock()
		if c.state != held {
			c.p.mu.Unlock()
			return false
		}
		at := len(c.sent)
		if reason == hold.ReasonNone {
			c.sent = append(c.sent, b...)
			if b[0] == recordHandshake && c.x.Client(c.sent) != nil {
				// The gate refuses for what the hello is; it need not leave for that.
				reason = hold.ReasonNotTLS
				if len(b) > 5 && b[5] == 1 {
					c.p.put(c.outbound(at, b))
					c.p.mu.Unlock()
					return c.wait()
				}
			}
		}
		if reason != hold.ReasonNone {
			c.deny(reason)
			c.p.mu.Unlock()
			return c.wait()
		}
		if !c.p.put(c.outbound(at, b)) {
			c.deny(hold.ReasonLostCopy)
			c.p.mu.Unlock()
			return c.wait()
		}
		c.p.mu.Unlock()
		if _, err := c.server.Write(b); err != nil {
			return false
		}
		if b[0] == recordHandshake {
			return true
		}
	}
}

func (c *conn) outbound(at int, b []byte) hold.Record {
	return hold.Record{Kind: hold.Outbound, ID: c.id, Local: c.local, Remote: c.remote, Seq: uint32(at), Len: uint32(len(b)), Data: bytes.Clone(b)}
}

// wait waits for the gate's refusal, which resets both ends.
func (c *conn) wait() bool {
	<-c.gone
	return false
}

// deny tells the gate that the connection can never be released; called with
// the lock held.
func (c *conn) deny(r hold.Reason) {
	c.state = dead
	if !c.p.put(hold.Record{Kind: hold.Denied, Reason: r, ID: c.id, Local: c.local, Remote: c.remote}) {
		go c.abort()
	}
}

// record reads one record that may be a ClientHello, or before the second one a
// change_cipher_spec.
func (c *conn) record() (b []byte, r hold.Reason, err error) {
	need := recordHeader
	for {
		if len(c.rest) > 0 && c.rest[0] != recordHandshake && (c.rest[0] != recordCCS || len(c.sent) == 0) {
			return nil, hold.ReasonNotTLS, nil
		}
		if len(c.rest) >= recordHeader {
			need = recordHeader + int(c.rest[3])<<8 + int(c.rest[4])
			if c.rest[1] != 3 || need == recordHeader || c.rest[0] == recordCCS && need != recordHeader+1 {
				return nil, hold.ReasonNotTLS, nil
			}
			if need > hold.MaxClientHello {
				return nil, hold.ReasonTooLong, nil
			}
		}
		if len(c.rest) >= need && need > recordHeader {
			b, c.rest = c.rest[:need:need], c.rest[need:]
			return b, hold.ReasonNone, nil
		}
		if err := c.more(); err != nil {
			return nil, 0, err
		}
	}
}

// fromServer carries the server's bytes and copies the first of them.
func (c *conn) fromServer() {
	b := make([]byte, 16<<10)
	for {
		n, err := c.server.Read(b)
		c.p.mu.Lock()
		st := c.state
		if n > 0 {
			c.spoke = true
			if st == held {
				c.copied(b[:n])
			}
			st = c.state
		}
		c.p.mu.Unlock()
		if st == dead {
			// Denied: the gate resets it. Nothing more reaches the client.
			if err == nil {
				continue
			}
			return
		}
		if n > 0 {
			if _, err := c.client.Write(b[:n]); err != nil {
				return
			}
		}
		if errors.Is(err, io.EOF) {
			c.client.CloseWrite()
			return
		}
		if err != nil {
			c.abort()
			return
		}
		if st == open || st == passing {
			if _, err := io.Copy(c.client, c.server); err != nil { // splices on Linux
				c.abort()
				return
			}
			c.client.CloseWrite()
			return
		}
	}
}

// copied takes bytes of the server's stream, before the client gets them;
// called with the lock held.
func (c *conn) copied(b []byte) {
	at := c.got
	c.got += uint32(len(b))
	if at >= hold.Window {
		return
	}
	data := bytes.Clone(b[:min(len(b), int(hold.Window-at))])
	c.count++
	if !c.p.put(hold.Record{Kind: hold.Inbound, ID: c.id, Local: c.local, Remote: c.remote, Seq: at, Count: c.count, Len: uint32(len(b)), Data: data}) {
		c.deny(hold.ReasonLostCopy)
		return
	}
	before := c.x.Phase()
	if before != tlshello.WantServerHello {
		return
	}
	c.first = append(c.first, data...)
	c.x.Server(c.first) // the gate judges; here only: is it a retry request?
	if c.x.Phase() == tlshello.WantSecondClientHello {
		select {
		case c.retry <- struct{}{}:
		default:
		}
	}
}
