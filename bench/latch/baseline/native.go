// SPDX-License-Identifier: Apache-2.0

package baseline

import (
	"crypto/tls"
	"io"
	"net"
)

var native = Design{
	Name: "native", Title: "native TLS",
	server: func(k *Kit) (Server, error) { return &nativeServer{k.serverTLS()}, nil },
	client: func(k *Kit) (Client, error) { return &nativeClient{k.clientTLS()}, nil },
}

// Plain TLS 1.3. The handshake runs with the first read or write, as in any
// program: the client sends its Finished and its request without waiting.
type (
	nativeServer struct{ conf *tls.Config }
	nativeClient struct{ conf *tls.Config }
)

func (s *nativeServer) Accept(c net.Conn) (io.ReadWriter, error) { return tls.Server(c, s.conf), nil }
func (s *nativeClient) Connect(c net.Conn) (Stream, error)       { return tls.Client(c, s.conf), nil }
