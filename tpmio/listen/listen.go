// SPDX-License-Identifier: Apache-2.0

// Package listen opens the sockets of the TPM servers and keeps the rules of
// who may connect and how long a peer may take. Open makes a listener, Serve
// runs one handler for each connection.
//
// Rules: a unix socket has mode 0600 from its first moment, and a peer that is
// neither our own user nor root is turned away even if the mode was changed;
// the number of connections is bounded; a request once begun, and the reading
// of a response, must end in time; a connection that is idle between requests
// may stay for ever, since resource managers keep theirs open.
package listen

import (
	"fmt"
	"net"
	"strings"
)

// Open listens at addr: HOST:PORT, or unix:PATH.
func Open(addr string) (net.Listener, error) {
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		return openUnix(path)
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil || port == "" {
		return nil, fmt.Errorf("listen address %q: expected HOST:PORT or unix:PATH", addr)
	}
	if host == "" {
		// The usual meaning of an empty host is "everybody". Not for a TPM.
		return nil, fmt.Errorf("listen address %q: name the host, such as 127.0.0.1:%s", addr, port)
	}
	return net.Listen("tcp", addr)
}
