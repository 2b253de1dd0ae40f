// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package sockdiag asks the kernel about single TCP sockets and aborts them
// (linux/sock_diag.h, linux/inet_diag.h), in this network namespace or another.
// A socket is named by its addresses and its cookie, so that a later one on the
// same addresses is never meant.
//
// Start with Open; In does one thing in another network namespace.
package sockdiag

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"runtime"

	"golang.org/x/sys/unix"
)

// Message types.
const (
	Destroy  = 21 // SOCK_DESTROY
	ByFamily = 20 // SOCK_DIAG_BY_FAMILY
)

// Sizes in bytes of struct inet_diag_req_v2 and of struct inet_diag_sockid, and
// where that begins in a request and in struct inet_diag_msg.
const (
	RequestSize = 56
	idSize      = 48
	idAt        = 8
	MessageAt   = 4
)

const header = 16 // struct nlmsghdr

// Diag is a NETLINK_SOCK_DIAG socket of the network namespace that it was made
// in. One goroutine at a time may use it.
type Diag struct {
	fd  int
	seq uint32
	out []byte
	in  []byte
}

// Open makes one.
func Open() (*Diag, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return nil, fmt.Errorf("socket diagnostics: %w", err)
	}
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 2}); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return &Diag{fd: fd, in: make([]byte, 4096)}, nil
}

// Close ends it.
func (d *Diag) Close() error { return unix.Close(d.fd) }

// message begins a message about TCP sockets of a family in any state, with
// extra bytes behind the request.
func (d *Diag) message(typ, flags uint16, family byte, extra int) []byte {
	d.seq++
	b := append(d.out[:0], make([]byte, header+RequestSize+extra)...)
	e := binary.NativeEndian
	e.PutUint32(b, uint32(len(b)))
	e.PutUint16(b[4:], typ)
	e.PutUint16(b[6:], unix.NLM_F_REQUEST|flags)
	e.PutUint32(b[8:], d.seq)
	b[header], b[header+1] = family, unix.IPPROTO_TCP
	e.PutUint32(b[header+4:], 0xffffffff)
	d.out = b
	return b
}

// one builds a message about one socket.
func (d *Diag) one(typ, flags uint16, cookie uint64, local, remote netip.AddrPort, ifindex uint32) []byte {
	family := byte(unix.AF_INET6)
	if local.Addr().Is4() {
		family = unix.AF_INET
	}
	b := d.message(typ, flags, family, 0)
	e, r := binary.NativeEndian, b[header:]
	binary.BigEndian.PutUint16(r[8:], local.Port())
	binary.BigEndian.PutUint16(r[10:], remote.Port())
	copy(r[12:], local.Addr().AsSlice())
	copy(r[28:], remote.Addr().AsSlice())
	e.PutUint32(r[44:], ifindex)
	e.PutUint32(r[48:], uint32(cookie))
	e.PutUint32(r[52:], uint32(cookie>>32))
	return b
}

// call sends one request and returns the errno of the answer, 0 if an answer
// other than an error came.
func (d *Diag) call(msg []byte) (unix.Errno, error) {
	if err := unix.Sendto(d.fd, msg, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return 0, fmt.Errorf("socket diagnostics: %w", err)
	}
	for {
		n, err := d.receive(d.in)
		if err != nil {
			return 0, err
		}
		e := binary.NativeEndian
		if n < header+4 {
			return 0, fmt.Errorf("socket diagnostics: answer of %d bytes, expected at least %d", n, header+4)
		}
		if e.Uint32(d.in[8:]) != d.seq {
			continue // of an earlier request that timed out
		}
		if e.Uint16(d.in[4:]) == unix.NLMSG_ERROR {
			return unix.Errno(-int32(e.Uint32(d.in[header:]))), nil
		}
		return 0, nil
	}
}

func (d *Diag) receive(in []byte) (int, error) {
	for {
		n, _, err := unix.Recvfrom(d.fd, in, 0)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return 0, fmt.Errorf("socket diagnostics: no answer: %w", err)
		default:
			return n, nil
		}
	}
}

// Destroy aborts the socket: the application sees an error at once, the peer
// gets a RST. found is false if there is no such socket any more. ifindex is
// the interface that it is bound to, or 0.
func (d *Diag) Destroy(cookie uint64, local, remote netip.AddrPort, ifindex uint32) (found bool, err error) {
	for _, dev := range []uint32{0, ifindex} { // the second for sockets bound to an interface
		e, err := d.call(d.one(Destroy, unix.NLM_F_ACK, cookie, local, remote, dev))
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

// Has reports whether the socket is in this namespace.
func (d *Diag) Has(cookie uint64, local, remote netip.AddrPort) bool {
	e, err := d.call(d.one(ByFamily, 0, cookie, local, remote, 0))
	return err == nil && e == 0
}

// Dump lists the TCP sockets of a family (unix.AF_INET, AF_INET6): each is
// called with a struct inet_diag_msg and the attributes that attributes asked
// for. The bytes are valid during the call only.
func (d *Diag) Dump(family byte, attributes []byte, each func(msg []byte)) error {
	b := d.message(ByFamily, unix.NLM_F_DUMP, family, len(attributes))
	copy(b[header+RequestSize:], attributes)
	if err := unix.Sendto(d.fd, b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fmt.Errorf("socket diagnostics: %w", err)
	}
	e := binary.NativeEndian
	in := make([]byte, 1<<16)
	for {
		n, err := d.receive(in)
		if err != nil {
			return err
		}
		for m := in[:n]; len(m) >= header; {
			size := int(e.Uint32(m))
			if size < header || size > len(m) {
				return fmt.Errorf("socket diagnostics: message of %d bytes in %d", size, len(m))
			}
			if e.Uint32(m[8:]) == d.seq {
				switch e.Uint16(m[4:]) {
				case unix.NLMSG_DONE:
					return nil
				case unix.NLMSG_ERROR:
					if size >= header+4 {
						return fmt.Errorf("socket diagnostics: list of sockets: %w", unix.Errno(-int32(e.Uint32(m[header:]))))
					}
				case ByFamily:
					each(m[header:size])
				}
			}
			m = m[min(len(m), (size+3)&^3):]
		}
	}
}

// DestroyListed aborts a socket of Dump's list. One that is gone is no error.
func (d *Diag) DestroyListed(msg []byte) error {
	b := d.message(Destroy, unix.NLM_F_ACK, msg[0], 0)
	copy(b[header+idAt:], msg[MessageAt:MessageAt+idSize]) // struct inet_diag_sockid
	switch no, err := d.call(b); {
	case err != nil:
		return err
	case no != 0 && no != unix.ENOENT && no != unix.ESTALE:
		return fmt.Errorf("reset of a socket: %w", no)
	}
	return nil
}

// In calls do with a Diag of the network namespace of the file at path, on a
// thread of its own, which ends with it.
func In(path string, do func(*Diag) error) error {
	ns, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(ns)
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread is not used again
		done <- func() error {
			if err := unix.Setns(ns, unix.CLONE_NEWNET); err != nil {
				return err
			}
			d, err := Open()
			if err != nil {
				return err
			}
			defer d.Close()
			return do(d)
		}()
	}()
	return <-done
}
