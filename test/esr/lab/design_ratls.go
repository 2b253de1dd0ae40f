// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"holdfast/attest/evidence"
)

var raTLSLong = Design{
	Name: "RA-TLS, long-lived key", Identity: "freely generated", Environment: "vendor-attested", Receiving: "TLS authentication key", Overlap: "yes: the key is both", Scope: "long-lived",
	build: func(w *world) system { return &raTLS{w: w, life: 10 * 365 * 24 * time.Hour} },
}

var raTLSPeriodic = Design{
	Name: "RA-TLS, renewed", Identity: "freely generated", Environment: "vendor-attested", Receiving: "TLS authentication key", Overlap: "yes: the key is both", Scope: "periodic",
	build: func(w *world) system { return &raTLS{w: w, life: period} },
}

// raTLS is TLS with a certificate that carries evidence over its own key and
// dates; there is no certificate authority. The key is made in the machine.
type raTLS struct {
	w    *world
	life time.Duration
	cert tls.Certificate
}

var evidenceOID = asn1.ObjectIdentifier{2, 999, 1} // an example arc

// raData is what the evidence of a certificate is over.
func raData(spki []byte, notBefore, notAfter time.Time) (d evidence.ReportData) {
	h := sha256.New()
	h.Write([]byte("lab/ra-tls\x00"))
	h.Write(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, uint64(notBefore.Unix())), uint64(notAfter.Unix())))
	h.Write(spki)
	copy(d[:], h.Sum(nil))
	return d
}

// makeRA makes a key in a machine and a certificate with its evidence.
func (s *raTLS) makeRA(in *environment) (tls.Certificate, error) {
	from := s.w.now().Add(-time.Minute).Truncate(time.Second)
	to := from.Add(s.life)
	return selfSigned(serviceName, from, to, func(spki []byte) (*pkix.Extension, error) {
		b, err := in.attest(raData(spki, from, to))
		return &pkix.Extension{Id: evidenceOID, Value: b}, err
	})
}

func (s *raTLS) renew() (err error) {
	if s.cert.Certificate != nil && s.life > period {
		return nil
	}
	s.cert, err = s.makeRA(s.w.provider)
	return err
}

func (s *raTLS) steal() *loot { return &loot{ra: s.cert} }

// check is the client's: the evidence is for this key and these dates.
func (s *raTLS) check(c *x509.Certificate) error {
	if now := s.w.now(); now.Before(c.NotBefore) || now.After(c.NotAfter) {
		return fmt.Errorf("RA-TLS: the certificate is good until %s, it is %s", c.NotAfter.Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	}
	for _, e := range c.Extensions {
		if e.Id.Equal(evidenceOID) {
			return s.w.accept(s.w.vendor, e.Value, raData(c.RawSubjectPublicKeyInfo, c.NotBefore, c.NotAfter))
		}
	}
	return errors.New("RA-TLS: the certificate has no evidence")
}

func (s *raTLS) clientConfig() *tls.Config {
	return &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13, SessionTicketsDisabled: true, ServerName: serviceName,
		VerifyConnection: func(cs tls.ConnectionState) error { return s.check(cs.PeerCertificates[0]) }}
}

func (s *raTLS) genuine(c *conn) error {
	t, err := handshake(c, serverTLS(s.cert))
	if err != nil {
		return err
	}
	return serveApp(t)
}

func (s *raTLS) client(ctx context.Context, r route, request string) (string, error) {
	c, err := dialTLS(ctx, r.service, s.clientConfig())
	if err != nil {
		return "", err
	}
	defer c.Close()
	return ask(c, request)
}

// certificates are those that an adversary can show with powers p. copied says
// which power copies the key: it is the service's certificate key and the
// receiving state in one, unless RA-TLS is only the tunnel.
func (s *raTLS) certificates(p Power, stolen *loot, copied Power) map[string]tls.Certificate {
	out := map[string]tls.Certificate{}
	add := func(name string, c tls.Certificate, err error) {
		if err == nil {
			out[name] = c
		}
	}
	if p&copied != 0 {
		out["copied key and evidence"] = stolen.ra
	}
	if p.has(V) {
		c, err := s.makeRA(s.w.other)
		add("own key, evidence of another genuine machine", c, err)
	}
	if p.has(R) {
		c, err := s.makeRA(s.w.provider)
		add("own key, evidence of the accepted machine", c, err)
	}
	if len(out) == 0 {
		leaf, err := x509.ParseCertificate(s.cert.Certificate[0]) // which any client gets
		if err != nil {
			return out
		}
		c, err := selfSigned(serviceName, leaf.NotBefore, leaf.NotAfter, func([]byte) (*pkix.Extension, error) {
			for _, e := range leaf.Extensions {
				if e.Id.Equal(evidenceOID) {
					return &e, nil
				}
			}
			return nil, errors.New("no evidence")
		})
		add("own key, evidence replayed", c, err)
	}
	return out
}

func (s *raTLS) attacks(p Power, stolen *loot) []attack {
	var out []attack
	for name, cert := range s.certificates(p, stolen, T|B) {
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
