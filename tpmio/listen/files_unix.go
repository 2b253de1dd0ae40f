// SPDX-License-Identifier: Apache-2.0

//go:build unix

package listen

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// oobSize takes more descriptors than anybody should pass.
var oobSize = unix.CmsgSpace(16 * 4)

func closeFile(fd int) { _ = unix.Close(fd) }

func (c *Conn) keepFiles(oob []byte, flags int) error {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return fmt.Errorf("passed descriptor: %w", err)
	}
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			continue // credentials and the like
		}
		for _, fd := range fds {
			unix.CloseOnExec(fd)
		}
		c.files = append(c.files, fds...)
	}
	if flags&unix.MSG_CTRUNC != 0 || len(c.files) > 1 {
		return fmt.Errorf("%d or more descriptors were passed, expected one", len(c.files))
	}
	return nil
}
