// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holdfast/bench/latch"
	"holdfast/bench/plot"
	"holdfast/bench/stat"
	"holdfast/test/chain"
	"holdfast/test/netns"
)

// comparisonLimit bounds each of --baselines, --sizes, --rtt and --goals.
const comparisonLimit = 10 * time.Minute

// comparison is one of these commands.
type comparison struct {
	cmd    *cobra.Command
	g      *globals
	f      benchLatchFlags
	host   stat.Host
	self   string
	dir    string
	text   strings.Builder // Markdown
	charts map[string]*plot.Chart
	rows   [][]string
	json   map[string]any
}

func (f benchLatchFlags) comparisons() map[string]func(*comparison, context.Context) error {
	out := map[string]func(*comparison, context.Context) error{}
	for name, x := range map[string]struct {
		asked bool
		run   func(*comparison, context.Context) error
	}{
		"baselines": {f.baselines, (*comparison).baselines}, "sizes": {f.sizes, (*comparison).sizes}, "rtt": {f.rtt, (*comparison).rtt}, "goals": {f.goals, (*comparison).goals},
	} {
		if x.asked {
			out[name] = x.run
		}
	}
	return out
}

// benchDesigns runs one comparison and writes what was asked for.
func benchDesigns(cmd *cobra.Command, g *globals, f benchLatchFlags, name string, run func(*comparison, context.Context) error) error {
	if f.rounds < 0 || f.rounds > 100 {
		return usageError(fmt.Errorf("--rounds: got %d, expected 1 to 100, or 0 for what each command has", f.rounds))
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "holdfast-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	c := &comparison{cmd: cmd, g: g, f: f, host: stat.ThisHost(version), self: self, dir: dir, charts: map[string]*plot.Chart{}, json: map[string]any{}}
	c.json["host"], c.json["group"] = c.host, f.group
	ctx, stop := context.WithTimeout(cmd.Context(), comparisonLimit)
	defer stop()
	if err := run(c, ctx); err != nil {
		return err
	}
	if f.csv != "" && len(c.rows) > 0 {
		header := latch.Columns
		if name == "goals" {
			header = goalColumns
		}
		var rows [][]string
		for _, r := range c.rows {
			rows = append(rows, append(c.host.Fields(), r...))
		}
		if err := stat.Append(f.csv, append(append([]string{}, stat.HostColumns...), header...), rows); err != nil {
			return err
		}
	}
	if f.plot != "" {
		if err := c.write(name); err != nil {
			return err
		}
	}
	if g.json {
		return printJSON(c.json)
	}
	fmt.Fprint(cmd.OutOrStdout(), c.text.String())
	return nil
}

// write puts tables and charts into the folder of --plot.
func (c *comparison) write(name string) error {
	if err := os.MkdirAll(c.f.plot, 0o755); err != nil {
		return err
	}
	files := map[string][]byte{"latch-" + name + ".md": []byte(c.text.String())}
	for name, chart := range c.charts {
		svg, err := chart.SVG()
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		files[name+".svg"] = svg
	}
	var err error
	for name, b := range files {
		err = errors.Join(err, os.WriteFile(filepath.Join(c.f.plot, name), b, 0o644))
	}
	return err
}

func (c *comparison) print(format string, a ...any) { fmt.Fprintf(&c.text, format+"\n", a...) }

// head begins the text.
func (c *comparison) head(title string, o latch.Options) {
	c.print("# %s\n", title)
	c.print("`holdfast bench latch %s`. %s.\n", strings.Join(os.Args[min(3, len(os.Args)):], " "), latch.Note(c.host, o))
}

// beside sets a ratio of times beside what the seed's text states.
func (c *comparison) beside(what, seed string, r stat.Ratio) {
	less := func(v float64) string { return fmt.Sprintf("%.1f", 100*(1-v)) }
	t := stat.Table{Head: []string{"what", "seed", "ours"}}
	t.Add(what, seed, less(r.Median)+" ["+less(r.High)+", "+less(r.Low)+"] %")
	c.print("%s", t.String())
}

// rounds is how often each side is sampled.
func (c *comparison) rounds(usual int) int {
	if c.f.rounds > 0 {
		return c.f.rounds
	}
	return usual
}

// options are those of a comparison with a simulated processor.
func (c *comparison) options(mode string, latency time.Duration, ways []latch.Way, points ...latch.Point) latch.Options {
	log := func(format string, a ...any) { fmt.Fprintf(c.cmd.ErrOrStderr(), "  "+format+"\n", a...) }
	return latch.Options{Binary: c.self, Group: c.f.group, Latency: latency, Ways: ways, Points: points, Log: log,
		Start: func(ctx context.Context, n *netns.Net, client, server *netns.Namespace, address string) (latch.Chain, error) {
			dir, err := os.MkdirTemp(c.dir, mode)
			if err != nil {
				return nil, err
			}
			if mode != "latch" {
				return startMode(ctx, mode, c.self, dir, latency, n, client, server, address)
			}
			return startBenchChain(ctx, chain.Options{
				Binary: c.self, Dir: dir, Net: n, Client: client, Server: server, ServiceName: serviceOfBench, Address: address,
				Executable: c.self, AK: "ECC-P256", Simulated: latency, Log: func(string, ...any) {}, Control: true,
			})
		}}
}

// compare measures and keeps the rows.
func (c *comparison) compare(ctx context.Context, kind string, o latch.Options) ([]latch.Comparison, error) {
	cs, err := latch.Compare(ctx, o)
	for i := range cs {
		c.rows = append(c.rows, cs[i].Rows(kind, o)...)
	}
	return cs, err
}

// ways are native TLS, baselines by name, and a mode of the latch.
func ways(mode string, designs ...string) ([]latch.Way, error) {
	out := []latch.Way{latch.Native()}
	for _, d := range designs {
		w, err := latch.Baseline(d)
		if err != nil {
			return nil, err
		}
		out = append(out, w)
	}
	return append(out, latch.Latched(mode)), nil
}

// baselines is every design at 1 KB over concurrency; mutual sessions; batch.
func (c *comparison) baselines(ctx context.Context) error {
	w, err := ways("latch", "nested", "ra-tls", "tls-ra", "tls-ra-batched", "gateway")
	if err != nil {
		return err
	}
	var points []latch.Point
	for _, n := range []int{1, 4, 16, 64} {
		if c.f.only == 0 || c.f.only == n {
			points = append(points, latch.Point{Concurrency: n, Pairs: c.rounds(7), Time: time.Second})
		}
	}
	if len(points) == 0 {
		return usageError(fmt.Errorf("--concurrency: %d, expected 1, 4, 16 or 64", c.f.only))
	}
	o := c.options("latch", seedLatency, w, points...)
	cs, err := c.compare(ctx, "baselines", o)
	if err != nil {
		return err
	}
	c.json["baselines"] = cs
	c.head("Designs beside each other, 1 KB, over concurrency", o)
	c.print("%s", latch.Matrix(cs, latch.ByConcurrency, latch.Rate))
	c.print("%s", latch.Matrix(cs, latch.ByConcurrency, latch.Time))
	for i := range cs {
		c.print("Concurrency %d:\n\n%s", cs[i].Concurrency, cs[i].Table())
	}
	note := latch.Note(c.host, o)
	c.charts["latch-baselines-rate"] = latch.Chart(cs, latch.ByConcurrency, latch.Speed, "Fresh full connections per second, 1 KB", note, true)
	c.charts["latch-baselines-time"] = latch.Chart(cs, latch.ByConcurrency, latch.Time, "Time of a connection, 1 KB", note, true)

	if len(cs) > 0 && cs[0].Concurrency == 1 {
		c.beside("time of a connection, 1 KB, concurrency 1: latch less than the nested tunnel by", "56.9-65.5 % (TNG, a product with proxies)", cs[0].P50Ratio("latch", "nested"))
	}
	if w, err = ways("mutual", "mutual-tls-ra", "mutual-tls-ra-at-once"); err != nil {
		return err
	}
	m, err := c.compare(ctx, "mutual", c.options("mutual", seedLatency, w, latch.Point{Concurrency: 1, Pairs: c.rounds(7), Time: time.Second}))
	if err != nil {
		return err
	}
	c.json["mutual"] = m
	mutualRatio := m[0].P50Ratio("mutual", "mutual-tls-ra")
	c.print("Mutual sessions, concurrency 1, both sides with a SIMULATED processor of %v:\n\n%s", seedLatency, m[0].Table())

	c.beside("mutual, 1 KB: latch less than mutual TLS+RA (client first) by", "14.0 %", mutualRatio)

	if w, err = ways("batch"); err != nil {
		return err
	}
	b, err := c.compare(ctx, "batch", c.options("batch", seedLatency, w, latch.Point{Concurrency: 64, Pairs: c.rounds(5), Time: batchSample}))
	if err != nil {
		return err
	}
	c.json["batch"] = b
	c.print("Batch, concurrency 64, samples of %v, interval of manifests %v:\n\n%s", batchSample, batchInterval, b[0].Table())
	return nil
}

// batchSample is longer than batchInterval, the agent's default, so that each
// sample has its share of the work that comes once an interval.
const batchInterval, batchSample = 5 * time.Second, 6 * time.Second

// sizes is every design from 1 KB to 64 MB.
func (c *comparison) sizes(ctx context.Context) error {
	w, err := ways("latch", "nested", "ra-tls", "tls-ra", "tls-ra-batched", "gateway")
	if err != nil {
		return err
	}
	n := max(1, c.f.only)
	var points []latch.Point
	for _, size := range []int64{1 << 10, 16 << 10, 256 << 10, 1 << 20, 16 << 20, 64 << 20} {
		points = append(points, latch.Point{Concurrency: n, Size: size, Pairs: c.rounds(5), Time: time.Second})
	}
	o := c.options("latch", seedLatency, w, points...)
	cs, err := c.compare(ctx, "sizes", o)
	if err != nil {
		return err
	}
	c.json["sizes"] = cs
	c.head(fmt.Sprintf("Designs beside each other, 1 KB to 64 MB up, concurrency %d", n), o)
	c.print("%s", latch.Matrix(cs, latch.BySize, latch.Time))
	c.print("%s", latch.Matrix(cs, latch.BySize, latch.Added))
	note := latch.Note(c.host, o)
	c.charts["latch-sizes-time"] = latch.Chart(cs, latch.BySize, latch.Time, "Time from the dial to the reply, request of 1 KB to 64 MB", note, true)
	last := &cs[len(cs)-1]
	c.beside("64 MB: latch less than the gateway with a second layer of encryption by", "43.8-82.4 % (CMaaS)", last.P50Ratio("latch", "gateway"))
	c.beside("64 MB: latch less than native TLS by", "-3.7 % (the seed states it of mutual over server-only sessions)", last.P50Ratio("latch", "native"))
	bulk, err := latch.MeasureBulk(ctx, c.options("latch", seedLatency, nil))
	if err != nil {
		return err
	}
	c.json["bulk"] = bulk
	c.print("%s", bulk)
	return nil
}

// rtt is every design over round-trip times.
func (c *comparison) rtt(ctx context.Context) error {
	w, err := ways("latch", "nested", "ra-tls", "tls-ra", "gateway")
	if err != nil {
		return err
	}
	o := c.options("latch", seedLatency, w, rttPoints(c.rounds(5), 300*time.Microsecond, time.Millisecond, 5*time.Millisecond, 20*time.Millisecond, 50*time.Millisecond, 100*time.Millisecond)...)
	cs, err := c.compare(ctx, "rtt", o)
	if err != nil {
		return err
	}
	c.json["rtt"] = cs
	c.head("Time over the round-trip time, 1 KB, concurrency 1", o)
	t := stat.Table{Head: []string{"round-trip time asked for, ms", "ping before the samples, ms", "packets lost by the wire"}}
	for i := range cs {
		t.Add(cs[i].RTT, cs[i].Ping, cs[i].Dropped)
	}
	c.print("%s", t.String())
	c.print("%s", latch.Matrix(cs, latch.ByRTT, latch.Time))
	c.print("%s", latch.Matrix(cs, latch.ByRTT, latch.Added))
	note := latch.Note(c.host, o)
	c.charts["latch-rtt-time"] = latch.Chart(cs, latch.ByRTT, latch.Time, "Time of a connection over the round-trip time, 1 KB", note, true)
	for i := range cs { // native adds nothing to itself
		cs[i].Sides = cs[i].Sides[1:]
	}
	c.charts["latch-rtt-added"] = latch.Chart(cs, latch.ByRTT, latch.Added, "Time added to native TLS over the round-trip time", note, false)
	return nil
}

// rttPoints are samples long enough for several connections.
func rttPoints(rounds int, rtts ...time.Duration) []latch.Point {
	var out []latch.Point
	for _, d := range rtts {
		out = append(out, latch.Point{Concurrency: 1, RTT: d, Pairs: rounds, Time: max(800*time.Millisecond, min(20*d, 2*time.Second))})
	}
	return out
}
