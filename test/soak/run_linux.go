// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"
	mrand "math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"holdfast/test/netns"
)

// Options of a run.
type Options struct {
	Binary string // the holdfast program
	Self   string // the program that knows the verb soak-helper
	Dir    string // exists, empty
	Time   time.Duration
	Live   int     // sessions, over all clients
	Rate   float64 // attempts a second, over all clients
	CSV    io.Writer
	Log    func(format string, args ...any)
}

// Result of a run. Faults is empty when nothing happened that must not.
type Result struct {
	Faults   []string
	Served   int // sessions of which a request reached a genuine server
	Attempts map[string]int64
	Kills    int
	Audited  int           // releases in the audit log of gate 0
	Reloads  int           // of gate 0
	Slowest  time.Duration // attempt outside of the times in which its gate was dead
	Live     int64         // at the end
	MaxLive  int64
}

const (
	odd      = 0.04 // share of attempts: a quarter each thief, relay, malformed server, malformed client
	slack    = 3 * time.Second
	settle   = 15 * time.Second // without kills, at the end
	sampling = 5 * time.Second
)

// Run runs the soak.
func Run(ctx context.Context, n *netns.Net, o Options) (r *Result, err error) {
	s := &stage{bin: o.Binary, exe: o.Self, dir: o.Dir, net: n, life: o.Time + 5*time.Minute}
	if err := writeCertificate(s.path("cert.json")); err != nil {
		return nil, err
	}
	if err := s.build(); err != nil {
		return nil, err
	}
	var targets []target
	for i := range s.server {
		targets = append(targets, target{serverName(i), address(1+i, 2) + ":443"})
	}
	for k := range s.clients {
		err := s.startClient(k, plan{Source: source(k), Genuine: targets, Thief: address(3, 2), Live: o.Live / gates, Rate: o.Rate / gates,
			Churn: max(1, o.Rate/gates/4), Ping: max(1, float64(o.Live)/gates/100), Odd: odd, Limit: deadline + slack})
		if err != nil {
			return nil, err
		}
	}
	run, cancel := context.WithTimeout(ctx, o.Time)
	defer cancel()
	x := &series{s: s, o: o, out: csv.NewWriter(o.CSV), start: time.Now()}
	var wg sync.WaitGroup
	var kills atomic.Int64
	var fault atomic.Pointer[string]
	wg.Go(func() {
		if err := s.killAtRandom(run, o, &kills); err != nil {
			text := err.Error()
			fault.Store(&text)
			cancel()
		}
	})
	wg.Go(func() { s.reload(run, &fault) })
	var mu sync.Mutex
	var deaths []string
	for _, x := range append(s.agents[:], s.gates[:]...) {
		wg.Go(func() {
			x.watch(run, func(text string) {
				mu.Lock()
				defer mu.Unlock()
				deaths = append(deaths, text)
				o.Log("%s", text)
			})
		})
	}
	x.sample(run)
	wg.Wait()
	r = &Result{Attempts: map[string]int64{}, Kills: int(kills.Load()), MaxLive: x.maxLive, Faults: deaths}
	if f := fault.Load(); f != nil {
		r.Faults = append(r.Faults, *f)
	}
	for _, l := range s.clients {
		c, _ := l.now()
		r.Live += c.Live
		for k, v := range c.Tried {
			r.Attempts[k] += v
		}
	}
	r.Faults = append(r.Faults, x.recovered()...)
	for _, l := range s.clients {
		end(l.p)
	}
	for _, p := range append(s.servers[:], s.adversary) {
		end(p)
	}
	s.judge(r)
	s.audited(r)
	if r.Served == 0 {
		o.Log("gate 0 said: %.3000s\nagent b said: %.3000s", s.gates[0].p.Output(), s.agents[1].p.Output())
	}
	r.Faults = append(r.Faults, x.flat()...)
	o.Log("adversary: %s", strings.TrimSpace(s.adversary.Output()))
	return r, nil
}

// end ends a program and gives it the time that a busy machine takes. What did
// not write its last words is found by judge.
func end(p *netns.Process) {
	p.Signal(syscall.SIGTERM)
	select {
	case <-p.Done():
	case <-time.After(40 * time.Second):
		p.Kill()
	}
}

// killAtRandom kills and restarts until shortly before the end.
func (s *stage) killAtRandom(ctx context.Context, o Options, kills *atomic.Int64) error {
	end := time.Now().Add(o.Time - settle)
	victims := []*part{s.agents[0], s.gates[1], s.agents[0], s.gates[2], s.agents[0], s.gates[3]}
	// Three minutes between two kills of a gate leave its client time to come
	// back to its number; a short run kills faster.
	mean := min(30*time.Second, o.Time/8)
	for i := mrand.IntN(len(victims)); ; i++ {
		wait := mean/2 + time.Duration(mrand.Int64N(int64(mean)))
		if time.Now().Add(wait + 3*time.Second).After(end) {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
		v := victims[i%len(victims)]
		pause := 200*time.Millisecond + time.Duration(mrand.Int64N(int64(2500*time.Millisecond)))
		o.Log("%s is killed, for %v", v.name, pause.Round(time.Millisecond))
		if err := v.kill(pause); err != nil {
			return err
		}
		kills.Add(1)
	}
}

// judge looks for what must not have happened.
func (s *stage) judge(r *Result) {
	for _, line := range strings.Split(s.adversary.Output(), "\n") {
		if strings.HasPrefix(line, "VIOLATION") {
			r.Faults = append(r.Faults, line)
		}
	}
	if !strings.Contains(s.adversary.Output(), "END connections=") {
		r.Faults = append(r.Faults, "the adversary's program did not end by itself, so its count is not known")
	}
	inside := func(w window, x served) bool {
		return x.Accepted > w.From.UnixNano() && x.Request < w.To.UnixNano()
	}
	for i := range s.server {
		list, err := readServed(s.path("served-" + serverName(i)))
		if err != nil {
			r.Faults = append(r.Faults, err.Error())
		}
		r.Served += len(list)
		for _, x := range list {
			for _, w := range s.agents[i].windows() {
				if inside(w, x) {
					r.Faults = append(r.Faults, fmt.Sprintf("%s served a request while its agent was dead (%v to %v): accepted %v", serverName(i), w.From, w.To, time.Unix(0, x.Accepted)))
				}
			}
			if k := int(x.Client>>16) - 10; k >= 0 && k < gates {
				for _, w := range s.gates[k].windows() {
					if inside(w, x) {
						r.Faults = append(r.Faults, fmt.Sprintf("%s served a request of client %d while its gate was dead (%v to %v): accepted %v", serverName(i), k, w.From, w.To, time.Unix(0, x.Accepted)))
					}
				}
			}
		}
	}
	for k, l := range s.clients {
		c, slowest := l.now()
		for _, kind := range []string{kindThief, kindRelay, kindNoise, kindOddHello} {
			if c.OK[kind] > 0 {
				r.Faults = append(r.Faults, fmt.Sprintf("client %d: %d attempts at %s were answered", k, c.OK[kind], kind))
			}
		}
		r.Slowest = max(r.Slowest, time.Duration(slowest)*time.Millisecond)
		for _, x := range l.slow {
			if !s.excused(k, x) {
				r.Faults = append(r.Faults, fmt.Sprintf("client %d: an attempt (%s) took %v, longer than the deadline of %v: %s", k, x.Kind, x.To.Sub(x.From).Round(time.Millisecond), deadline, x.Err))
			}
		}
	}
}

// excused: while its gate is dead the door is shut, and how long an attempt
// takes is up to its own time-out and to the next gate.
func (s *stage) excused(k int, x slow) bool {
	took := x.To.Sub(x.From)
	for _, w := range s.gates[k].windows() {
		if w.From.Before(x.To) && w.To.After(x.From) {
			took -= w.To.Sub(w.From) + 2*time.Second // the next one's start
		}
	}
	return took <= deadline+slack
}

// series is what is measured during the run.
type series struct {
	s       *stage
	o       Options
	out     *csv.Writer
	start   time.Time
	rows    []row
	maxLive int64
}

type row struct {
	at     time.Duration
	gate   int64 // KiB, of the gate that is never killed
	agent  int64
	tried  [gates]int64
	ok     [gates]int64
	failed string
}

func (x *series) sample(ctx context.Context) {
	x.out.Write([]string{"seconds", "live", "attempts", "answered", "odd", "lost", "slowest_ms", "gate0_kib", "gate1_kib", "gate2_kib", "gate3_kib", "agent_a_kib", "agent_b_kib", "tpm_b_kib"})
	t := time.NewTicker(sampling)
	defer t.Stop()
	for {
		x.one()
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

func (x *series) one() {
	var live, tried, ok, strange, lost, slowest int64
	r := row{at: time.Since(x.start)}
	for k, l := range x.s.clients {
		c, most := l.now()
		live, lost, slowest = live+c.Live, lost+c.Lost, max(slowest, most)
		r.tried[k], r.ok[k] = c.Tried[kindGenuine], c.OK[kindGenuine]
		tried, ok = tried+r.tried[k], ok+r.ok[k]
		strange += c.Tried[kindThief] + c.Tried[kindRelay] + c.Tried[kindNoise] + c.Tried[kindOddHello]
		if l.fail != "" {
			r.failed = l.fail
		}
	}
	x.maxLive = max(x.maxLive, live)
	r.gate, r.agent = x.s.gates[0].rss(), x.s.agents[1].rss()
	x.rows = append(x.rows, r)
	fields := []string{strconv.FormatFloat(r.at.Seconds(), 'f', 0, 64)}
	for _, v := range []int64{live, tried, ok, strange, lost, slowest, r.gate, x.s.gates[1].rss(), x.s.gates[2].rss(), x.s.gates[3].rss(), x.s.agents[0].rss(), r.agent, x.s.tpms[1].rss()} {
		fields = append(fields, strconv.FormatInt(v, 10))
	}
	x.out.Write(fields)
	x.out.Flush()
	if len(x.rows)%12 == 1 {
		x.o.Log("%4.0f s: %d live, %d attempts, %d answered, %d odd, %d lost, gate %d KiB, agent %d KiB", r.at.Seconds(), live, tried, ok, strange, lost, r.gate, r.agent)
	}
}

// flat compares the memory of the two that were never killed: the last fifth
// of the run with the fifth that begins at a third.
func (x *series) flat() (faults []string) {
	n := len(x.rows)
	if n < 15 {
		return nil // too short to say
	}
	mean := func(rows []row, f func(row) int64) float64 {
		sum := 0.0
		for _, r := range rows {
			sum += float64(f(r))
		}
		return sum / float64(len(rows))
	}
	for name, f := range map[string]func(row) int64{"gate 0": func(r row) int64 { return r.gate }, "agent b": func(r row) int64 { return r.agent }} {
		early, late := mean(x.rows[n/3:n/3+n/5], f), mean(x.rows[n-n/5:], f)
		x.o.Log("%s: %.0f KiB from a third of the run on, %.0f KiB at the end", name, early, late)
		if late > 1.2*early+2048 {
			faults = append(faults, fmt.Sprintf("%s grew from %.0f to %.0f KiB", name, early, late))
		}
	}
	return faults
}

// recovered asks that in the quiet time at the end sessions are made again.
func (x *series) recovered() (faults []string) {
	if len(x.rows) < 3 {
		return []string{"the run was too short to say anything"}
	}
	last, before := x.rows[len(x.rows)-1], x.rows[len(x.rows)-2]
	for k := range gates {
		tried, ok := last.tried[k]-before.tried[k], last.ok[k]-before.ok[k]
		if tried == 0 || ok < tried*9/10 {
			faults = append(faults, fmt.Sprintf("client %d: %d of %d attempts worked in the quiet time at the end: wedged? last error: %s", k, ok, tried, last.failed))
		}
	}
	return faults
}

// Helper runs one of the parts that are no holdfast programs:
//
//	server ADDRESS CERT FILE, adversary CERT GENUINE AGENT AGENT, client PLAN
func Helper(ctx context.Context, args []string) error {
	if len(args) < 2 {
		return fmt.Errorf("soak-helper: got %q", args)
	}
	switch {
	case args[0] == "server" && len(args) == 4:
		cert, err := readCertificate(args[2])
		if err != nil {
			return err
		}
		return genuine(ctx, args[1], cert, args[3])
	case args[0] == "adversary" && len(args) > 3:
		cert, err := readCertificate(args[1])
		if err != nil {
			return err
		}
		return adversary(ctx, cert, args[2], args[3:])
	case args[0] == "client" && len(args) == 2:
		var p plan
		if err := unmarshal(args[1], &p); err != nil {
			return err
		}
		return p.keep(ctx)
	}
	return fmt.Errorf("soak-helper: got %q, expected server, adversary or client with their arguments", args)
}
