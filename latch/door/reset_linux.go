// SPDX-License-Identifier: Apache-2.0

package door

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"

	"holdfast/latch/sockdiag"
)

// maxResets wait for the kernel. What comes beyond is not reset: its door stays
// shut all the same.
const maxResets = 1024

// A reset is an accepted connection whose client was refused.
type reset struct {
	cookie        uint64
	local, remote netip.AddrPort
	pid           int
}

// Reset ends a connection whose client was refused, in the background, so that
// neither the service nor the client waits for a time-out. pid is a process of
// the service, whose network namespace the socket is in; 0: this process's.
func (d *Doors) Reset(cookie uint64, local, remote netip.AddrPort, pid int) {
	select {
	case d.resets <- reset{cookie, local, remote, pid}:
	default:
		slog.Warn("a refused client's connection is not reset: too many at once; its door stays shut", "remote", remote)
	}
}

// resetter works until the channel is closed.
func (d *Doors) resetter() {
	defer close(d.resetterEnded)
	for r := range d.resets {
		if err := r.do(); err != nil {
			slog.Warn("a refused client's connection is not reset; its door stays shut", "remote", r.remote, "error", err)
		}
	}
}

func (r reset) do() error {
	paths := []string{"/proc/thread-self/ns/net"}
	if r.pid != 0 {
		paths = append([]string{fmt.Sprintf("/proc/%d/ns/net", r.pid)}, paths...)
	}
	for _, path := range paths {
		found := false
		err := sockdiag.In(path, func(d *sockdiag.Diag) (err error) {
			found, err = d.Destroy(r.cookie, r.local, r.remote, 0)
			return err
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) || found {
			return err
		}
	}
	return nil // it has ended by itself
}
