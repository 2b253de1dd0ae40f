// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cgroupskb

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// StateDir holds, for each gated cgroup, NAME.json (what is gated) and
// NAME.lock (held by the living gate), and the bpffs mount "bpf" with the
// pinned links and the map of connections.
const StateDir = "/run/holdfast/latch"

// pinName makes one file name of a cgroup's path below the cgroup root.
func pinName(cgroup string) (string, error) {
	root, err := CgroupRoot()
	if err != nil {
		return "", err
	}
	rel, err := filepath.Rel(root, cgroup)
	if err != nil || !filepath.IsLocal(rel) {
		return "", fmt.Errorf("cgroup %s is not below %s, where cgroup version 2 is mounted", cgroup, root)
	}
	if rel == "." {
		return "root", nil
	}
	// "." cannot stand in bpffs names; "%" keeps the mapping one to one.
	return "c-" + strings.NewReplacer("%", "%25", "/", "%2f", ".", "%2e").Replace(rel), nil
}

// state is what NAME.json says.
type state struct {
	Cgroup string    `json:"cgroup"`
	PID    int       `json:"pid"`
	Since  time.Time `json:"since"`
}

// pins is the place of one gated cgroup's pins and files.
type pins struct {
	name string
	base string // StateDir, seen from here
	lock *os.File
}

func stateDir() string { return hostRoot() + StateDir }

// openPins takes the lock and makes the folders. It fails if a gate lives.
func openPins(cgroup string) (*pins, error) {
	name, err := pinName(cgroup)
	if err != nil {
		return nil, err
	}
	p := &pins{name: name, base: stateDir()}
	if err := os.MkdirAll(p.base, 0o700); err != nil {
		return nil, err
	}
	for _, d := range []string{filepath.Dir(p.base), p.base} {
		if err := private(d); err != nil {
			return nil, err
		}
	}
	if err := mountBPF(p.base + "/bpf"); err != nil {
		return nil, err
	}
	sweepGone()
	p.lock, err = lockFile(p.base + "/" + name + ".lock")
	for end := time.Now().Add(500 * time.Millisecond); errors.Is(err, errLocked) && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond) // Status takes the lock for a moment
		p.lock, err = lockFile(p.base + "/" + name + ".lock")
	}
	if err != nil {
		return nil, fmt.Errorf("cgroup %s: %w", cgroup, err)
	}
	if err := os.Mkdir(p.dir(), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		p.lock.Close()
		return nil, err
	}
	b, _ := json.Marshal(state{cgroup, os.Getpid(), time.Now().UTC()})
	if err := os.WriteFile(p.base+"/"+name+".json", b, 0o600); err != nil {
		p.lock.Close()
		return nil, err
	}
	return p, nil
}

// private demands that nobody but root and this user can put files into dir: a
// stranger's file there could name another cgroup, his folder hide the pins.
func private(dir string) error {
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return &fs.PathError{Op: "lstat", Path: dir, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR || st.Uid != 0 && int(st.Uid) != os.Geteuid() || st.Mode&0o022 != 0 {
		return fmt.Errorf("%s: expected a folder of root's that only root can write to, got user %d and mode %04o; remove it or correct it", dir, st.Uid, st.Mode&0o7777)
	}
	return nil
}

func (p *pins) dir() string             { return p.base + "/bpf/" + p.name }
func (p *pins) path(what string) string { return p.dir() + "/" + what }

var errLocked = errors.New("another gate holds it (see holdfast latch status)")

func lockFile(path string) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, err
		}
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
			f.Close()
			if errors.Is(err, unix.EWOULDBLOCK) {
				return nil, errLocked
			}
			return nil, err
		}
		// The last holder may have removed the file between open and lock.
		var a, b unix.Stat_t
		if unix.Fstat(int(f.Fd()), &a) == nil && unix.Stat(path, &b) == nil && a.Ino == b.Ino {
			return f, nil
		}
		f.Close()
	}
}

// remove takes the pins away, and the files. When the links are not open
// elsewhere, this is the moment at which the hold ends.
func (p *pins) remove() error {
	err := os.RemoveAll(p.dir())
	err = errors.Join(err, os.Remove(p.base+"/"+p.name+".json"), os.Remove(p.base+"/"+p.name+".lock"))
	if p.lock != nil {
		p.lock.Close()
	}
	return err
}

// mountBPF mounts a bpffs at dir unless there is one. The mount is made in the
// first process's mount namespace: a pin in a private one would end, and the
// door would open, with the last process of that namespace. Where the first
// process cannot be looked at (some containers) it is made here; processes
// that `latch run` starts are in this namespace and keep it, and so the pins.
func mountBPF(dir string) error {
	if isBPF(dir) {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	inner := strings.TrimPrefix(dir, hostRoot())
	ch := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		ch <- func() error {
			if hostRoot() != "" {
				f, err := os.Open("/proc/1/ns/mnt")
				if err != nil {
					return err
				}
				defer f.Close()
				if err := unix.Unshare(unix.CLONE_FS); err != nil {
					return err
				}
				if err := unix.Setns(int(f.Fd()), unix.CLONE_NEWNS); err != nil {
					return err
				}
			}
			return unix.Mount("bpf", inner, "bpf", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=0700")
		}()
	}()
	if err := <-ch; err != nil && !isBPF(dir) {
		return fmt.Errorf("mount a bpffs at %s for the pinned links (CAP_SYS_ADMIN is needed): %w", inner, err)
	}
	return nil
}

func isBPF(dir string) bool {
	var st unix.Statfs_t
	return unix.Statfs(dir, &st) == nil && uint32(st.Type) == unix.BPF_FS_MAGIC
}

// Leftover is a gated cgroup as `holdfast latch status` shows it.
type Leftover struct {
	Name      string    `json:"name"`
	Cgroup    string    `json:"cgroup"`
	PID       int       `json:"pid"`
	Since     time.Time `json:"since"`
	Alive     bool      `json:"gate_alive"`
	Populated bool      `json:"has_processes"`
	Attached  bool      `json:"attached"` // the links are there: the door is shut (or gated)
}

// Status lists the gated cgroups of this machine.
func Status() ([]Leftover, error) {
	base := stateDir()
	names, err := filepath.Glob(base + "/*.json")
	if err != nil {
		return nil, err
	}
	out := []Leftover{}
	for _, n := range names {
		b, err := os.ReadFile(n)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		var s state
		if err := json.Unmarshal(b, &s); err != nil {
			return nil, fmt.Errorf("%s: %w", n, err)
		}
		l := Leftover{Name: strings.TrimSuffix(filepath.Base(n), ".json"), Cgroup: s.Cgroup, PID: s.PID, Since: s.Since}
		f, err := lockFile(base + "/" + l.Name + ".lock")
		switch {
		case errors.Is(err, errLocked):
			l.Alive = true
		case err != nil:
			return nil, err
		default:
			f.Close()
		}
		if l.Populated, err = Populated(s.Cgroup); err != nil {
			return nil, err
		}
		for _, k := range []string{"egress", "ingress"} {
			if lk, err := link.LoadPinnedLink(base+"/bpf/"+l.Name+"/"+k, nil); err == nil {
				l.Attached = true
				lk.Close()
			}
		}
		out = append(out, l)
	}
	return out, nil
}

// sweepGone removes what dead gates left of cgroups that are gone themselves:
// nothing can be held there any more. Errors are left to `latch status`.
func sweepGone() {
	list, err := Status()
	if err != nil {
		return
	}
	for _, l := range list {
		if _, err := os.Stat(l.Cgroup); !l.Alive && errors.Is(err, fs.ErrNotExist) {
			Reclaim(l, false)
		}
	}
}

// settle makes sure that no socket is held when the pins go. Of a cgroup that
// is gone the kernel knows by itself: it takes the programs off when the last
// socket ended. Else the held sockets are reset.
func (p *pins) settle(cgroup string) error {
	if _, err := os.Stat(cgroup); errors.Is(err, fs.ErrNotExist) {
		for _, k := range []string{"egress", "ingress"} {
			l, err := link.LoadPinnedLink(p.path(k), nil)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return err
			}
			info, err := l.Info()
			l.Close()
			if err != nil {
				return err
			}
			if c := info.Cgroup(); c == nil || c.CgroupId != 0 {
				return fmt.Errorf("%s: sockets of ended processes are still held there; the kernel gives them up within minutes, then repeat", cgroup)
			}
		}
		return nil
	}
	m, err := ebpf.LoadPinnedMap(p.path("conns"), nil)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the gate died before it attached
	}
	if err != nil {
		return err
	}
	defer m.Close()
	return flushEverywhere(m.FD(), nil)
}

// Reclaim removes what a dead gate left. It refuses while the gate lives, and
// while processes are in the cgroup unless open is set: they would then send
// without any gate. Connections that are still held are reset.
func Reclaim(l Leftover, open bool) error {
	p := &pins{name: l.Name, base: stateDir()}
	f, err := lockFile(p.base + "/" + p.name + ".lock")
	if err != nil {
		return fmt.Errorf("%s: %w", l.Cgroup, err)
	}
	p.lock = f
	busy, err := Populated(l.Cgroup)
	if err == nil && busy && !open {
		err = fmt.Errorf("%s still has processes, whose connections are held shut; end them, or start `holdfast latch gate` for this cgroup", l.Cgroup)
	}
	if err == nil {
		err = p.settle(l.Cgroup)
	}
	if err != nil {
		f.Close()
		return err
	}
	err = p.remove()
	if !busy {
		if e := os.Remove(l.Cgroup); e != nil && !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	return err
}
