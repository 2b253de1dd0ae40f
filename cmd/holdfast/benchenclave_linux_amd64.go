// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"holdfast/attest/evidence"
	"holdfast/bench/enclave"
	"holdfast/bench/stat"
	"holdfast/enclave/daemon"
)

func init() {
	benches = append(benches, func(g *globals) *cobra.Command {
		var b benchEnclave
		c := &cobra.Command{
			Use: "enclave", Short: "Edge calls, exceptions, marshalling and loading of enclaves, by mode", Args: cobra.NoArgs,
			Long: "Measure enclaves in each mode that works here: ECALLs and OCALLs (in this process, and through a daemon), two\n" +
				"bare exits of the same thread beside them, illegal instructions and page faults, a garbage collector's page\n" +
				"protection, the marshalling buffer, loading, and what the monitor does for each leaf. The rows are those of\n" +
				"tables 1 and 2 and of figure 7 of the published evaluation of HyperEnclave.",
			RunE: func(cmd *cobra.Command, _ []string) error { return b.run(cmd, g) },
		}
		f := c.Flags()
		f.BoolVar(&b.quick, "quick", false, "a tenth of the samples")
		f.StringSliceVar(&b.modes, "modes", nil, "only these of HU, GU, P")
		f.StringVar(&b.csv, "csv", "", "append the rows to this CSV file")
		f.StringVar(&b.plot, "plot", "", "draw figures into this folder")
		f.StringVar(&b.bed, "bed", "host", "what runs this, for the CSV file: host, or QEMU TCG where the processor is emulated")
		f.BoolVar(&b.alone, "no-daemon", false, "leave the rows through a daemon out")
		return c
	})
}

type benchEnclave struct {
	quick, alone   bool
	modes          []string
	csv, plot, bed string
}

func (b *benchEnclave) run(cmd *cobra.Command, g *globals) error {
	facts := stat.ThisHost(version)
	out := cmd.OutOrStdout()
	o := enclave.Options{Quick: b.quick, Modes: enclave.Available(), Log: func(format string, a ...any) {
		if !g.json {
			fmt.Fprintf(out, format+"\n", a...)
		}
	}}
	if len(b.modes) > 0 {
		o.Modes = nil
		for _, m := range b.modes {
			o.Modes = append(o.Modes, strings.ToUpper(m))
		}
	}
	if !b.alone {
		o.Hosted = func(mode string) (*daemon.Client, func() error, error) {
			dir, err := os.MkdirTemp("", "holdfast-bench-")
			if err != nil {
				return nil, nil, err
			}
			w := running{launch: launchFlags{mode: mode, epc: 32, algorithm: evidence.ES256}}
			w.launch.c.State = filepath.Join(dir, "state")
			if os.Geteuid() == 0 {
				w.launch.user = "root" // whoever measures need not open /dev/kvm and the folder to others
			}
			c, end, err := w.ownDaemon(cmd.Context())
			return c, func() error { return errors.Join(end(), os.RemoveAll(dir)) }, err
		}
	}
	rows, err := enclave.Run(o)
	if err != nil {
		return err
	}
	goals := enclave.Goals(rows)
	if b.csv != "" {
		if err := enclaveCSV(b.csv, b.bed, facts, rows); err != nil {
			return err
		}
	}
	if b.plot != "" {
		if err := enclavePlots(b.plot, b.bed, facts, rows); err != nil {
			return err
		}
	}
	if g.json {
		return printJSON(map[string]any{"host": facts, "bed": b.bed, "rows": rows, "goals": goals})
	}
	printEnclaveRows(out.Write, rows, goals)
	if s := facts.Busy(); s != "" {
		o.Log("%s", s)
	}
	return nil
}

func printEnclaveRows(write func([]byte) (int, error), rows []enclave.Row, goals []enclave.Goal) {
	t := stat.Table{Head: []string{"table", "operation", "mode", "samples", "p5 us", "p50 us", "p95 us", "allocations"}}
	for _, r := range rows {
		allocs := "-"
		if r.Allocs >= 0 {
			allocs = stat.Short(r.Allocs)
		}
		t.Add(r.Table, r.Name, r.Mode, r.N, r.P5, r.P50, r.P95, allocs)
	}
	_, _ = write([]byte(t.String() + "\n"))
	t = stat.Table{Head: []string{"goal", "want", "got", "met"}}
	for _, x := range goals {
		met := "no"
		if x.Met {
			met = "yes"
		}
		t.Add(x.Name, x.Want, x.Got, met)
	}
	_, _ = write([]byte(t.String()))
}

func enclaveCSV(path, bed string, facts stat.Host, rows []enclave.Row) error {
	header := append(append([]string{}, stat.HostColumns...), "bed", "table", "operation", "mode", "samples", "p5_us", "p50_us", "p95_us", "allocations")
	f := func(v float64) string { return strconv.FormatFloat(v, 'f', 3, 64) }
	var out [][]string
	for _, r := range rows {
		allocs := ""
		if r.Allocs >= 0 {
			allocs = f(r.Allocs)
		}
		out = append(out, append(facts.Fields(), bed, r.Table, r.Name, r.Mode, strconv.Itoa(r.N), f(r.P5), f(r.P50), f(r.P95), allocs))
	}
	return stat.Append(path, header, out)
}

// enclavePlots draws edge calls and the price of the marshalling buffer.
func enclavePlots(dir, bed string, facts stat.Host, rows []enclave.Row) error {
	note := fmt.Sprintf("%s, %s, %d cores, Linux %s, %s", bed, facts.CPU, facts.Cores, facts.Kernel, facts.Time)
	for name, c := range enclave.Charts(rows) {
		c.Note = note
		if err := writeChart(filepath.Join(dir, name+".svg"), c); err != nil {
			return err
		}
	}
	return nil
}
