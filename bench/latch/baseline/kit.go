// SPDX-License-Identifier: Apache-2.0

package baseline

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"sync"
	"time"

	"holdfast/attest/evidence"
	"holdfast/attest/policy"
	"holdfast/attest/provider"
	"holdfast/attest/provider/simulated"
	"holdfast/attest/trust"
	"holdfast/attest/verify"
	"holdfast/internal/hot"
)

// ServiceName is the name in the certificate of the benchmark's servers.
const ServiceName = "bench.holdfast.test"

// Names of the two SIMULATED machines: roots and environments.
const (
	machine = "bench-server"
	patron  = "bench-client"
)

// Kit is a folder with what the ends of all designs share: the service's
// certificate, a trust file, the roots of two SIMULATED machines, and the
// endorsements of their report keys, by hash. The last stand for the chains
// that a client keeps from an earlier connection.
type Kit struct {
	Dir     string
	Group   string        // key exchange: a key of Groups
	Latency time.Duration // of one SIMULATED report

	cert     tls.Certificate
	pool     *x509.CertPool
	verifier *verify.Verifier
	accept   map[string]*policy.Policy // by machine
	now      func() time.Time

	mu     sync.Mutex
	known  map[[32]byte]evidence.Endorsement
	judged map[judgement]error // of reports that several sessions share
}

// Groups are the key exchanges that can be asked for by name.
var Groups = map[string][]tls.CurveID{
	"x25519":         {tls.X25519},
	"x25519mlkem768": {tls.X25519MLKEM768, tls.X25519},
}

// policyText accepts one SIMULATED machine. Designs without an agent make no
// claims; the two that a policy must name are given as what the verifier knows.
const policyText = `version: 1
environments: [SIMULATED/%[1]s/%[1]s]
signatures: [ES256]
simulated: allow
measurements: none
class: machine
groups: [X25519MLKEM768, x25519]
server-names: [` + ServiceName + `]
claims: {units: [%[1]s]}
`

const (
	certFile  = "cert.pem"
	keyFile   = "key.pem"
	trustFile = "trust.yaml"
)

// NewKit fills an empty folder, which only its owner may read.
func NewKit(dir string) error {
	cert, err := selfSigned(nil)
	if err != nil {
		return err
	}
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		return err
	}
	defer clear(key)
	files := map[string][]byte{
		certFile: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]}),
		keyFile:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
	}
	var records []trust.SimulatedRoot
	for _, name := range []string{machine, patron} {
		root, err := simulated.NewRoot(name, evidence.ES256)
		if err != nil {
			return err
		}
		record, err := root.Record()
		if err != nil {
			return err
		}
		records = append(records, record)
		if files[name+".root"], err = root.Encode(); err != nil {
			return err
		}
	}
	roots, err := trust.New(nil, records)
	if err != nil {
		return err
	}
	if files[trustFile], err = roots.Encode(); err != nil {
		return err
	}
	for name, b := range files {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// OpenKit reads a kit. Processes that open one sleep for SIMULATED reports as
// in a device driver, so that other goroutines run meanwhile.
func OpenKit(dir, group string, latency time.Duration) (*Kit, error) {
	if Groups[group] == nil {
		return nil, fmt.Errorf("group %q, expected x25519 or x25519mlkem768", group)
	}
	hot.Cool()
	k := &Kit{Dir: dir, Group: group, Latency: latency, pool: x509.NewCertPool(), now: time.Now, accept: map[string]*policy.Policy{},
		known: map[[32]byte]evidence.Endorsement{}, judged: map[judgement]error{}}
	var err error
	if k.cert, err = tls.LoadX509KeyPair(filepath.Join(dir, certFile), filepath.Join(dir, keyFile)); err != nil {
		return nil, err
	}
	k.pool.AddCert(k.cert.Leaf)
	roots, err := trust.Load(filepath.Join(dir, trustFile))
	if err != nil {
		return nil, err
	}
	k.verifier = verify.New(roots)
	for _, name := range []string{machine, patron} {
		if k.accept[name], err = policy.Parse(fmt.Appendf(nil, policyText, name)); err != nil {
			return nil, err
		}
	}
	return k, nil
}

// Certificate is the service's, in PEM.
func (k *Kit) Certificate() string { return filepath.Join(k.Dir, certFile) }

// processor makes one of the SIMULATED machines' processors with a fresh
// report key, and leaves the key's endorsement in the kit.
func (k *Kit) processor(name string) (provider.Provider, error) {
	b, err := os.ReadFile(filepath.Join(k.Dir, name+".root"))
	if err != nil {
		return nil, err
	}
	root, err := simulated.ParseRoot(b)
	clear(b)
	if err != nil {
		return nil, err
	}
	p, err := simulated.New(root, simulated.Options{Name: name, Algorithm: evidence.ES256, Latency: k.Latency})
	if err != nil {
		return nil, err
	}
	es, err := p.Endorsements(context.Background())
	for _, e := range es {
		err = errors.Join(err, k.keep(e))
	}
	return p, err
}

func (k *Kit) endorsementFile(h [32]byte) string {
	return filepath.Join(k.Dir, fmt.Sprintf("endorsement-%x", h))
}

func (k *Kit) keep(e evidence.Endorsement) error {
	h := e.Hash()
	k.mu.Lock()
	k.known[h] = e
	k.mu.Unlock()
	// under another name first: the other end may look at any moment
	f := k.endorsementFile(h)
	if err := os.WriteFile(f+".new", append([]byte(e.Type+"\n"), e.Body...), 0o600); err != nil {
		return err
	}
	return os.Rename(f+".new", f)
}

// endorsement finds an endorsement that this process has seen, or that is in
// the kit.
func (k *Kit) endorsement(h [32]byte) (evidence.Endorsement, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if e, ok := k.known[h]; ok {
		return e, true
	}
	b, err := os.ReadFile(k.endorsementFile(h))
	if err != nil {
		return evidence.Endorsement{}, false
	}
	e := evidence.Endorsement{}
	for i, c := range b {
		if c == '\n' {
			e.Type, e.Body = string(b[:i]), b[i+1:]
			break
		}
	}
	if e.Hash() != h {
		return evidence.Endorsement{}, false
	}
	k.known[h] = e
	return e, true
}

func (k *Kit) serverTLS() *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{k.cert}, MinVersion: tls.VersionTLS13, SessionTicketsDisabled: true, CurvePreferences: Groups["x25519mlkem768"]}
}

func (k *Kit) clientTLS() *tls.Config {
	return &tls.Config{RootCAs: k.pool, ServerName: ServiceName, MinVersion: tls.VersionTLS13, CurvePreferences: Groups[k.Group]}
}

// selfSigned makes a P-256 key and a certificate for the service; more may
// add to the template, given the key's SubjectPublicKeyInfo.
func selfSigned(more func(t *x509.Certificate, spki []byte) error) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	t := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: ServiceName}, DNSNames: []string{ServiceName},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	if more != nil {
		spki, err := x509.MarshalPKIXPublicKey(key.Public())
		if err != nil {
			return tls.Certificate{}, err
		}
		if err := more(t, spki); err != nil {
			return tls.Certificate{}, err
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, t, t, &key.PublicKey, key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}
