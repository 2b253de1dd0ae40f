// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"net"
	"sync/atomic"
)

// guard is a connection of the adversary's. It counts what arrives behind the
// one record that may: the ClientHello.
type guard struct {
	net.Conn
	head    [5]byte
	have    int   // bytes of the record that came, header included
	beyond  int64 // bytes that never should have come
	counter *atomic.Int64
	log     func(local, remote string, b []byte)
}

func (g *guard) Read(p []byte) (int, error) {
	n, err := g.Conn.Read(p)
	g.saw(p[:n])
	return n, err
}

// saw checks bytes of the client's stream: a prefix of one handshake record
// may come, nothing else.
func (g *guard) saw(b []byte) {
	for i := range b {
		ok := true
		switch {
		case g.have < 5:
			g.head[g.have] = b[i]
			ok = g.have > 0 || b[i] == 22
		default:
			ok = g.have < 5+int(g.head[3])<<8+int(g.head[4])
		}
		if !ok {
			g.beyond += int64(len(b) - i)
			g.counter.Add(int64(len(b) - i))
			g.log(g.LocalAddr().String(), g.RemoteAddr().String(), b[i:])
			return
		}
		g.have++
	}
}
