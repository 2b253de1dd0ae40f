// SPDX-License-Identifier: Apache-2.0

package vtpmproxy

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// newDev is struct vtpm_proxy_new_dev (include/uapi/linux/vtpm_proxy.h).
type newDev struct {
	flags  uint32 // in
	number uint32 // out
	fd     uint32 // out
	major  uint32 // out
	minor  uint32 // out
}

const (
	flagTPM2 = 1
	// VTPM_PROXY_IOC_NEW_DEV = _IOWR(0xa1, 0, struct vtpm_proxy_new_dev)
	iocNewDev = 3<<30 | 20<<16 | 0xa1<<8
)

func newDevice(ctl uintptr) (number uint32, fd int, err error) {
	d := newDev{flags: flagTPM2}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, ctl, iocNewDev, uintptr(unsafe.Pointer(&d)))
	runtime.KeepAlive(&d)
	if errno != 0 {
		return 0, 0, errno
	}
	unix.CloseOnExec(int(d.fd))
	return d.number, int(d.fd), nil
}
