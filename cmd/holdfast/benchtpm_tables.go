// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strconv"

	"github.com/spf13/cobra"

	"holdfast/bench/stat"
	"holdfast/bench/tpm"
)

func init() {
	benches = append(benches, func(g *globals) *cobra.Command {
		var runs int
		var csvFile, note, dir string
		c := &cobra.Command{
			Use: "tpm-tables", Short: "The TPM's tables of times and memory by algorithm, on a TPM in this process", Args: cobra.NoArgs,
			Long: "Measure the operations of a published evaluation of a quantum-resistant TPM (creation, signatures, encryption,\n" +
				"encapsulation, Random Oblivious Transfer) and the memory of each kind of key. It needs no server and no root, so that\n" +
				"it runs as it is on small machines and under qemu-user.",
			RunE: func(cmd *cobra.Command, _ []string) error {
				if runs < 1 || runs > 10000 {
					return fmt.Errorf("--runs: expected 1 to 10000, got %d", runs)
				}
				return tpmTables(cmd, g, runs, csvFile, note, dir)
			},
		}
		c.Flags().IntVar(&runs, "runs", 100, "calls for each median")
		c.Flags().StringVar(&csvFile, "csv", "", "append the rows to this CSV file")
		c.Flags().StringVar(&note, "note", "", "what to call this machine in the rows (emulated ones should say so)")
		c.Flags().StringVar(&dir, "plot", "", "draw sizes of keys and speedups as SVG into this folder")
		return c
	})
}

func tpmTables(cmd *cobra.Command, g *globals, runs int, csvFile, note, dir string) error {
	facts := stat.ThisHost(version)
	times, err := tpm.Tables(cmd.Context(), runs)
	if err != nil {
		return err
	}
	memory, err := tpm.Memory()
	if err != nil {
		return err
	}
	machine := runtime.GOARCH
	if note != "" {
		machine += ", " + note
	}
	if csvFile != "" {
		if err := tpmTablesCSV(csvFile, facts, machine, times, memory); err != nil {
			return err
		}
	}
	if dir != "" {
		for name, c := range tpm.Charts(machine, times, memory) {
			c.Note = fmt.Sprintf("%s, medians of %d; %s, Linux %s, %s", machine, runs, facts.CPU, facts.Kernel, facts.Time)
			if err := writeChart(filepath.Join(dir, "tpm-"+name+"-"+runtime.GOARCH+".svg"), c); err != nil {
				return err
			}
		}
	}
	if g.json {
		return printJSON(map[string]any{"host": facts, "machine": machine, "runs": runs, "times": times, "memory": memory})
	}
	w := cmd.OutOrStdout()
	fmt.Fprintf(w, "Microseconds, medians of %d, %s\n%-16s", runs, machine, "")
	for _, c := range tpm.TableColumns {
		fmt.Fprintf(w, "%13s", c)
	}
	for _, r := range times {
		fmt.Fprintf(w, "\n%-16s", r.Algorithm)
		for _, c := range tpm.TableColumns {
			if v, ok := r.Micros[c]; ok {
				fmt.Fprintf(w, "%13.0f", v)
			} else {
				fmt.Fprintf(w, "%13s", "")
			}
		}
	}
	fmt.Fprintf(w, "\n\nBytes%11s%10s%10s%15s%10s%10s%12s%12s\n", "", "public", "private", "saved context", "loaded", "state", "one Create", "one use")
	for _, m := range memory {
		fmt.Fprintf(w, "%-16s%10d%10d%15d%10d%10d%12d%12d\n", m.Key, m.Public, m.Private, m.Context, m.Loaded, m.State, m.Create, m.Use)
	}
	if b := facts.Busy(); b != "" {
		fmt.Fprintln(w, b)
	}
	return nil
}

// tpmTablesCSV appends a row for each figure.
func tpmTablesCSV(path string, facts stat.Host, machine string, times []tpm.TableRow, memory []tpm.MemoryRow) error {
	header := append(append([]string{}, stat.HostColumns...), "machine", "algorithm", "what", "value", "unit")
	var out [][]string
	add := func(alg, what string, v float64, unit string) {
		out = append(out, append(facts.Fields(), machine, alg, what, strconv.FormatFloat(v, 'f', -1, 64), unit))
	}
	for _, r := range times {
		for _, c := range tpm.TableColumns {
			if v, ok := r.Micros[c]; ok {
				add(r.Algorithm, c, v, "us")
			}
		}
	}
	for _, m := range memory {
		for _, v := range []struct {
			what string
			n    int
		}{{"public area", m.Public}, {"private area", m.Private}, {"saved context", m.Context}, {"loaded", m.Loaded}, {"permanent state", m.State}, {"allocated by Create", m.Create}, {"allocated by a use", m.Use}} {
			add(m.Key, v.what, float64(v.n), "B")
		}
	}
	return stat.Append(path, header, out)
}
