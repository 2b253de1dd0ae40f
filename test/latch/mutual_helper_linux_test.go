// SPDX-License-Identifier: Apache-2.0

//go:build linux

package latch

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"holdfast/attest/evidence"
	"holdfast/attest/provider/simulated"
	"holdfast/latch/binder"
	"holdfast/latch/channel"
	"holdfast/latch/tlshello"
)

// mutualServeHelper ADDRESS CERT KEY answers HTTPS and prints a line for each
// request that it reads, with the client's port.
func mutualServeHelper(a []string) error {
	s := &http.Server{Addr: a[0], ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Println("request", r.URL.Path)
		fmt.Fprintln(w, "hello to", r.RemoteAddr)
	})}
	lc := net.ListenConfig{}
	lc.SetMultipathTCP(false)
	l, err := lc.Listen(context.Background(), "tcp", a[0])
	if err != nil {
		return err
	}
	return s.ServeTLS(l, a[1], a[2])
}

// tap keeps what goes over a connection until the handshake is done.
type tap struct {
	net.Conn
	mu      sync.Mutex
	out, in bytes.Buffer
}

func (t *tap) Write(p []byte) (int, error) {
	t.mu.Lock()
	t.out.Write(p)
	t.mu.Unlock()
	return t.Conn.Write(p)
}

func (t *tap) Read(p []byte) (int, error) {
	n, err := t.Conn.Read(p)
	t.mu.Lock()
	t.in.Write(p[:n])
	t.mu.Unlock()
	return n, err
}

// attacked is one session of the attacker: a TLS client without a gate that
// speaks to the agent itself.
type attacked struct {
	tap  *tap
	tls  *tls.Conn
	x    tlshello.Exchange
	core [32]byte
	ch   [32]byte
}

func attackDial(address, server string) (*attacked, error) {
	d := net.Dialer{Timeout: 5 * time.Second}
	d.SetMultipathTCP(false)
	c, err := d.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	a := &attacked{tap: &tap{Conn: c}}
	a.tls = tls.Client(a.tap, clientTLS(server))
	c.SetDeadline(time.Now().Add(6 * time.Second))
	// The client's side of the handshake ends before the server has seen it.
	if err := a.tls.Handshake(); err != nil {
		return nil, err
	}
	a.tap.mu.Lock()
	defer a.tap.mu.Unlock()
	hello := a.tap.out.Bytes()
	if err := a.x.Client(hello[:firstRecord(hello)]); err != nil {
		return nil, err
	}
	if err := a.x.Server(a.tap.in.Bytes()); err != nil {
		return nil, err
	}
	ch, sh := a.x.Hello()
	if ch == nil {
		return nil, errors.New("no hellos")
	}
	tr, _ := a.x.Transcript()
	a.core = binder.MutualCore(sh.Group, ch.Share(sh.Group), sh.Share, tr)
	a.ch = a.x.ClientHelloDigest()
	return a, nil
}

func firstRecord(b []byte) int { return 5 + int(b[3])<<8 + int(b[4]) }

func (a *attacked) announcement(g binder.Grade) []channel.Announcement {
	return []channel.Announcement{{CH: a.ch, Random: a.x.First().Random, Grade: uint8(g)}}
}

// request sends a request with the path and prints what comes within a time.
func (a *attacked) request(path string, patience time.Duration) {
	a.tap.SetDeadline(time.Now().Add(patience))
	_, wrote := fmt.Fprintf(a.tls, "GET /%s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", path)
	b, err := io.ReadAll(a.tls)
	err = errors.Join(wrote, err) // a reset is told once
	fmt.Printf("%s: %d bytes, answered %v (%v)\n", path, len(b), bytes.Contains(b, []byte("hello to")), err)
	a.tap.Conn.(*net.TCPConn).SetLinger(0) // no retransmissions that a later agent would count
	a.tap.Close()
}

// answer waits for the agent's word about a session.
func answer(c *channel.Client, ch [32]byte) (string, *channel.Report, *channel.Session, error) {
	var last *channel.Report
	for {
		ev, err := c.Recv(nil)
		if err != nil {
			return "", nil, nil, err
		}
		for i := range ev {
			e := &ev[i]
			switch {
			case e.Kind == channel.KindReport:
				last = e.Report
			case e.Kind == channel.KindSession && e.Session.CH == ch:
				s := e.Session
				s.Path, s.Claims = append([][32]byte(nil), s.Path...), bytes.Clone(s.Claims)
				return "session", last, &s, nil
			case e.Kind == channel.KindRefused && e.Refused.CH == ch:
				return e.Refused.Code, nil, nil, nil
			}
		}
	}
}

// mutualAttackHelper SERVICE ONESIDED AGENT NAME ROOT MODE is a client that
// obeys no gate. MODE says what it does with a session at SERVICE:
//
//	silent     sends the request at once and tells the agent nothing
//	one-sided  announces it without evidence of its own
//	missing    announces it as mutual and sends no evidence
//	reuse      gives the evidence of an earlier, genuine session again
//	reflect    gives the server's own evidence of a session at ONESIDED
//	genuine    gives true evidence, so that the others prove something
//
// An empty AGENT says that none is alive.
func mutualAttackHelper(a []string) error {
	service, oneSided, agent, name, rootFile, mode := a[0], a[1], a[2], a[3], a[4], a[5]
	if mode == "silent" {
		s, err := attackDial(service, name)
		if err != nil {
			return err
		}
		patience := 20 * time.Second
		if agent == "" { // nobody is there who would end it
			patience = 700 * time.Millisecond
		}
		s.request(mode, patience)
		return nil
	}
	raw, err := os.ReadFile(rootFile)
	if err != nil {
		return err
	}
	root, err := simulated.ParseRoot(raw)
	if err != nil {
		return err
	}
	p, err := simulated.New(root, simulated.Options{Name: "machine", Algorithm: evidence.ES256})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	c, err := channel.Dial(ctx, "tcp", agent, channel.Options{Software: "attacker"})
	if err != nil {
		return err
	}
	claims, err := (&binder.Claims{Service: "frontend", Unit: "/x", Executable: "", AgentVersion: "x", Class: binder.Machine}).Encode()
	if err != nil {
		return err
	}
	// prove makes true evidence of a session.
	prove := func(s *attacked) ([]channel.Endorsement, *channel.Report, []channel.Session, error) {
		leaf := binder.Leaf(binder.MutualClient(s.core), sha256.Sum256(claims))
		r, err := p.Report(ctx, evidence.ReportData(binder.ReportData(leaf)))
		if err != nil {
			return nil, nil, nil, err
		}
		es, err := p.Endorsements(ctx)
		var out []channel.Endorsement
		for _, e := range es {
			out = append(out, channel.Endorsement{Type: e.Type, Body: e.Body})
		}
		return out, &channel.Report{ID: 1, Type: r.Type, Body: r.Body, Needs: r.Needs, Size: 1}, []channel.Session{{CH: s.ch, Claims: claims}}, err
	}
	s, err := attackDial(service, name)
	if err != nil {
		return err
	}
	grade := binder.Mutual
	if mode == "one-sided" {
		grade = binder.Hello
	}
	var es []channel.Endorsement
	var r *channel.Report
	var ss []channel.Session
	switch mode {
	case "genuine":
		es, r, ss, err = prove(s)
	case "reuse":
		first, err := attackDial(service, name)
		if err != nil {
			return err
		}
		if es, r, ss, err = prove(first); err != nil {
			return err
		}
		if err := errors.Join(c.Announce(first.announcement(grade)), c.Prove(es, r, ss)); err != nil {
			return err
		}
		code, _, _, err := answer(c, first.ch)
		if err != nil {
			return err
		}
		fmt.Println("first", code)
		first.request("first", 20*time.Second)
		ss[0].CH = s.ch
	case "reflect":
		other, err := attackDial(oneSided, name)
		if err != nil {
			return err
		}
		if err := c.Announce(other.announcement(binder.Hello)); err != nil {
			return err
		}
		code, report, session, err := answer(c, other.ch)
		if err != nil || session == nil {
			return fmt.Errorf("the one-sided session: %s %v", code, err)
		}
		r, session.CH = report, s.ch
		ss = []channel.Session{*session}
		// The server's endorsements are public: the agent sent them to everybody.
		if es, err = serverEndorsements(ctx, agent, r.Needs); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	if err := c.Announce(s.announcement(grade)); err != nil {
		return err
	}
	if r != nil {
		if err := c.Prove(es, r, ss); err != nil {
			return err
		}
	}
	code, _, _, err := answer(c, s.ch)
	if err != nil {
		return err
	}
	fmt.Println("agent", code)
	s.request(mode, 20*time.Second)
	return nil
}

func serverEndorsements(ctx context.Context, agent string, needs []channel.Hash) ([]channel.Endorsement, error) {
	c, err := channel.Dial(ctx, "tcp", agent, channel.Options{})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if err := c.Want(needs); err != nil {
		return nil, err
	}
	var out []channel.Endorsement
	for len(out) < len(needs) {
		ev, err := c.Recv(nil)
		if err != nil {
			return nil, err
		}
		for _, e := range ev {
			if e.Endorsement != nil {
				out = append(out, *e.Endorsement)
			}
		}
	}
	return out, nil
}
