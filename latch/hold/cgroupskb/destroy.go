// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cgroupskb

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"holdfast/latch/hold"
)

// Socket diagnostics (linux/inet_diag.h, linux/sock_diag.h).
const (
	sockDestroy      = 21
	sockDiagByFamily = 20
	diagReqSize      = 56
)

// diag is a NETLINK_SOCK_DIAG socket of one network namespace.
type diag struct {
	fd  int
	seq uint32
	out []byte
	in  []byte
}

func newDiag() (*diag, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return nil, fmt.Errorf("socket diagnostics: %w", err)
	}
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 2}); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return &diag{fd: fd, in: make([]byte, 4096)}, nil
}

// request builds one message about one TCP socket.
func (d *diag) request(typ uint16, flags uint16, id hold.ID, local, remote netip.AddrPort, ifindex uint32) []byte {
	d.seq++
	b := append(d.out[:0], make([]byte, 16+diagReqSize)...)
	e := binary.NativeEndian
	e.PutUint32(b, uint32(len(b)))
	e.PutUint16(b[4:], typ)
	e.PutUint16(b[6:], unix.NLM_F_REQUEST|flags)
	e.PutUint32(b[8:], d.seq)
	r := b[16:]
	r[0], r[1] = unix.AF_INET6, unix.IPPROTO_TCP
	e.PutUint32(r[4:], 0xffffffff) // any state
	binary.BigEndian.PutUint16(r[8:], local.Port())
	binary.BigEndian.PutUint16(r[10:], remote.Port())
	if local.Addr().Is4() {
		r[0] = unix.AF_INET
		s, t := local.Addr().As4(), remote.Addr().As4()
		copy(r[12:], s[:])
		copy(r[28:], t[:])
	} else {
		s, t := local.Addr().As16(), remote.Addr().As16()
		copy(r[12:], s[:])
		copy(r[28:], t[:])
	}
	e.PutUint32(r[44:], ifindex)
	e.PutUint32(r[48:], uint32(id.Cookie))
	e.PutUint32(r[52:], uint32(id.Cookie>>32))
	d.out = b
	return b
}

// call sends one request and returns the errno of the answer, 0 if an answer
// other than an error came.
func (d *diag) call(msg []byte) (unix.Errno, error) {
	if err := unix.Sendto(d.fd, msg, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return 0, fmt.Errorf("socket diagnostics: %w", err)
	}
	for {
		n, _, err := unix.Recvfrom(d.fd, d.in, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("socket diagnostics: no answer: %w", err)
		}
		e := binary.NativeEndian
		if n < 20 {
			return 0, fmt.Errorf("socket diagnostics: answer of %d bytes, expected at least 20", n)
		}
		if e.Uint32(d.in[8:]) != d.seq {
			continue // of an earlier request that timed out
		}
		if e.Uint16(d.in[4:]) == unix.NLMSG_ERROR {
			return unix.Errno(-int32(e.Uint32(d.in[16:]))), nil
		}
		return 0, nil
	}
}

// destroy aborts the socket: the application sees an error at once, the peer
// gets a RST. found is false if there is no such socket any more.
func (d *diag) destroy(id hold.ID, local, remote netip.AddrPort, ifindex uint32) (found bool, err error) {
	for _, dev := range []uint32{0, ifindex} { // the second for sockets bound to an interface
		e, err := d.call(d.request(sockDestroy, unix.NLM_F_ACK, id, local, remote, dev))
		switch {
		case err != nil:
			return false, err
		case e == 0:
			return true, nil
		case e == unix.ENOENT || e == unix.ESTALE:
		case e == unix.EOPNOTSUPP:
			return false, fmt.Errorf("reset of %s: this kernel lacks CONFIG_INET_DIAG_DESTROY; the connection stays shut but the application is not told", local)
		default:
			return false, fmt.Errorf("reset of %s: %w", local, e)
		}
	}
	return false, nil
}

// has reports whether the socket is in this namespace.
func (d *diag) has(id hold.ID, local, remote netip.AddrPort) bool {
	e, err := d.call(d.request(sockDiagByFamily, 0, id, local, remote, 0))
	return err == nil && e == 0
}
