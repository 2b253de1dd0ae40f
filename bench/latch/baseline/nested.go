// SPDX-License-Identifier: Apache-2.0

package baseline

import (
	"crypto/tls"
	"io"
	"net"
)

var nested = Design{
	Name: "nested", Title: "nested: TLS in an attested tunnel", Attests: true,
	server: func(k *Kit) (Server, error) {
		outer, err := newRAServer(k)
		return &nestedServer{outer, k.serverTLS()}, err
	},
	client: func(k *Kit) (Client, error) { return &nestedClient{raClientTLS(k), k.clientTLS()}, nil },
}

// The service's own TLS inside an RA-TLS tunnel, one tunnel a connection. Both
// layers are in one process on each side: a deployment has a proxy in front of
// each, whose two further hops are not here.
type (
	nestedServer struct {
		outer *nativeServer
		inner *tls.Config
	}
	nestedClient struct{ outer, inner *tls.Config }
)

func (s *nestedServer) Accept(c net.Conn) (io.ReadWriter, error) {
	return tls.Server(tls.Server(c, s.outer.conf), s.inner), nil
}

func (s *nestedClient) Connect(c net.Conn) (Stream, error) {
	return tls.Client(tls.Client(c, s.outer), s.inner), nil
}
