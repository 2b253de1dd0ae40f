// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"crypto/tls"
	"io"
	"net"
)

// recorder keeps what is read until it is told to stop.
type recorder struct {
	net.Conn
	kept    []byte
	stopped bool
}

func (r *recorder) Read(p []byte) (int, error) {
	n, err := r.Conn.Read(p)
	if !r.stopped {
		r.kept = append(r.kept, p[:n]...)
	}
	return n, err
}

// decoy ends the client's session with a certificate of the adversary's, and
// passes the client's ClientHello, bit for bit, to the genuine service, so that the
// agent there sees the very hello that the gate announces and attests its
// own answer to it.
func (s *latchSystem) decoy(c *conn, cert tls.Certificate, note func(string)) error {
	rec := &recorder{Conn: c.Conn}
	conf := serverTLS(cert)
	var d net.Conn
	conf.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		rec.stopped = true
		var err error
		if d, err = s.w.dialDirect(false)(); err != nil {
			return nil, err
		}
		if _, err = d.Write(rec.kept); err == nil {
			_, err = io.ReadFull(d, make([]byte, 16)) // the service has answered, so its agent knows
		}
		return nil, err
	}
	defer func() {
		if d != nil {
			d.Close()
		}
	}()
	t, err := handshake(rec, conf)
	if err != nil {
		return err
	}
	return readThrough(t, note, s.w.asClient(s))
}
