// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func init() {
	register(func(g *globals) *cobra.Command {
		var dir string
		c := &cobra.Command{
			Use: "man --dir DIR", Short: "Write the manual pages", Hidden: true, Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				if dir == "" {
					return usageError(fmt.Errorf("--dir: no folder given"))
				}
				if err := os.MkdirAll(dir, 0o755); err != nil {
					return err
				}
				n, err := manPages(cmd.Root(), dir)
				if err == nil && g.json {
					return printJSON(map[string]int{"pages": n})
				}
				return err
			},
		}
		c.Flags().StringVar(&dir, "dir", "", "folder for the pages, made if it is missing")
		return c
	})
}

// manPages writes one page for a command and each one below it, and returns
// how many.
func manPages(c *cobra.Command, dir string) (int, error) {
	c.InitDefaultHelpCmd()
	n := 1
	if err := os.WriteFile(filepath.Join(dir, manName(c)+".1"), []byte(manPage(c)), 0o644); err != nil {
		return 0, err
	}
	for _, sub := range c.Commands() {
		if !sub.IsAvailableCommand() || sub.IsAdditionalHelpTopicCommand() {
			continue
		}
		m, err := manPages(sub, dir)
		if err != nil {
			return n, err
		}
		n += m
	}
	return n, nil
}

func manName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// roff keeps text from being taken for a request or an escape (man(7)).
func roff(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`).Replace(s)
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, ".") {
			lines[i] = `\&` + l
		}
	}
	return strings.Join(lines, "\n")
}

// manPage is the page of one command: what --help says, in the sections that
// readers of manual pages expect.
func manPage(c *cobra.Command) string {
	var b strings.Builder
	p := func(format string, a ...any) { fmt.Fprintf(&b, format+"\n", a...) }
	p(`.TH "%s" 1 "" "holdfast %s" "Holdfast"`, strings.ToUpper(roff(manName(c))), roff(version))
	p(".nh\n.SH NAME\n%s \\- %s", roff(manName(c)), roff(c.Short))
	p(".SH SYNOPSIS\n.B %s", roff(c.UseLine()))
	text := c.Long
	if text == "" {
		text = c.Short + "."
	}
	// Lines that begin with spaces are examples; all others flow.
	p(".SH DESCRIPTION")
	verbatim := false
	for _, l := range strings.Split(text, "\n") {
		indented := strings.HasPrefix(l, " ") || verbatim && l == ""
		switch {
		case indented && !verbatim:
			p(".nf")
		case !indented && verbatim:
			p(".fi")
		}
		if verbatim = indented; l == "" && !indented {
			p(".PP")
		} else {
			p("%s", roff(l))
		}
	}
	if verbatim {
		p(".fi")
	}
	flags := func(title string, f *pflag.FlagSet) {
		if !f.HasAvailableFlags() {
			return
		}
		p(".SH %s", title)
		f.VisitAll(func(f *pflag.Flag) {
			if f.Hidden || f.Deprecated != "" {
				return
			}
			kind, usage := pflag.UnquoteUsage(f)
			short := ""
			if f.Shorthand != "" {
				short = `\-` + f.Shorthand + ", "
			}
			p(".TP\n.BR \"%s\\-\\-%s\" \" %s\"\n%s", short, roff(f.Name), roff(kind), roff(usage))
			if d := f.DefValue; d != "" && d != "false" && d != "0" && d != "[]" && d != "0s" {
				p("(default %s)", roff(d))
			}
		})
	}
	flags("OPTIONS", c.NonInheritedFlags())
	flags("OPTIONS OF EVERY COMMAND", c.InheritedFlags())
	if c.Example != "" {
		p(".SH EXAMPLES\n.nf\n%s\n.fi", roff(c.Example))
	}
	p(".SH EXIT STATUS\n0 done; 1 refused, or failed; 2 wrong use; 3 this machine lacks a feature, which the message names.")
	var also []string
	if c.HasParent() {
		also = append(also, manName(c.Parent()))
	}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			also = append(also, manName(sub))
		}
	}
	if len(also) > 0 {
		p(".SH SEE ALSO")
		for i, a := range also {
			end := ","
			if i == len(also)-1 {
				end = ""
			}
			p(".BR %s (1)%s", roff(a), end)
		}
	}
	return b.String()
}
