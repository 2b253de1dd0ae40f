// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cgroupskb

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"path/filepath"

	"golang.org/x/sys/unix"

	"holdfast/latch/sockdiag"
)

// A process that ends leaves its sockets to the kernel, which goes on trying to
// send what is queued for a minute and more (orphans). So before the programs
// go, or a network namespace is let go of, every socket that they hold is
// reset. The programs' own map says which: a socket whose door is not open.

// Numbers of linux/inet_diag.h.
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

// flush resets the held sockets of d's namespace: those that have an entry in
// the map conns whose door is not open.
func flush(d *sockdiag.Diag, conns int, pass passes) error {
	e := binary.NativeEndian
	ask := make([]byte, 12)
	e.PutUint16(ask, 12)
	e.PutUint16(ask[2:], reqStorages|attrNested)
	e.PutUint16(ask[4:], 8)
	e.PutUint16(ask[6:], reqStorageMap)
	e.PutUint32(ask[8:], uint32(conns))
	var all error
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		var held [][]byte
		err := d.Dump(family, ask, func(msg []byte) {
			if len(msg) >= diagMsgSize && shut(msg, pass) && msg[1] != tcpListen { // a listener has nothing to send
				held = append(held, bytes.Clone(msg[:diagMsgSize]))
			}
		})
		all = errors.Join(all, err)
		for _, m := range held {
			all = errors.Join(all, d.DestroyListed(m))
		}
	}
	return all
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
			err := sockdiag.In(p, func(d *sockdiag.Diag) error { return flush(d, conns, pass) })
			if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.EINVAL) { // gone, or no namespace
				all = errors.Join(all, fmt.Errorf("network namespace %s: %w", p, err))
			}
		}
	}
	return all
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
