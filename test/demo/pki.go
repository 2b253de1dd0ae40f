// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"time"
)

// Names of the files that makePKI writes.
const (
	caFile   = "ca.pem"
	certFile = "service.pem"
	keyFile  = "service.key"
	// of the process without privileges, which may read them
	strangerFile = "stranger.pem"
	strangerKey  = "stranger.key"
)

// makePKI writes a certificate authority of our own and a certificate of the
// service, valid for a day. The adversary of the demo gets a copy of the key.
func makePKI(dir, name string) error {
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	now := time.Now()
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Holdfast demo CA"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, &caKey.PublicKey, caKey)
	if err != nil {
		return err
	}
	leaf, leafKey, err := issue(ca, caKey, name, 2)
	if err != nil {
		return err
	}
	stranger, strangersKey, err := issue(ca, caKey, "stranger.holdfast.test", 3)
	if err != nil {
		return err
	}
	for _, f := range []struct {
		name, kind string
		der        []byte
		mode       os.FileMode
	}{{caFile, "CERTIFICATE", caDER, 0o644}, {certFile, "CERTIFICATE", leaf, 0o644}, {keyFile, "PRIVATE KEY", leafKey, 0o600},
		{strangerFile, "CERTIFICATE", stranger, 0o644}, {strangerKey, "PRIVATE KEY", strangersKey, 0o644}} {
		if err := os.WriteFile(filepath.Join(dir, f.name), pem.EncodeToMemory(&pem.Block{Type: f.kind, Bytes: f.der}), f.mode); err != nil {
			return err
		}
	}
	return nil
}

// issue makes a key and its certificate, both DER.
func issue(ca *x509.Certificate, caKey *ecdsa.PrivateKey, name string, serial int64) (cert, key []byte, err error) {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, NotBefore: ca.NotBefore, NotAfter: ca.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if cert, err = x509.CreateCertificate(rand.Reader, leaf, ca, &k.PublicKey, caKey); err != nil {
		return nil, nil, err
	}
	key, err = x509.MarshalPKCS8PrivateKey(k)
	return cert, key, err
}
