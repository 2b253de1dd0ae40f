// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cgroupskb

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// Narrow says which sockets of the cgroup are in the scope; what it leaves out
// passes without a gate. The zero value takes all. With the root cgroup it makes
// a scope of a user, of a network namespace, or of the machine with exemptions.
type Narrow struct {
	Users []uint32 // only sockets of these users; empty: of all
	NetNS string   // file of a network namespace (/run/netns/NAME, /proc/PID/ns/net): only its sockets

	ExemptGroups []string // folders of cgroups that are not in the scope, with what is below
	ExemptUsers  []uint32
	ExemptPorts  []uint16 // connections that listeners on these local ports accept are not in the scope
}

func (n *Narrow) active() bool {
	return len(n.Users)+len(n.ExemptGroups)+len(n.ExemptUsers)+len(n.ExemptPorts) > 0 || n.NetNS != ""
}

// whoKey is struct who of bpf/hold.bpf.c.
type whoKey struct{ Kind, Value uint64 }

const (
	whoUser      = 1
	whoNotGroup  = 2
	whoNotUser   = 3
	whoNotPort   = 4
	maxCgroupTop = 8 // levels below the root that the program looks at
)

// list is what the map who must hold. Cgroups that are not there are left out:
// no process can be in them.
func (n *Narrow) list() (map[whoKey]bool, error) {
	out := map[whoKey]bool{}
	for _, u := range n.Users {
		out[whoKey{whoUser, uint64(u)}] = true
	}
	for _, u := range n.ExemptUsers {
		out[whoKey{whoNotUser, uint64(u)}] = true
	}
	for _, p := range n.ExemptPorts {
		out[whoKey{whoNotPort, uint64(p)}] = true
	}
	root, err := CgroupRoot()
	if err != nil {
		return nil, err
	}
	for _, dir := range n.ExemptGroups {
		rel, err := filepath.Rel(root, dir)
		if err != nil || rel == "." || !filepath.IsLocal(rel) || strings.Count(rel, "/") >= maxCgroupTop {
			return nil, fmt.Errorf("exempted cgroup %s: expected one at most %d levels below %s", dir, maxCgroupTop, root)
		}
		id, err := cgroupID(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out[whoKey{whoNotGroup, id}] = true
	}
	return out, nil
}

// RefreshNarrow looks whether the exempted cgroups are other ones now, as after
// the restart of a service.
func (h *Hold) RefreshNarrow() error {
	if !h.narrow.active() {
		return nil
	}
	want, err := h.narrow.list()
	if err != nil {
		return err
	}
	m := h.objs.coll.Maps["who"]
	for k := range h.who {
		if !want[k] {
			if err := m.Delete(k); err != nil {
				return fmt.Errorf("list of exemptions: %w", err)
			}
			delete(h.who, k)
		}
	}
	for k := range want {
		if !h.who[k] {
			if err := m.Put(k, uint8(1)); err != nil {
				return fmt.Errorf("list of exemptions (at most %d): %w", m.MaxEntries(), err)
			}
			h.who[k] = true
		}
	}
	return nil
}

// netnsCookie is the number by which the programs know a network namespace.
func netnsCookie(path string) (uint64, error) {
	ns, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, &fs.PathError{Op: "network namespace", Path: path, Err: err}
	}
	defer unix.Close(ns)
	type result struct {
		cookie uint64
		err    error
	}
	ch := make(chan result, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		var r result
		defer func() { ch <- r }()
		if r.err = unix.Setns(ns, unix.CLONE_NEWNET); r.err != nil {
			r.err = fmt.Errorf("%s is not a network namespace that can be entered: %w", path, r.err)
			return
		}
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if r.err = err; err != nil {
			return
		}
		defer unix.Close(fd)
		if r.cookie, r.err = unix.GetsockoptUint64(fd, unix.SOL_SOCKET, soNetNSCookie); r.err != nil {
			r.err = fmt.Errorf("number of the network namespace (Linux 5.14): %w", r.err)
		}
	}()
	r := <-ch
	return r.cookie, r.err
}
