// SPDX-License-Identifier: Apache-2.0

package door

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// StateDir holds, for each guarded control group, NAME (its path, locked by
// the living agent) and the folder bpf/NAME with the pinned links and maps.
const StateDir = "/run/holdfast/door"

// pins is the place of one control group.
type pins struct {
	name string
	dir  string // in the bpffs
	lock *os.File
}

func (p *pins) path(what string) string { return filepath.Join(p.dir, what) }

func (p *pins) close() { p.lock.Close() }

// cgroupRoot finds where cgroup version 2 is mounted.
func cgroupRoot() (string, error) {
	b, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return "", err
	}
	for _, line := range strings.Split(string(b), "\n") {
		if f := strings.Fields(line); len(f) > 2 && f[2] == "cgroup2" {
			return f[1], nil
		}
	}
	return "", errors.New("cgroup version 2 is not mounted")
}

var errLocked = errors.New("another agent holds the door of this control group")

func openPins(root, cgroup string) (*pins, error) {
	if rel, err := filepath.Rel(root, cgroup); err != nil || !filepath.IsLocal(rel) {
		return nil, fmt.Errorf("%s is not below %s, where cgroup version 2 is mounted", cgroup, root)
	}
	if err := prepare(); err != nil {
		return nil, err
	}
	sweep()
	h := sha256.Sum256([]byte(cgroup))
	p := &pins{name: "d" + hex.EncodeToString(h[:12])}
	p.dir = filepath.Join(StateDir, "bpf", p.name)
	var err error
	if p.lock, err = lock(filepath.Join(StateDir, p.name)); err != nil {
		return nil, err
	}
	err = p.lock.Truncate(0)
	if err == nil {
		_, err = p.lock.WriteAt([]byte(cgroup+"\n"), 0)
	}
	if err == nil {
		if err = os.Mkdir(p.dir, 0o700); errors.Is(err, fs.ErrExist) {
			err = nil
		}
	}
	if err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// prepare makes the folder, which nobody but its owner may write to, and the
// bpffs in it.
func prepare() error {
	for _, d := range []string{filepath.Dir(StateDir), StateDir} {
		if err := os.Mkdir(d, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(d, &st); err != nil {
			return &fs.PathError{Op: "lstat", Path: d, Err: err}
		}
		if st.Mode&unix.S_IFMT != unix.S_IFDIR || st.Uid != 0 && int(st.Uid) != os.Geteuid() || st.Mode&0o022 != 0 {
			return fmt.Errorf("%s: expected a folder of root's that only root can write to, got user %d and mode %04o", d, st.Uid, st.Mode&0o7777)
		}
	}
	dir := filepath.Join(StateDir, "bpf")
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) == nil && uint32(st.Type) == unix.BPF_FS_MAGIC {
		return nil
	}
	if err := unix.Mount("bpf", dir, "bpf", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=0700"); err != nil {
		return fmt.Errorf("mount a bpffs at %s for the pinned links (CAP_SYS_ADMIN is needed): %w", dir, err)
	}
	return nil
}

func lock(path string) (*os.File, error) {
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
	return f, nil
}

// Guarded is a control group with a door.
type Guarded struct {
	Name   string `json:"name"`
	Cgroup string `json:"cgroup"`
	Alive  bool   `json:"agent_alive"`
}

// List returns the control groups of this machine that have a door.
func List() ([]Guarded, error) {
	entries, err := os.ReadDir(StateDir)
	if isNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	out := []Guarded{}
	for _, e := range entries {
		if !e.Type().IsRegular() {
			continue
		}
		b, err := os.ReadFile(filepath.Join(StateDir, e.Name()))
		if isNotExist(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		g := Guarded{Name: e.Name(), Cgroup: strings.TrimSpace(string(b))}
		f, err := lock(filepath.Join(StateDir, e.Name()))
		if g.Alive = errors.Is(err, errLocked); err == nil {
			f.Close()
		}
		out = append(out, g)
	}
	return out, nil
}

// Remove takes a door away whose agent is gone: clients reach the services
// without evidence from then on.
func Remove(g Guarded) error {
	f, err := lock(filepath.Join(StateDir, g.Name))
	if err != nil {
		return fmt.Errorf("%s: %w", g.Cgroup, err)
	}
	defer f.Close()
	return errors.Join(os.RemoveAll(filepath.Join(StateDir, "bpf", g.Name)), os.Remove(f.Name()))
}

// sweep removes what is left of control groups that are gone.
func sweep() {
	list, err := List()
	if err != nil {
		return
	}
	for _, g := range list {
		if _, err := os.Stat(g.Cgroup); !g.Alive && g.Cgroup != "" && isNotExist(err) {
			_ = Remove(g)
		}
	}
}
