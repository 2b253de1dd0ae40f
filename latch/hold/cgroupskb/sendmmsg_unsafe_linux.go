// SPDX-License-Identifier: Apache-2.0

package cgroupskb

import (
	"fmt"
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"
)

// batchMax is the number of packets in one sendmmsg; a larger group takes more.
const batchMax = 256

type mmsghdr struct {
	hdr unix.Msghdr
	n   uint32
	_   [4]byte
}

// sender sends packets of one address family through one raw socket. Its
// memory is allocated once.
type sender struct {
	fd   int
	six  bool
	n    int
	msgs [batchMax]mmsghdr
	iov  [batchMax]unix.Iovec
	to4  [batchMax]unix.RawSockaddrInet4
	to6  [batchMax]unix.RawSockaddrInet6
	buf  [batchMax][kickSize6]byte
}

func newSender(fd int, six bool) *sender {
	s := &sender{fd: fd, six: six}
	for i := range s.msgs {
		s.iov[i].Base = &s.buf[i][0]
		s.msgs[i].hdr.Iov, s.msgs[i].hdr.Iovlen = &s.iov[i], 1
		if six {
			s.to6[i].Family = unix.AF_INET6
			s.msgs[i].hdr.Name, s.msgs[i].hdr.Namelen = (*byte)(unsafe.Pointer(&s.to6[i])), unix.SizeofSockaddrInet6
		} else {
			s.to4[i].Family = unix.AF_INET
			s.msgs[i].hdr.Name, s.msgs[i].hdr.Namelen = (*byte)(unsafe.Pointer(&s.to4[i])), unix.SizeofSockaddrInet4
		}
	}
	return s
}

// add puts a kick into the batch, sending the batch first if it is full.
func (s *sender) add(k *kick, ifindex uint32) error {
	if s.n == batchMax {
		if err := s.flush(); err != nil {
			return err
		}
	}
	i := s.n
	s.iov[i].SetLen(k.encode(s.buf[i][:]))
	if s.six {
		s.to6[i].Addr = k.local.Addr().As16()
		s.to6[i].Scope_id = 0
		if k.local.Addr().IsLinkLocalUnicast() {
			s.to6[i].Scope_id = ifindex
		}
	} else {
		s.to4[i].Addr = k.local.Addr().As4()
	}
	s.n++
	return nil
}

// flush sends the batch in one system call (more only when the kernel takes a
// part). A packet that the kernel refuses is skipped; the first error is returned.
func (s *sender) flush() error {
	var first error
	for at := 0; at < s.n; {
		// Raw: it does not block, and takes some 10 us per packet, since the
		// client's TCP runs in it. The runtime would hand the processor to
		// another thread meanwhile, and two threads would be woken per group.
		n, _, e := unix.RawSyscall6(unix.SYS_SENDMMSG, uintptr(s.fd), uintptr(unsafe.Pointer(&s.msgs[at])), uintptr(s.n-at), unix.MSG_DONTWAIT, 0, 0)
		switch {
		case e == unix.EINTR:
		case e != 0:
			if first == nil {
				first = fmt.Errorf("send release to %s: %w", s.dest(at), e)
			}
			at++
		default:
			at += int(n)
		}
	}
	s.n = 0
	return first
}

func (s *sender) dest(i int) netip.Addr {
	if s.six {
		return netip.AddrFrom16(s.to6[i].Addr)
	}
	return netip.AddrFrom4(s.to4[i].Addr)
}
