// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"holdfast/attest/evidence"
	"holdfast/attest/policy"
	"holdfast/latch/binder"
	"holdfast/latch/tlshello"
)

var latch = Design{
	Name: "latch", Identity: "service-restricted", Environment: "provider-authorized", Receiving: "the session's ECDHE secret", Overlap: "no", Scope: "per-session",
	build: func(w *world) system { return &latchSystem{plain: plain{w}, agent: newAgent(w.provider)} },
}

// latchSystem is plain TLS, client and service unchanged. Beside the service
// an agent sees its hellos; before the client a gate holds everything behind
// the ClientHello until the evidence for this session is verified.
type latchSystem struct {
	plain
	agent *agent
}

// agent attests the sessions that it saw on its machine.
type agent struct {
	in   *environment
	mu   sync.Mutex
	seen map[[32]byte]chan [2][]byte // by ClientHello: evidence and claims
}

func newAgent(in *environment) *agent {
	return &agent{in: in, seen: map[[32]byte]chan [2][]byte{}}
}

func (a *agent) session(hello [32]byte) chan [2][]byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.seen[hello] == nil {
		a.seen[hello] = make(chan [2][]byte, 1)
	}
	return a.seen[hello]
}

// observed is told of a complete exchange of hellos.
func (a *agent) observed(x *tlshello.Exchange) {
	_, sh := x.Hello()
	sum, ok := x.Transcript()
	if !ok {
		return
	}
	claims, err := (&binder.Claims{Service: "service", Listener: "tcp", NetNS: "lab", Executable: executable, Unit: "service", AgentVersion: "lab", Class: binder.Machine}).Encode()
	if err != nil {
		return
	}
	leaf := binder.Leaf(binder.Compute(binder.Server, binder.Hello, sh.Group, sh.Share, sum), sha256.Sum256(claims))
	b, err := a.in.attest(evidence.ReportData(binder.ReportData(leaf))) // a tree of one leaf is that leaf
	if err != nil {
		return
	}
	select {
	case a.session(x.ClientHelloDigest()) <- [2][]byte{b, claims}:
	default: // attested already
	}
}

// serve answers one gate.
func (a *agent) serve(c io.ReadWriter) error {
	hello, err := readHex(c)
	if err != nil || len(hello) != 32 {
		return errors.New("no digest of a ClientHello")
	}
	select {
	case e := <-a.session([32]byte(hello)):
		return writeLine(c, hex.EncodeToString(e[0])+" "+hex.EncodeToString(e[1]))
	case <-time.After(timeout / 4):
		return errors.New("not observed")
	}
}

// tap is a service's connection that an agent watches.
type tap struct {
	net.Conn
	done     func(*tlshello.Exchange)
	x        tlshello.Exchange
	in, out  []byte
	finished bool
}

func (t *tap) Read(p []byte) (int, error) {
	n, err := t.Conn.Read(p)
	if !t.finished {
		t.in = append(t.in, p[:n]...)
		_ = t.x.Client(t.in)
	}
	return n, err
}

// Write is watched before it leaves; TLS reads and writes hellos on one goroutine.
func (t *tap) Write(p []byte) (int, error) {
	if !t.finished {
		t.out = append(t.out, p...)
		if err := t.x.Server(t.out); err == nil && t.x.Phase() == tlshello.Complete {
			t.finished = true
			t.done(&t.x)
		}
	}
	return t.Conn.Write(p)
}

func (s *latchSystem) genuine(c *conn) error {
	if c.evidence {
		return s.agent.serve(c)
	}
	t, err := handshake(&tap{Conn: c.Conn, done: s.agent.observed}, serverTLS(s.w.service))
	if err != nil {
		return err
	}
	return serveApp(t)
}

// client is the plain client behind a gate.
func (s *latchSystem) client(ctx context.Context, r route, request string) (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	verdict := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			verdict <- err
			return
		}
		defer c.Close()
		verdict <- s.gate(c, r)
	}()
	got, err := s.plain.client(ctx, route{service: l.Addr().String()}, request)
	l.Close()
	if v := <-verdict; v != nil {
		return got, v
	}
	return got, err
}

// gate passes the ClientHello and the service's bytes on, holds what the client
// sends then, and releases it if the evidence is for this session and accepted.
func (s *latchSystem) gate(client net.Conn, r route) error {
	server, err := net.DialTimeout("tcp", r.service, timeout)
	if err != nil {
		return err
	}
	defer server.Close()
	_ = server.SetDeadline(time.Now().Add(timeout))
	_ = client.SetDeadline(time.Now().Add(timeout))

	var x tlshello.Exchange
	var sent []byte
	buf := make([]byte, 16<<10)
	for x.Phase() == tlshello.WantClientHello {
		n, err := client.Read(buf)
		if err != nil {
			return err
		}
		sent = append(sent, buf[:n]...)
		if err := x.Client(sent); err != nil {
			return err
		}
	}
	if err := x.First().Check(); err != nil {
		return err
	}
	if _, err := server.Write(sent); err != nil {
		return err
	}
	var received []byte
	for x.Phase() != tlshello.Complete {
		n, err := server.Read(buf)
		if err != nil {
			return fmt.Errorf("no ServerHello: %w", err)
		}
		received = append(received, buf[:n]...)
		if err := x.Server(received); err != nil {
			return err
		}
		if x.Phase() == tlshello.WantSecondClientHello {
			return errors.New("a HelloRetryRequest, which this gate does not pass on")
		}
		if _, err := client.Write(buf[:n]); err != nil {
			return err
		}
	}
	fromServer := make(chan struct{})
	go func() { io.Copy(client, server); closeWrite(client); close(fromServer) }()
	if err := s.judge(&x, r.evidence); err != nil {
		client.Close() // at once; nothing but the ClientHello has left
		server.Close()
		<-fromServer
		return err
	}
	io.Copy(server, client)
	closeWrite(server)
	<-fromServer
	return nil
}

// judge fetches the evidence for a session and appraises it.
func (s *latchSystem) judge(x *tlshello.Exchange, address string) error {
	c, err := net.DialTimeout("tcp", address, timeout)
	if err != nil {
		return err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(timeout))
	hello := x.ClientHelloDigest()
	if err := writeLine(c, hex.EncodeToString(hello[:])); err != nil {
		return err
	}
	l, err := readLine(bufio.NewReader(c))
	if err != nil {
		return fmt.Errorf("no evidence for this session: %w", err)
	}
	bundle, rawClaims, err := twoHex(l)
	if err != nil {
		return err
	}
	claims, err := binder.ParseClaims(rawClaims)
	if err != nil {
		return err
	}
	ch, sh := x.Hello()
	sum, _ := x.Transcript()
	leaf := binder.Leaf(binder.Compute(binder.Server, binder.Hello, sh.Group, sh.Share, sum), sha256.Sum256(rawClaims))
	return s.w.appraise(s.w.pinned, bundle, evidence.ReportData(binder.ReportData(leaf)), policy.Session{ServerName: string(ch.ServerName), Group: sh.Group,
		Grade: policy.GradeHello, Resumed: sh.PSK, CipherSuite: sh.CipherSuite, Claims: policy.Claims{Service: claims.Service, Listener: claims.Listener, NetNS: claims.NetNS,
			Executable: claims.Executable, Unit: claims.Unit, Config: claims.Config, AgentVersion: claims.AgentVersion, Class: claims.Class}})
}

func (s *latchSystem) attacks(p Power, stolen *loot) []attack {
	machines := map[string]*environment{}
	if p.has(V) {
		machines["evidence of another genuine machine"] = s.w.other
	}
	if p.has(R) {
		machines["evidence of the accepted machine"] = s.w.provider
	}
	var out []attack
	for certName, cert := range serviceCerts(s.w, p, stolen) {
		out = append(out, attack{certName + ", the client's hello passed on as a decoy", func(c *conn, note func(string)) error {
			if c.evidence {
				return pipe(c, s.w.dialDirect(true))
			}
			return s.decoy(c, cert, note)
		}})
		for name, in := range machines {
			own := newAgent(in)
			out = append(out, attack{certName + ", " + name, func(c *conn, note func(string)) error {
				if c.evidence {
					return own.serve(c)
				}
				t, err := handshake(&tap{Conn: c.Conn, done: own.observed}, serverTLS(cert))
				if err != nil {
					return err
				}
				return readThrough(t, note, s.w.asClient(s))
			}})
		}
	}
	return out
}
