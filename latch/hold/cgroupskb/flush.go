// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cgroupskb

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"
)

// A process that ends leaves its sockets to the kernel, which goes on trying to
// send what is queued for a minute and more (orphans). So before the programs
// go, or a network namespace is let go of, every socket that they hold is
// reset. The programs' own map says which: a socket whose door is not open.

// Numbers of linux/inet_diag.h and linux/sock_diag.h.
const (
	reqStorages    = 2  // INET_DIAG_REQ_SK_BPF_STORAGES
	reqStorageMap  = 1  // SK_DIAG_BPF_STORAGE_REQ_MAP_FD, within
	repStorages    = 20 // INET_DIAG_SK_BPF_STORAGES
	repStorage     = 1  // SK_DIAG_BPF_STORAGE, within
	repStorageData = 3  // SK_DIAG_BPF_STORAGE_MAP_VALUE, within
	attrNested     = 1 << 15
	diagMsgSize    = 72 // struct inet_diag_msg
	tcpListen      = 10
	doorNew        = 0 // states of bpf/hold.bpf.c
	doorOpen       = 2
	doorPlain      = 4
	doorOutside    = 5
)

// passes says whether everything to a destination passes: it is on the list of
// plain destinations. Sockets to such ones are not held, though their door never
// opened. nil: no list is known.
type passes func(netip.AddrPort) bool

// flush resets the held sockets of this namespace: those that have an entry in
// the map conns whose door is not open.
func (d *diag) flush(conns int, pass passes) error {
	var all error
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		held, err := d.held(family, conns, pass)
		all = errors.Join(all, err)
		for _, m := range held {
			if m[1] == tcpListen { // has nothing to send
				continue
			}
			d.seq++
			b := append(d.out[:0], make([]byte, 16+diagReqSize)...)
			e := binary.NativeEndian
			e.PutUint32(b, uint32(len(b)))
			e.PutUint16(b[4:], sockDestroy)
			e.PutUint16(b[6:], unix.NLM_F_REQUEST|unix.NLM_F_ACK)
			e.PutUint32(b[8:], d.seq)
			b[16], b[17] = m[0], unix.IPPROTO_TCP
			e.PutUint32(b[20:], 0xffffffff)
			copy(b[24:], m[4:52]) // struct inet_diag_sockid
			d.out = b
			switch no, err := d.call(b); {
			case err != nil:
				return errors.Join(all, err)
			case no != 0 && no != unix.ENOENT && no != unix.ESTALE:
				all = errors.Join(all, fmt.Errorf("reset of a held socket: %w", no))
			}
		}
	}
	return all
}

// held lists the sockets of a family, as struct inet_diag_msg, that flush resets.
func (d *diag) held(family byte, conns int, pass passes) (out [][]byte, err error) {
	d.seq++
	e := binary.NativeEndian
	b := make([]byte, 16+diagReqSize+12)
	e.PutUint32(b, uint32(len(b)))
	e.PutUint16(b[4:], sockDiagByFamily)
	e.PutUint16(b[6:], unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	e.PutUint32(b[8:], d.seq)
	b[16], b[17] = family, unix.IPPROTO_TCP
	e.PutUint32(b[20:], 0xffffffff) // any state
	a := b[16+diagReqSize:]
	e.PutUint16(a, 12)
	e.PutUint16(a[2:], reqStorages|attrNested)
	e.PutUint16(a[4:], 8)
	e.PutUint16(a[6:], reqStorageMap)
	e.PutUint32(a[8:], uint32(conns))
	if err := unix.Sendto(d.fd, b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return nil, fmt.Errorf("socket diagnostics: %w", err)
	}
	in := make([]byte, 1<<16)
	for {
		n, _, err := unix.Recvfrom(d.fd, in, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return out, fmt.Errorf("socket diagnostics: no answer: %w", err)
		}
		for m := in[:n]; len(m) >= 16; {
			size := int(e.Uint32(m))
			if size < 16 || size > len(m) {
				return out, fmt.Errorf("socket diagnostics: message of %d bytes in %d", size, len(m))
			}
			if e.Uint32(m[8:]) == d.seq {
				switch e.Uint16(m[4:]) {
				case unix.NLMSG_DONE:
					return out, nil
				case unix.NLMSG_ERROR:
					if size >= 20 {
						return out, fmt.Errorf("socket diagnostics: list of held sockets: %w", unix.Errno(-int32(e.Uint32(m[16:]))))
					}
				case sockDiagByFamily:
					if body := m[16:size]; len(body) >= diagMsgSize && shut(body, pass) {
						out = append(out, append([]byte(nil), body[:diagMsgSize]...))
					}
				}
			}
			m = m[min(len(m), (size+3)&^3):]
		}
	}
}

// shut says whether a struct inet_diag_msg with its attributes is of a socket
// that is held.
func shut(msg []byte, pass passes) bool {
	s := attribute(attribute(msg[diagMsgSize:], repStorages), repStorage)
	v := attribute(s, repStorageData)
	if len(v) < 8 {
		return false
	}
	switch uint32(binary.NativeEndian.Uint64(v)) {
	case doorOpen, doorPlain, doorOutside:
		return false
	case doorNew:
		if pass == nil {
			return true
		}
		far := netip.AddrFrom16([16]byte(msg[24:40]))
		if msg[0] == unix.AF_INET {
			far = netip.AddrFrom4([4]byte(msg[24:28]))
		}
		return !pass(netip.AddrPortFrom(far.Unmap(), binary.BigEndian.Uint16(msg[6:])))
	}
	return true
}

// attribute finds a netlink attribute; nil if there is none.
func attribute(b []byte, typ uint16) []byte {
	e := binary.NativeEndian
	for len(b) >= 4 {
		n := int(e.Uint16(b))
		if n < 4 || n > len(b) {
			return nil
		}
		if e.Uint16(b[2:])&^attrNested == typ {
			return b[4:n]
		}
		b = b[min(len(b), (n+3)&^3):]
	}
	return nil
}

// flushEverywhere resets the held sockets in every network namespace that can
// be found: those of all processes, and those with a name.
func flushEverywhere(conns int, pass passes) error {
	var all error
	seen := map[uint64]bool{}
	for _, pattern := range []string{"/proc/thread-self/ns/net", "/proc/[0-9]*/ns/net", hostRoot() + "/run/netns/*", hostRoot() + "/run/docker/netns/*"} {
		paths, err := filepath.Glob(pattern)
		all = errors.Join(all, err)
		for _, p := range paths {
			var st unix.Stat_t
			if unix.Stat(p, &st) != nil || seen[st.Ino] { // ended meanwhile
				continue
			}
			seen[st.Ino] = true
			if err := flushIn(p, conns, pass); err != nil && !errors.Is(err, fs.ErrNotExist) {
				all = errors.Join(all, fmt.Errorf("network namespace %s: %w", p, err))
			}
		}
	}
	return all
}

// flushIn is flush in the network namespace of the file at path, on a thread
// of its own, which ends with it.
func flushIn(path string, conns int, pass passes) error {
	ns, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(ns)
	ch := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		ch <- func() error {
			if err := unix.Setns(ns, unix.CLONE_NEWNET); err != nil {
				if errors.Is(err, unix.EINVAL) { // a file that is no namespace
					return nil
				}
				return err
			}
			d, err := newDiag()
			if err != nil {
				return err
			}
			defer unix.Close(d.fd)
			return d.flush(conns, pass)
		}()
	}()
	return <-ch
}

// passes looks the destination up as the programs do.
func (h *Hold) passes(far netip.AddrPort) bool {
	for _, port := range []uint16{far.Port(), 0} {
		k, err := Plain{Prefix: netip.PrefixFrom(far.Addr(), far.Addr().BitLen()), Port: port}.key()
		if err != nil {
			return false
		}
		var v uint8
		if h.objs.coll.Maps["plain"].Lookup(k, &v) == nil {
			return v == passAny
		}
	}
	return false
}
