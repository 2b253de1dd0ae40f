// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Command suites runs the test suites of other projects' TPM clients against
// our TPM and, in the same run, against swtpm, and tells where they differ:
//
//	go run ./tools/suites -tpm2-tools FOLDER   # a clone or unpacked source of tpm2-tools
//
// Nothing of theirs is in this repository: tpm2-tools' integration scripts come
// from the folder, go-tpm, go-tpm-tools and go-attestation from the module
// proxy, and are copied to a scratch folder, where our TPM takes the place of
// the simulator that they link. The table goes to standard output, each test's
// result to the file of -csv, the logs of what did not pass to the scratch
// folder. docs/tpm-suites.md explains it and holds the last results.
//
// The exit status is 0 if nothing fails on our TPM that passes on swtpm, 1 if
// something does, 2 if the suites could not be run.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// config is what the flags say.
type config struct {
	repo, scratch   string // this module's root; where everything is built and run
	toolsSource     string // tpm2-tools' source
	toolsRef        string // tag in it, if it is a git repository
	only            string // substring of "suite mode test"
	suites          string // comma-separated
	binary          string // holdfast, if it is built already
	python          string // for tpm2-tools' scripts
	jobs            int
	limit           time.Duration // for one script
	piece           time.Duration // no script of tpm2-tools starts later than this after the first; 0 for no end
	replaces        []string      // MODULE=FOLDER, for the Go suites
	reference, keep bool
	journal         *os.File
}

func main() {
	var c config
	flag.StringVar(&c.toolsSource, "tpm2-tools", "", "folder of tpm2-tools' source, or a git repository (clone or URL) that has the tag of -tpm2-tools-tag")
	flag.StringVar(&c.toolsRef, "tpm2-tools-tag", "5.4", "tag to take if -tpm2-tools is a git repository")
	flag.StringVar(&c.suites, "suites", "tpm2-tools,go-tpm,go-tpm-tools,go-attestation", "which suites to run")
	flag.StringVar(&c.only, "only", "", "run only tpm2-tools scripts whose name holds this")
	flag.IntVar(&c.jobs, "jobs", runtime.NumCPU(), "scripts of tpm2-tools at a time")
	flag.BoolVar(&c.reference, "reference", false, "run the Go suites on their own cgo simulator too (needs gcc and OpenSSL's headers)")
	flag.StringVar(&c.scratch, "scratch", "", "folder to work in and to keep the logs in; a run that was interrupted goes on there (default: a new one, removed at the end)")
	flag.StringVar(&c.binary, "holdfast", "", "program to test (default: built from this module)")
	flag.StringVar(&c.python, "python", "/usr/bin/python3", "Python with the module yaml")
	flag.DurationVar(&c.limit, "limit", 15*time.Minute, "how long one script of tpm2-tools may take")
	flag.DurationVar(&c.piece, "piece", 0, "end after the script of tpm2-tools that runs when this time is over; with -scratch the next call goes on there (default: run all)")
	flag.Func("replace", "MODULE=FOLDER: take a module that the Go suites need from a folder, if the module proxy does not serve it; may be given again", func(s string) error {
		if module, folder, ok := strings.Cut(s, "="); !ok || module == "" || folder == "" {
			return fmt.Errorf("%q: expected MODULE=FOLDER", s)
		}
		c.replaces = append(c.replaces, s)
		return nil
	})
	flag.Func("take", "SUITE=VERSION: take another version of a Go suite, if what the usual one needs is not to be had", func(s string) error {
		suite, version, _ := strings.Cut(s, "=")
		if _, ok := modules[suite]; !ok || version == "" {
			return fmt.Errorf("%q: expected go-tpm, go-tpm-tools or go-attestation, and a version", s)
		}
		modules[suite] = version
		return nil
	})
	csv := flag.String("csv", "", "write each test's result to this file")
	flag.Parse()
	c.keep = c.scratch != ""
	differ, err := c.run(*csv)
	if err != nil {
		fmt.Fprintln(os.Stderr, "suites:", err)
		os.Exit(2)
	}
	if differ > 0 {
		fmt.Printf("%d tests fail on our TPM and pass on swtpm\n", differ)
		os.Exit(1)
	}
}

func (c *config) run(csv string) (differ int, err error) {
	if c.repo, err = moduleRoot(); err != nil {
		return 0, err
	}
	if !c.keep {
		if c.scratch, err = os.MkdirTemp("", "suites"); err != nil {
			return 0, err
		}
		defer os.RemoveAll(c.scratch)
	}
	if c.scratch, err = filepath.Abs(c.scratch); err != nil {
		return 0, err
	}
	if err := os.MkdirAll(filepath.Join(c.scratch, "logs"), 0o755); err != nil {
		return 0, err
	}
	var t table
	for _, s := range strings.Split(c.suites, ",") {
		switch s {
		case "tpm2-tools":
			err = c.tpm2tools(&t)
		case "go-tpm", "go-tpm-tools", "go-attestation":
			err = c.goSuite(&t, s)
		default:
			err = fmt.Errorf("unknown suite %q: expected tpm2-tools, go-tpm, go-tpm-tools or go-attestation", s)
		}
		if err != nil {
			return 0, err
		}
	}
	t.print(os.Stdout)
	if csv != "" {
		if err := t.writeCSV(csv); err != nil {
			return 0, err
		}
	}
	return len(t.worse()), nil
}

// moduleRoot returns the root of this module, from where it is called.
func moduleRoot() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Path}} {{.Dir}}").Output()
	if err != nil {
		return "", fmt.Errorf("go list: %w", err)
	}
	path, dir, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	if path != "holdfast" {
		return "", fmt.Errorf("called in module %s: call it in a clone of holdfast", path)
	}
	return dir, nil
}
