// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// What the Go suites are taken from. go-tpm-tools holds the cgo simulator that
// all three link.
var modules = map[string]string{
	"go-tpm":         "v0.9.8",
	"go-tpm-tools":   "v0.4.11",
	"go-attestation": "v0.6.4",
}

const owner = "github.com/google/"

//go:embed shim/shim.go
var shim []byte

// goSuite runs a Go module's tests with our TPM in place of the simulator,
// with swtpm, and, if wanted, with the simulator itself.
func (c *config) goSuite(t *table, name string) error {
	tpms := []string{oursIn, swtpm}
	if c.reference {
		tpms = append(tpms, reference)
	}
	for _, tpm := range tpms {
		dir, err := c.goTree(name, tpm)
		if err != nil {
			return err
		}
		env := []string{"GOFLAGS=-mod=mod " + os.Getenv("GOFLAGS"), "GOWORK=off", "HOLDFAST_SUITES_TPM=" + tpm, "CGO_ENABLED=0"}
		if tpm == reference {
			env[3] = "CGO_ENABLED=1"
		}
		var log bytes.Buffer
		p := program{dir: dir, env: env, args: []string{"go", "test", "-json", "-vet=off", "-count=1", "-p=1", "-timeout=8m", "./..."}, limit: 20 * time.Minute}
		if _, err := p.run(&log); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(c.scratch, "logs", name+" "+tpm+".json"), log.Bytes(), 0o644); err != nil {
			return err
		}
		if n := collect(t, name, tpm, log.Bytes()); n == 0 {
			return fmt.Errorf("%s on %s: no test ran:\n%s", name, tpm, tail(log.Bytes()))
		}
	}
	return nil
}

// goTree returns a copy of a module in which the simulator is replaced.
func (c *config) goTree(name, tpm string) (string, error) {
	base := filepath.Join(c.scratch, "go "+tpm)
	dir := filepath.Join(base, name)
	for _, m := range []string{name, "go-tpm-tools"} {
		to := filepath.Join(base, m)
		if err := os.RemoveAll(to); err != nil {
			return "", err
		}
		from, err := download(owner+m, modules[m])
		if err != nil {
			return "", err
		}
		if err := copyTree(to, from); err != nil {
			return "", err
		}
		// A workspace of theirs has folders that a module's archive lacks.
		for _, f := range []string{"go.work", "go.work.sum"} {
			if err := os.Remove(filepath.Join(to, f)); err != nil && !errors.Is(err, os.ErrNotExist) {
				return "", err
			}
		}
	}
	edits := []string{"go", "mod", "edit"}
	for _, r := range c.replaces {
		edits = append(edits, "-replace="+r)
	}
	if tpm != reference {
		inside := filepath.Join(base, "go-tpm-tools", "simulator", "internal")
		if err := os.RemoveAll(inside); err != nil {
			return "", err
		}
		if err := os.MkdirAll(inside, 0o755); err != nil {
			return "", err
		}
		if err := os.WriteFile(filepath.Join(inside, "shim.go"), shim, 0o644); err != nil {
			return "", err
		}
		edits = append(edits, "-require=holdfast@v0.0.0", "-replace=holdfast="+c.repo)
		if err := must(filepath.Join(base, "go-tpm-tools"), []string{"GOFLAGS="}, edits...); err != nil {
			return "", err
		}
	}
	if tpm == reference && len(edits) > 3 {
		if err := must(filepath.Join(base, "go-tpm-tools"), []string{"GOFLAGS="}, edits...); err != nil {
			return "", err
		}
	}
	if name != "go-tpm-tools" {
		edits = append(edits, "-replace="+owner+"go-tpm-tools="+filepath.Join(base, "go-tpm-tools"))
		if err := must(dir, []string{"GOFLAGS="}, edits...); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// download returns the folder of a module in the module cache.
func download(module, version string) (string, error) {
	cmd := exec.Command("go", "mod", "download", "-json", module+"@"+version)
	cmd.Dir = os.TempDir()
	out, err := cmd.Output()
	var m struct{ Dir, Error string }
	if e := json.Unmarshal(out, &m); e != nil || m.Dir == "" {
		return "", fmt.Errorf("go mod download %s@%s: %v %s", module, version, err, m.Error)
	}
	return m.Dir, nil
}

// event is a line of go test -json.
type event struct{ Action, Package, Test, FailedBuild string }

// collect records how each top-level test ended and returns how many there
// were. A package that does not build counts as one that failed. A test that was begun and did not end (its binary died) has failed.
func collect(t *table, suite, tpm string, log []byte) int {
	n := 0
	open := map[event]bool{}
	record := func(pkg, test string, o outcome) {
		t.set(suite, modules[suite], strings.TrimPrefix(strings.TrimPrefix(pkg, owner+suite), "/"), test, tpm, o)
		n++
	}
	for _, line := range bytes.Split(log, []byte("\n")) {
		var e event
		if json.Unmarshal(line, &e) == nil && e.Action == "fail" && e.FailedBuild != "" {
			record(e.Package, "(does not build)", failed)
		}
		if e.Test == "" || strings.Contains(e.Test, "/") {
			continue
		}
		k := event{Package: e.Package, Test: e.Test}
		switch e.Action {
		case "run":
			open[k] = true
		case "pass", "fail", "skip":
			delete(open, k)
			record(e.Package, e.Test, outcome(e.Action))
		}
	}
	for k := range open {
		record(k.Package, k.Test, failed)
	}
	return n
}

// tail returns the last lines of a log.
func tail(b []byte) string {
	const n = 3000
	if len(b) > n {
		b = b[len(b)-n:]
	}
	return string(b)
}
