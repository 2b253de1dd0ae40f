// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cgroupskb

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// hostRoot is "" or, when this process has a mount namespace of its own (as
// `ip netns exec` makes one, which hides /sys/fs/cgroup), the path by which
// the first process's mounts are reached.
func hostRoot() string {
	self, err1 := os.Readlink("/proc/self/ns/mnt")
	one, err2 := os.Readlink("/proc/1/ns/mnt")
	if err1 != nil || err2 != nil || self == one {
		return ""
	}
	return "/proc/1/root"
}

// CgroupRoot finds where cgroup version 2 is mounted: /sys/fs/cgroup on most
// systems, /sys/fs/cgroup/unified where version 1 is mounted beside it.
func CgroupRoot() (string, error) {
	root := hostRoot()
	table := "/proc/self/mountinfo"
	if root != "" {
		table = "/proc/1/mountinfo"
	}
	f, err := os.Open(table)
	if err != nil {
		return "", err
	}
	defer f.Close()
	p, err := findCgroup2(f)
	if err != nil {
		return "", err
	}
	return root + p, nil
}

// findCgroup2 reads the format of proc_pid_mountinfo(5).
func findCgroup2(r io.Reader) (string, error) {
	s := bufio.NewScanner(r)
	for s.Scan() {
		left, right, ok := strings.Cut(s.Text(), " - ")
		l, t := strings.Fields(left), strings.Fields(right)
		if ok && len(l) >= 5 && len(t) >= 1 && t[0] == "cgroup2" && l[3] == "/" {
			return unescape(l[4]), nil
		}
	}
	if err := s.Err(); err != nil {
		return "", err
	}
	return "", errors.New("no cgroup version 2 file system is mounted; mount one: mount -t cgroup2 none /sys/fs/cgroup/unified")
}

// unescape undoes the octal escapes of mountinfo (space, tab, newline, backslash).
func unescape(s string) string {
	for _, e := range [][2]string{{`\040`, " "}, {`\011`, "\t"}, {`\012`, "\n"}, {`\134`, `\`}} {
		s = strings.ReplaceAll(s, e[0], e[1])
	}
	return s
}

// MakeCgroup makes a leaf below the root of cgroup version 2 and returns its
// folder. name may contain slashes.
func MakeCgroup(name string) (string, error) {
	if name == "" || !filepath.IsLocal(name) {
		return "", fmt.Errorf("cgroup name %q: expected a relative path", name)
	}
	root, err := CgroupRoot()
	if err != nil {
		return "", err
	}
	p := filepath.Join(root, name)
	if err := os.MkdirAll(p, 0o755); err != nil {
		return "", fmt.Errorf("make cgroup (root is needed): %w", err)
	}
	return p, nil
}

// Populated reports whether a process is in the cgroup or below it. A folder
// that is gone has none.
func Populated(dir string) (bool, error) {
	b, err := os.ReadFile(filepath.Join(dir, "cgroup.events"))
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(filepath.Join(dir, "cgroup.procs")); err == nil { // the root has no events
			return true, nil
		}
		return false, nil
	}
	if errors.Is(err, unix.ENODEV) {
		return false, nil // removed while we looked
	}
	if err != nil {
		return false, err
	}
	return strings.Contains(string(b), "populated 1"), nil
}

// inside reports whether the process whose /proc/PID/cgroup this is lives in
// the cgroup with that path below the root ("/a/b") or below it.
func inside(table, path string) bool {
	for _, l := range strings.Split(table, "\n") {
		if own, ok := strings.CutPrefix(l, "0::"); ok {
			return path == "/" || own == path || strings.HasPrefix(own, path+"/")
		}
	}
	return false
}

// checkCgroup says clearly why a folder cannot be gated. This process must be
// outside of it, or in one of the exempted folders.
func checkCgroup(dir string, exempt []string) error {
	if root, err := CgroupRoot(); err == nil {
		own, err := os.ReadFile("/proc/self/cgroup")
		rel, err2 := filepath.Rel(root, dir)
		spared := false
		for _, x := range exempt {
			if r, err := filepath.Rel(root, x); err == nil && r != "." {
				spared = spared || inside(string(own), filepath.Join("/", r))
			}
		}
		if err == nil && err2 == nil && !spared && inside(string(own), filepath.Join("/", rel)) {
			return fmt.Errorf("cgroup %s contains this process: a gate cannot hold itself, since its connection to the agent and its releases would be held too; start it outside", dir)
		}
	}
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return &fs.PathError{Op: "cgroup", Path: dir, Err: err}
	}
	if st.Type != unix.CGROUP2_SUPER_MAGIC {
		return fmt.Errorf("%s is not a folder of cgroup version 2", dir)
	}
	return nil
}
