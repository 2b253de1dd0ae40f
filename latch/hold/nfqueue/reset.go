// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nfqueue

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"holdfast/latch/hold/packets"
)

// resets sends TCP resets in the name of either end. The client's goes to its
// device; the server's passes this machine's address translation like the
// client's own packets.
type resets struct{ raw4, raw6 int }

func openResets(mark uint32) (*resets, error) {
	r := &resets{-1, -1}
	for _, v := range []struct {
		family int
		fd     *int
	}{{unix.AF_INET, &r.raw4}, {unix.AF_INET6, &r.raw6}} {
		fd, err := unix.Socket(v.family, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
		if err != nil {
			if v.family == unix.AF_INET6 && errors.Is(err, unix.EAFNOSUPPORT) {
				continue
			}
			r.close()
			return nil, fmt.Errorf("raw socket (CAP_NET_RAW is needed): %w", err)
		}
		*v.fd = fd
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_MARK, int(mark)); err != nil {
			r.close()
			return nil, fmt.Errorf("mark of the raw socket (CAP_NET_ADMIN is needed): %w", err)
		}
	}
	return r, nil
}

func (r *resets) close() {
	for _, fd := range []int{r.raw4, r.raw6} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}

// send sends an IP packet that is complete.
func (r *resets) send(b []byte) error {
	p, _ := packets.Parse(b)
	to, err := p.Dst.Addr(), error(nil)
	if to.Is4() {
		err = unix.Sendto(r.raw4, b, 0, &unix.SockaddrInet4{Addr: to.As4()})
	} else {
		err = unix.Sendto(r.raw6, b, 0, &unix.SockaddrInet6{Addr: to.As16()})
	}
	if err != nil {
		return fmt.Errorf("reset from %v to %v: %w", p.Src, p.Dst, err)
	}
	return nil
}
