// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/attest/evidence"
	"holdfast/attest/provider/simulated"
	"holdfast/attest/trust"
	"holdfast/latch/binder"
	"holdfast/latch/channel"
	"holdfast/latch/hold"
	"holdfast/latch/tlshello"
)

// fakeHold is a hold without packets: tests put records in.
type fakeHold struct {
	mu       sync.Mutex
	queue    []hold.Record
	wake     chan struct{}
	quit     chan struct{}
	once     sync.Once
	released []hold.Verdict
	refused  []hold.ID
	want     int
	retries  []hold.Reason // answers to the next releases instead of Released
}

func newFakeHold() *fakeHold {
	return &fakeHold{wake: make(chan struct{}, 1), quit: make(chan struct{})}
}

func (h *fakeHold) put(wake bool, r ...hold.Record) {
	h.mu.Lock()
	h.queue = append(h.queue, r...)
	wake = wake || h.want > 0
	h.mu.Unlock()
	if wake {
		select {
		case h.wake <- struct{}{}:
		default:
		}
	}
}

func (h *fakeHold) Wait(deadline time.Time) error {
	select {
	case <-h.wake:
		return nil
	case <-h.quit:
		return net.ErrClosed
	}
}

func (h *fakeHold) Interrupt() error { h.once.Do(func() { close(h.quit) }); return nil }
func (h *fakeHold) Close() error     { return nil }
func (h *fakeHold) Sweep() error     { return nil }
func (h *fakeHold) WantInbound()     { h.mu.Lock(); h.want++; h.mu.Unlock() }

func (h *fakeHold) Drain(fn func(*hold.Record)) error {
	h.mu.Lock()
	q := h.queue
	h.queue = nil
	h.mu.Unlock()
	for i := range q {
		q[i].At = time.Now()
		fn(&q[i])
	}
	return nil
}

func (h *fakeHold) Release(batch []hold.Verdict) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, v := range batch {
		r := hold.Record{Kind: hold.Released, ID: v.ID}
		if len(h.retries) > 0 {
			r.Kind, r.Reason = hold.Retry, h.retries[0]
			h.retries = h.retries[1:]
		} else {
			h.released = append(h.released, v)
		}
		h.queue = append(h.queue, r)
	}
	return nil
}

func (h *fakeHold) Refuse(batch []hold.ID) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refused = append(h.refused, batch...)
	return nil
}

// fakeAgent is an agent's connection: tests read announcements and push events.
type fakeAgent struct {
	announced chan channel.Announcement
	events    chan []channel.Event
	quit      chan struct{}
	once      sync.Once
}

func newFakeAgent() *fakeAgent {
	return &fakeAgent{announced: make(chan channel.Announcement, 100), events: make(chan []channel.Event, 100), quit: make(chan struct{})}
}

func (a *fakeAgent) Announce(batch []channel.Announcement) error {
	for _, x := range batch {
		a.announced <- x
	}
	return nil
}

func (a *fakeAgent) Recv(dst []channel.Event) ([]channel.Event, error) {
	select {
	case e := <-a.events:
		return append(dst, e...), nil
	case <-a.quit:
		return dst, io.EOF
	}
}

func (a *fakeAgent) Close() error { a.once.Do(func() { close(a.quit) }); return nil }

// hellos is what both ends of one real TLS handshake sent first.
type hellos struct{ client, server []byte }

type tap struct {
	net.Conn
	wrote *[]byte
}

func (t tap) Write(b []byte) (int, error) { *t.wrote = append(*t.wrote, b...); return t.Conn.Write(b) }

var (
	certOnce sync.Once
	cert     tls.Certificate
)

func handshake(t testing.TB, name string) hellos {
	t.Helper()
	certOnce.Do(func() {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
		der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		cert = tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	})
	a, b := net.Pipe()
	var h hellos
	done := make(chan error, 1)
	go func() {
		s := tls.Server(tap{b, &h.server}, &tls.Config{Certificates: []tls.Certificate{cert}, SessionTicketsDisabled: true})
		done <- s.Handshake()
	}()
	c := tls.Client(tap{a, &h.client}, &tls.Config{ServerName: name, InsecureSkipVerify: true})
	if err := c.Handshake(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	h.client = h.client[:5+int(h.client[3])<<8+int(h.client[4])]
	h.server = h.server[:min(len(h.server), 2000)]
	return h
}

// leaf computes the leaf of a session, and its name on the channel.
func (h hellos) leaf(t testing.TB, claims []byte) (leaf, ch [32]byte) {
	t.Helper()
	var x tlshello.Exchange
	x.Reset()
	if err := errors.Join(x.Client(h.client), x.Server(h.server)); err != nil {
		t.Fatal(err)
	}
	_, sh := x.Hello()
	tr, ok := x.Transcript()
	if !ok {
		t.Fatal("hellos not complete")
	}
	return binder.Leaf(binder.Compute(binder.Server, binder.Hello, sh.Group, sh.Share, tr), sha256.Sum256(claims)), x.ClientHelloDigest()
}

// records are the copies that a hold would make.
func (h hellos) records(n uint64) (out, in hold.Record) {
	id := hold.ID{Cookie: n, Nonce: 1000 + n}
	l, r := netip.MustParseAddrPort("10.0.0.1:40000"), netip.MustParseAddrPort("10.0.0.2:443")
	out = hold.Record{Kind: hold.Outbound, ID: id, Local: l, Remote: r, Seq: 100, Base: 100, Len: uint32(len(h.client)), Data: h.client}
	in = hold.Record{Kind: hold.Inbound, ID: id, Local: l, Remote: r, Seq: 900, Base: 900, Count: 1, Len: uint32(len(h.server)), Data: h.server}
	return
}

// world is a gate with one fake agent, a simulated processor, and a fake hold.
type world struct {
	t     *testing.T
	hold  *fakeHold
	agent *fakeAgent
	gate  *Gate
	prov  *simulated.Provider
	id    uint64
	mu    sync.Mutex // agent
}

const goodPolicy = `
simulated: allow
class: machine
measurements: none
environments: [SIMULATED/lab/vm1]
signatures: [ES256]
groups: [x25519, X25519MLKEM768]
claims:
  services: [shop]
  units: [shop.service]
`

var goodClaims = binder.Claims{Service: "shop", Listener: "tcp 10.0.0.2:443", Unit: "shop.service", AgentVersion: "1", Class: binder.Machine}

type worldOptions struct {
	policy   string
	foreign  bool // the trust file names another root
	offline  bool // the agent cannot be reached
	deadline time.Duration
}

func newWorld(t *testing.T, o worldOptions) *world {
	t.Helper()
	root, err := simulated.NewRoot("lab", evidence.ES256)
	if err != nil {
		t.Fatal(err)
	}
	prov, err := simulated.New(root, simulated.Options{Name: "vm1", Algorithm: evidence.ES256})
	if err != nil {
		t.Fatal(err)
	}
	if o.foreign {
		if root, err = simulated.NewRoot("lab", evidence.ES256); err != nil {
			t.Fatal(err)
		}
	}
	rec, err := root.Record()
	if err != nil {
		t.Fatal(err)
	}
	roots, err := trust.New(nil, []trust.SimulatedRoot{rec})
	if err != nil {
		t.Fatal(err)
	}
	b, err := roots.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if o.policy == "" {
		o.policy = goodPolicy
	}
	dir := t.TempDir()
	for n, b := range map[string][]byte{"trust.yaml": b, "policy.yaml": []byte(o.policy),
		"gate.yaml": []byte("services: {shop.example: {agents: ['unix:/nowhere'], trust: trust.yaml, policy: policy.yaml}}")} {
		if err := os.WriteFile(filepath.Join(dir, n), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := LoadConfig(filepath.Join(dir, "gate.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if o.deadline > 0 {
		c.Deadline = o.deadline
	}
	sv, err := loadServices(c)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, hold: newFakeHold(), agent: newFakeAgent(), prov: prov, id: 7}
	w.gate = newGate(c, sv, w.hold, func(ctx context.Context, a Address, have []channel.Hash) (agentClient, error) {
		if o.offline {
			return nil, errors.New("nobody there")
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.agent, nil
	})
	w.gate.Start()
	w.gate.Ready(t.Context(), time.Second)
	t.Cleanup(w.gate.Stop)
	return w
}

// events makes the agent's messages for a group of sessions.
func (w *world) events(claims binder.Claims, hs ...hellos) []channel.Event {
	w.t.Helper()
	enc, err := claims.Encode()
	if err != nil {
		w.t.Fatal(err)
	}
	var leaves, names [][32]byte
	for _, h := range hs {
		l, ch := h.leaf(w.t, enc)
		leaves, names = append(leaves, l), append(names, ch)
	}
	tree := binder.NewTree(leaves)
	rep, err := w.prov.Report(w.t.Context(), binder.ReportData(tree.Root()))
	if err != nil {
		w.t.Fatal(err)
	}
	ends, _ := w.prov.Endorsements(w.t.Context())
	w.id++
	ev := []channel.Event{
		{Kind: channel.KindEndorsement, Endorsement: &channel.Endorsement{Type: ends[0].Type, Body: ends[0].Body}},
		{Kind: channel.KindReport, Report: &channel.Report{ID: w.id, Type: rep.Type, Body: rep.Body, Needs: rep.Needs, Size: uint64(len(hs))}},
	}
	for i := range hs {
		ev = append(ev, channel.Event{Kind: channel.KindSession, Session: channel.Session{CH: names[i], Report: w.id, Index: uint64(i), Path: tree.Path(i), Claims: enc}})
	}
	return ev
}

// announced waits for n announcements.
func (w *world) announced(n int) {
	w.t.Helper()
	for i := 0; i < n; i++ {
		select {
		case <-w.agent.announced:
		case <-time.After(3 * time.Second):
			w.t.Fatalf("announcement %d of %d did not come", i+1, n)
		}
	}
}

// ends waits until n connections were released and refused.
func (w *world) ends(released int, refused ...string) {
	w.t.Helper()
	var s Stats
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		s = w.gate.Stats()
		n := 0
		for _, r := range refused {
			if s.Refused[r] > 0 {
				n++
			}
		}
		if int(s.Released) == released && n == len(refused) && len(s.Refused) == len(refused) {
			return
		}
	}
	w.t.Errorf("gate %+v: want %d released, refused %v", s, released, strings.Join(refused, " "))
}
