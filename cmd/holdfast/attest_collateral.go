// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"holdfast/attest/appraise"
	"holdfast/attest/collateral"
)

func init() { attestVerbs = append(attestVerbs, newAttestCollateral) }

func newAttestCollateral(g *globals) *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use:   "collateral",
		Short: "Get and show what vendors publish about their chips: revocation lists, certificates, TCB information",
		Long: `Get and show what vendors publish about their chips: revocation lists,
certificates of chips, TCB information. Gates and 'attest verify' only read the
folder; the one command that uses the network is 'attest collateral fetch'. Run it
from a timer: Intel's and AMD's lists are good for weeks, and evidence is refused when
they are out of date.`,
		Args: cobra.NoArgs,
	}
	c.PersistentFlags().StringVar(&dir, "dir", "", "folder of the collateral; must exist")
	c.AddCommand(collateralFetch(g, &dir), collateralAdd(g, &dir), collateralList(g, &dir))
	return c
}

func openCollateral(dir string) (*collateral.Store, error) {
	if dir == "" {
		return nil, usageError(errors.New("attest collateral: --dir is needed"))
	}
	s, err := collateral.Open(dir)
	if err != nil {
		return nil, usageError(err)
	}
	return s, nil
}

// collateralItem is one line of the list.
type collateralItem struct {
	URL     string    `json:"url"`
	Bytes   int       `json:"bytes"`
	Fetched time.Time `json:"fetched"`
	Until   string    `json:"good_until,omitempty"`
	Expired bool      `json:"expired"`
}

func describeItem(i *collateral.Item, now time.Time) collateralItem {
	out := collateralItem{URL: i.URL, Bytes: len(i.Body), Fetched: i.Fetched}
	if until, ok := i.Expires(); ok {
		out.Until, out.Expired = until.UTC().Format(time.RFC3339), now.After(until)
	}
	return out
}

func printItems(g *globals, w io.Writer, items []collateralItem) error {
	if g.json {
		return printJSON(map[string]any{"items": items})
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, i := range items {
		state := "no date"
		if i.Until != "" {
			state = "good until " + i.Until
		}
		if i.Expired {
			state = "EXPIRED " + i.Until
		}
		fmt.Fprintf(t, "%s\t%d bytes\tfetched %s\t%s\n", state, i.Bytes, i.Fetched.UTC().Format(time.RFC3339), i.URL)
	}
	return t.Flush()
}

func collateralFetch(g *globals, dir *string) *cobra.Command {
	var all bool
	c := &cobra.Command{
		Use:   "fetch --dir DIR [FILE...]",
		Short: "Get what these files of evidence need, or with --all everything in the folder again",
		Long: `Get from AMD, Intel and Hygon what these files of evidence need, or with --all
everything that the folder has again. What cannot be got leaves the old item in place
and ends with status 1.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := openCollateral(*dir)
			if err != nil {
				return err
			}
			var urls []string
			for _, f := range args {
				b, err := readBundle(f)
				if err != nil {
					return err
				}
				u, err := appraise.Wants(b.Report, b.Endorsement)
				if err != nil {
					return refusedError(fmt.Errorf("%s: %w", f, err))
				}
				urls = append(urls, u...)
			}
			if all {
				old, err := s.List()
				if err != nil {
					return refusedError(err)
				}
				for _, i := range old {
					urls = append(urls, i.URL)
				}
			}
			if len(urls) == 0 {
				return usageError(errors.New("attest collateral fetch: name files of evidence that need collateral, or --all"))
			}
			var items []collateralItem
			var errs []error
			done := map[string]bool{}
			for _, u := range urls {
				if done[u] {
					continue
				}
				done[u] = true
				i, err := collateral.Fetch(cmd.Context(), nil, u)
				if err == nil {
					err = s.Put(i)
				}
				if err != nil {
					errs = append(errs, err)
					continue
				}
				items = append(items, describeItem(i, time.Now()))
			}
			if err := printItems(g, cmd.OutOrStdout(), items); err != nil {
				return err
			}
			if len(errs) > 0 {
				return refusedError(errors.Join(errs...))
			}
			return nil
		},
	}
	c.Flags().BoolVar(&all, "all", false, "get again everything that the folder has")
	return c
}

func collateralAdd(g *globals, dir *string) *cobra.Command {
	var url, file string
	var headers []string
	c := &cobra.Command{
		Use:   "add --dir DIR --url URL --file FILE [--header NAME=VALUE]...",
		Short: "Put into the folder what was got elsewhere, for machines without a network",
		Args:  exactArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := openCollateral(*dir)
			if err != nil {
				return err
			}
			body, err := readLimited(file, collateral.MaxBody)
			if err != nil {
				return err
			}
			i := &collateral.Item{URL: url, Body: body, Fetched: time.Now().UTC().Truncate(time.Second)}
			for _, h := range headers {
				name, value, ok := strings.Cut(h, "=")
				if !ok {
					return usageError(fmt.Errorf("--header: expected NAME=VALUE, got %q", h))
				}
				if i.Header == nil {
					i.Header = map[string]string{}
				}
				i.Header[name] = value
			}
			if err := s.Put(i); err != nil {
				return usageError(err)
			}
			return printItems(g, cmd.OutOrStdout(), []collateralItem{describeItem(i, time.Now())})
		},
	}
	c.Flags().StringVar(&url, "url", "", "address that the vendor serves it at")
	c.Flags().StringVar(&file, "file", "", "what the vendor's server gives there")
	c.Flags().StringArrayVar(&headers, "header", nil, "header of the answer with an issuer's chain, such as Tcb-Info-Issuer-Chain=...")
	return c
}

func collateralList(g *globals, dir *string) *cobra.Command {
	return &cobra.Command{
		Use: "list --dir DIR", Short: "Show what the folder has and until when it is good", Args: exactArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := openCollateral(*dir)
			if err != nil {
				return err
			}
			all, err := s.List()
			if err != nil {
				return refusedError(err)
			}
			var items []collateralItem
			for _, i := range all {
				items = append(items, describeItem(i, time.Now()))
			}
			return printItems(g, cmd.OutOrStdout(), items)
		},
	}
}
