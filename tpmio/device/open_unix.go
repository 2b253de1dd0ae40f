// SPDX-License-Identifier: Apache-2.0

//go:build unix

package device

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// openFile opens the device file.
func openFile(path string) (*os.File, error) {
	// Not os.OpenFile: it sets O_NONBLOCK on whatever can be polled, and then
	// the driver runs commands in the background and a read may come too early.
	// A blocking read waits for the response; the kernel bounds the time.
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		err = &os.PathError{Op: "open", Path: path, Err: err}
		if errors.Is(err, unix.EBUSY) {
			return nil, fmt.Errorf("%s is in use by another program; use its resource manager, such as /dev/tpmrm0: %w", path, err)
		}
		return nil, err
	}
	return os.NewFile(uintptr(fd), path), nil
}
