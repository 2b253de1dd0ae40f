// SPDX-License-Identifier: Apache-2.0

//go:build linux

package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"holdfast/latch/channel"
	"holdfast/latch/flow"
	"holdfast/latch/observe"
)

// Agent joins observations and announcements and has them attested in groups.
// Everything below mu is shared with the goroutines of the gates' connections;
// the rest belongs to the loop.
type Agent struct {
	o      Options
	src    Source
	server *channel.Server
	claims *claimer
	rep    reporter

	mu      sync.Mutex
	asleep  bool // the loop waits for a ServerHello: what makes a session ready must wake it
	forever bool // it sleeps without a deadline: what is parked first must wake it
	match   matcher
	mutual  mutual
	batch   batcher
	ready   []*session // matched, not yet in a group
	stats   Stats

	events   []observe.Event
	group    []*session // in the report that is being made
	leaves   [][32]byte
	result   result
	per      map[peer][]channel.Session
	paths    [][32]byte // memory of the sessions' paths
	answers  answers
	gates    *channel.Loop // reads the gates in the loop's own goroutine; nil: they have their own
	rest     time.Time     // when gates must be read again at the latest; zero: need not
	lastTick time.Time
	active   time.Time // when a session was last seen
	last     time.Time // start of the latest report
	identify bool      // a ready session waits for its listener's identity
}

// watcher is a Source whose Wait, when hello is set, also ends when a further
// descriptor is readable.
type watcher interface{ Watch(fd int) error }

// New makes an agent that observes through src.
func New(src Source, o Options) (*Agent, error) {
	o.defaults()
	if len(o.Services) == 0 || o.Open == nil {
		return nil, errors.New("agent: no services, or no security processor")
	}
	a := &Agent{o: o, src: src}
	a.claims = newClaimer(&a.o)
	a.match.init(&a.o)
	a.mutual.init()
	if err := a.batch.init(&a.o); err != nil {
		return nil, err
	}
	a.stats.Refused = map[string]uint64{}
	a.per = map[peer][]channel.Session{}
	for i := range o.Services {
		if o.Services[i].Clients != nil && o.Doors == nil {
			return nil, errors.New("agent: a service wants evidence of clients, and there are no doors that keep others out")
		}
	}
	seen := map[string]bool{}
	co := o.Channel
	co.Software = "holdfast " + o.Version
	co.Services = nil
	for _, s := range o.Services {
		if !seen[s.Name] {
			seen[s.Name] = true
			co.Services = append(co.Services, s.Name)
		}
	}
	var err error
	if w, ok := src.(watcher); ok {
		if a.gates, err = channel.NewLoop(); err != nil {
			return nil, err
		}
		if err = w.Watch(a.gates.FD()); err != nil {
			return nil, err
		}
	}
	co.Loop = a.gates
	if a.server, err = channel.NewServer(handler{a}, co); err != nil {
		return nil, err
	}
	a.rep = reporter{dial: a.o.Open, timeout: a.o.Timeout, server: a.server}
	return a, nil
}

// Serve answers gates on l until Run ends.
func (a *Agent) Serve(l net.Listener) error {
	if err := a.server.Serve(l); !errors.Is(err, channel.ErrClosed) {
		return err
	}
	return nil
}

// Run is the loop; it ends when ctx does and closes the connections of gates
// and the security processor. The source stays open.
func (a *Agent) Run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, a.src.Wake)
	defer stop()
	defer a.rep.close()
	defer a.end()
	if err := a.rep.open(ctx); err != nil {
		return fmt.Errorf("agent: security processor: %w", err)
	}
	for ctx.Err() == nil {
		deadline, hello := a.until(time.Now())
		if a.o.hasBatch {
			if w := a.batch.wait(time.Now()); !w.IsZero() && (deadline.IsZero() || w.Before(deadline)) {
				deadline = w
			}
			hello = hello && !a.batch.only
		}
		if err := a.src.Wait(deadline, hello); err != nil {
			return fmt.Errorf("agent: observer: %w", err)
		}
		a.turn(ctx, time.Now())
		if a.o.hasBatch {
			a.seal(ctx, time.Now())
		}
	}
	return nil
}

// end closes the connections of gates.
func (a *Agent) end() {
	a.server.Close()
	if a.gates != nil {
		a.gates.Close()
	}
}

// until says how long the loop may sleep, and whether a session must wake it:
// not while the gap is waited out, since nothing can be done for it.
func (a *Agent) until(now time.Time) (deadline time.Time, hello bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.ready) > 0 && !a.identify {
		a.asleep = false
		return a.next(now), false
	}
	a.asleep = true
	if a.forever = a.match.empty() && len(a.ready)+len(a.mutual.waiting)+len(a.mutual.proofs) == 0 && a.rest.IsZero() && now.Sub(a.active) > idle; a.forever {
		return time.Time{}, true
	}
	deadline = now.Add(tick)
	if !a.rest.IsZero() && a.rest.Before(deadline) {
		deadline = a.rest
	}
	return deadline, true
}

const (
	tick = 100 * time.Millisecond // how exactly waiting ends
	idle = time.Second            // without a session: the loop sleeps without a deadline
)

// crowd is the number of sessions under way from which Gap counts in full.
const crowd = 64

// next is when the next report may start. A gate that makes one connection
// after the other is not kept waiting; the more sessions are under way
// (announced or observed and not answered), the longer the gap, up to Gap.
func (a *Agent) next(now time.Time) time.Time {
	underWay := a.match.nw + len(a.ready)
	if a.o.Gap < 0 || underWay <= 1 {
		return now
	}
	return a.last.Add(a.o.Gap * time.Duration(min(underWay, crowd)-1) / (crowd - 1))
}

// turn does all there is to do at this moment, a report included. While that
// is made the loop is away: sessions and announcements gather, which costs them
// nothing, and everything is looked at when it is there.
func (a *Agent) turn(ctx context.Context, now time.Time) {
	a.collect(now)
	a.read(now)
	a.mu.Lock()
	if len(a.ready) > 0 && !now.Before(a.next(now)) {
		a.gather(now)
	}
	if len(a.group) > 0 {
		a.last = now
		a.mu.Unlock()
		a.answers.send()
		a.rep.make(ctx, a.leaves, &a.result)
		a.collect(time.Now())
		a.mu.Lock()
		a.finish(&a.result)
	}
	a.count()
	a.mu.Unlock()
	a.answers.send()
}

// collect takes what the observer has to tell and ends what waited too long.
func (a *Agent) collect(now time.Time) {
	a.events = a.src.Poll(a.events[:0], now)
	a.mu.Lock()
	a.asleep, a.forever = false, false
	a.stats.Wakes++
	if len(a.events) > 0 || !a.match.empty() {
		a.active = now
	}
	for i := range a.events {
		a.observed(&a.events[i], now)
	}
	if now.Sub(a.lastTick) >= tick {
		a.lastTick = now
		a.match.expire(now, &a.answers, a.shutOut)
		a.expireProofs(now)
	}
	a.mu.Unlock()
}

// read takes the announcements of the gates. Without a Loop they come by themselves.
func (a *Agent) read(now time.Time) {
	if a.gates != nil {
		a.rest = a.gates.Read(now)
	}
}

// observed takes one event.
func (a *Agent) observed(e *observe.Event, now time.Time) {
	if e.Kind == observe.Closed {
		a.match.closed(e.Cookie)
		a.gone(e.Cookie)
		return
	}
	if a.o.hasBatch && a.batched(e, now) {
		return
	}
	if s := a.match.observed(e, now); s != nil {
		a.settle(s, &a.answers)
	}
}

// settle refuses a matched session that the observer refused, and makes the
// others ready.
func (a *Agent) settle(s *session, out *answers) {
	switch {
	case s.event.Refusal != "":
		text := s.event.Refusal.Text()
		if s.event.Detail != "" {
			text += ": " + s.event.Detail
		}
		a.refuseTo(s, out, s.event.Refusal, text)
	case len(a.ready) >= a.o.MaxParked:
		a.refuseTo(s, out, flow.Busy, flow.Busy.Text())
	case !a.needsProof(s, out):
	default:
		a.ready = append(a.ready, s)
		a.identify = false
	}
}

func (a *Agent) refuse(s *session, code flow.Reason, text string) {
	a.refuseTo(s, &a.answers, code, text)
}

func (a *Agent) refuseTo(s *session, out *answers, code flow.Reason, text string) {
	a.match.done(s)
	out.refuse(s, code, text)
	a.shutOut(s)
}

// handler is what the channel calls; Agent's own methods stay its own.
type handler struct{ a *Agent }

func (h handler) Announced(c *channel.Conn, batch []channel.Announcement) {
	h.a.announced(c, batch)
}

// announced takes announcements of a gate.
func (a *Agent) announced(p peer, batch []channel.Announcement) {
	now := time.Now()
	var out answers
	a.mu.Lock()
	before := len(a.ready)
	for i := range batch {
		if s := a.match.announced(p, &batch[i], now, &out); s != nil {
			a.settle(s, &out)
		}
	}
	out.tally(&a.stats, &a.o)
	wake := a.asleep && (len(a.ready) > before || a.forever)
	if wake {
		a.asleep = false
	}
	a.mu.Unlock()
	out.send()
	if wake {
		a.src.Wake()
	}
}

func (h handler) Closed(c *channel.Conn) {
	h.a.mu.Lock()
	delete(h.a.mutual.stores, c)
	h.a.mu.Unlock()
	slog.Debug("a gate's connection ended", "gate", c.RemoteAddr().String(), "software", c.Software())
}

// count brings the counters up to date; called with mu held.
func (a *Agent) count() {
	a.answers.tally(&a.stats, &a.o)
	a.stats.WaitObserved, a.stats.WaitAnnounced = a.match.counts()
	a.stats.ProviderOpened = a.rep.opened
	a.stats.Observe = a.src.Stats()
}

// Stats returns the counters, as of the loop's latest turn.
func (a *Agent) Stats() Stats {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.stats
	s.Refused = map[string]uint64{}
	for k, v := range a.stats.Refused {
		s.Refused[k] = v
	}
	s.Channel = a.server.Stats()
	return s
}
