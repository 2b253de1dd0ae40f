// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"math/big"
	"os"
	"time"
)

// pair is the service's certificate with its key, which the adversary has too.
type pair struct{ Certificate, Key []byte }

func writeCertificate(file string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	t := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(24 * time.Hour), DNSNames: []string{serverName(0), serverName(1)}}
	der, err := x509.CreateCertificate(rand.Reader, t, t, key.Public(), key)
	if err != nil {
		return err
	}
	k, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	b, err := json.Marshal(pair{der, k})
	if err != nil {
		return err
	}
	return os.WriteFile(file, b, 0o600)
}

func readCertificate(file string) (tls.Certificate, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return tls.Certificate{}, err
	}
	var p pair
	if err := unmarshal(string(b), &p); err != nil {
		return tls.Certificate{}, err
	}
	key, err := x509.ParseECPrivateKey(p.Key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{p.Certificate}, PrivateKey: key}, nil
}

func unmarshal(s string, v any) error { return json.Unmarshal([]byte(s), v) }
