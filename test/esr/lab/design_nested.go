// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"crypto/tls"
)

var nested = Design{
	Name: "nested tunnel", Identity: "freely generated (tunnel) and service-restricted (inside)", Environment: "vendor-attested", Receiving: "the tunnel's authentication key", Overlap: "no", Scope: "periodic",
	build: func(w *world) system { return &nestedTLS{w: w, tunnel: &raTLS{w: w, life: period}} },
}

// nestedTLS is the service's own TLS, unchanged, inside a tunnel of RA-TLS that
// is renewed: two layers of encryption.
type nestedTLS struct {
	w      *world
	tunnel *raTLS
}

func (s *nestedTLS) renew() error { return s.tunnel.renew() }
func (s *nestedTLS) steal() *loot { return &loot{cert: s.w.service, ra: s.tunnel.cert} }

func (s *nestedTLS) genuine(c *conn) error {
	outer, err := handshake(c, serverTLS(s.tunnel.cert))
	if err != nil {
		return err
	}
	inner, err := handshake(outer, serverTLS(s.w.service))
	if err != nil {
		return err
	}
	return serveApp(inner)
}

func (s *nestedTLS) client(ctx context.Context, r route, request string) (string, error) {
	outer, err := dialTLS(ctx, r.service, s.tunnel.clientConfig())
	if err != nil {
		return "", err
	}
	defer outer.Close()
	inner := tls.Client(outer, s.w.clientTLS())
	if err := inner.HandshakeContext(ctx); err != nil {
		return "", err
	}
	return ask(inner, request)
}

func (s *nestedTLS) attacks(p Power, stolen *loot) []attack {
	var out []attack
	for outerName, outerCert := range s.tunnel.certificates(p, stolen, B) {
		for innerName, innerCert := range serviceCerts(s.w, p, stolen) {
			out = append(out, attack{"tunnel: " + outerName + "; inside: " + innerName, func(c *conn, note func(string)) error {
				outer, err := handshake(c, serverTLS(outerCert))
				if err != nil {
					return err
				}
				inner, err := handshake(outer, serverTLS(innerCert))
				if err != nil {
					return err
				}
				return readThrough(inner, note, s.w.asClient(s))
			}})
		}
	}
	return out
}
