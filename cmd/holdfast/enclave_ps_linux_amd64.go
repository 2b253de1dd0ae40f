// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"holdfast/enclave/daemon"
)

func init() {
	enclaveVerbs = append(enclaveVerbs, enclavePS, enclaveKill)
}

func enclavePS(g *globals) *cobra.Command {
	var socket string
	c := &cobra.Command{
		Use: "ps", Short: "List the enclaves of the daemon, yours, or all for root, and what they did", Args: exactArgs(0),
		Long: `List the enclaves of the daemon: yours, or all for root.

ECALLS, OCALLS  entries and exits that were asked for
EXC             exceptions that the enclave was to handle
FAULTS          page faults that the runtime served
REFUSED         leaves that failed and exceptions that nobody handled

The line "refused" counts the same for all enclaves since the start, by kind.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := dialDaemon(cmd, socket)
			if err != nil {
				return err
			}
			defer c.Close()
			l, err := c.List()
			if err != nil {
				return refusedError(err)
			}
			if g.json {
				return printJSON(l)
			}
			return printListing(cmd.OutOrStdout(), l)
		},
	}
	c.Flags().StringVar(&socket, "socket", "", "socket of the daemon")
	return c
}

func printListing(out io.Writer, l *daemon.Listing) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "level %s, mode %s, EPC %d of %d pages in use, %d outside\n", l.Level, l.Mode, l.InUse, l.Frames, l.Outside)
	if len(l.Refused) > 0 {
		var parts []string
		for _, what := range slices.Sorted(maps.Keys(l.Refused)) {
			parts = append(parts, fmt.Sprintf("%s %d", what, l.Refused[what]))
		}
		fmt.Fprintf(w, "refused: %s\n", strings.Join(parts, ", "))
	}
	fmt.Fprintln(w, "ID\tUID\tPID\tAGE\tDEBUG\tPRODUCT\tSVN\tECALLS\tOCALLS\tEXC\tFAULTS\tREFUSED\tMRENCLAVE")
	for _, e := range l.Enclaves {
		fmt.Fprintf(w, "%d\t%d\t%d\t%v\t%t\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%s\n", e.ID, e.UID, e.PID, time.Since(e.Started).Round(time.Second), e.Debug, e.ISVProdID, e.ISVSVN,
			e.Calls, e.OCalls, e.Exceptions, e.Faults, e.Stats.Refused, e.MREnclave)
	}
	return w.Flush()
}

func enclaveKill(*globals) *cobra.Command {
	var socket string
	c := &cobra.Command{
		Use: "kill ID", Short: "End an enclave of the daemon: yours, or any for root", Args: exactArgs(1),
		Long: "End an enclave by the ID that 'holdfast enclave ps' shows. Its ECALLs return at once, and its\napplication sees it as gone (SGX_ERROR_ENCLAVE_LOST).",
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := strconv.ParseUint(args[0], 10, 64)
			if err != nil {
				return usageError(fmt.Errorf("enclave kill: expected the number of an enclave, got %q", args[0]))
			}
			c, err := dialDaemon(cmd, socket)
			if err != nil {
				return err
			}
			defer c.Close()
			if err := c.Kill(id); err != nil {
				return refusedError(err)
			}
			return nil
		},
	}
	c.Flags().StringVar(&socket, "socket", "", "socket of the daemon")
	return c
}
