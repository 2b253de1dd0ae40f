// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cgroupskb

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"holdfast/latch/hold"
	"holdfast/latch/sockdiag"
)

const soNetNSCookie = 71 // SO_NETNS_COOKIE, Linux 5.14

// namespace has the sockets by which one network namespace is reached: kicks
// and resets work only from inside.
type namespace struct {
	cookie     uint64 // 0: the kernel cannot tell
	kick4      *sender
	kick6      *sender // nil: no IPv6
	diag       *sockdiag.Diag
	raw4, raw6 int
}

func (n *namespace) close() {
	unix.Close(n.raw4)
	if n.raw6 >= 0 {
		unix.Close(n.raw6)
	}
	n.diag.Close()
}

// openSockets opens the sockets in the calling thread's network namespace.
func openSockets(mark uint32) (n *namespace, err error) {
	n = &namespace{raw4: -1, raw6: -1}
	var fds []int
	defer func() {
		if err != nil {
			for _, fd := range fds {
				unix.Close(fd)
			}
			n = nil
		}
	}()
	raw := func(family int) (int, error) {
		fd, err := unix.Socket(family, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
		if err != nil {
			return -1, fmt.Errorf("raw socket (CAP_NET_RAW is needed): %w", err)
		}
		fds = append(fds, fd)
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_MARK, int(mark)); err != nil {
			return -1, fmt.Errorf("mark of the raw socket (CAP_NET_ADMIN is needed): %w", err)
		}
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, 1<<20)
		return fd, nil
	}
	if n.raw4, err = raw(unix.AF_INET); err != nil {
		return
	}
	n.kick4 = newSender(n.raw4, false)
	if fd, err6 := raw(unix.AF_INET6); err6 == nil {
		n.raw6, n.kick6 = fd, newSender(fd, true)
	}
	if n.diag, err = sockdiag.Open(); err != nil {
		return
	}
	if c, err := unix.GetsockoptUint64(n.raw4, unix.SOL_SOCKET, soNetNSCookie); err == nil {
		n.cookie = c
	}
	return n, nil
}

// enterAndOpen opens the sockets in the namespace of the file at path. It uses
// a thread of its own, which ends with it.
func enterAndOpen(path string, mark uint32) (*namespace, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	type result struct {
		n   *namespace
		err error
	}
	ch := make(chan result, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends, no other goroutine gets it
		if err := unix.Setns(int(f.Fd()), unix.CLONE_NEWNET); err != nil {
			ch <- result{nil, fmt.Errorf("enter network namespace %s (CAP_SYS_ADMIN is needed): %w", path, err)}
			return
		}
		n, err := openSockets(mark)
		ch <- result{n, err}
	}()
	r := <-ch
	return r.n, r.err
}

// namespaces knows the network namespaces of the gated processes.
type namespaces struct {
	cgroup string
	mark   uint32
	conns  int // descriptor of the map
	pass   passes
	known  map[uint64]*namespace // by inode number of the namespace
}

// find returns the namespace of a record's socket. It looks among the known
// ones first and then at the processes of the cgroup.
func (ns *namespaces) find(cookie uint64, id hold.ID, local, remote netip.AddrPort) (*namespace, error) {
	if n := ns.among(cookie, id, local, remote); n != nil {
		return n, nil
	}
	if err := ns.scan(); err != nil {
		return nil, err
	}
	if n := ns.among(cookie, id, local, remote); n != nil {
		return n, nil
	}
	return nil, fmt.Errorf("network namespace of socket %s: none of the gated processes is in it, so the connection can be neither released nor reset", local)
}

func (ns *namespaces) among(cookie uint64, id hold.ID, local, remote netip.AddrPort) *namespace {
	for _, n := range ns.known {
		if cookie != 0 && n.cookie == cookie {
			return n
		}
		if cookie == 0 && n.diag.Has(id.Cookie, local, remote) {
			return n
		}
	}
	return nil
}

// scan opens the namespaces of all processes of the cgroup and below, and of
// this process, and closes those that have no process any more: the sockets
// here would keep them alive for ever.
func (ns *namespaces) scan() error {
	seen := map[uint64]bool{}
	if err := ns.add("/proc/thread-self/ns/net", seen); err != nil {
		return err
	}
	var first error
	err := filepath.WalkDir(ns.cgroup, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() != "cgroup.procs" {
			return nil // folders come and go
		}
		f, err := os.Open(p)
		if err != nil {
			return nil
		}
		defer f.Close()
		for s := bufio.NewScanner(f); s.Scan(); {
			err := ns.add("/proc/"+strings.TrimSpace(s.Text())+"/ns/net", seen)
			if err != nil && !errors.Is(err, fs.ErrNotExist) && first == nil {
				first = err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for ino, n := range ns.known {
		if !seen[ino] {
			if err := flush(n.diag, ns.conns, ns.pass); err != nil && first == nil {
				first = err
			}
			n.close()
			delete(ns.known, ino)
		}
	}
	return first
}

func (ns *namespaces) add(path string, seen map[uint64]bool) error {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	seen[st.Ino] = true
	if _, ok := ns.known[st.Ino]; ok {
		return nil
	}
	n, err := enterAndOpen(path, ns.mark)
	if err != nil {
		return err
	}
	ns.known[st.Ino] = n
	return nil
}

func (ns *namespaces) close() {
	for _, n := range ns.known {
		n.close()
	}
	clear(ns.known)
}
