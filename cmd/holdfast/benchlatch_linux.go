// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holdfast/bench/latch"
	"holdfast/bench/latch/baseline"
	"holdfast/bench/stat"
	"holdfast/test/chain"
	"holdfast/test/host"
	"holdfast/test/netns"
)

type benchLatchFlags struct {
	quick     bool
	csv       string
	group     string
	ak        string
	simulated time.Duration
	only      int
	mode      string

	baselines, sizes, rtt, goals bool
	rounds                       int
	plot                         string
}

func init() {
	benches = append(benches, func(g *globals) *cobra.Command {
		var f benchLatchFlags
		c := &cobra.Command{
			Use: "latch", Short: "TLS through gate and agent beside plain TLS", Args: cobra.NoArgs,
			Long: `Measure fresh full TLS 1.3 handshakes with a request and a reply of 1 KiB, through gate and
agent and plainly, sample by sample in turn, at concurrency 64, 16 and 1. The reporter is a
SIMULATED processor with a P-256 key that takes 3.369 ms for each report, one after the other, as
the hardware of the published measurements did; then our TPM at concurrency 64 (and, without
--quick, slower processors). --ak and --simulated choose one reporter instead.

--baselines, --sizes, --rtt and --goals compare the latch with other designs of attested channels
and with the project's goals; each is one run of some minutes.`,
			RunE: func(cmd *cobra.Command, _ []string) error { return benchLatch(cmd, g, f) },
		}
		c.Flags().BoolVar(&f.quick, "quick", false, "fewer pairs and reporters: about three minutes")
		c.Flags().StringVar(&f.csv, "csv", "", "append the figures to this CSV file")
		c.Flags().StringVar(&f.group, "group", "x25519", "key exchange: x25519 or x25519mlkem768")
		c.Flags().StringVar(&f.ak, "ak", "", "only our TPM, with an attestation key of this algorithm: ML-DSA-65 or ECC-P256; with --simulated that processor's")
		c.Flags().DurationVar(&f.simulated, "simulated", 0, "only a SIMULATED processor with this latency")
		c.Flags().StringVar(&f.mode, "mode", "latch", "latch; mutual (both machines attest, each by a SIMULATED processor); batch (a watcher in the gate's place)")
		c.Flags().IntVar(&f.only, "concurrency", 0, "only this concurrency (64, 16 or 1; 4 too with --baselines, any with --sizes)")
		c.Flags().BoolVar(&f.baselines, "baselines", false, "native TLS, nested tunnel, RA-TLS, TLS+RA, a gateway with application-layer encryption and the latch at concurrency 1 to 64; mutual sessions; batch: six minutes")
		c.Flags().BoolVar(&f.sizes, "sizes", false, "the same with requests of 1 KB to 64 MB: six minutes")
		c.Flags().BoolVar(&f.rtt, "rtt", false, "the same over round-trip times of 0.3 to 100 ms: six minutes")
		c.Flags().BoolVar(&f.goals, "goals", false, "one table: every goal of the project's page on the latch beside the published figure and ours: six minutes")
		c.Flags().IntVar(&f.rounds, "rounds", 0, "samples of each way in --baselines, --sizes, --rtt and --goals (default: what fits the time)")
		c.Flags().StringVar(&f.plot, "plot", "", "write tables (Markdown) and charts (SVG) of these four into this folder")
		return c
	})
}

func benchLatch(cmd *cobra.Command, g *globals, f benchLatchFlags) error {
	for _, name := range []string{"root", "netns", "bpf", "cgroup-bpf", "bpffs"} {
		if h := host.Has(name); !h.Present {
			return unsupportedError(fmt.Errorf("this machine lacks %s: %s", h.Name, h.Fact))
		}
	}
	if runs := f.comparisons(); len(runs) > 1 {
		return usageError(errors.New("--baselines, --sizes, --rtt, --goals: one at a time"))
	} else {
		for name, run := range runs {
			return benchDesigns(cmd, g, f, name, run)
		}
	}
	switch f.mode {
	case "latch":
	case "mutual", "batch":
		if f.ak = "ES256"; f.simulated == 0 {
			f.simulated = seedLatency
		}
	default:
		return usageError(fmt.Errorf("--mode: %q, expected latch, mutual or batch", f.mode))
	}
	facts := stat.ThisHost(version)
	var first latch.Results
	var chosen string
	others := []otherReporter{}
	for i, r := range f.reporters() {
		name, results, err := benchReporter(cmd, r)
		if err != nil {
			return err
		}
		if f.csv != "" {
			if err := latchCSV(f.csv, facts, name, f.group, results); err != nil {
				return err
			}
		}
		if i == 0 {
			first, chosen = results, name
		} else {
			others = append(others, otherReporter{name, results})
		}
		if !g.json {
			if i > 0 {
				fmt.Fprintln(cmd.OutOrStdout())
			}
			printLatch(cmd, name, f.group, results)
		}
	}
	if g.json {
		return printJSON(map[string]any{"host": facts, "reporter": chosen, "group": f.group, "mode": f.mode, "throughput": first, "other_reporters": others})
	}
	if b := facts.Busy(); b != "" {
		fmt.Fprintln(cmd.OutOrStdout(), "\n"+b)
	}
	return nil
}

// serviceOfBench is the name of the service under load.
const serviceOfBench = baseline.ServiceName

// otherReporter is a result with another reporter than the first.
type otherReporter struct {
	Reporter   string        `json:"reporter"`
	Throughput latch.Results `json:"throughput"`
}

// reporters are the runs that were asked for. The first is the one of the issue
// and of the published measurements.
func (f benchLatchFlags) reporters() []benchLatchFlags {
	if f.mode != "latch" || f.ak != "" || f.simulated > 0 {
		if f.ak == "" {
			f.ak = "ECC-P256"
		}
		return []benchLatchFlags{f}
	}
	with := func(ak string, simulated time.Duration, only int) benchLatchFlags {
		r := f
		r.ak, r.simulated = ak, simulated
		if r.only == 0 {
			r.only = only
		}
		return r
	}
	list := []benchLatchFlags{with("ECC-P256", seedLatency, 0), with("ML-DSA-65", 0, 64)}
	if !f.quick {
		list = append(list, with("ECC-P256", 0, 64), with("ECC-P256", 39*time.Millisecond, 64), with("ECC-P256", 200*time.Millisecond, 64))
	}
	return list
}

// benchReporter measures with one reporter and says what it is.
func benchReporter(cmd *cobra.Command, f benchLatchFlags) (string, latch.Results, error) {
	self, err := os.Executable()
	if err != nil {
		return "", nil, err
	}
	dir, err := os.MkdirTemp("", "holdfast-bench-")
	if err != nil {
		return "", nil, err
	}
	defer os.RemoveAll(dir)
	log := func(format string, a ...any) { fmt.Fprintf(cmd.ErrOrStderr(), "  "+format+"\n", a...) }
	results, err := latch.Run(cmd.Context(), latch.Options{
		Binary: self, Group: f.group, Latency: seedLatency, Points: f.points(), Log: log,
		Start: func(ctx context.Context, n *netns.Net, client, server *netns.Namespace, address string) (latch.Chain, error) {
			if f.mode != "latch" {
				return startMode(ctx, f.mode, self, dir, f.simulated, n, client, server, address)
			}
			return startBenchChain(ctx, chain.Options{
				Binary: self, Dir: dir, Net: n, Client: client, Server: server, ServiceName: serviceOfBench, Address: address,
				Executable: self, AK: f.ak, Simulated: f.simulated, Log: log,
			})
		},
	})
	reporter := "QR TPM (a software TPM), " + f.ak + " attestation key"
	if f.simulated > 0 {
		reporter = "SIMULATED processor, " + f.simulated.String() + ", " + f.ak
	}
	if f.mode != "latch" {
		reporter = f.mode + " mode, " + reporter
	}
	return reporter, results, err
}

func (f benchLatchFlags) points() []latch.Point {
	var out []latch.Point
	for _, p := range latch.Quick {
		if !f.quick {
			p.Pairs, p.Time = 2*p.Pairs+1, 2*p.Time
		}
		if f.only == 0 || f.only == p.Concurrency {
			out = append(out, p)
		}
	}
	return out
}

func startBenchChain(ctx context.Context, o chain.Options) (latch.Chain, error) {
	agentHost, _, err := net.SplitHostPort(o.Address)
	if err != nil {
		return nil, err
	}
	o.AgentHost = agentHost
	c, err := chain.Start(ctx, o)
	if err != nil {
		return nil, err
	}
	return c, c.StartGate()
}

func byConcurrency(r latch.Results) []string {
	var keys []string
	for k := range r {
		keys = append(keys, k)
	}
	sort.Slice(keys, func(i, j int) bool {
		a, _ := strconv.Atoi(keys[i][1:])
		b, _ := strconv.Atoi(keys[j][1:])
		return a > b
	})
	return keys
}

func printLatch(cmd *cobra.Command, reporter, group string, results latch.Results) {
	p := func(format string, a ...any) { fmt.Fprintf(cmd.OutOrStdout(), format+"\n", a...) }
	p("Reporter: %s. Key exchange: %s. Fresh full handshakes, 1 KiB each way.", reporter, group)
	for _, k := range byConcurrency(results) {
		r := results[k]
		p("")
		p("%-4s latch/plain %.3f [%.3f, %.3f]   CPU plain/latch %.3f [%.3f, %.3f] (with the reporter %.3f)   %d pairs, %d errors %s",
			k, r.LatchOverPlain, r.RateInterval[0], r.RateInterval[1], r.CPURatio, r.CPUInterval[0], r.CPUInterval[1], r.WithReporter, r.Pairs, r.Errors, r.FirstError)
		for _, s := range []struct {
			name string
			side latch.Side
		}{{"plain", r.Plain}, {"latch", r.Latch}} {
			var cpu []string
			for _, who := range []string{"client", "server", "gate", "agent", "reporter"} {
				if v, ok := s.side.CPU[who]; ok {
					cpu = append(cpu, fmt.Sprintf("%s %.0f", who, v))
				}
			}
			p("     %s %7.0f conn/s   p50 %6.2f ms  p95 %6.2f ms   CPU us/conn: %s", s.name, s.side.Rate, s.side.P50, s.side.P95, strings.Join(cpu, ", "))
		}
		p("     added at p50: %.2f ms", r.AddedP50)
	}
}

func latchCSV(path string, facts stat.Host, reporter, group string, results latch.Results) error {
	header := append(append([]string{}, stat.HostColumns...), "reporter", "group", "concurrency", "pairs", "errors",
		"latch_over_plain", "low", "high", "cpu_ratio", "cpu_low", "cpu_high", "cpu_ratio_with_reporter", "added_p50_ms",
		"plain_rate", "plain_p50_ms", "plain_p95_ms", "latch_rate", "latch_p50_ms", "latch_p95_ms",
		"plain_client_us", "plain_server_us", "latch_client_us", "latch_server_us", "gate_us", "agent_us", "reporter_us")
	f := func(v float64) string { return strconv.FormatFloat(v, 'f', 3, 64) }
	var rows [][]string
	for _, k := range byConcurrency(results) {
		r := results[k]
		rows = append(rows, append(facts.Fields(), reporter, group, k[1:], strconv.Itoa(r.Pairs), strconv.Itoa(r.Errors),
			f(r.LatchOverPlain), f(r.RateInterval[0]), f(r.RateInterval[1]), f(r.CPURatio), f(r.CPUInterval[0]), f(r.CPUInterval[1]), f(r.WithReporter), f(r.AddedP50),
			f(r.Plain.Rate), f(r.Plain.P50), f(r.Plain.P95), f(r.Latch.Rate), f(r.Latch.P50), f(r.Latch.P95),
			f(r.Plain.CPU["client"]), f(r.Plain.CPU["server"]), f(r.Latch.CPU["client"]), f(r.Latch.CPU["server"]), f(r.Latch.CPU["gate"]), f(r.Latch.CPU["agent"]), f(r.Latch.CPU["reporter"])))
	}
	if len(rows) == 0 {
		return errors.New("nothing was measured")
	}
	return stat.Append(path, header, rows)
}
