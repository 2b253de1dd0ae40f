// SPDX-License-Identifier: Apache-2.0

package flow

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"holdfast/latch/binder"
	"holdfast/latch/tlshello"
)

// chunk is one read of a recorded connection.
type chunk struct {
	client bool
	data   []byte
}

// session is a recorded connection, and what its agent would say about it.
type session struct {
	name           string
	chunks         []chunk
	client, server []byte // hello part of each direction
	ch             [32]byte
	random         [32]byte
	binder         [32]byte
	resumed        bool
}

func load(t testing.TB, name string) *session {
	f, err := os.Open("../tlshello/testdata/" + name + ".txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s := &session{name: name}
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		who, text, _ := strings.Cut(sc.Text(), " ")
		if who != "c" && who != "s" {
			continue
		}
		b, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		s.chunks = append(s.chunks, chunk{who == "c", b})
	}
	if len(s.chunks) == 0 {
		t.Fatalf("%s is empty", name)
	}
	// What the agent computes, from the messages themselves.
	var msgs [][]byte
	for _, k := range s.chunks {
		b := k.data
		for len(b) >= 5 {
			n := int(b[3])<<8 | int(b[4])
			if len(b) < 5+n {
				t.Fatalf("%s: a record spans two reads", name)
			}
			if b[0] == 22 {
				msgs = append(msgs, b[5:5+n])
			}
			if k.client && b[0] != 23 {
				s.client = append(s.client, b[:5+n]...)
			}
			if !k.client {
				s.server = append(s.server, b[:5+n]...)
			}
			b = b[5+n:]
		}
	}
	s.ch = sha256.Sum256(msgs[0])
	copy(s.random[:], msgs[0][6:])
	if sh, err := tlshello.ParseServerHello(msgs[len(msgs)-1]); err == nil {
		s.binder = binder.Compute(binder.Server, binder.Hello, sh.Group, sh.Share, binder.Transcript(msgs...))
		s.resumed = sh.PSK
	}
	return s
}

var good = []string{"x25519-go-go", "x25519mlkem768-go-go", "p256-go-go", "retry-p384-go-go", "x25519-openssl-go",
	"retry-p256-openssl-go", "x25519-go-openssl", "retry-p521-go-openssl"}

// rules is a gate that knows one name and accepts listed roots.
type rules struct {
	service Service
	roots   map[[32]byte]bool
	judged  int
	refuse  Reason
}

func newRules() *rules {
	return &rules{service: Service{Name: "service", Grade: binder.Hello, Agents: 3}, roots: map[[32]byte]bool{}}
}

func (r *rules) Service(name []byte) *Service {
	if string(name) == "service.test" {
		return &r.service
	}
	return nil
}

func (r *rules) Judge(j *Judgment) (Reason, string) {
	r.judged++
	if r.refuse != "" {
		return r.refuse, "as told"
	}
	if !r.roots[j.Root] {
		return BinderMismatch, fmt.Sprintf("root %x", j.Root[:4])
	}
	return "", ""
}

var claims = func() []byte {
	c := binder.Claims{Service: "service", AgentVersion: "test", Class: binder.Machine}
	b, err := c.Encode()
	if err != nil {
		panic(err)
	}
	return b
}()

// evidenceFor makes a group of three leaves around the session's, and tells
// the rules that a good report signs its root.
func (r *rules) evidenceFor(s *session) *Session {
	leaf := binder.Leaf(s.binder, sha256.Sum256(claims))
	tree := binder.NewTree([][32]byte{{1}, leaf, {2}})
	r.roots[tree.Root()] = true
	return &Session{CH: s.ch, Report: 9, Index: 1, Size: 3, Path: tree.Path(1), Claims: claims}
}

var t0 = time.Unix(1_000_000, 0)

const (
	clientBase = 0xffffff00 // wraps within the hello
	serverBase = 0xfffffe10
)

// wire drives one connection of a table.
type wire struct {
	t     *Table
	id    ID
	now   time.Time
	count uint32
}

func (w *wire) out(off int, b []byte) {
	w.t.Packet(w.now, &Packet{ID: w.id, Outbound: true, Seq: clientBase + uint32(off), Base: clientBase, Len: uint32(len(b)), Data: b})
}

func (w *wire) in(off int, b []byte) {
	w.count++
	data := b
	if off+len(b) > Window { // as the adapter cuts
		data = b[:max(0, Window-off)]
	}
	w.t.Packet(w.now, &Packet{ID: w.id, Seq: serverBase + uint32(off), Base: serverBase, Count: w.count, Len: uint32(len(b)), Data: data})
}

// all gives the whole recording in order.
func (w *wire) all(s *session) {
	c, v := 0, 0
	for _, k := range s.chunks {
		if k.client {
			if b := k.data; c < len(s.client) {
				w.out(c, b[:min(len(b), len(s.client)-c)])
				c += len(b)
			}
		} else {
			w.in(v, k.data)
			v += len(k.data)
		}
	}
}

func (w *wire) flush() *Output { return w.t.Flush(w.now) }

func start(r Rules) *wire {
	w := &wire{t: New(Options{}, r), id: ID{7, 8}, now: t0}
	w.t.AgentUp(t0, 0)
	return w
}

// one checks that exactly one refusal with this reason came, and no release.
func one(t *testing.T, o *Output, want Reason) {
	t.Helper()
	if len(o.Release) != 0 || len(o.Refuse) != 1 || o.Refuse[0].Reason != want {
		t.Fatalf("released %d, refused %+v; want one refusal %q", len(o.Release), o.Refuse, want)
	}
}

func TestRelease(t *testing.T) {
	for _, name := range append([]string{"resumed-go-go", "resumed-openssl-openssl"}, good...) {
		for _, evidenceFirst := range []bool{false, true} {
			t.Run(fmt.Sprint(name, evidenceFirst), func(t *testing.T) {
				s, r := load(t, name), newRules()
				r.service.Resumption = s.resumed
				w, ev := start(r), r.evidenceFor(s)
				first := s.chunks[0].data
				w.out(0, first)
				o := w.flush()
				if len(o.Announce) != 1 || o.Announce[0].CH != s.ch || o.Announce[0].Random != s.random || o.Announce[0].Agents != 1 || o.Announce[0].Grade != binder.Hello {
					t.Fatalf("announced %+v", o.Announce)
				}
				o.Reset()
				if evidenceFirst {
					w.t.Session(w.now, 0, ev)
					if o := w.flush(); len(o.Release)+len(o.Refuse) != 0 || !o.WantInbound {
						t.Fatalf("evidence without a ServerHello: %+v", o)
					}
				}
				w.all(s)
				if !evidenceFirst {
					if o := w.flush(); len(o.Release)+len(o.Refuse) != 0 || w.t.In(Evidence) != 1 {
						t.Fatalf("released without evidence: %+v, %v", o, w.t)
					}
					w.t.Session(w.now, 0, ev)
				}
				o = w.flush()
				if len(o.Release) != 1 || len(o.Refuse) != 0 {
					t.Fatalf("%+v", o)
				}
				var x tlshello.Exchange
				x.Client(s.client)
				if err := x.Server(s.server); err != nil {
					t.Fatal(err)
				}
				if e := o.Release[0]; e.ID != w.id || e.End != serverBase+uint32(x.ServerEnd()) || e.Examined != w.count || e.Report != 9 {
					t.Errorf("%+v, end %#x, %d segments", e, serverBase+uint32(x.ServerEnd()), w.count)
				}
				o.Reset()
				if o := w.flush(); len(o.Release) != 0 {
					t.Error("released twice")
				}
				w.t.Released(w.id)
				if w.t.Len() != 0 || !w.t.Next().IsZero() {
					t.Errorf("an open connection is still held: %v", w.t)
				}
			})
		}
	}
}

// A relay with its own share, or one that hands on evidence of another
// session, must end in a refusal.
func TestOtherSessionsEvidence(t *testing.T) {
	a, b := load(t, "x25519-go-go"), load(t, "p256-go-go")
	r := newRules()
	ev := r.evidenceFor(b) // genuine, signed, and of session b
	ev.CH = a.ch
	w := start(r)
	w.all(a)
	w.t.Session(w.now, 0, ev)
	one(t, w.flush(), BinderMismatch)
	if r.judged != 1 {
		t.Errorf("judged %d times", r.judged)
	}
}

func TestServerShareChanged(t *testing.T) {
	s, r := load(t, "x25519-go-go"), newRules()
	ev := r.evidenceFor(s)
	for _, at := range []int{20 /* random */, 100 /* share */} {
		w := start(r)
		w.out(0, s.chunks[0].data)
		forged := bytes.Clone(s.server)
		forged[at] ^= 1
		w.in(0, forged)
		w.t.Session(w.now, 0, ev)
		one(t, w.flush(), BinderMismatch)
	}
}

func TestRefusedEvidence(t *testing.T) {
	s := load(t, "x25519-go-go")
	for name, tc := range map[string]struct {
		change func(*Session)
		want   Reason
	}{
		"claims other":   {func(e *Session) { e.Claims = bytes.Replace(e.Claims, []byte("test"), []byte("tesu"), 1) }, BinderMismatch},
		"claims no CBOR": {func(e *Session) { e.Claims = []byte{1, 2} }, ClaimsInvalid},
		"claims huge":    {func(e *Session) { e.Claims = make([]byte, binder.MaxClaims+1) }, AgentProtocol},
		"path long":      {func(e *Session) { e.Path = make([][32]byte, MaxPath+1) }, AgentProtocol},
		"path short":     {func(e *Session) { e.Path = e.Path[:1] }, PathInvalid},
		"index":          {func(e *Session) { e.Index = 0 }, BinderMismatch},
		"index outside":  {func(e *Session) { e.Index = 3 }, PathInvalid},
		"size 0":         {func(e *Session) { e.Size = 0 }, PathInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRules()
			w, ev := start(r), r.evidenceFor(s)
			w.all(s)
			tc.change(ev)
			w.t.Session(w.now, 0, ev)
			one(t, w.flush(), tc.want)
		})
	}
	r := newRules()
	w, ev := start(r), r.evidenceFor(s)
	r.refuse = Policy
	w.all(s)
	w.t.Session(w.now, 0, ev)
	one(t, w.flush(), Policy)
}

func TestRefusedHellos(t *testing.T) {
	for name, want := range map[string]Reason{
		"earlydata-openssl-openssl": EarlyData, "tls12client-go-go": TLS12, "tls12server-go-go": TLS12,
		"pskwithoutshare-openssl-openssl": PSKWithoutShare, "resumed-go-go": Resumption, "resumed-openssl-openssl": Resumption,
	} {
		t.Run(name, func(t *testing.T) {
			s, r := load(t, name), newRules()
			w := start(r)
			w.all(s)
			one(t, w.flush(), want)
		})
	}
	s := load(t, "x25519-go-go")
	for name, tc := range map[string]struct {
		run  func(w *wire)
		want Reason
	}{
		"http":          {func(w *wire) { w.out(0, []byte("GET / HTTP/1.1\r\n")) }, NotTLS},
		"sslv2":         {func(w *wire) { w.out(0, []byte{0x80, 0x2e, 1, 0, 2, 0, 0x15}) }, SSLv2},
		"unlisted name": {func(w *wire) { w.out(0, bytes.Replace(s.client, []byte("service.test"), []byte("servicf.test"), 1)) }, NoPolicyForName},
		"ECH":           {func(w *wire) { w.out(0, retyped(t, s.client, 16, 0xfe0d)) }, ECH},
		"no name":       {func(w *wire) { w.out(0, withoutName(t, s.client)) }, NoName},
		"differing":     {func(w *wire) { w.out(0, s.client); w.in(0, s.server[:50]); w.in(40, []byte{1, 2, 3}) }, Overlap},
		"cut copy": {func(w *wire) {
			w.out(0, s.client)
			w.count++
			w.t.Packet(w.now, &Packet{ID: w.id, Seq: serverBase, Base: serverBase, Count: w.count, Len: 90, Data: s.server[:80]})
			w.in(0, s.server)
		}, Unexamined},
		"too many copies": {func(w *wire) {
			w.out(0, s.client)
			for i := 0; i < 2; i++ {
				w.t.Packet(w.now, &Packet{ID: w.id, Seq: serverBase, Base: serverBase, Count: 1, Len: 1, Data: s.server[:1]})
			}
		}, LostCopy},
		"two bases": {func(w *wire) {
			w.in(0, s.server[:1])
			w.t.Packet(w.now, &Packet{ID: w.id, Seq: serverBase, Base: serverBase + 1, Count: 2, Len: 1, Data: s.server[:1]})
		}, Malformed},
		"denied":   {func(w *wire) { w.t.Denied(w.now, w.id, w.local(), w.local(), MPTCP) }, MPTCP},
		"flood":    {func(w *wire) { w.out(0, s.client); w.in(0, endless(Window)) }, HelloTooLarge},
		"trailing": {func(w *wire) { w.out(0, s.client); w.in(0, joined(s.server)) }, RecordBoundary},
		"plain": {func(w *wire) {
			w.out(0, s.client)
			w.in(0, append(bytes.Clone(s.server[:firstRecord(s.server)]), 22, 3, 3, 0, 4, 8, 0, 0, 0))
		}, PlainAfterHello},
	} {
		t.Run(name, func(t *testing.T) {
			w := start(newRules())
			tc.run(w)
			one(t, w.flush(), tc.want)
			w.t.out.Reset()
			// Whatever comes later changes nothing, and the deadline clears the entry.
			w.all(s)
			w.now = w.now.Add(time.Minute)
			if o := w.flush(); len(o.Refuse)+len(o.Release)+len(o.Announce) != 0 || w.t.Len() != 0 {
				t.Errorf("after the refusal: %+v, %v", o, w.t)
			}
		})
	}
}
