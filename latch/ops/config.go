// SPDX-License-Identifier: Apache-2.0

// Package ops is what an operator holds of a running gate or agent: a control
// socket (status, reload), metrics, and where the audit log goes. Config is the
// part `operations:` of a configuration file; Serve answers.
//
// The control socket is a unix socket with mode 0600: who can open it sees
// which names are reached from here and can have the configuration read again.
// Metrics hold counters and no names of peers; they are served on the loopback
// address or a unix socket, elsewhere only if metrics-remote says so.
package ops

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"strings"

	"holdfast/latch/audit"
)

// Config is the part `operations:` of a configuration file.
type Config struct {
	Control string `yaml:"control"` // path of a unix socket
	Metrics string `yaml:"metrics"` // IP:PORT or unix:PATH
	// MetricsRemote allows an address of Metrics that others can reach.
	MetricsRemote bool         `yaml:"metrics-remote"`
	Audit         audit.Config `yaml:"audit"`
}

// Check says what is wrong.
func (c *Config) Check() error {
	if c.Control != "" && (!filepath.IsAbs(c.Control) || len(c.Control) > maxSocketPath) {
		return fmt.Errorf("operations.control: got %q, expected the absolute path of a socket, at most %d bytes", c.Control, maxSocketPath)
	}
	if c.Metrics != "" {
		if path, ok := strings.CutPrefix(c.Metrics, "unix:"); ok {
			if !filepath.IsAbs(path) || len(path) > maxSocketPath {
				return fmt.Errorf("operations.metrics: got %q, expected unix: and an absolute path of at most %d bytes", c.Metrics, maxSocketPath)
			}
		} else {
			a, err := netip.ParseAddrPort(c.Metrics)
			if err != nil || a.Port() == 0 {
				return fmt.Errorf("operations.metrics: got %q, expected IP:PORT or unix:PATH", c.Metrics)
			}
			if !a.Addr().IsLoopback() && !c.MetricsRemote {
				return fmt.Errorf("operations.metrics: %s can be reached from elsewhere; use 127.0.0.1:%d or unix:PATH, or say metrics-remote: true", a, a.Port())
			}
		}
	} else if c.MetricsRemote {
		return errors.New("operations.metrics-remote without metrics")
	}
	if err := c.Audit.Check(); err != nil {
		return fmt.Errorf("operations.%w", err)
	}
	return nil
}

// maxSocketPath is what fits into struct sockaddr_un everywhere.
const maxSocketPath = 100

// listen opens one address.
func listen(addr string) (net.Listener, error) {
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		return listenUnix(path)
	}
	return net.Listen("tcp", addr)
}
