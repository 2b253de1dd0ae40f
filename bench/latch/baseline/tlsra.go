// SPDX-License-Identifier: Apache-2.0

package baseline

import (
	"crypto/tls"
	"io"
	"net"
)

var (
	tlsRA        = raDesign("tls-ra", "TLS+RA, a report a session", oneSided, newSerial)
	tlsRABatched = raDesign("tls-ra-batched", "TLS+RA with group commit", oneSided, newGrouped)

	mutualInOrder = raDesign("mutual-tls-ra", "mutual TLS+RA, client first", clientFirst, newSerial)
	mutualAtOnce  = raDesign("mutual-tls-ra-at-once", "mutual TLS+RA, both at once", atOnce, newSerial)
)

// order says who gives evidence, and when.
type order int

const (
	oneSided    order = iota // the server
	clientFirst              // both; the server's machine attests after it has accepted the client's, and signs whom it accepted, as the latch's does
	atOnce                   // both, each when its handshake is complete
)

func raDesign(name, title string, o order, own func(*Kit, string) (reporter, error)) Design {
	return Design{
		Name: name, Title: title, Attests: true,
		server: func(k *Kit) (Server, error) {
			r, err := own(k, machine)
			return &raServer{k, o, k.serverTLS(), r}, err
		},
		client: func(k *Kit) (Client, error) {
			c := &raClient{k: k, order: o, conf: k.clientTLS()}
			var err error
			if o != oneSided {
				c.own, err = own(k, patron)
			}
			return c, err
		},
	}
}

// TLS+RA is TLS with a certificate, and inside the session evidence over its
// exporter before the request. Both ends are changed for it. The exporter is
// fresh by both randoms, so no nonce is sent: who attests does so as soon as
// its handshake is complete, and pushes.
type (
	raServer struct {
		k     *Kit
		order order
		conf  *tls.Config
		own   reporter
	}
	raClient struct {
		k     *Kit
		order order
		conf  *tls.Config
		own   reporter
	}
)

func (s *raServer) Accept(c net.Conn) (io.ReadWriter, error) {
	t := tls.Server(c, s.conf)
	if err := t.Handshake(); err != nil {
		return nil, err
	}
	client, err := leafOfSession(t, "tls-ra/client", nil)
	if err != nil {
		return nil, err
	}
	var accepted [32]byte // what the server signs of the client
	if s.order == clientFirst {
		if err := receive(t, s.k, patron, client); err != nil {
			return nil, err
		}
		accepted = client
	}
	server, err := leafOfSession(t, "tls-ra/server", accepted[:])
	if err != nil {
		return nil, err
	}
	if s.order != atOnce {
		return t, send(t, s.own, server)
	}
	sent, own := make(chan error, 1), s.own
	go func() { sent <- send(t, own, server) }()
	if err := receive(t, s.k, patron, client); err != nil {
		return nil, err
	}
	return t, <-sent
}

func (c *raClient) Connect(conn net.Conn) (Stream, error) {
	t := tls.Client(conn, c.conf)
	if err := t.Handshake(); err != nil {
		return nil, err
	}
	client, err := leafOfSession(t, "tls-ra/client", nil)
	if err != nil {
		return nil, err
	}
	var accepted [32]byte
	sent, own := make(chan error, 1), c.own
	switch c.order {
	case oneSided:
		sent <- nil
	case clientFirst:
		accepted = client
		sent <- send(t, own, client)
	case atOnce:
		go func() { sent <- send(t, own, client) }()
	}
	server, err := leafOfSession(t, "tls-ra/server", accepted[:])
	if err != nil {
		return nil, err
	}
	if err := receive(t, c.k, machine, server); err != nil {
		return nil, err
	}
	return t, <-sent
}

// leafOfSession is the leaf of one role in a session.
func leafOfSession(t *tls.Conn, role string, accepted []byte) ([32]byte, error) {
	cs := t.ConnectionState()
	b, err := cs.ExportKeyingMaterial("EXPORTER-bench-tls-ra", nil, 32)
	return leafOf(role, b, accepted), err
}

func send(w io.Writer, own reporter, leaf [32]byte) error {
	p, err := own.prove(leaf)
	if err != nil {
		return err
	}
	_, err = w.Write(p.encode())
	return err
}

func receive(r io.Reader, k *Kit, from string, leaf [32]byte) error {
	p, err := readProof(r)
	if err != nil {
		return err
	}
	return k.check(from, p, leaf)
}
