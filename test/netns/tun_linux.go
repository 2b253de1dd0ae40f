// SPDX-License-Identifier: Apache-2.0

package netns

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// tunQueue is how many packets the kernel keeps for the owner of a TUN device.
const tunQueue = 10000

// TUN makes a network device whose other end is a file descriptor: each read
// gives one IP packet that the host sends, each write is one that it receives.
// The descriptor does not block; closing it removes the device.
func (ns *Namespace) TUN(device string, addresses ...string) (fd int, err error) {
	err = ns.Do(func() error {
		if fd, err = unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0); err != nil {
			return fmt.Errorf("/dev/net/tun: %w", err)
		}
		r, err := unix.NewIfreq(device)
		if err != nil {
			return err
		}
		r.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
		if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, r); err != nil {
			return fmt.Errorf("TUNSETIFF %s: %w", device, err)
		}
		return nil
	})
	if err == nil {
		err = End{ns, device, addresses}.up()
	}
	if err == nil {
		l, e := ns.netlink.LinkByName(device)
		if err = e; err == nil {
			err = ns.netlink.LinkSetTxQLen(l, tunQueue)
		}
	}
	if err != nil {
		if fd > 0 {
			unix.Close(fd)
		}
		return -1, fmt.Errorf("%s: %w", ns.Name, err)
	}
	return fd, nil
}
