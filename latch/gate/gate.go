// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"holdfast/internal/hot"
	"holdfast/latch/channel"
	"holdfast/latch/flow"
	"holdfast/latch/hold"
)

// Pauses of the packet loop. A ClientHello wakes the gate at once; while many
// connections wait, the gate first lets more hellos gather, since no report
// could answer them sooner: agents commit in groups. Inbound copies wake
// nobody: evidence does, and for sessions that will get none the look below.
const (
	busyAt    = 6 // waiting connections
	busyPause = 1500 * time.Microsecond
	veryAt    = 32
	veryPause = 3 * time.Millisecond
	look      = 20 * time.Millisecond // at the longest between looks at the inbound ring
	maxTurns  = 8                     // flush and drain per wake-up
)

// Gate is a running gate. Make it with New, start it with Start.
type Gate struct {
	config   *Config
	services *services
	dial     dialer
	hold     hold.Hold
	links    []*link
	own      *own // of mutual sessions; nil: none

	mu     sync.Mutex
	table  *flow.Table
	proved map[flow.ID]proof // judged good, not yet confirmed open
	timer  *time.Timer
	due    time.Time // of the timer; zero: not set
	rel    []hold.Verdict
	ref    []hold.ID
	pkt    flow.Packet
	stats  Stats
	closed bool
	watch  func(*Decision) // nil: nobody

	ctx    context.Context // ends with Stop
	loop   *loop           // nil: packets, timer and one goroutine per agent do its work
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// Stats counts what the gate did since its start.
type Stats struct {
	Released      uint64            `json:"released"`
	Refused       map[string]uint64 `json:"refused"` // by reason
	Announced     uint64            `json:"announced"`
	Reports       uint64            `json:"reports"`
	OwnReports    uint64            `json:"own_reports"` // of this machine, for mutual sessions
	Verified      uint64            `json:"verifications"`
	Retries       uint64            `json:"release_retries"`
	Records       uint64            `json:"records"`
	PacketWakes   uint64            `json:"packet_wakes"`
	EvidenceWakes uint64            `json:"evidence_wakes"`
	TimerWakes    uint64            `json:"timer_wakes"`
	Waiting       int               `json:"waiting"`
	CPU           float64           `json:"cpu_seconds"` // of this process, all threads
}

// proof is what the log says of a released connection.
type proof struct {
	service, environment, claimed string
	simulated, pq                 bool
	held                          time.Duration
}

// New makes a gate over a hold. The caller closes the hold after Stop.
func New(c *Config, h hold.Hold) (*Gate, error) {
	s, err := loadServices(c)
	if err != nil {
		return nil, err
	}
	return newGate(c, s, h, c.dialAgent), nil
}

func newGate(c *Config, s *services, h hold.Hold, d dialer) *Gate {
	g := &Gate{config: c, watch: c.watch, services: s, dial: d, hold: h, proved: map[flow.ID]proof{}, stats: Stats{Refused: map[string]uint64{}}}
	g.table = flow.New(flow.Options{Connections: c.Limits.Connections, Deadline: c.Deadline, Open: s.open()}, g)
	for i, a := range s.agents {
		g.links = append(g.links, &link{g: g, i: i, addr: a, tried: make(chan struct{})})
	}
	return g
}

// Start starts the loops. They end with Stop.
func (g *Gate) Start() {
	ctx, cancel := context.WithCancel(context.Background())
	g.ctx, g.cancel = ctx, cancel
	g.timer = time.AfterFunc(time.Hour, g.tick)
	if !g.startLoop() {
		g.wg.Go(g.packets)
	}
	g.mu.Lock()
	for _, l := range g.links {
		g.startLink(l)
	}
	g.mu.Unlock()
	if g.own != nil {
		hot.Cool() // two loops in one process
		g.wg.Go(func() { g.own.attester.Run(ctx) })
	}
	g.wg.Go(func() { g.sweep(ctx) })
}

// sweep lets the hold free what is no longer needed.
func (g *Gate) sweep(ctx context.Context) {
	t := time.NewTicker(30 * time.Second)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		g.mu.Lock()
		if !g.closed {
			if err := g.hold.Sweep(); err != nil {
				slog.Warn("hold", "error", err)
			}
		}
		g.mu.Unlock()
	}
}

// Ready waits until each agent was tried once, at most d.
func (g *Gate) Ready(ctx context.Context, d time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	g.mu.Lock()
	links := slices.Clone(g.links)
	g.mu.Unlock()
	for _, l := range links {
		select {
		case <-l.tried:
		case <-ctx.Done():
			return
		}
	}
}

// Stop refuses what waits and ends the loops. What was never released stays
// shut. The hold must be closed or detached afterwards.
func (g *Gate) Stop() {
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		return
	}
	g.drain()
	g.table.RefuseAll(time.Now(), flow.GateStopping)
	g.act()
	g.closed = true
	g.timer.Stop()
	g.mu.Unlock()
	g.cancel()
	if err := g.hold.Interrupt(); err != nil {
		slog.Error("hold", "error", err)
	}
	g.wg.Wait()
}

// Stats returns a copy of the counters.
func (g *Gate) Stats() Stats {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.stats
	s.Refused = map[string]uint64{}
	for k, v := range g.stats.Refused {
		s.Refused[k] = v
	}
	s.Waiting = g.table.Len()
	s.CPU = cpuSeconds()
	return s
}

// packets is the loop that a ClientHello wakes.
func (g *Gate) packets() {
	for {
		if err := g.hold.Wait(time.Time{}); err != nil {
			if !errors.Is(err, net.ErrClosed) {
				slog.Error("the hold cannot be read any more: nothing will be released", "error", err)
			}
			return
		}
		g.mu.Lock()
		if g.closed {
			g.mu.Unlock()
			return
		}
		g.stats.PacketWakes++
		g.drain()
		g.act()
		n := g.waiting()
		g.mu.Unlock()
		switch {
		case n >= veryAt:
			time.Sleep(veryPause)
		case n >= busyAt:
			time.Sleep(busyPause)
		}
	}
}

// tick serves deadlines, retries and the look at the inbound ring.
func (g *Gate) tick() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.due = time.Time{}
	if g.closed {
		return
	}
	g.stats.TimerWakes++
	g.drain()
	g.act()
}

// waiting is how many connections need a report.
func (g *Gate) waiting() int { return g.table.In(flow.Answer) + g.table.In(flow.Evidence) }

func (g *Gate) drain() {
	if err := g.hold.Drain(g.record); err != nil {
		slog.Error("hold", "error", err)
	}
}

// record gives one record of the hold to the state machine.
func (g *Gate) record(r *hold.Record) {
	g.stats.Records++
	id := flow.ID(r.ID)
	switch r.Kind {
	case hold.Outbound, hold.Inbound:
		g.pkt = flow.Packet{ID: id, Outbound: r.Kind == hold.Outbound, Seq: r.Seq, Base: r.Base, Count: r.Count, Len: r.Len, Data: r.Data, Local: r.Local, Remote: r.Remote}
		g.table.Packet(r.At, &g.pkt)
	case hold.Denied:
		g.table.Denied(r.At, id, r.Local, r.Remote, flow.Reason(r.Reason.Code()))
	case hold.Retry:
		g.stats.Retries++
		reason := flow.ReleaseFailed
		if r.Reason == hold.ReasonUnexamined {
			reason = flow.Unexamined
		}
		g.table.Retry(r.At, id, reason)
	case hold.Released:
		g.table.Released(id)
		g.stats.Released++
		p := g.proved[id]
		delete(g.proved, id)
		if g.watch != nil {
			g.watch(&Decision{At: r.At, Released: true, ID: r.ID, Service: p.service, Local: r.Local, Remote: r.Remote, Held: p.held,
				Environment: p.environment, Simulated: p.simulated, PQ: p.pq})
		}
		if !slog.Default().Enabled(context.Background(), slog.LevelInfo) {
			return // the attributes below would be made for nothing
		}
		slog.LogAttrs(context.Background(), slog.LevelInfo, "released", slog.String("service", p.service), slog.Any("local", r.Local), slog.Any("remote", r.Remote),
			slog.String("environment", p.environment), slog.Bool("simulated", p.simulated), slog.Bool("pq", p.pq), slog.String("id", r.ID.String()))
	}
}

// act carries out what the state machine decided, until nothing is left: a
// release is confirmed, or found to need another try, within the same turn.
func (g *Gate) act() {
	now := time.Now()
	for turn := 0; turn < maxTurns; turn++ {
		out := g.table.Flush(now)
		g.announce(out.Announce)
		g.attest(out.Attest)
		g.rel, g.ref = g.rel[:0], g.ref[:0]
		for i := range out.Release {
			r := &out.Release[i]
			g.rel = append(g.rel, hold.Verdict{ID: hold.ID(r.ID), End: r.End, Examined: r.Examined})
			if g.watch != nil {
				p := g.proved[r.ID]
				p.held = r.Held
				g.proved[r.ID] = p
			}
		}
		for i := range out.Refuse {
			g.refused(&out.Refuse[i])
		}
		for _, id := range out.Drop {
			g.ref = append(g.ref, hold.ID(id))
		}
		want := out.WantInbound
		out.Reset()
		if want {
			g.hold.WantInbound()
		}
		if len(g.ref) > 0 {
			if err := g.hold.Refuse(g.ref); err != nil {
				slog.Error("reset of refused connections", "error", err)
			}
		}
		if len(g.rel) == 0 {
			break
		}
		if err := g.hold.Release(g.rel); err != nil {
			slog.Error("release", "error", err)
		}
		g.drain()
		now = time.Now()
	}
	g.schedule(now)
}

// schedule sets the timer to the next moment at which something is due.
func (g *Gate) schedule(now time.Time) {
	next := g.table.Next()
	if g.table.In(flow.Answer) > 0 || g.table.In(flow.Releasing) > 0 {
		if l := now.Add(look); next.IsZero() || l.Before(next) {
			next = l
		}
	}
	if next.IsZero() {
		return // a timer that fires for nothing does no harm
	}
	// Moving the timer is cheaper than a wake-up that comes too early.
	if d := next.Sub(g.due); !g.due.IsZero() && d >= 0 && d < 2*time.Millisecond {
		return
	}
	g.due = next
	switch {
	case g.loop == nil:
		g.timer.Reset(max(next.Sub(now), 0))
	case !g.loop.turning:
		g.loop.wake()
	}
}

// announce sends the announcements, one message per agent.
func (g *Gate) announce(list []flow.Announce) {
	if len(list) == 0 {
		return
	}
	for _, l := range g.links {
		l.batch = l.batch[:0]
		for i := range list {
			a := &list[i]
			if a.Agents&(1<<l.i) != 0 {
				l.batch = append(l.batch, channel.Announcement{CH: a.CH, Random: a.Random, Grade: uint8(a.Grade)})
			}
		}
		g.stats.Announced += uint64(len(l.batch))
		for b := l.batch; len(b) > 0 && l.client != nil; {
			n := min(len(b), channel.MaxBatch)
			if err := l.client.Announce(b[:n]); err != nil {
				slog.Warn("announcement", "agent", l.addr.String(), "error", err)
				l.client.Close() // Recv returns, and the link comes down
				break
			}
			b = b[n:]
		}
	}
}

// refused logs a refusal and puts it on the list of resets.
func (g *Gate) refused(f *flow.Refusal) {
	g.stats.Refused[string(f.Reason)]++
	delete(g.proved, f.ID)
	if g.watch != nil {
		g.watch(&Decision{At: time.Now(), ID: hold.ID(f.ID), Service: printable(f.Service), Reason: f.Reason, Detail: printable(f.Detail), Local: f.Local, Remote: f.Remote, Held: f.Held})
	}
	slog.LogAttrs(context.Background(), slog.LevelWarn, "refused", slog.String("reason", string(f.Reason)), slog.String("service", printable(f.Service)),
		slog.Any("local", f.Local), slog.Any("remote", f.Remote), slog.Duration("held", f.Held), slog.String("why", f.Reason.Text()), slog.String("detail", printable(f.Detail)),
		slog.String("id", hold.ID(f.ID).String()))
	g.ref = append(g.ref, hold.ID(f.ID))
}
