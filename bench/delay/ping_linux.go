// SPDX-License-Identifier: Apache-2.0

package delay

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"holdfast/test/netns"
)

// ping sends n ICMP echo requests, one after the other, and returns the median
// round-trip time. Its socket blocks, so that the Go scheduler adds nothing.
func ping(from *netns.Namespace, to string, n int) (median time.Duration, err error) {
	a, err := netip.ParseAddr(to)
	if err != nil {
		return 0, err
	}
	times := make([]time.Duration, 0, n)
	err = from.Do(func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMP)
		if err != nil {
			return fmt.Errorf("ping: %w", err)
		}
		defer unix.Close(fd)
		if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 10}); err != nil {
			return fmt.Errorf("ping: %w", err)
		}
		for i := range n {
			start := time.Now()
			if err := unix.Sendto(fd, echo(uint16(i)), 0, &unix.SockaddrInet4{Addr: a.As4()}); err != nil {
				return fmt.Errorf("ping: %w", err)
			}
			if err := answered(fd, uint16(i)); err != nil {
				return fmt.Errorf("ping %s: %w", to, err)
			}
			times = append(times, time.Since(start))
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	slices.Sort(times)
	return times[len(times)/2], nil
}

// pingID marks our echo requests; each namespace has one ping at a time.
const pingID = 0x4866

// echo is an ICMP echo request (RFC 792).
func echo(sequence uint16) []byte {
	b := []byte{8, 0, 0, 0}
	b = binary.BigEndian.AppendUint16(b, pingID)
	b = binary.BigEndian.AppendUint16(b, sequence)
	var sum uint32
	for i := 0; i < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	binary.BigEndian.PutUint16(b[2:], ^uint16(sum))
	return b
}

// answered reads up to the reply with a sequence number.
func answered(fd int, sequence uint16) error {
	var b [1500]byte
	for {
		n, _, err := unix.Recvfrom(fd, b[:], 0)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return err
		case n < 20:
			continue
		}
		m := b[min(n, int(b[0]&15)*4):n] // behind the IP header
		if len(m) >= 8 && m[0] == 0 && binary.BigEndian.Uint16(m[4:]) == pingID && binary.BigEndian.Uint16(m[6:]) == sequence {
			return nil
		}
	}
}
