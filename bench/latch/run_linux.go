// SPDX-License-Identifier: Apache-2.0

package latch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"holdfast/bench/stat"
	"holdfast/test/netns"
)

// Chain is the latch around the server, as test/chain sets it up.
type Chain interface {
	// ServerGroup and ClientGroup are the control groups of the observed
	// server and of the gated clients.
	ServerGroup() string
	ClientGroup() string
	// Processes are the chain's own: gate, agent and reporter, by these names.
	Processes() map[string]int
	// Logs is what they printed, for the error of a failed run.
	Logs() string
}

// Options of a run.
type Options struct {
	Binary string // the holdfast program, which serves and loads as hidden commands
	Group  string // key exchange: x25519 or x25519mlkem768
	Points []Point
	Log    func(format string, args ...any)
	// Start sets the chain up for the server that will listen on address, and
	// returns once gate and agent are ready for it.
	Start func(ctx context.Context, n *netns.Net, client, server *netns.Namespace, address string) (Chain, error)
}

// Point is one concurrency with its number of pairs and the length of a sample.
type Point struct {
	Concurrency int
	Pairs       int
	Time        time.Duration
}

// Quick is what --quick measures.
var Quick = []Point{{64, 15, time.Second}, {16, 9, time.Second}, {1, 9, time.Second}}

// Outcome is what was measured at one concurrency.
type Outcome struct {
	LatchOverPlain float64    `json:"latch_over_plain"` // median of paired ratios of connections per second
	RateInterval   [2]float64 `json:"latch_over_plain_interval"`
	CPURatio       float64    `json:"cpu_ratio"` // see METHOD.md
	CPUInterval    [2]float64 `json:"cpu_ratio_interval"`
	WithReporter   float64    `json:"cpu_ratio_with_reporter"`
	Pairs          int        `json:"pairs"`
	Plain          Side       `json:"plain"`
	Latch          Side       `json:"latch"`
	AddedP50       float64    `json:"added_p50_ms"` // median of paired differences
	Errors         int        `json:"errors"`
	FirstError     string     `json:"first_error,omitempty"`
}

// Side has the medians of one side.
type Side struct {
	Rate float64            `json:"rate"` // connections per second
	P50  float64            `json:"p50_ms"`
	P95  float64            `json:"p95_ms"`
	CPU  map[string]float64 `json:"cpu_us_per_connection"`
}

// Results by "c64" and so on.
type Results map[string]Outcome

const (
	plainPort = 4430
	latchPort = 443
)

// Run measures every point.
func Run(ctx context.Context, o Options) (Results, error) {
	dir, err := os.MkdirTemp("", "holdfast-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	n, err := netns.New()
	if err != nil {
		return nil, err
	}
	defer n.Close()
	b := &bench{o: o, dir: dir, net: n}
	if b.client, b.server, err = n.Pair(); err != nil {
		return nil, err
	}
	if err := b.start(ctx); err != nil {
		return nil, err
	}
	out := Results{}
	for _, p := range o.Points {
		r, err := b.point(ctx, p)
		if err != nil {
			return out, fmt.Errorf("concurrency %d: %w", p.Concurrency, err)
		}
		out["c"+strconv.Itoa(p.Concurrency)] = r
		o.Log("c=%d done: %.3f of plain", p.Concurrency, r.LatchOverPlain)
	}
	return out, nil
}

type bench struct {
	o              Options
	dir            string
	net            *netns.Net
	client, server *netns.Namespace
	plain, latch   *netns.Process // the two servers
	chain          Chain
}

func (b *bench) start(ctx context.Context) error {
	// Tens of thousands of connections from one address within a minute.
	for key, v := range map[string]int{"net/ipv4/tcp_tw_reuse": 1, "net/ipv4/tcp_max_tw_buckets": 4000, "net/core/somaxconn": 4096} {
		for _, ns := range []*netns.Namespace{b.client, b.server} {
			if err := ns.Sysctl(key, v); err != nil {
				return fmt.Errorf("sysctl %s: %w", key, err)
			}
		}
	}
	if err := b.client.Do(func() error { return os.WriteFile("/proc/sys/net/ipv4/ip_local_port_range", []byte("2048 65000"), 0) }); err != nil {
		return err
	}
	var err error
	if b.plain, err = b.serve(plainPort, ""); err != nil {
		return err
	}
	address := netns.ServerV4 + ":" + strconv.Itoa(latchPort)
	if b.chain, err = b.o.Start(ctx, b.net, b.client, b.server, address); err != nil {
		return err
	}
	if b.latch, err = b.serve(latchPort, b.chain.ServerGroup()); err != nil {
		return err
	}
	for _, side := range []string{"plain", "latch"} {
		if _, err := b.sample(ctx, side, Point{Concurrency: 8, Time: 300 * time.Millisecond}); err != nil {
			return fmt.Errorf("warm-up, %s: %w\n%s", side, err, b.chain.Logs())
		}
	}
	return nil
}

func (b *bench) certFile(port int) string { return filepath.Join(b.dir, strconv.Itoa(port)+".pem") }

func (b *bench) serve(port int, group string) (*netns.Process, error) {
	p, err := b.server.Start(netns.Command{
		Args:  []string{b.o.Binary, "bench", "serve", "--address", netns.ServerV4 + ":" + strconv.Itoa(port), "--cert", b.certFile(port)},
		Group: group, Time: 10 * time.Minute,
	})
	if err != nil {
		return nil, err
	}
	return p, p.WaitOutput("READY", 10*time.Second)
}

// measured is one sample with the CPU time of every process, per connection
// in microseconds.
type measured struct {
	Sample
	cpu map[string]float64
}

// sample loads one side: "plain" or "latch".
func (b *bench) sample(ctx context.Context, side string, p Point) (measured, error) {
	port, group, pids := plainPort, "", map[string]int{"server": b.plain.Pid()}
	if side == "latch" {
		port, group, pids = latchPort, b.chain.ClientGroup(), map[string]int{"server": b.latch.Pid()}
		for name, pid := range b.chain.Processes() {
			pids[name] = pid
		}
	}
	before, err := clocks(pids)
	if err != nil {
		return measured{}, err
	}
	out, err := b.client.RunCommand(netns.Command{
		Args: []string{b.o.Binary, "bench", "load", "--address", netns.ServerV4 + ":" + strconv.Itoa(port), "--cert", b.certFile(port),
			"--group", b.o.Group, "--concurrency", strconv.Itoa(p.Concurrency), "--time", p.Time.String()},
		Group: group, Time: p.Time + 40*time.Second,
	})
	if err != nil {
		return measured{}, err
	}
	after, err := clocks(pids)
	if err != nil {
		return measured{}, err
	}
	m := measured{cpu: map[string]float64{}}
	if err := json.Unmarshal([]byte(out), &m.Sample); err != nil {
		return m, fmt.Errorf("the load generator said %q: %w", out, err)
	}
	if m.Connections == 0 {
		return m, errors.New("no connection got through: " + m.FirstError)
	}
	m.cpu["client"] = m.Sample.CPU
	for name := range pids {
		m.cpu[name] = float64((after[name] - before[name]).Nanoseconds()) / 1e3 / float64(m.Connections)
	}
	return m, ctx.Err()
}

func clocks(pids map[string]int) (map[string]time.Duration, error) {
	out := map[string]time.Duration{}
	for name, pid := range pids {
		t, err := stat.CPU(pid)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out[name] = t
	}
	return out, nil
}

// reporter is the process that stands for the security processor.
const reporter = "reporter"

func (m measured) total(withReporter bool) float64 {
	t := 0.0
	for name, v := range m.cpu {
		if name != reporter || withReporter {
			t += v
		}
	}
	return t
}

// point takes the pairs of one concurrency.
func (b *bench) point(ctx context.Context, p Point) (Outcome, error) {
	var plain, latch []measured
	for range p.Pairs {
		for _, side := range []string{"plain", "latch"} {
			m, err := b.sample(ctx, side, p)
			if err != nil {
				return Outcome{}, fmt.Errorf("%s: %w", side, err)
			}
			if side == "plain" {
				plain = append(plain, m)
			} else {
				latch = append(latch, m)
			}
		}
	}
	rate := stat.PairedRatio(values(latch, func(m measured) float64 { return m.Rate }), values(plain, func(m measured) float64 { return m.Rate }))
	cpu := stat.PairedRatio(values(plain, func(m measured) float64 { return m.total(false) }), values(latch, func(m measured) float64 { return m.total(false) }))
	all := stat.PairedRatio(values(plain, func(m measured) float64 { return m.total(true) }), values(latch, func(m measured) float64 { return m.total(true) }))
	var added []float64
	for i := range plain {
		added = append(added, latch[i].P50-plain[i].P50)
	}
	r := Outcome{
		LatchOverPlain: rate.Median, RateInterval: [2]float64{rate.Low, rate.High}, CPURatio: cpu.Median, CPUInterval: [2]float64{cpu.Low, cpu.High},
		WithReporter: all.Median, Pairs: p.Pairs, Plain: side(plain), Latch: side(latch), AddedP50: stat.Median(added),
	}
	for _, m := range append(plain, latch...) {
		r.Errors += m.Errors
		if r.FirstError == "" {
			r.FirstError = strings.TrimSpace(m.FirstError)
		}
	}
	return r, nil
}

func values(ms []measured, f func(measured) float64) []float64 {
	var out []float64
	for _, m := range ms {
		out = append(out, f(m))
	}
	return out
}

func side(ms []measured) Side {
	s := Side{
		Rate: stat.Median(values(ms, func(m measured) float64 { return m.Rate })),
		P50:  stat.Median(values(ms, func(m measured) float64 { return m.P50 })),
		P95:  stat.Median(values(ms, func(m measured) float64 { return m.P95 })),
		CPU:  map[string]float64{},
	}
	for name := range ms[0].cpu {
		s.CPU[name] = stat.Median(values(ms, func(m measured) float64 { return m.cpu[name] }))
	}
	return s
}
