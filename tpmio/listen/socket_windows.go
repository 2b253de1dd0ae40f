// SPDX-License-Identifier: Apache-2.0

package listen

import (
	"errors"
	"fmt"
	"net"
)

// openUnix refuses: a unix socket here tells nobody who the peer is.
func openUnix(path string) (net.Listener, error) {
	return nil, fmt.Errorf("listen address unix:%s: Windows tells no server who its peer is; use HOST:PORT on a machine that only you use: %w", path, errors.ErrUnsupported)
}

func peerOf(uintptr) (uid, pid int, err error) { return 0, 0, errors.ErrUnsupported }
