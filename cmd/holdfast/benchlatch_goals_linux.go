// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	"holdfast/bench/latch"
	"holdfast/bench/stat"
)

// goalColumns are those of the CSV file of --goals, behind the host's.
var goalColumns = []string{"what", "seed", "goal", "ours", "low", "high", "unit", "met"}

// goals measures every row of the table of goals.
func (c *comparison) goals(ctx context.Context) error {
	var rows []latch.Goal
	add := func(g ...latch.Goal) { rows = append(rows, g...) }
	comparisons := map[string][]latch.Comparison{}
	connections, failed := 0, 0
	for _, step := range []struct {
		name string
		run  func(context.Context, func(...latch.Goal)) ([]latch.Comparison, error)
	}{
		{"throughput", c.goalThroughput}, {"slow_reporters", c.goalSlow}, {"rtt", c.goalRTT}, {"bulk", c.goalBulk}, {"memory", c.goalMemory},
		{"mutual", c.goalMutual}, {"batch", c.goalBatch}, {"verification", c.goalVerify},
	} {
		began := time.Now()
		cs, err := step.run(ctx, add)
		if err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		comparisons[step.name] = cs
		for i := range cs {
			n, bad := cs[i].Total()
			connections, failed = connections+n, failed+bad
		}
		fmt.Fprintf(c.cmd.ErrOrStderr(), "%s: %.0f s\n", step.name, time.Since(began).Seconds())
	}
	add(latch.AtMost(fmt.Sprintf("failed connections, all ways and samples, of %d", connections+failed), "-", 0, latch.One(float64(failed)), ""))
	for i := range rows {
		c.rows = append(c.rows, rows[i].Fields())
	}
	c.json["goals"], c.json["comparisons"] = rows, comparisons
	c.head("Goals", latch.Options{Group: c.f.group, Latency: seedLatency})
	c.print("%s", latch.GoalTable(rows))
	c.print("Brackets: 95 %% bootstrap intervals of the median over paired samples. The median is judged. bench/METHOD.md says how each row is made.")
	return nil
}

func (c *comparison) goalThroughput(ctx context.Context, add func(...latch.Goal)) ([]latch.Comparison, error) {
	cs, err := latch.Compare(ctx, c.options("latch", seedLatency, nil, latch.Point{Concurrency: 64, Pairs: c.rounds(15), Time: time.Second}, latch.Point{Concurrency: 1, Pairs: c.rounds(9), Time: time.Second}))
	if err != nil {
		return cs, err
	}
	busy, alone := cs[0].Find("latch"), cs[1].Find("latch")
	add(latch.AtLeast("requests/s over native TLS, fresh full handshakes, concurrency 64, checked before release, serial report of 3.369 ms", "0.088 (271.34 requests/s)", 0.9, busy.OverNative, ""),
		latch.Inform("the same: CPU per connection, native over latch", "-", busy.CPURatio, ""),
		latch.AtMost("added time at concurrency 1, veth pair without delay", "3.74-4.00 ms", 3.769, alone.Added, "ms"))
	for _, who := range []string{"gate", "agent"} {
		seed := map[string]string{"gate": "1.09-4.43 ms", "agent": "4.6-5.2 ms"}[who]
		add(latch.AtMost(who+" CPU per connection under load (concurrency 64)", "-", 0.05, latch.One(busy.CPU[who]/1e3), "ms"),
			latch.AtMost(who+" CPU per connection alone (concurrency 1)", seed, 0.15, latch.One(alone.CPU[who]/1e3), "ms"))
	}
	return cs, nil
}

// slow are the reporters of the page's second row, with the concurrencies at
// which it is asked whether 0.9 of native TLS is met.
var slow = []struct {
	latency time.Duration
	at      []int
	sample  time.Duration
}{{39 * time.Millisecond, []int{64, 256}, 2 * time.Second}, {200 * time.Millisecond, []int{64, 512, 1024}, 3 * time.Second}}

func (c *comparison) goalSlow(ctx context.Context, add func(...latch.Goal)) ([]latch.Comparison, error) {
	var all []latch.Comparison
	for _, s := range slow {
		var points []latch.Point
		for _, n := range s.at {
			points = append(points, latch.Point{Concurrency: n, Pairs: c.rounds(3), Time: s.sample})
		}
		cs, err := latch.Compare(ctx, c.options("latch", s.latency, nil, points...))
		if err != nil {
			return cs, err
		}
		met := "at none of them"
		for i := range cs {
			l := cs[i].Find("latch")
			what := fmt.Sprintf("serial report of %v, concurrency %d: ", s.latency, s.at[i])
			if i == 0 {
				over := func(reports float64) stat.Ratio {
					b := latch.Bound(s.at[i], time.Duration(reports*float64(s.latency)), cs[i].Find("native").Rate)
					r := l.OverNative
					return stat.Ratio{Median: r.Median / b, Low: r.Low / b, High: r.High / b, Pairs: r.Pairs}
				}
				add(latch.AtLeast(what+"of the bound, held for 1.5 reports (half of the one that runs, and its own)", "-", 0.9, over(1.5), ""),
					latch.Inform(what+"of the bound, held for one report, which only sessions that come just then could be", "-", over(1), ""))
			}
			add(latch.Inform(what+"of native TLS", "-", l.OverNative, ""))
			if met == "at none of them" && l.OverNative.Median >= 0.9 {
				met = fmt.Sprintf("from %d on", s.at[i])
			}
		}
		g := latch.Inform(fmt.Sprintf("serial report of %v: 0.9 of native TLS is met %s (of %v)", s.latency, met, s.at), "-", stat.Ratio{}, "")
		add(g)
		all = append(all, cs...)
	}
	return all, nil
}

func (c *comparison) goalRTT(ctx context.Context, add func(...latch.Goal)) ([]latch.Comparison, error) {
	cs, err := latch.Compare(ctx, c.options("latch", seedLatency, nil, rttPoints(c.rounds(4), 300*time.Microsecond, 20*time.Millisecond, 100*time.Millisecond)...))
	for i := range cs {
		add(latch.AtMost(fmt.Sprintf("added time at concurrency 1, round-trip time %v ms (ping %s ms)", cs[i].RTT, stat.Short(cs[i].Ping)), "3.74-4.00 ms", 3.769, cs[i].Find("latch").Added, "ms"))
	}
	return cs, err
}

func (c *comparison) goalBulk(ctx context.Context, add func(...latch.Goal)) ([]latch.Comparison, error) {
	cs, err := latch.Compare(ctx, c.options("latch", seedLatency, nil, latch.Point{Concurrency: 1, Size: 64 << 20, Pairs: c.rounds(7), Time: time.Second}))
	if err != nil {
		return cs, err
	}
	b, err := latch.MeasureBulk(ctx, c.options("latch", seedLatency, nil))
	if err != nil {
		return cs, err
	}
	share := b.Share
	share.Median, share.Low, share.High = 100*share.Median, 100*share.Low, 100*share.High
	add(latch.Inform("64 MB, one connection: time over native TLS, handshake and report included", "1.037 (page of goals; the seed states 3.7 % of mutual over server-only)", cs[0].P50Ratio("latch", "native"), ""),
		latch.AtMost("64 MB: packets in user space after the release", "-", 0, latch.One(b.After), ""),
		latch.AtMost("64 MB: run time of the eBPF programs of both sides, of the transfer's time", "-", 1, share, "%"))
	return cs, nil
}

const liveSessions = 10000

func (c *comparison) goalMemory(ctx context.Context, add func(...latch.Goal)) ([]latch.Comparison, error) {
	m, err := latch.MeasureMemory(ctx, c.options("latch", seedLatency, nil), liveSessions)
	if err != nil {
		return nil, err
	}
	c.json["memory"] = m
	for _, who := range []string{"gate", "agent"} {
		seed := map[string]string{"gate": "5.69-22.07 MB (of one transfer)", "agent": "12.02-17.92 MB (of one transfer)"}[who]
		add(latch.AtMost(who+", resident memory with 10,000 live sessions, opened in one go", seed, 24, latch.One(m.Live[who]), "MB"),
			latch.Inform("of it the process's own pages (not the program file's, not buffers shared with the kernel)", "-", latch.One(m.Own[who]), "MB"),
			latch.Inform(who+", resident memory before", "-", latch.One(m.Idle[who]), "MB"))
	}
	return nil, nil
}

func (c *comparison) goalMutual(ctx context.Context, add func(...latch.Goal)) ([]latch.Comparison, error) {
	w, err := ways("mutual", "mutual-tls-ra", "mutual-tls-ra-at-once")
	if err != nil {
		return nil, err
	}
	cs, err := latch.Compare(ctx, c.options("mutual", seedLatency, w, latch.Point{Concurrency: 1, Pairs: c.rounds(7), Time: time.Second}))
	if err != nil {
		return cs, err
	}
	add(latch.Inform("mutual, 1 KB, concurrency 1: time of a connection", "8.88 ms", latch.One(cs[0].Find("mutual").P50), "ms"),
		latch.AtMost("the same over mutual TLS+RA in the same order (server attests after it has accepted the client)", "0.86", 0.8, cs[0].P50Ratio("mutual", "mutual-tls-ra"), ""),
		latch.Inform("the same over mutual TLS+RA with both reports at once", "-", cs[0].P50Ratio("mutual", "mutual-tls-ra-at-once"), ""))
	return cs, nil
}

func (c *comparison) goalBatch(ctx context.Context, add func(...latch.Goal)) ([]latch.Comparison, error) {
	w, err := ways("batch")
	if err != nil {
		return nil, err
	}
	cs, err := latch.Compare(ctx, c.options("batch", seedLatency, w, latch.Point{Concurrency: 64, Pairs: c.rounds(4), Time: batchSample}))
	if err == nil {
		add(latch.AtLeast(fmt.Sprintf("batch, requests/s over native TLS, concurrency 64, interval %v, samples of %v", batchInterval, batchSample), "0.941 (2,894.11 requests/s)", 0.98, cs[0].Find("batch").OverNative, ""))
	}
	return cs, err
}

func (c *comparison) goalVerify(_ context.Context, add func(...latch.Goal)) ([]latch.Comparison, error) {
	costs, err := latch.VerifyCosts(600 * time.Millisecond)
	c.json["verification"] = costs
	for _, x := range costs {
		add(latch.Inform("verification: "+x.What+", chain cached", "-", x.Micro, "µs"))
	}
	return nil, err
}
