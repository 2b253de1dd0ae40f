// SPDX-License-Identifier: Apache-2.0

package listen

import "errors"

// oobSize is that of nothing: sockets pass no descriptors here.
const oobSize = 0

func closeFile(int) {}

func (c *Conn) keepFiles([]byte, int) error {
	return errors.New("passed descriptor: not known on Windows")
}
