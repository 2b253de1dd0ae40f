// SPDX-License-Identifier: Apache-2.0

//go:build linux

package agent

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/attest/evidence"
	"holdfast/attest/provider"
	"holdfast/latch/channel"
	"holdfast/latch/flow"
	"holdfast/latch/observe"
)

// script is a Source without a kernel: what is fed comes out of the next Poll.
type script struct {
	mu     sync.Mutex
	events []observe.Event
	wake   chan struct{}
}

func newScript() *script { return &script{wake: make(chan struct{}, 1)} }

func (s *script) feed(e ...observe.Event) {
	s.mu.Lock()
	s.events = append(s.events, e...)
	s.mu.Unlock()
	s.Wake()
}

func (s *script) Wait(deadline time.Time, hello bool) error {
	var c <-chan time.Time
	if !deadline.IsZero() {
		t := time.NewTimer(time.Until(deadline))
		defer t.Stop()
		c = t.C
	}
	select {
	case <-s.wake:
	case <-c:
	}
	return nil
}

func (s *script) Wake() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *script) Poll(dst []observe.Event, _ time.Time) []observe.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	dst = append(dst, s.events...)
	s.events = nil
	return dst
}

func (s *script) Recheck(*observe.Listener, time.Time) {}
func (s *script) Stats() observe.Stats                 { return observe.Stats{} }

var testAddr = netip.MustParseAddrPort("192.0.2.1:443")

// hello is an accepted observation of session n.
func hello(n byte, l *observe.Listener) observe.Event {
	return observe.Event{Kind: observe.Hello, Cookie: uint64(n), CH: [32]byte{n}, Random: [32]byte{n, n}, BinderHello: [32]byte{n, 1}, BinderShare: [32]byte{n, 2},
		Group: 29, Local: testAddr, Listener: l}
}

func ann(n byte) channel.Announcement {
	return channel.Announcement{CH: [32]byte{n}, Random: [32]byte{n, n}, Grade: 1}
}

func scripted(t *testing.T, change func(*Options)) (*Agent, *script, *gate) {
	t.Helper()
	src := newScript()
	o := Options{Services: []Service{{Name: "shop", Address: testAddr}}, Version: "1.0"}
	open, roots := processor(t, 0)
	o.Open = open
	if change != nil {
		change(&o)
	}
	a, addr := start(t, src, o)
	return a, src, dialGate(t, addr, roots)
}

func known(id observe.Identity) *observe.Listener {
	l := &observe.Listener{Cookie: 1, Addr: testAddr}
	l.SetIdentity(&id, nil)
	return l
}

var nginx = observe.Identity{Executable: [32]byte{9}, Path: "/usr/sbin/nginx", Unit: "nginx.service", NetNS: "net:[1]"}

func wantRefused(t *testing.T, e channel.Event, code flow.Reason) {
	t.Helper()
	if e.Kind != channel.KindRefused || e.Refused.Code != string(code) {
		t.Errorf("got kind %d, %s (%s); want a refusal with %s", e.Kind, e.Refused.Code, e.Refused.Text, code)
	}
}

// TestUsers: an executable that a stranger runs is no identity; root, a listed
// user or a listed unit is.
func TestUsers(t *testing.T) {
	for _, c := range []struct {
		users []uint32
		units []string
		uid   uint32
		ok    bool
	}{
		{nil, nil, 0, true}, {nil, nil, 1000, false}, {[]uint32{1000}, nil, 1000, true}, {[]uint32{1000}, nil, 0, false},
		{nil, []string{"nginx.service"}, 33, true}, {[]uint32{33}, []string{"nginx.service"}, 33, true}, {[]uint32{33}, []string{"nginx.service"}, 1000, false},
	} {
		id := nginx
		id.UID = c.uid
		k := newClaimer(&Options{Services: []Service{{Name: "shop", Address: testAddr, Users: c.users, Units: c.units, Executables: []Executable{{Digest: id.Executable}}}}})
		e := hello(1, known(id))
		got, no := k.check(&e)
		if (got != nil) != c.ok || !c.ok && (no == nil || no.code != flow.UnknownIdentity) {
			t.Errorf("users %v, units %v, user %d: %v %v", c.users, c.units, c.uid, got, no)
		}
	}
}

// TestRefusals walks through what the agent refuses by itself.
func TestRefusals(t *testing.T) {
	a, src, g := scripted(t, func(o *Options) {
		o.Park = 300 * time.Millisecond
		o.Services = []Service{{Name: "shop", Address: testAddr, Units: []string{"nginx.service"}}}
	})
	refused := hello(1, known(nginx))
	refused.Refusal, refused.Detail = flow.ShareReused, ""
	c := g.announce(ann(1))
	time.Sleep(50 * time.Millisecond)
	src.feed(refused)
	wantRefused(t, await(t, c), flow.ShareReused)

	refused = hello(2, known(nginx)) // observed first
	refused.Refusal = flow.ForeignHello
	src.feed(refused)
	time.Sleep(50 * time.Millisecond)
	wantRefused(t, await(t, g.announce(ann(2))), flow.ForeignHello)

	src.feed(hello(3, known(nginx)), observe.Event{Kind: observe.Closed, Cookie: 3})
	time.Sleep(50 * time.Millisecond)
	wantRefused(t, await(t, g.announce(ann(3))), flow.SocketGone)

	wrong := nginx
	wrong.Unit = "other.service"
	c = g.announce(ann(4))
	src.feed(hello(4, known(wrong)))
	wantRefused(t, await(t, c), flow.UnknownIdentity)

	unknown := &observe.Listener{Cookie: 2, Addr: testAddr}
	unknown.SetIdentity(nil, errors.New("nobody holds it"))
	c = g.announce(ann(5))
	src.feed(hello(5, unknown))
	wantRefused(t, await(t, c), flow.UnknownIdentity)

	elsewhere := hello(6, known(nginx))
	elsewhere.Local = netip.MustParseAddrPort("192.0.2.9:443")
	c = g.announce(ann(6))
	src.feed(elsewhere)
	wantRefused(t, await(t, c), flow.NotProtected)

	x := ann(7)
	x.Grade = 9
	wantRefused(t, await(t, g.announce(x)), flow.Grade)

	wantRefused(t, await(t, g.announce(ann(8))), flow.NotObserved)
	st := a.Stats()
	if st.Attested != 0 || st.Refused[string(flow.UnknownIdentity)] != 2 || st.WaitObserved != 0 || st.WaitAnnounced != 0 {
		t.Errorf("stats %+v", st)
	}
}

func TestInterpreterNeedsUnit(t *testing.T) {
	python := observe.Identity{Executable: [32]byte{9}, Path: "/usr/bin/python3.11", Unit: "app.service"}
	for _, c := range []struct {
		units []string
		want  bool
	}{{nil, false}, {[]string{"app.service"}, true}} {
		_, src, g := scripted(t, func(o *Options) { o.Services[0].Units = c.units })
		x := g.announce(ann(1))
		src.feed(hello(1, known(python)))
		if e := await(t, x); (e.Kind == channel.KindSession) != c.want {
			t.Errorf("units %q: %+v", c.units, e)
		}
	}
	for p, want := range map[string]bool{"/usr/bin/python3": true, "/usr/bin/python3.11 (deleted)": true, "/bin/sh": true, "/usr/bin/node": true,
		"/usr/bin/perl5.36": true, "/usr/sbin/nginx": false, "/usr/bin/nodejs-exporter": false, "/usr/sbin/sshd": false, "/lib64/ld-linux-x86-64.so.2": true, "/usr/bin/javac": false} {
		if got := interpreter(p); got != want {
			t.Errorf("interpreter(%s): %v, want %v", p, got, want)
		}
	}
}

// TestIdentityLater: a session waits while its listener is being identified.
func TestIdentityLater(t *testing.T) {
	a, src, g := scripted(t, nil)
	l := &observe.Listener{Cookie: 1, Addr: testAddr}
	c := g.announce(ann(1))
	src.feed(hello(1, l))
	select {
	case e := <-c:
		t.Fatalf("answered before the identity was known: %+v", e)
	case <-time.After(100 * time.Millisecond):
	}
	l.SetIdentity(&nginx, nil)
	src.Wake()
	if e := await(t, c); e.Kind != channel.KindSession {
		t.Errorf("%+v", e)
	}
	if st := a.Stats(); st.Attested != 1 {
		t.Errorf("stats %+v", st)
	}
}

// gated is a provider whose reports wait for the test.
type gated struct {
	provider.Provider
	enter, leave chan struct{}
	fail         *atomic.Bool
}

func (g gated) Report(ctx context.Context, d evidence.ReportData) (evidence.Report, error) {
	select {
	case g.enter <- struct{}{}:
	case <-ctx.Done():
		return evidence.Report{}, ctx.Err()
	}
	select {
	case <-g.leave:
	case <-ctx.Done():
		return evidence.Report{}, ctx.Err()
	}
	if g.fail.Load() {
		return evidence.Report{}, errors.New("the device said no")
	}
	return g.Provider.Report(ctx, d)
}

// entered waits until a report was asked for.
func (g gated) entered(t *testing.T) {
	t.Helper()
	select {
	case <-g.enter:
	case <-time.After(5 * time.Second):
		t.Fatal("no report was asked for")
	}
}

// let lets it be made.
func (g gated) let(t *testing.T) {
	t.Helper()
	select {
	case g.leave <- struct{}{}:
	case <-time.After(5 * time.Second):
		t.Fatal("the report was given up")
	}
}

func gatedProvider(t *testing.T, o *Options) gated {
	g := gated{enter: make(chan struct{}), leave: make(chan struct{}), fail: new(atomic.Bool)}
	open := o.Open
	o.Open = func(ctx context.Context) (provider.Provider, error) {
		p, err := open(ctx)
		return gated{p, g.enter, g.leave, g.fail}, err
	}
	return g
}

// TestLooksAgain: what changes while the report is made counts.
func TestLooksAgain(t *testing.T) {
	var p gated
	_, src, g := scripted(t, func(o *Options) { p = gatedProvider(t, o) })
	gone, changed, good := known(nginx), known(nginx), known(nginx)
	c := []<-chan channel.Event{g.announce(ann(1)), g.announce(ann(2)), g.announce(ann(3))}
	time.Sleep(50 * time.Millisecond)
	src.feed(hello(1, gone), hello(2, changed), hello(3, good))
	p.entered(t)
	src.mu.Lock() // not woken by it: the loop must look when the report is there
	src.events = append(src.events, observe.Event{Kind: observe.Closed, Cookie: 1})
	src.mu.Unlock()
	other := nginx
	other.Executable = [32]byte{10}
	changed.SetIdentity(&other, nil)
	p.let(t)
	wantRefused(t, await(t, c[0]), flow.SocketGone)
	wantRefused(t, await(t, c[1]), flow.IdentityChanged)
	e := await(t, c[2])
	if _, err := g.check(e, [32]byte{3, 1}); err != nil {
		t.Error(err)
	}
}

// TestReporterFails: the sessions of a failed report are refused, and the
// security processor is opened again for the next.
func TestReporterFails(t *testing.T) {
	var p gated
	a, src, g := scripted(t, func(o *Options) { p = gatedProvider(t, o) })
	p.fail.Store(true)
	c := g.announce(ann(1))
	src.feed(hello(1, known(nginx)))
	p.entered(t)
	p.let(t)
	wantRefused(t, await(t, c), flow.ReporterFailed)
	p.fail.Store(false)
	src.feed(hello(3, known(nginx))) // at once: the processor is not opened again yet
	wantRefused(t, await(t, g.announce(ann(3))), flow.ReporterFailed)
	time.Sleep(100 * time.Millisecond)
	c = g.announce(ann(2))
	src.feed(hello(2, known(nginx)))
	p.entered(t)
	p.let(t)
	if e := await(t, c); e.Kind != channel.KindSession {
		t.Errorf("after the failure: %+v", e)
	}
	if st := a.Stats(); st.ReportsFailed != 2 || st.ProviderOpened != 2 {
		t.Errorf("stats %+v", st)
	}
}

// TestReporterHangs: a device that never answers is given up.
func TestReporterHangs(t *testing.T) {
	var p gated
	_, src, g := scripted(t, func(o *Options) { p = gatedProvider(t, o); o.Timeout = 100 * time.Millisecond })
	c := g.announce(ann(1))
	src.feed(hello(1, known(nginx)))
	p.entered(t)
	wantRefused(t, await(t, c), flow.ReporterFailed)
}

// TestParkedIsBounded: more announcements than MaxParked are refused at once;
// the places come back.
func TestParkedIsBounded(t *testing.T) {
	a, _, g := scripted(t, func(o *Options) { o.MaxParked = 10; o.Park = 300 * time.Millisecond })
	var cs []<-chan channel.Event
	for n := byte(1); n <= 15; n++ {
		cs = append(cs, g.announce(ann(n)))
	}
	for i, c := range cs {
		want := flow.NotObserved
		if i >= 10 {
			want = flow.Busy
		}
		wantRefused(t, await(t, c), want)
	}
	wantRefused(t, await(t, g.announce(ann(99))), flow.NotObserved)
	if st := a.Stats(); st.WaitObserved != 0 {
		t.Errorf("%d announcements still parked", st.WaitObserved)
	}
}

// TestObservationsAreBounded: sessions that nobody announces cost a bounded
// amount, for a bounded time.
func TestObservationsAreBounded(t *testing.T) {
	a, src, _ := scripted(t, func(o *Options) { o.MaxParked = 10; o.Park = 200 * time.Millisecond })
	l := known(nginx)
	for n := byte(1); n <= 40; n++ {
		src.feed(hello(n, l))
	}
	time.Sleep(50 * time.Millisecond)
	src.Wake()
	time.Sleep(50 * time.Millisecond)
	if n := a.Stats().WaitAnnounced; n != 10 {
		t.Errorf("%d observations parked, want 10", n)
	}
	time.Sleep(500 * time.Millisecond)
	if n := a.Stats().WaitAnnounced; n != 0 {
		t.Errorf("%d observations parked after their time", n)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.match.live)+len(a.match.seen) != 0 {
		t.Errorf("%d live, %d seen are left", len(a.match.live), len(a.match.seen))
	}
}

// TestTwoGatesOneHello: two gates announce one ClientHello; the first gets the
// evidence, the other hears that nothing was observed for it.
func TestTwoGatesOneHello(t *testing.T) {
	src := newScript()
	o := Options{Services: []Service{{Name: "shop", Address: testAddr}}, Version: "1", Park: 300 * time.Millisecond}
	open, roots := processor(t, 0)
	o.Open = open
	_, addr := start(t, src, o)
	g1, g2 := dialGate(t, addr, roots), dialGate(t, addr, roots)
	c1 := g1.announce(ann(1))
	time.Sleep(50 * time.Millisecond)
	c2 := g2.announce(ann(1))
	time.Sleep(50 * time.Millisecond)
	src.feed(hello(1, known(nginx)))
	e1, e2 := await(t, c1), await(t, c2)
	if e1.Kind != channel.KindSession {
		t.Errorf("the first gate got kind %d (%s), want a session", e1.Kind, e1.Refused.Code)
	}
	wantRefused(t, e2, flow.NotObserved)
}

// TestGap: under load reports start up to Gap apart, the less the fewer
// sessions are under way (200 would start without a gap); an idle agent starts
// at once.
func TestGap(t *testing.T) {
	a, src, g := scripted(t, func(o *Options) { o.Gap = 100 * time.Millisecond })
	l := known(nginx)
	begin := time.Now()
	c := g.announce(ann(1))
	src.feed(hello(1, l))
	await(t, c)
	if d := time.Since(begin); d > 80*time.Millisecond {
		t.Errorf("an idle agent took %v", d)
	}
	begin = time.Now()
	n := byte(2)
	for time.Since(begin) < time.Second {
		for i := range byte(40) {
			g.announce(ann(n + i))
		}
		for range 40 {
			src.feed(hello(n, l))
			n++
			time.Sleep(5 * time.Millisecond)
		}
	}
	if r := a.Stats().Reports; r > 60 || r < 5 {
		t.Errorf("%d reports in a second under load with a gap of 100 ms", r)
	}
}
