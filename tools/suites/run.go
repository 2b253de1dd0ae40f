// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// program is one run of a program that belongs to somebody else.
type program struct {
	dir   string
	env   []string // added to ours
	args  []string
	limit time.Duration
}

// run runs the program in a process group of its own, ends all of the group
// that is left, and returns the exit status (-1 if it was ended at the limit).
// Output goes to log.
func (p program) run(log io.Writer) (int, error) {
	cmd := exec.Command(p.args[0], p.args[1:]...)
	cmd.Dir, cmd.Env = p.dir, append(os.Environ(), p.env...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = 2 * time.Second // children that keep our pipe open
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	group := -cmd.Process.Pid
	timer := time.AfterFunc(p.limit, func() {
		fmt.Fprintf(log, "\nsuites: ended after %v\n", p.limit)
		syscall.Kill(group, syscall.SIGKILL)
	})
	err := cmd.Wait()
	timer.Stop()
	syscall.Kill(group, syscall.SIGKILL)
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) {
		return 0, err
	}
	return cmd.ProcessState.ExitCode(), nil
}

// must runs a step of the preparation, whose failure ends the run.
func must(dir string, env []string, args ...string) error {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%v in %s: %w\n%s", args, dir, err, out)
	}
	return nil
}

// copyTree copies a folder, with everything writable by its owner.
func copyTree(to, from string) error {
	return filepath.WalkDir(from, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, p)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		if d.IsDir() {
			return os.MkdirAll(target, 0o755)
		}
		if !d.Type().IsRegular() {
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		b, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		return os.WriteFile(target, b, info.Mode().Perm()|0o600)
	})
}
