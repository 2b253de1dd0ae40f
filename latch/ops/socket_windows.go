// SPDX-License-Identifier: Apache-2.0

package ops

import (
	"fmt"
	"net"
)

// listenUnix makes a socket in a folder of the configuration's choice, whose
// access list says who can open it.
func listenUnix(path string) (net.Listener, error) {
	if c, err := net.Dial("unix", path); err == nil {
		c.Close()
		return nil, fmt.Errorf("%s: another process answers there", path)
	}
	return net.Listen("unix", path)
}
