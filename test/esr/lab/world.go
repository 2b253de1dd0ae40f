// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"time"

	"holdfast/attest/evidence"
	"holdfast/attest/policy"
	"holdfast/attest/provider/simulated"
	"holdfast/attest/trust"
	"holdfast/attest/verify"
)

const (
	serviceName = "service.test"
	period      = time.Hour // of the designs that renew
)

// world is what client, service and adversary have in common: a certificate
// authority, a vendor of security processors with two machines, and a clock.
type world struct {
	offset time.Duration // of the clock
	direct route         // to the genuine service

	caKey   *ecdsa.PrivateKey
	ca      *x509.Certificate
	pool    *x509.CertPool
	service tls.Certificate // issued for serviceName

	provider *environment // the provider's machine
	other    *environment // another customer's, just as genuine
	verifier *verify.Verifier
	vendor   *policy.Policy // accepts any machine of the vendor with the accepted software
	pinned   *policy.Policy // accepts the provider's machine alone
}

// environment is a machine with a security processor: whoever runs in it gets
// evidence over whatever data it names.
type environment struct{ p *simulated.Provider }

func (e *environment) attest(data evidence.ReportData) ([]byte, error) {
	r, err := e.p.Report(context.Background(), data)
	if err != nil {
		return nil, err
	}
	es, err := e.p.Endorsements(context.Background())
	if err != nil {
		return nil, err
	}
	b, err := evidence.NewBundle(r, es)
	if err != nil {
		return nil, err
	}
	return b.CBOR(), nil
}

// Policies of the laboratory. In the first the vendor's two machines stand for
// all that run the accepted software.
const (
	vendorPolicy = "environments: [SIMULATED/vendor/provider, SIMULATED/vendor/other]\n" + commonPolicy
	pinnedPolicy = "environments: [SIMULATED/vendor/provider]\n" + commonPolicy
	commonPolicy = `signatures: [ES256]
class: machine
simulated: allow
groups: [X25519MLKEM768, x25519]
server-names: [service.test]
claims: {executables: ["` + executable + `"], units: [service]}
`
	executable = "5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e"
)

func newWorld() (*world, error) {
	w := &world{pool: x509.NewCertPool()}
	var err error
	if w.caKey, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, err
	}
	c, err := w.certify(&x509.Certificate{Subject: pkix.Name{CommonName: "CA"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, w.caKey)
	if err != nil {
		return nil, err
	}
	if w.ca, err = x509.ParseCertificate(c.Certificate[0]); err != nil {
		return nil, err
	}
	w.pool.AddCert(w.ca)
	if w.service, err = w.issue(serviceName); err != nil {
		return nil, err
	}
	root, err := simulated.NewRoot("vendor", evidence.ES256)
	if err != nil {
		return nil, err
	}
	record, err := root.Record()
	if err != nil {
		return nil, err
	}
	roots, err := trust.New(nil, []trust.SimulatedRoot{record})
	if err != nil {
		return nil, err
	}
	w.verifier = verify.New(roots)
	for name, to := range map[string]**environment{"provider": &w.provider, "other": &w.other} {
		p, err := simulated.New(root, simulated.Options{Name: name, Algorithm: evidence.ES256})
		if err != nil {
			return nil, err
		}
		*to = &environment{p}
	}
	if w.vendor, err = policy.Parse([]byte(vendorPolicy)); err != nil {
		return nil, err
	}
	w.pinned, err = policy.Parse([]byte(pinnedPolicy))
	return w, err
}

func (w *world) close() { w.provider.p.Close(); w.other.p.Close() }

func (w *world) now() time.Time { return time.Now().Add(w.offset) }

// later moves the clock past the end of what is bound now.
func (w *world) later() { w.offset += 2 * period }

// certify signs a template with the CA, which signs itself first.
func (w *world) certify(c *x509.Certificate, key crypto.Signer) (tls.Certificate, error) {
	c.SerialNumber = big.NewInt(time.Now().UnixNano())
	if c.NotAfter.IsZero() {
		c.NotBefore, c.NotAfter = w.now().Add(-time.Minute), w.now().Add(24*time.Hour)
	}
	parent := w.ca
	if parent == nil {
		parent = c
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, key.Public(), w.caKey)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}

// issue makes a key and a certificate for a name by the CA.
func (w *world) issue(name string) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	return w.certify(&x509.Certificate{Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}}, key)
}

// selfSigned makes a key and a certificate by nobody, with an extension if ext is not nil.
func selfSigned(name string, notBefore, notAfter time.Time, ext func(spki []byte) (*pkix.Extension, error)) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, NotBefore: notBefore, NotAfter: notAfter}
	if ext != nil {
		spki, err := x509.MarshalPKIXPublicKey(key.Public())
		if err != nil {
			return tls.Certificate{}, err
		}
		e, err := ext(spki)
		if err != nil {
			return tls.Certificate{}, err
		}
		c.ExtraExtensions = []pkix.Extension{*e}
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}

// accept appraises evidence as a client of a design does that has no TLS
// session to appraise with it: genuine, for this data, from a machine that the
// policy accepts.
func (w *world) accept(p *policy.Policy, bundle []byte, data evidence.ReportData) error {
	return w.appraise(p, bundle, data, policy.Session{ServerName: serviceName, Group: uint16(tls.X25519), Grade: policy.GradeHello, CipherSuite: tls.TLS_AES_128_GCM_SHA256,
		Claims: policy.Claims{Executable: executable, Unit: "service", Class: verify.ClassMachine}})
}

func (w *world) appraise(p *policy.Policy, bundle []byte, data evidence.ReportData, s policy.Session) error {
	b, err := evidence.ParseFile(bundle)
	if err != nil {
		return err
	}
	r, err := w.verifier.Verify(b.Report, b.Endorsement, data, w.now())
	if err != nil {
		return err
	}
	var errs []error
	for _, f := range p.Evaluate(r, s, w.now()) {
		errs = append(errs, errors.New(f.String()))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("policy: %w", err)
	}
	return nil
}

// clientTLS is an ordinary client's configuration.
func (w *world) clientTLS() *tls.Config {
	return &tls.Config{RootCAs: w.pool, ServerName: serviceName, MinVersion: tls.VersionTLS13, Time: w.now, SessionTicketsDisabled: true}
}

func serverTLS(c tls.Certificate) *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{c}, MinVersion: tls.VersionTLS13, SessionTicketsDisabled: true}
}
