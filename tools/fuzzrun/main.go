// SPDX-License-Identifier: Apache-2.0

// Command fuzzrun is `make fuzz`: it runs every fuzz target of the module for
// the given time and appends a line for each to bench/results/fuzz.csv:
//
//	date,commit,package,target,seconds,executions,result,cpu
//
// so that the total grows over time; cpu are seconds of processor time, on all
// cores, with the build. Arguments, if any, choose targets whose
// "package Target" holds one of them. The exit status is 1 if any target found
// something.
package main

import (
	"bufio"
	"encoding/csv"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

const results = "bench/results/fuzz.csv"

func main() {
	duration := flag.Duration("time", 30*time.Second, "how long each target runs")
	parallel := flag.Int("parallel", 0, "workers for each target; 0 means one for each processor")
	list := flag.Bool("list", false, "only list the targets")
	flag.Parse()
	targets, err := find(flag.Args())
	if err == nil && len(targets) == 0 {
		err = fmt.Errorf("no fuzz target matches %v", flag.Args())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "fuzzrun:", err)
		os.Exit(2)
	}
	findings := 0
	for _, t := range targets {
		if *list {
			fmt.Println(t.pkg, t.name)
			continue
		}
		r := t.run(*duration, *parallel)
		fmt.Printf("%-5s %-34s %-34s %9d executions in %4.0f s\n", r.result, t.pkg, t.name, r.executions, r.seconds)
		if err := r.append(results); err != nil {
			fmt.Fprintln(os.Stderr, "fuzzrun:", err)
			os.Exit(2)
		}
		if r.result != "ok" {
			findings++
			fmt.Println(r.output)
		}
	}
	if findings > 0 {
		fmt.Printf("%d of %d targets found something; the inputs are in testdata/fuzz of their packages\n", findings, len(targets))
		os.Exit(1)
	}
}

type target struct{ pkg, name string }

var declaration = regexp.MustCompile(`^func (Fuzz[A-Z0-9_]\w*)\(`)

// find lists the fuzz targets by their declarations.
func find(wanted []string) ([]target, error) {
	var out []target
	err := filepath.WalkDir(".", func(p string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && p != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "bin") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(p, "_test.go") {
			return nil
		}
		f, err := os.Open(p)
		if err != nil {
			return err
		}
		defer f.Close()
		for s := bufio.NewScanner(f); s.Scan(); {
			m := declaration.FindStringSubmatch(s.Text())
			if m != nil && matches(filepath.Dir(p)+" "+m[1], wanted) {
				out = append(out, target{filepath.ToSlash(filepath.Dir(p)), m[1]})
			}
		}
		return nil
	})
	return out, err
}

func matches(name string, wanted []string) bool {
	for _, w := range wanted {
		if strings.Contains(name, w) {
			return true
		}
	}
	return len(wanted) == 0
}

type result struct {
	target
	seconds    float64
	executions int64
	result     string // ok, or found
	cpu        float64
	output     string
}

// execs matches go's progress line: "fuzz: elapsed: 30s, execs: 12345 (411/sec), new interesting: 3 (total: 50)".
var execs = regexp.MustCompile(`execs: (\d+)`)

func (t target) run(d time.Duration, parallel int) result {
	begin := time.Now()
	args := []string{"test", "-run=^$", "-fuzz=^" + t.name + "$", "-fuzztime=" + d.String()}
	if parallel > 0 {
		args = append(args, "-parallel="+strconv.Itoa(parallel))
	}
	cmd := exec.Command("go", append(args, "./"+t.pkg)...)
	out, err := cmd.CombinedOutput()
	r := result{target: t, seconds: time.Since(begin).Seconds(), result: "ok", output: string(out)}
	if p := cmd.ProcessState; p != nil {
		r.cpu = (p.UserTime() + p.SystemTime()).Seconds()
	}
	if all := execs.FindAllStringSubmatch(string(out), -1); len(all) > 0 {
		r.executions, _ = strconv.ParseInt(all[len(all)-1][1], 10, 64)
	}
	if err != nil || r.executions == 0 {
		r.result = "found"
	}
	return r
}

func (r result) append(path string) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := csv.NewWriter(f)
	if at, seekErr := f.Seek(0, 2); seekErr == nil && at == 0 {
		_ = w.Write([]string{"date", "commit", "package", "target", "seconds", "executions", "result", "cpu"})
	}
	commit, _ := exec.Command("git", "describe", "--always", "--dirty").Output()
	_ = w.Write([]string{time.Now().UTC().Format("2006-01-02T15:04:05Z"), strings.TrimSpace(string(commit)), r.pkg, r.name,
		strconv.FormatFloat(r.seconds, 'f', 0, 64), strconv.FormatInt(r.executions, 10), r.result,
		strconv.FormatFloat(r.cpu, 'f', 0, 64)})
	w.Flush()
	return w.Error()
}
