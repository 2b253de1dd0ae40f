// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"io"

	"holdfast/attest/evidence"
)

var tlsPlusRA = Design{
	Name: "TLS+RA", Identity: "service-restricted", Environment: "vendor-attested", Receiving: "the session's ECDHE secret", Overlap: "no", Scope: "per-session",
	build: func(w *world) system { return &tlsRA{plain{w}} },
}

// tlsRA is TLS with a certificate, and before the request an exchange inside
// the session: the client's nonce, then evidence over the session's exporter.
// Client and service are changed for it.
type tlsRA struct{ plain }

// exporterData is what the evidence of a session is over.
func exporterData(c *tls.Conn, nonce []byte) (d evidence.ReportData, err error) {
	cs := c.ConnectionState()
	b, err := cs.ExportKeyingMaterial("EXPORTER-lab-tls-ra", nonce, 32)
	copy(d[:], b)
	return d, err
}

func (s *tlsRA) genuine(c *conn) error {
	t, err := handshake(c, serverTLS(s.w.service))
	if err != nil {
		return err
	}
	if err := s.sendEvidence(t, s.w.provider); err != nil {
		return err
	}
	return serveApp(t)
}

// sendEvidence answers a client's nonce with evidence of a machine over the session.
func (s *tlsRA) sendEvidence(t *tls.Conn, in *environment) error {
	nonce, err := readHex(t)
	if err != nil {
		return err
	}
	d, err := exporterData(t, nonce)
	if err != nil {
		return err
	}
	b, err := in.attest(d)
	if err != nil {
		return err
	}
	return writeLine(t, hex.EncodeToString(b))
}

func (s *tlsRA) client(ctx context.Context, r route, request string) (string, error) {
	c, err := dialTLS(ctx, r.service, s.w.clientTLS())
	if err != nil {
		return "", err
	}
	defer c.Close()
	nonce := make([]byte, 32)
	rand.Read(nonce)
	b, err := fetchEvidence(c, nonce)
	if err != nil {
		return "", err
	}
	d, err := exporterData(c, nonce)
	if err != nil {
		return "", err
	}
	if err := s.w.accept(s.w.vendor, b, d); err != nil {
		return "", err
	}
	return ask(c, request)
}

// fetchEvidence sends a nonce and reads the evidence.
func fetchEvidence(c io.ReadWriter, nonce []byte) ([]byte, error) {
	if err := writeLine(c, hex.EncodeToString(nonce)); err != nil {
		return nil, err
	}
	return readHex(c)
}

func readHex(r io.Reader) ([]byte, error) {
	l, err := readLine(bufio.NewReader(r))
	if err != nil {
		return nil, err
	}
	b, err := hex.DecodeString(l)
	if err != nil {
		return nil, fmt.Errorf("expected hexadecimal digits: %w", err)
	}
	return b, nil
}

// relayed gets evidence for a client's nonce from the genuine service, over a
// session of the adversary's own.
func (s *tlsRA) relayed(t *tls.Conn) error {
	nonce, err := readHex(t)
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(context.Background(), timeout)
	defer stop()
	g, err := dialTLS(ctx, s.w.direct.service, s.w.clientTLS())
	if err != nil {
		return err
	}
	defer g.Close()
	b, err := fetchEvidence(g, nonce)
	if err != nil {
		return err
	}
	return writeLine(t, hex.EncodeToString(b))
}

func (s *tlsRA) attacks(p Power, stolen *loot) []attack {
	evidence := map[string]func(*tls.Conn) error{"evidence relayed": s.relayed}
	if p.has(V) {
		evidence["evidence of another genuine machine"] = func(t *tls.Conn) error { return s.sendEvidence(t, s.w.other) }
	}
	if p.has(R) {
		evidence["evidence of the accepted machine"] = func(t *tls.Conn) error { return s.sendEvidence(t, s.w.provider) }
	}
	var out []attack
	for certName, cert := range serviceCerts(s.w, p, stolen) {
		for name, send := range evidence {
			out = append(out, attack{certName + ", " + name, func(c *conn, note func(string)) error {
				t, err := handshake(c, serverTLS(cert))
				if err != nil {
					return err
				}
				if err := send(t); err != nil {
					return err
				}
				return readThrough(t, note, s.w.asClient(s))
			}})
		}
	}
	return out
}
