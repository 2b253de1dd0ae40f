// SPDX-License-Identifier: Apache-2.0

package ekcert

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"time"

	"filippo.io/mldsa"
	mldsax509 "filippo.io/mldsa/x509"

	"holdfast/tpm2"
	"holdfast/tss/keyfile"
)

// Verify checks that der is the certificate of the endorsement key ek, and
// that one of the authorities in the PEM text vouches for it: classic
// signatures over any chain, ML-DSA-65 by an authority directly. Self-signed
// certificates in authorities are roots, others help to build the chain.
func Verify(der []byte, ek *tpm2.Public, authorities []byte, now time.Time) error {
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return fmt.Errorf("the endorsement key's certificate: %w", err)
	}
	spki, err := keyfile.MarshalPublic(ek)
	if err != nil {
		return err
	}
	if !bytes.Equal(spki, cert.RawSubjectPublicKeyInfo) {
		return errors.New("the certificate in the TPM is for another key than its endorsement key")
	}
	if cert.IsCA {
		return errors.New("the endorsement key's certificate is one of an authority")
	}
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	found := 0
	for rest := authorities; ; found++ {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		ca, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return fmt.Errorf("authority %d: %w", found+1, err)
		}
		key, _ := mldsax509.ParsePKIXPublicKey(ca.RawSubjectPublicKeyInfo) // which returns classic keys too
		if k, ok := key.(*mldsa.PublicKey); ok {
			if byMLDSA(cert, ca, k, now) {
				return nil
			}
			continue
		}
		if bytes.Equal(ca.RawIssuer, ca.RawSubject) {
			roots.AddCert(ca)
		} else {
			between.AddCert(ca)
		}
	}
	if found == 0 {
		return errors.New("expected certificates of authorities in PEM, found none")
	}
	// The name of the TPM is critical there (EK Credential Profile, 3.2.9), and crypto/x509 does not know directory names.
	cert.UnhandledCriticalExtensions = slices.DeleteFunc(cert.UnhandledCriticalExtensions, oidSubjectAlt.Equal)
	_, err = cert.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	if err != nil {
		return fmt.Errorf("no authority vouches for the endorsement key's certificate (issuer %s): %w", cert.Issuer, err)
	}
	return nil
}

// byMLDSA says whether the authority ca with an ML-DSA key signed cert.
func byMLDSA(cert, ca *x509.Certificate, k *mldsa.PublicKey, now time.Time) bool {
	valid := func(c *x509.Certificate) bool { return !now.Before(c.NotBefore) && !now.After(c.NotAfter) }
	return ca.IsCA && valid(ca) && valid(cert) && bytes.Equal(cert.RawIssuer, ca.RawSubject) &&
		mldsa.Verify(k, cert.RawTBSCertificate, cert.Signature, &mldsa.Options{}) == nil
}
