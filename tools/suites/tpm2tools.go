// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"time"
)

// Upstream's scripts start the simulator themselves: the program that TPM2_SIM
// names, with the arguments of Microsoft's tpm_server or of swtpm, and look for
// it by this name among the listening processes. So our TPM is put into the
// search path under the two names, by these wrappers; %s is holdfast's path
// under that name (the kernel calls a process by the last part of it).
var wrappers = map[string]string{
	"tpm_server": `#!/bin/sh
# tpm_server -port N
exec %s tpm serve --profile classic --state "$PWD/holdfast" --mssim "127.0.0.1:$2"
`,
	"swtpm": `#!/bin/bash
# swtpm socket --tpm2 --server port=N --ctrl type=tcp,port=M --seccomp ... --flags ... --tpmstate dir=D
while [ $# -gt 0 ]; do
  case $1 in
  --server) data=${2##*port=}; shift ;;
  --ctrl) control=${2##*port=}; shift ;;
  esac
  shift
done
exec %s tpm serve --profile classic --state "$PWD/holdfast" --swtpm "127.0.0.1:$data" --swtpm-ctrl "127.0.0.1:$control"
`,
}

// script is one run of an integration script.
type script struct {
	name, mode, tpm string
	got             outcome
	seconds         float64
}

// tpm2tools runs tpm2-tools' integration scripts, with the tools that are
// installed: with tpm2-abrmd between (mode abrmd, as upstream does) and
// without (mode direct).
func (c *config) tpm2tools(t *table) error {
	for _, p := range []string{"tpm2", "tpm2-abrmd", "swtpm", "dbus-run-session", "openssl", "xxd", "expect", "python3"} {
		if _, err := exec.LookPath(p); err != nil {
			return fmt.Errorf("tpm2-tools' scripts need %s: install the packages that docs/tpm-suites.md names (%w)", p, err)
		}
	}
	source, err := c.toolsTree()
	if err != nil {
		return err
	}
	version := installedTools()
	shims := filepath.Join(c.scratch, "shims")
	if err := c.makeShims(shims); err != nil {
		return err
	}
	scripts, err := filepath.Glob(filepath.Join(source, "test", "integration", "tests", "*.sh"))
	if err != nil || len(scripts) == 0 {
		return fmt.Errorf("no scripts in %s/test/integration/tests: expected tpm2-tools' source", source)
	}
	sort.Strings(scripts)
	done, err := c.openJournal()
	if err != nil {
		return err
	}
	defer c.journal.Close()
	var all, todo []*script
	for _, mode := range []string{"abrmd", "direct"} {
		for _, s := range scripts {
			name := filepath.Base(s)
			if !strings.Contains(name, c.only) {
				continue
			}
			for _, tpm := range []string{oursMSSIM, oursSWTPM, swtpm} {
				x := &script{name: name, mode: mode, tpm: tpm}
				x.got = done[x.key()]
				all = append(all, x)
				if x.got == absent {
					todo = append(todo, x)
				}
			}
		}
	}
	work := make(chan *script)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var failure error
	for i := range max(1, c.jobs) {
		// A tree for each worker: some scripts write into the folder that they are called in.
		tree := filepath.Join(c.scratch, fmt.Sprintf("tree%d", i))
		if err := copyTree(tree, source); err != nil {
			return err
		}
		wg.Add(1)
		go func() {
			defer wg.Done()
			for s := range work {
				err := c.runScript(s, tree, shims)
				mu.Lock()
				if err != nil && failure == nil {
					failure = err
				}
				if err == nil {
					_, err = fmt.Fprintf(c.journal, "%s\t%s\n", s.key(), s.got)
					failure = errors.Join(failure, err)
				}
				if s.got != passed {
					fmt.Printf("%s %s %s: %s in %.0f s\n", s.name, s.mode, s.tpm, s.got, s.seconds)
				}
				mu.Unlock()
			}
		}()
	}
	begin, left := time.Now(), 0
	for _, s := range todo {
		if c.piece != 0 && time.Since(begin) > c.piece {
			left++
			continue
		}
		work <- s
	}
	close(work)
	wg.Wait()
	if failure == nil && left > 0 {
		return fmt.Errorf("%d of %d scripts are left after %v (-piece): call it again with the same -scratch", left, len(all), c.piece)
	}
	for _, s := range all {
		t.set("tpm2-tools", version, s.mode, s.name, s.tpm, s.got)
	}
	return failure
}

// key names a run in the journal.
func (s *script) key() string { return s.name + "\t" + s.mode + "\t" + s.tpm }

// openJournal opens the file in the scratch folder that gets a line for each
// script that ended, and returns what it holds from a run that was interrupted.
func (c *config) openJournal() (map[string]outcome, error) {
	path := filepath.Join(c.scratch, "tpm2-tools.done")
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	done := map[string]outcome{}
	for _, line := range strings.Split(string(b), "\n") {
		if i := strings.LastIndexByte(line, '\t'); i > 0 {
			done[line[:i]] = outcome(line[i+1:])
		}
	}
	c.journal, err = os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	return done, err
}

// toolsTree returns a folder with the scripts.
func (c *config) toolsTree() (string, error) {
	if c.toolsSource == "" {
		return "", fmt.Errorf("-tpm2-tools: expected a folder or git repository with tpm2-tools' source (or leave the suite out by -suites)")
	}
	if _, err := os.Stat(filepath.Join(c.toolsSource, "test", "integration", "helpers.sh")); err == nil {
		return filepath.Abs(c.toolsSource)
	}
	to := filepath.Join(c.scratch, "tpm2-tools")
	if err := os.RemoveAll(to); err != nil {
		return "", err
	}
	return to, must(".", nil, "git", "clone", "-q", "--depth=1", "--branch="+c.toolsRef, c.toolsSource, to)
}

// installedTools returns the version of the tools in the search path.
func installedTools() string {
	out, _ := exec.Command("tpm2", "getcap", "--version").Output()
	for _, f := range strings.Fields(string(out)) {
		if v, ok := strings.CutPrefix(f, `version="`); ok {
			return strings.TrimSuffix(v, `"`)
		}
	}
	return "unknown"
}

// makeShims builds holdfast and the wrappers.
func (c *config) makeShims(dir string) error {
	real := filepath.Join(dir, "real")
	if err := os.MkdirAll(real, 0o755); err != nil {
		return err
	}
	binary := filepath.Join(real, "holdfast")
	_ = os.Remove(binary)
	if c.binary != "" {
		if err := must(".", nil, "cp", c.binary, binary); err != nil {
			return err
		}
	} else if err := must(c.repo, []string{"CGO_ENABLED=0"}, "go", "build", "-o", binary, "./cmd/holdfast"); err != nil {
		return err
	}
	for name, text := range wrappers {
		link := filepath.Join(real, name)
		_ = os.Remove(link)
		if err := os.Link(binary, link); err != nil {
			return err
		}
		bin := filepath.Join(dir, name+".ours")
		if err := os.MkdirAll(bin, 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(bin, name), fmt.Appendf(nil, text, link), 0o755); err != nil {
			return err
		}
	}
	return nil
}

// runScript runs one script as upstream's Makefile does.
func (c *config) runScript(s *script, tree, shims string) error {
	sim, path := "swtpm", ""
	switch s.tpm {
	case oursMSSIM:
		sim, path = "tpm_server", filepath.Join(shims, "tpm_server.ours")+":"
	case oursSWTPM:
		path = filepath.Join(shims, "swtpm.ours") + ":"
	}
	abrmd := ""
	if s.mode == "abrmd" {
		abrmd = "tpm2-abrmd"
	}
	tmp, err := os.MkdirTemp(c.scratch, "run")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	var log bytes.Buffer
	begin := time.Now()
	status, err := program{
		dir: tree,
		env: []string{
			"TPM2_SIM=" + sim, "TPM2_ABRMD=" + abrmd, "TPM2_SIMPORT=", "TPM2ABRMD_TCTI=", "TPM2TOOLS_TEST_TCTI=", "TPM2TOOLS_TCTI=",
			"TPM2TOOLS_TEST_PERSISTENT=false", "PYTHON=" + c.python, "TMPDIR=" + tmp,
			"PATH=" + path + filepath.Join(tree, "test", "integration") + ":" + os.Getenv("PATH") + ":/usr/sbin:/sbin",
			"TPM2_TOOLS_TEST_FIXTURES=" + filepath.Join(tree, "test", "integration", "fixtures"),
			"srcdir=" + tree, "abs_srcdir=" + tree, "abs_top_srcdir=" + tree, "abs_builddir=" + tree,
		},
		args:  []string{"dbus-run-session", "--", "bash", filepath.Join("test", "integration", "tests", s.name)},
		limit: c.limit,
	}.run(&log)
	if err != nil {
		return err
	}
	s.seconds = time.Since(begin).Seconds()
	switch status {
	case 0:
		s.got = passed
		return nil
	case 77: // automake's status for a skipped test
		s.got = skipped
	default:
		s.got = failed
	}
	return os.WriteFile(filepath.Join(c.scratch, "logs", s.name+" "+s.mode+" "+s.tpm+".log"), log.Bytes(), 0o644)
}
