// SPDX-License-Identifier: Apache-2.0

package csvguest

import (
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// getReport is CSV_CMD_GET_REPORT of the driver csv-guest:
// _IOWR('D', 1, struct { u8 *report_data; int len; }).
const getReport = 0xc0104401

// driver is the open device.
type driver struct{ f *os.File }

func openDevice(path string) (device, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	return &driver{f}, nil
}

// report passes the driver a pointer to b, which it reads and writes before the
// call returns.
func (d *driver) report(b *[bufferSize]byte) error {
	arg := struct {
		data *byte
		size int32
		_    int32
	}{&b[0], bufferSize, 0}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, d.f.Fd(), getReport, uintptr(unsafe.Pointer(&arg)))
	runtime.KeepAlive(b)
	if errno != 0 {
		return os.NewSyscallError("ioctl(CSV_CMD_GET_REPORT)", errno)
	}
	return nil
}

// Close closes the device.
func (d *driver) Close() error { return d.f.Close() }
