// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nfqueue

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// StateDir holds, for each scope, NAME.json and NAME.lock (held by the living
// gate). A scope belongs to the network namespace whose inode number it names.
const StateDir = "/run/holdfast/latch-routed"

// state is what NAME.json says.
type stateFile struct {
	Name    string    `json:"name"`
	Devices []string  `json:"devices"`
	NetNS   uint64    `json:"netns"` // inode number
	Open    uint32    `json:"open"`  // the mark of open connections
	PID     int       `json:"pid"`
	Since   time.Time `json:"since"`

	base string
	lock *os.File
}

func netnsID() (uint64, error) {
	var st unix.Stat_t
	if err := unix.Stat("/proc/thread-self/ns/net", &st); err != nil {
		return 0, err
	}
	return st.Ino, nil
}

// fileBase names a scope's files: two network namespaces may have scopes of one name.
func fileBase(name string, ns uint64) string { return fmt.Sprintf("%s/%s-%d", StateDir, name, ns) }

func takeState(name string, devices []string) (*stateFile, error) {
	ns, err := netnsID()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(StateDir, 0o700); err != nil {
		return nil, err
	}
	for _, d := range []string{filepath.Dir(StateDir), StateDir} {
		var st unix.Stat_t
		if err := unix.Lstat(d, &st); err != nil {
			return nil, &fs.PathError{Op: "lstat", Path: d, Err: err}
		}
		if st.Mode&unix.S_IFMT != unix.S_IFDIR || st.Uid != 0 && int(st.Uid) != os.Geteuid() || st.Mode&0o022 != 0 {
			return nil, fmt.Errorf("%s: expected a folder of root's that only root can write to; remove it or correct it", d)
		}
	}
	s := &stateFile{Name: name, Devices: devices, NetNS: ns, PID: os.Getpid(), Since: time.Now().UTC(), base: fileBase(name, ns)}
	if s.lock, err = lockFile(s.base + ".lock"); err != nil {
		return nil, fmt.Errorf("scope %s: %w", name, err)
	}
	if b, err := os.ReadFile(s.base + ".json"); err == nil {
		var old stateFile
		if json.Unmarshal(b, &old) == nil {
			s.Open = old.Open
		}
	}
	return s, nil
}

func (s *stateFile) write() error {
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return os.WriteFile(s.base+".json", b, 0o600)
}

func (s *stateFile) release() {
	if s.lock != nil {
		s.lock.Close()
		s.lock = nil
	}
}

func (s *stateFile) remove() error {
	err := errors.Join(os.Remove(s.base+".json"), os.Remove(s.base+".lock"))
	s.release()
	return err
}

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
		var a, b unix.Stat_t
		if unix.Fstat(int(f.Fd()), &a) == nil && unix.Stat(path, &b) == nil && a.Ino == b.Ino {
			return f, nil
		}
		f.Close() // removed between open and lock
	}
}

// Leftover is a scope as `holdfast latch status` shows it.
type Leftover struct {
	Name    string    `json:"name"`
	Devices []string  `json:"devices"`
	NetNS   uint64    `json:"netns"`
	PID     int       `json:"pid"`
	Since   time.Time `json:"since"`
	Alive   bool      `json:"gate_alive"`
	Here    bool      `json:"this_netns"` // it can be repaired from here
}

// namespaces lists the inode numbers of the network namespaces that have a
// process or a name.
func namespaces() map[uint64]bool {
	out := map[uint64]bool{}
	for _, pattern := range []string{"/proc/thread-self/ns/net", "/proc/[0-9]*/ns/net", "/run/netns/*", "/run/docker/netns/*"} {
		paths, _ := filepath.Glob(pattern)
		for _, p := range paths {
			var st unix.Stat_t
			if unix.Stat(p, &st) == nil {
				out[st.Ino] = true
			}
		}
	}
	return out
}

// Status lists the scopes of this machine, in all network namespaces. What is left
// of namespaces that are gone is removed.
func Status() ([]Leftover, error) {
	names, err := filepath.Glob(StateDir + "/*.json")
	if err != nil {
		return nil, err
	}
	here, err := netnsID()
	if err != nil {
		return nil, err
	}
	alive := namespaces()
	out := []Leftover{}
	for _, n := range names {
		b, err := os.ReadFile(n)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		var s stateFile
		if err := json.Unmarshal(b, &s); err != nil {
			return nil, fmt.Errorf("%s: %w", n, err)
		}
		l := Leftover{Name: s.Name, Devices: s.Devices, NetNS: s.NetNS, PID: s.PID, Since: s.Since, Here: s.NetNS == here}
		f, err := lockFile(strings.TrimSuffix(n, ".json") + ".lock")
		switch {
		case errors.Is(err, errLocked):
			l.Alive = true
		case err != nil:
			return nil, err
		default:
			if !alive[s.NetNS] { // the namespace ended, and its rules with it
				err = errors.Join(os.Remove(n), os.Remove(strings.TrimSuffix(n, ".json")+".lock"))
			}
			f.Close()
			if !alive[s.NetNS] {
				if err != nil {
					return nil, err
				}
				continue
			}
		}
		out = append(out, l)
	}
	return out, nil
}

// Reclaim takes away what a dead gate left in this network namespace. The
// clients then send without a gate, so it wants open to be set.
func Reclaim(l Leftover, open bool) error {
	if !open {
		return fmt.Errorf("%s: clients may be behind %s; start `holdfast latch gate` for it again, or say --open", l.Name, strings.Join(l.Devices, ", "))
	}
	if !l.Here {
		return fmt.Errorf("%s belongs to another network namespace (inode %d); call this there", l.Name, l.NetNS)
	}
	s := &stateFile{base: fileBase(l.Name, l.NetNS)}
	var err error
	if s.lock, err = lockFile(s.base + ".lock"); err != nil {
		return fmt.Errorf("%s: %w", l.Name, err)
	}
	defer s.release()
	c, err := netlink.Dial(unix.NETLINK_NETFILTER, nil)
	if err != nil {
		return err
	}
	defer c.Close()
	r := rules{name: l.Name}
	var t transaction
	for _, n := range []string{r.table(), r.guard()} {
		t.newTable(n, 0)
		t.delTable(n)
	}
	if err := t.commit(c); err != nil {
		return err
	}
	return s.remove()
}
