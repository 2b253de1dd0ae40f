// SPDX-License-Identifier: Apache-2.0

//go:build linux

package observe

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// userHZ is the unit of times in /proc/PID/stat: 1/100 s on every Linux
// architecture that Go supports (sysconf(_SC_CLK_TCK)).
const userHZ = 100

const tick = uint64(1e9 / userHZ) // ns

// process is one process as /proc shows it. dir stays tied to that process:
// when it dies, reads through dir fail and never show its successor.
type process struct {
	pid     int
	dir     *os.File
	startNS uint64 // boot time, rounded down to 10 ms
}

func openProcess(pid int) (*process, error) {
	d, err := os.Open("/proc/" + strconv.Itoa(pid))
	if err != nil {
		return nil, err
	}
	p := &process{pid: pid, dir: d}
	if p.startNS, err = p.start(); err != nil {
		d.Close()
		return nil, err
	}
	return p, nil
}

func (p *process) close() { p.dir.Close() }

func (p *process) read(name string) ([]byte, error) {
	fd, err := unix.Openat(int(p.dir.Fd()), name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("/proc/%d/%s: %w", p.pid, name, err)
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, 64<<10))
}

// start is field 22 of /proc/PID/stat (proc_pid_stat(5)), in ns of boot time.
func (p *process) start() (uint64, error) {
	b, err := p.read("stat")
	if err != nil {
		return 0, err
	}
	t, err := startOf(b)
	if err != nil {
		return 0, fmt.Errorf("/proc/%d/stat: %w", p.pid, err)
	}
	return t, nil
}

func startOf(stat []byte) (uint64, error) {
	i := bytes.LastIndexByte(stat, ')') // the name may contain anything
	f := strings.Fields(string(stat[i+1:]))
	if i < 0 || len(f) < 20 {
		return 0, errors.New("fields are missing")
	}
	t, err := strconv.ParseUint(f[19], 10, 64)
	if err != nil || t > math.MaxUint64/tick {
		return 0, fmt.Errorf("start time %q", f[19])
	}
	return t * tick, nil
}

// cgroup is the process's path in the unified hierarchy.
func (p *process) cgroup() (string, error) {
	b, err := p.read("cgroup")
	if err != nil {
		return "", err
	}
	for _, l := range strings.Split(string(b), "\n") {
		if c, ok := strings.CutPrefix(l, "0::"); ok {
			return c, nil
		}
	}
	return "", fmt.Errorf("/proc/%d/cgroup: no cgroup v2 entry", p.pid)
}

// uid is the process's real user id. (The owner of the folder in /proc is no
// answer: that is root for every process that made itself undumpable.)
func (p *process) uid() (uint32, error) {
	b, err := p.read("status")
	if err != nil {
		return 0, err
	}
	u, err := uidOf(b)
	if err != nil {
		return 0, fmt.Errorf("/proc/%d/status: %w", p.pid, err)
	}
	return u, nil
}

func uidOf(status []byte) (uint32, error) {
	for _, l := range strings.Split(string(status), "\n") {
		if u, ok := strings.CutPrefix(l, "Uid:\t"); ok {
			u, _, _ = strings.Cut(u, "\t")
			n, err := strconv.ParseUint(u, 10, 32)
			if err != nil {
				return 0, fmt.Errorf("user %q", u)
			}
			return uint32(n), nil
		}
	}
	return 0, errors.New("no Uid line")
}

// netns is the process's network namespace as the kernel names it: net:[INODE].
func (p *process) netns() (string, error) {
	b := make([]byte, 64)
	n, err := unix.Readlinkat(int(p.dir.Fd()), "ns/net", b)
	if err != nil {
		return "", fmt.Errorf("/proc/%d/ns/net: %w", p.pid, err)
	}
	return string(b[:n]), nil
}

// fileKey tells versions of a file apart without reading it.
type fileKey struct {
	dev, ino             uint64
	size, mtimeNS, ctime int64
}

func keyOf(st *unix.Stat_t) fileKey {
	return fileKey{uint64(st.Dev), st.Ino, st.Size, st.Mtim.Nano(), st.Ctim.Nano()}
}

// executable opens the file that the process runs, also when it was deleted or
// replaced on disk.
func (p *process) executable() (*os.File, fileKey, string, error) {
	path := make([]byte, 4096)
	n, err := unix.Readlinkat(int(p.dir.Fd()), "exe", path)
	if err != nil {
		return nil, fileKey{}, "", fmt.Errorf("/proc/%d/exe: %w", p.pid, err)
	}
	fd, err := unix.Openat(int(p.dir.Fd()), "exe", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fileKey{}, "", fmt.Errorf("/proc/%d/exe: %w", p.pid, err)
	}
	f := os.NewFile(uintptr(fd), "exe")
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		f.Close()
		return nil, fileKey{}, "", err
	}
	return f, keyOf(&st), string(path[:n]), nil
}

// executableKey is executable without opening the file for reading.
func (p *process) executableKey() (fileKey, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(int(p.dir.Fd()), "exe", &st, 0); err != nil {
		return fileKey{}, fmt.Errorf("/proc/%d/exe: %w", p.pid, err)
	}
	return keyOf(&st), nil
}

// digests caches SHA-256 of executables by fileKey.
type digests struct {
	mu sync.Mutex
	m  map[fileKey][32]byte
}

const maxDigests = 1024

func (d *digests) cached(k fileKey) (h [32]byte, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	h, ok = d.m[k]
	return h, ok
}

// of reads f, unless its key is known.
func (d *digests) of(f *os.File, k fileKey) ([32]byte, error) {
	if h, ok := d.cached(k); ok {
		return h, nil
	}
	s := sha256.New()
	if _, err := io.Copy(s, f); err != nil {
		return [32]byte{}, fmt.Errorf("read executable: %w", err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return [32]byte{}, err
	}
	if keyOf(&st) != k {
		return [32]byte{}, fmt.Errorf("the executable changed while it was read")
	}
	var h [32]byte
	s.Sum(h[:0])
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.m) >= maxDigests {
		clear(d.m)
	}
	if d.m == nil {
		d.m = map[fileKey][32]byte{}
	}
	d.m[k] = h
	return h, nil
}

// cgroupRoot is the mount point of the unified hierarchy (cgroups(7)):
// /sys/fs/cgroup, or /sys/fs/cgroup/unified on hybrid systems.
func cgroupRoot() (string, error) {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	for _, l := range strings.Split(string(b), "\n") {
		pre, post, ok := strings.Cut(l, " - ")
		f := strings.Fields(pre)
		if ok && len(f) >= 5 && strings.HasPrefix(post, "cgroup2 ") {
			return f[4], nil
		}
	}
	return "", fmt.Errorf("no cgroup v2 file system is mounted; mount one: mount -t cgroup2 none /sys/fs/cgroup")
}

// cgroupID is the kernel's id of a cgroup: the inode number of its folder.
func cgroupID(root, path string) (uint64, error) {
	var st unix.Stat_t
	if err := unix.Stat(filepath.Join(root, path), &st); err != nil {
		return 0, fmt.Errorf("cgroup %s: %w", path, err)
	}
	return st.Ino, nil
}

// unitOf is the systemd unit that a cgroup path stands for, or the path. Only
// the first folder behind slices can be one: the system's manager makes these
// and nobody else may. Below a unit whoever it is delegated to chooses the names
// (a user by `systemd-run --user --unit=nginx.service`, a container for its own
// processes), and so does whoever keeps groups outside of slices.
func unitOf(path string) string {
	for _, b := range strings.Split(strings.Trim(path, "/"), "/") {
		switch {
		case strings.HasSuffix(b, ".slice"):
		case strings.HasSuffix(b, ".service"), strings.HasSuffix(b, ".scope"):
			return b
		default:
			return path
		}
	}
	return path
}

// pids lists the processes of /proc.
func pids() []int {
	d, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1)
	var out []int
	for _, n := range names {
		if p, err := strconv.Atoi(n); err == nil {
			out = append(out, p)
		}
	}
	return out
}

// sockets returns the descriptors of a process that are sockets: inode -> fd.
func (p *process) sockets() map[string]int {
	fd, err := unix.Openat(int(p.dir.Fd()), "fd", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	d := os.NewFile(uintptr(fd), "fd")
	defer d.Close()
	names, _ := d.Readdirnames(-1)
	out := map[string]int{}
	link := make([]byte, 64)
	for _, n := range names {
		k, err := unix.Readlinkat(int(d.Fd()), n, link)
		if err != nil || !bytes.HasPrefix(link[:k], []byte("socket:[")) {
			continue
		}
		if i, err := strconv.Atoi(n); err == nil {
			out[string(link[:k])] = i
		}
	}
	return out
}

// descriptor duplicates a descriptor of the process into this one.
func (p *process) descriptor(fd int) (int, error) {
	pfd, err := unix.PidfdOpen(p.pid, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(pfd)
	if s, err := p.start(); err != nil || s != p.startNS { // the number still means p
		return -1, fmt.Errorf("process %d is gone", p.pid)
	}
	return unix.PidfdGetfd(pfd, fd, 0)
}
