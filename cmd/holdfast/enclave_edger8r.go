// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"holdfast/sdk/edl"
)

func init() { enclaveVerbs = append(enclaveVerbs, enclaveEdger8r) }

// edger8rOptions are the flags; their names are those of Intel's sgx_edger8r, so
// that makefiles need no change.
type edger8rOptions struct {
	trusted, untrusted, headerOnly, prefix bool
	search                                 []string
	trustedDir, untrustedDir               string
	preprocessor                           string
}

func enclaveEdger8r(g *globals) *cobra.Command {
	var o edger8rOptions
	c := &cobra.Command{
		Use:   "edger8r FILE.edl ...",
		Short: "Make C code for the calls into an enclave and out of it from its EDL file",
		Long: "Make C code for the calls into an enclave and out of it from its EDL file: NAME_t.c and NAME_t.h\n" +
			"for the enclave, NAME_u.c and NAME_u.h for the application. Without --trusted and --untrusted both.",
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !o.trusted && !o.untrusted {
				o.trusted, o.untrusted = true, true
			}
			var wrote []string
			for _, path := range args {
				w, err := o.compile(cmd, path)
				if err != nil {
					return err
				}
				wrote = append(wrote, w...)
			}
			if g.json {
				return printJSON(struct {
					Wrote []string `json:"wrote"`
				}{wrote})
			}
			return nil
		},
	}
	f := c.Flags()
	f.BoolVar(&o.trusted, "trusted", false, "only the enclave's side")
	f.BoolVar(&o.untrusted, "untrusted", false, "only the application's side")
	f.BoolVar(&o.headerOnly, "header-only", false, "only the headers")
	f.BoolVar(&o.prefix, "use-prefix", false, "begin the names of the application's functions with NAME_, for applications with several enclaves")
	f.StringArrayVar(&o.search, "search-path", nil, "folders for imported files, separated by colons; may stand several times")
	f.StringVar(&o.trustedDir, "trusted-dir", ".", "where the enclave's side is written")
	f.StringVar(&o.untrustedDir, "untrusted-dir", ".", "where the application's side is written")
	f.StringVar(&o.preprocessor, "preprocessor", "gcc", "C compiler that preprocesses files with lines that begin with #")
	return c
}

func (o *edger8rOptions) compile(cmd *cobra.Command, path string) ([]string, error) {
	l := &edl.Loader{Read: os.ReadFile, Preprocess: o.preprocess}
	for _, s := range o.search {
		l.Search = append(l.Search, filepath.SplitList(s)...)
	}
	i, err := l.Load(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, usageError(err)
	}
	if err != nil {
		return nil, refusedError(err)
	}
	for _, w := range i.Warnings {
		fmt.Fprintln(cmd.ErrOrStderr(), w)
	}
	var wrote []string
	put := func(dir, name, text string) {
		if err != nil {
			return
		}
		if err = os.MkdirAll(dir, 0o755); err == nil {
			p := filepath.Join(dir, name)
			err = os.WriteFile(p, []byte(text), 0o644)
			wrote = append(wrote, p)
		}
	}
	side := func(dir, suffix string, out edl.Output) {
		put(dir, i.Name+suffix+".h", out.Header)
		if !o.headerOnly {
			put(dir, i.Name+suffix+".c", out.Source)
		}
	}
	if o.trusted {
		side(o.trustedDir, "_t", i.Trusted())
	}
	if o.untrusted {
		side(o.untrustedDir, "_u", i.Untrusted(o.prefix))
	}
	return wrote, err
}

// preprocess runs the C compiler's preprocessor, without the system's macros.
func (o *edger8rOptions) preprocess(path string, src []byte) ([]byte, error) {
	var out, problem bytes.Buffer
	c := exec.Command(o.preprocessor, "-E", "-P", "-undef", "-x", "c", "-I", filepath.Dir(path), "-")
	c.Stdin, c.Stdout, c.Stderr = bytes.NewReader(src), &out, &problem
	if err := c.Run(); err != nil {
		return nil, fmt.Errorf("%s: %w: %s", o.preprocessor, err, strings.TrimSpace(problem.String()))
	}
	return out.Bytes(), nil
}
