// SPDX-License-Identifier: Apache-2.0

package listen

import "golang.org/x/sys/unix"

// ackNow asks for an acknowledgement at once.
func ackNow(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_QUICKACK, 1) }
