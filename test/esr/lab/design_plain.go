// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"crypto/tls"
)

var plainTLS = Design{
	Name: "plain TLS", Identity: "service-restricted", Environment: "ordinary", Receiving: "none beyond the session", Overlap: "-", Scope: "-",
	build: func(w *world) system { return &plain{w} },
}

// plain is TLS 1.3 with a certificate, and nothing else.
type plain struct{ w *world }

func (s *plain) renew() error { return nil }
func (s *plain) steal() *loot { return &loot{cert: s.w.service} }

func (s *plain) genuine(c *conn) error {
	t, err := handshake(c, serverTLS(s.w.service))
	if err != nil {
		return err
	}
	return serveApp(t)
}

func (s *plain) client(ctx context.Context, r route, request string) (string, error) {
	c, err := dialTLS(ctx, r.service, s.w.clientTLS())
	if err != nil {
		return "", err
	}
	defer c.Close()
	return ask(c, request)
}

func (s *plain) attacks(p Power, stolen *loot) []attack {
	var out []attack
	for name, cert := range serviceCerts(s.w, p, stolen) {
		out = append(out, attack{name, func(c *conn, note func(string)) error {
			t, err := handshake(c, serverTLS(cert))
			if err != nil {
				return err
			}
			return readThrough(t, note, s.w.asClient(s))
		}})
	}
	return out
}

// serviceCerts are the certificates that an adversary can show for the
// service: the stolen one, or else one of its own name by the same authority.
func serviceCerts(w *world, p Power, stolen *loot) map[string]tls.Certificate {
	if p.has(T) {
		return map[string]tls.Certificate{"stolen certificate key": stolen.cert}
	}
	own, err := w.issue("adversary.test")
	if err != nil {
		return nil
	}
	return map[string]tls.Certificate{"certificate of another name": own}
}
