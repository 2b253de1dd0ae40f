// SPDX-License-Identifier: Apache-2.0

package latch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"holdfast/bench/delay"
	"holdfast/bench/latch/baseline"
	"holdfast/bench/stat"
	"holdfast/test/netns"
)

// Chain is the latch around a server, as test/chain sets it up.
type Chain interface {
	// ServerGroup and ClientGroup are the control groups of the observed
	// server and of the gated clients.
	ServerGroup() string
	ClientGroup() string
	// Processes are the chain's own: gate, agent and reporter, by these names.
	Processes() map[string]int
	// Control is the gate's control socket, "" without one.
	Control() string
	// Logs is what they printed, for the error of a failed run.
	Logs() string
}

// Way is one way to connect in a comparison. The first of a comparison is native
// TLS.
type Way struct {
	Name   string // in tables and files
	Title  string
	Design string // of package baseline
	Latch  bool   // its server is observed, its client gated
}

// Native is native TLS.
func Native() Way { return Way{"native", "native TLS", "native", false} }

// Latched is native TLS with a latch around it; mode is latch, mutual or batch.
func Latched(mode string) Way {
	title := map[string]string{"latch": "latch", "mutual": "latch, mutual", "batch": "latch, batch (confirmed afterwards)"}[mode]
	return Way{mode, title, "native", true}
}

// Baseline is a way by a design's name.
func Baseline(name string) (Way, error) {
	d, err := baseline.Find(name)
	if err != nil {
		return Way{}, err
	}
	return Way{d.Name, d.Title, d.Name, false}, nil
}

// Point is what is measured: how many connections at a time, of which size,
// at which round-trip time, in how many rounds of which length.
type Point struct {
	Concurrency int
	Pairs       int // rounds; in each every side has one sample
	Time        time.Duration
	Size        int64         // of the request; 0: 1 KiB
	RTT         time.Duration // 0: a veth pair without delay
}

// Options of a run.
type Options struct {
	Binary  string        // the holdfast program, which serves and loads as hidden commands
	Group   string        // key exchange: x25519 or x25519mlkem768
	Latency time.Duration // of a report of the baselines' SIMULATED processor
	Ways    []Way         // nil: native and latch
	Points  []Point
	Log     func(format string, args ...any)
	// Start sets the chain up for the server that will listen on address, and
	// returns once gate and agent are ready for it. Only for ways with Latch.
	Start func(ctx context.Context, n *netns.Net, client, server *netns.Namespace, address string) (Chain, error)
}

const (
	firstPort = 4430
	latchPort = 443
	perServer = 10 * time.Minute // the longest time of a run
)

// stage is a running set of servers.
type stage struct {
	o              Options
	dir            string
	net            *netns.Net
	link           *delay.Link // nil: a veth pair
	client, server *netns.Namespace
	servers        []*netns.Process // by side
	chain          Chain
}

// open makes the network and starts everything. Call close.
func open(ctx context.Context, o Options) (s *stage, err error) {
	if len(o.Ways) == 0 {
		o.Ways = []Way{Native(), Latched("latch")}
	}
	s = &stage{o: o}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if s.dir, err = os.MkdirTemp("", "holdfast-bench-"); err != nil {
		return nil, err
	}
	if err = baseline.NewKit(s.dir); err != nil {
		return nil, err
	}
	if s.net, err = netns.New(); err != nil {
		return nil, err
	}
	delayed := false
	for _, p := range o.Points {
		delayed = delayed || p.RTT > 0
	}
	if delayed {
		s.client, s.server, s.link, err = delay.Pair(s.net)
	} else {
		s.client, s.server, err = s.net.Pair()
	}
	if err == nil {
		err = s.start(ctx)
	}
	return s, err
}

func (s *stage) close() {
	if s.net != nil {
		s.net.Close()
	}
	if s.link != nil {
		s.link.Close()
	}
	os.RemoveAll(s.dir)
}

func (s *stage) start(ctx context.Context) error {
	// Tens of thousands of connections from one address within a minute.
	for key, v := range map[string]int{"net/ipv4/tcp_tw_reuse": 1, "net/ipv4/tcp_max_tw_buckets": 4000, "net/core/somaxconn": 4096} {
		for _, ns := range []*netns.Namespace{s.client, s.server} {
			if err := ns.Sysctl(key, v); err != nil {
				return fmt.Errorf("sysctl %s: %w", key, err)
			}
		}
	}
	if err := s.client.Do(func() error { return os.WriteFile("/proc/sys/net/ipv4/ip_local_port_range", []byte("2048 65000"), 0) }); err != nil {
		return err
	}
	for i, side := range s.o.Ways {
		group := ""
		if side.Latch {
			var err error
			if s.chain, err = s.o.Start(ctx, s.net, s.client, s.server, s.address(i)); err != nil {
				return err
			}
			group = s.chain.ServerGroup()
		}
		p, err := s.server.Start(netns.Command{
			Args:  append([]string{s.o.Binary, "bench", "serve", "--design", side.Design, "--address", s.address(i)}, s.kitFlags()...),
			Group: group, Time: perServer,
		})
		if err == nil {
			err = p.WaitOutput("READY", 20*time.Second)
		}
		if err != nil {
			return err
		}
		s.servers = append(s.servers, p)
	}
	for i, side := range s.o.Ways {
		if _, err := s.sample(ctx, i, Point{Concurrency: 8, Time: 300 * time.Millisecond}); err != nil {
			return fmt.Errorf("warm-up, %s: %w\n%s", side.Name, err, s.logs())
		}
	}
	return nil
}

func (s *stage) logs() string {
	if s.chain == nil {
		return ""
	}
	return s.chain.Logs()
}

func (s *stage) kitFlags() []string {
	return []string{"--kit", s.dir, "--group", s.o.Group, "--latency", s.o.Latency.String()}
}

func (s *stage) address(side int) string {
	port := firstPort + side
	if s.o.Ways[side].Latch {
		port = latchPort
	}
	return netns.ServerV4 + ":" + strconv.Itoa(port)
}

// processes are those whose CPU time a side pays for, besides the client.
func (s *stage) processes(side int) map[string]int {
	pids := map[string]int{"server": s.servers[side].Pid()}
	if s.o.Ways[side].Latch {
		for name, pid := range s.chain.Processes() {
			pids[name] = pid
		}
	}
	return pids
}

func (s *stage) clientGroup(side int) string {
	if s.o.Ways[side].Latch {
		return s.chain.ClientGroup()
	}
	return ""
}

// measured is one sample with the CPU time of every process, per connection
// in microseconds.
type measured struct {
	Sample
	cpu map[string]float64
}

// sample loads one side.
func (s *stage) sample(ctx context.Context, side int, p Point) (measured, error) {
	if p.Size == 0 {
		p.Size = smallSize
	}
	pids := s.processes(side)
	before, err := clocks(pids)
	if err != nil {
		return measured{}, err
	}
	out, err := s.client.RunCommand(netns.Command{
		Args: append([]string{s.o.Binary, "bench", "load", "--design", s.o.Ways[side].Design, "--address", s.address(side), "--concurrency", strconv.Itoa(p.Concurrency),
			"--time", p.Time.String(), "--size", strconv.FormatInt(p.Size, 10)}, s.kitFlags()...),
		Group: s.clientGroup(side), Time: p.Time + exchangeTime + 20*time.Second,
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

// rounds takes the samples of a point: in each round one of every side, in turn.
func (s *stage) rounds(ctx context.Context, p Point) ([][]measured, error) {
	out := make([][]measured, len(s.o.Ways))
	for range p.Pairs {
		for i, side := range s.o.Ways {
			m, err := s.sample(ctx, i, p)
			if err != nil {
				return nil, fmt.Errorf("%s: %w\n%s", side.Name, err, s.logs())
			}
			out[i] = append(out[i], m)
		}
	}
	return out, nil
}
