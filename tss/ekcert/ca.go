// SPDX-License-Identifier: Apache-2.0

package ekcert

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"crypto/x509/pkix"
	encasn1 "encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"time"

	"filippo.io/mldsa"
	mldsax509 "filippo.io/mldsa/x509"
	"golang.org/x/crypto/cryptobyte"
	"golang.org/x/crypto/cryptobyte/asn1"

	"holdfast/tss/keyfile"
)

// CA is a certification authority for tests, in a folder: an ECDSA P-384 key
// for classic keys and an ML-DSA-65 key for post-quantum ones. Its names say
// that it is for tests.
type CA struct{ classic, postQuantum *authority }

// authority is one key of the CA.
type authority struct {
	subject pkix.Name
	key     crypto.Signer
	spki    []byte
	oid     encasn1.ObjectIdentifier // of its signatures
	file    string
}

// lifetime of certificates. No device's clock is a reason to fail a test.
const lifetime = 20 * 365 * 24 * time.Hour

// OpenCA opens the CA in the folder dir, or makes one there (mode 0700): keys
// in ca-*.key.pem with mode 0600, certificates in ca-*.pem.
func OpenCA(dir string) (*CA, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("ekcert: folder of the CA: %w", err)
	}
	classic, err := openAuthority(filepath.Join(dir, "ca-ecdsa"), "Holdfast test CA (ECDSA), not for production",
		encasn1.ObjectIdentifier{1, 2, 840, 10045, 4, 3, 3}, func() (crypto.Signer, error) { return ecdsa.GenerateKey(elliptic.P384(), rand.Reader) })
	if err != nil {
		return nil, err
	}
	pq, err := openAuthority(filepath.Join(dir, "ca-mldsa65"), "Holdfast test CA (ML-DSA-65), not for production",
		encasn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 3, 18}, func() (crypto.Signer, error) { return mldsa.GenerateKey(mldsa.MLDSA65()) })
	if err != nil {
		return nil, err
	}
	return &CA{classic, pq}, nil
}

func openAuthority(file, name string, oid encasn1.ObjectIdentifier, generate func() (crypto.Signer, error)) (*authority, error) {
	a := &authority{subject: pkix.Name{CommonName: name, Organization: []string{"Holdfast test"}}, oid: oid, file: file}
	b, err := os.ReadFile(file + ".key.pem")
	defer clear(b)
	made := errors.Is(err, fs.ErrNotExist)
	switch {
	case made:
		if a.key, err = generate(); err != nil {
			return nil, fmt.Errorf("ekcert: %w", err)
		}
	case err != nil:
		return nil, fmt.Errorf("ekcert: key of the CA: %w", err)
	default:
		if a.key, err = readKey(b); err != nil {
			return nil, fmt.Errorf("ekcert: %s.key.pem: %w", file, err)
		}
		if _, isMLDSA := a.key.(*mldsa.PrivateKey); isMLDSA != (oid[0] == 2) {
			return nil, fmt.Errorf("ekcert: %s.key.pem: a key of another kind than the file's name says", file)
		}
	}
	if a.spki, err = mldsax509.MarshalPKIXPublicKey(a.key.Public()); err != nil {
		return nil, fmt.Errorf("ekcert: %w", err)
	}
	if !made {
		return a, nil
	}
	der, err := a.issue(&x509.Certificate{
		Subject: a.subject, IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}, a.spki)
	if err != nil {
		return nil, err
	}
	key, err := mldsax509.MarshalPKCS8PrivateKey(a.key)
	if err != nil {
		return nil, fmt.Errorf("ekcert: %w", err)
	}
	defer clear(key)
	// The certificate first: a key without one would be taken for a whole CA.
	if err := os.WriteFile(file+".pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644); err != nil {
		return nil, fmt.Errorf("ekcert: %w", err)
	}
	if err := os.WriteFile(file+".key.pem", keyfile.Encode(keyfile.PEMPrivate, key), 0o600); err != nil {
		return nil, fmt.Errorf("ekcert: %w", err)
	}
	return a, nil
}

func readKey(file []byte) (crypto.Signer, error) {
	kind, der, err := keyfile.Decode(file)
	if err != nil {
		return nil, err
	}
	defer clear(der)
	if kind != keyfile.PEMPrivate {
		return nil, fmt.Errorf("expected a PEM block %q, got %q", keyfile.PEMPrivate, kind)
	}
	key, err := mldsax509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, err
	}
	s, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("a key of type %T does not sign", key)
	}
	return s, nil
}

// issue makes a certificate for the key spki. crypto/x509 knows neither
// ML-KEM nor ML-DSA, so it makes one for a stand-in key with a stand-in
// signature; then the key and the signature are put in their places.
func (a *authority) issue(t *x509.Certificate, spki []byte) ([]byte, error) {
	serial := make([]byte, 16)
	if _, err := rand.Read(serial); err != nil {
		return nil, err
	}
	serial[0] &= 0x7f
	now := time.Now()
	t.SerialNumber, t.NotBefore, t.NotAfter = new(big.Int).SetBytes(serial), now.Add(-time.Hour), now.Add(lifetime)
	t.SubjectKeyId = keyID(spki)
	standIn, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	parent := &x509.Certificate{Subject: a.subject, SubjectKeyId: keyID(a.spki)}
	der, err := x509.CreateCertificate(rand.Reader, t, parent, &standIn.PublicKey, standIn)
	if err != nil {
		return nil, fmt.Errorf("ekcert: %w", err)
	}
	tbs, err := a.replace(der, spki)
	if err != nil {
		return nil, err
	}
	var sig []byte
	if k, ok := a.key.(*mldsa.PrivateKey); ok {
		sig, err = k.Sign(nil, tbs, &mldsa.Options{})
	} else {
		d := sha512.Sum384(tbs)
		sig, err = a.key.Sign(rand.Reader, d[:], crypto.SHA384)
	}
	if err != nil {
		return nil, fmt.Errorf("ekcert: signing: %w", err)
	}
	var b cryptobyte.Builder
	b.AddASN1(asn1.SEQUENCE, func(b *cryptobyte.Builder) {
		b.AddBytes(tbs)
		a.addAlgorithm(b)
		b.AddASN1BitString(sig)
	})
	return b.Bytes()
}

func keyID(spki []byte) []byte {
	d := sha256.Sum256(spki)
	return d[:20] // RFC 7093, section 2, method 4
}

func (a *authority) addAlgorithm(b *cryptobyte.Builder) {
	b.AddASN1(asn1.SEQUENCE, func(b *cryptobyte.Builder) { b.AddASN1ObjectIdentifier(a.oid) })
}

// replace returns the TBSCertificate (RFC 5280, 4.1) of der with our signature
// algorithm and the key spki.
func (a *authority) replace(der, spki []byte) ([]byte, error) {
	in := cryptobyte.String(der)
	var cert, tbs, version, serial, issuer, validity, subject cryptobyte.String
	if !in.ReadASN1(&cert, asn1.SEQUENCE) || !cert.ReadASN1(&tbs, asn1.SEQUENCE) ||
		!tbs.ReadASN1Element(&version, asn1.Tag(0).ContextSpecific().Constructed()) || !tbs.ReadASN1Element(&serial, asn1.INTEGER) ||
		!tbs.SkipASN1(asn1.SEQUENCE) || !tbs.ReadASN1Element(&issuer, asn1.SEQUENCE) || !tbs.ReadASN1Element(&validity, asn1.SEQUENCE) ||
		!tbs.ReadASN1Element(&subject, asn1.SEQUENCE) || !tbs.SkipASN1(asn1.SEQUENCE) {
		return nil, errors.New("ekcert: the certificate made by crypto/x509 does not have the parts of RFC 5280")
	}
	var b cryptobyte.Builder
	b.AddASN1(asn1.SEQUENCE, func(b *cryptobyte.Builder) {
		b.AddBytes(version)
		b.AddBytes(serial)
		a.addAlgorithm(b)
		b.AddBytes(issuer)
		b.AddBytes(validity)
		b.AddBytes(subject)
		b.AddBytes(spki)
		b.AddBytes(tbs) // extensions
	})
	return b.Bytes()
}
