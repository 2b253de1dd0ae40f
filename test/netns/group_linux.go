// SPDX-License-Identifier: Apache-2.0

package netns

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"holdfast/test/host"
)

// groupPrefix begins the name of each run's control group; the process id of
// its owner follows, which tells the next run whether it is a leftover.
const groupPrefix = "holdfast-net-"

// makeGroup makes the run's group. A machine without cgroup v2 has none; then
// [Net.Group] fails, and children are killed by process group.
func (n *Net) makeGroup(name string) error {
	root, err := host.CgroupRoot()
	if err != nil {
		return nil
	}
	sweep(root)
	n.group = filepath.Join(root, name)
	if err := os.Mkdir(n.group, 0o755); err != nil {
		return fmt.Errorf("make a control group: %w", err)
	}
	return nil
}

// sweep removes groups whose owner is dead.
func sweep(root string) {
	entries, err := os.ReadDir(root)
	if err != nil {
		return
	}
	for _, e := range entries {
		rest, ours := strings.CutPrefix(e.Name(), groupPrefix)
		pid, err := strconv.Atoi(strings.Split(rest, "-")[0])
		if ours && err == nil && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			_ = removeTree(filepath.Join(root, e.Name()))
		}
	}
}

// Group makes a control group of this run, for [Command.Group] or as the
// scope of a gate, and returns its folder. It ends with the Net.
func (n *Net) Group(name string) (string, error) {
	if n.group == "" {
		_, err := host.CgroupRoot()
		return "", fmt.Errorf("control group %s: %w", name, err)
	}
	dir := filepath.Join(n.group, name)
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	return dir, nil
}

func (n *Net) removeGroup() error {
	if n.group == "" {
		return nil
	}
	return removeTree(n.group)
}

// removeTree kills what lives in a group and below, then removes the folders,
// which the kernel allows once the last process is reaped.
func removeTree(dir string) error {
	deadline := time.Now().Add(5 * time.Second)
	for {
		err := removeOnce(dir)
		if err == nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func removeOnce(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			err = errors.Join(err, removeOnce(filepath.Join(dir, e.Name())))
		}
	}
	// Kernels before 5.14 lack cgroup.kill: one by one works everywhere.
	procs, readErr := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if readErr == nil {
		for _, s := range strings.Fields(string(procs)) {
			if pid, convErr := strconv.Atoi(s); convErr == nil && pid > 1 && pid != os.Getpid() {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	}
	if rmErr := os.Remove(dir); rmErr != nil && !errors.Is(rmErr, fs.ErrNotExist) {
		err = errors.Join(err, rmErr)
	}
	return err
}
