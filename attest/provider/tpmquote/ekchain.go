// SPDX-License-Identifier: Apache-2.0

package tpmquote

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	"filippo.io/mldsa"
	mldsax509 "filippo.io/mldsa/x509"
	"golang.org/x/crypto/cryptobyte"
	cbasn1 "golang.org/x/crypto/cryptobyte/asn1"

	"holdfast/tpm2"
	"holdfast/tss/keyfile"
)

// EKRoots are the makers of TPMs that an enrolment accepts: certificates of
// their roots, and intermediate ones that may stand between.
type EKRoots struct{ roots, middle []*x509.Certificate }

// ParseEKRoots reads PEM certificates: what is signed by itself is a root.
func ParseEKRoots(b []byte) (*EKRoots, error) {
	r := &EKRoots{}
	for {
		var block *pem.Block
		if block, b = pem.Decode(b); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("EK roots: expected certificates, got %s", block.Type)
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("EK roots: %w", err)
		}
		if !c.IsCA || !c.BasicConstraintsValid {
			return nil, fmt.Errorf("EK roots: %s is no certificate of an authority", c.Subject)
		}
		if bytes.Equal(c.RawIssuer, c.RawSubject) {
			if err := signedBy(c, c); err != nil {
				return nil, fmt.Errorf("EK roots: %s: %w", c.Subject, err)
			}
			r.roots = append(r.roots, c)
		} else {
			r.middle = append(r.middle, c)
		}
	}
	if len(bytes.TrimSpace(b)) != 0 || len(r.roots) == 0 {
		return nil, errors.New("EK roots: expected PEM certificates with at least one root, and nothing else")
	}
	return r, nil
}

// ErrEKCertificate is wrapped by every refusal of an endorsement key's certificate.
var ErrEKCertificate = errors.New("enrolment refused: endorsement key certificate")

// ekUsage is tcg-kp-EKCertificate (TCG EK Credential Profile, 3.2.16).
var ekUsage = asn1.ObjectIdentifier{2, 23, 133, 8, 1}

// maxChain bounds the certificates between an EK and its maker's root.
const maxChain = 4

// Check checks that the EK of an identity has a certificate, that it is for
// this very key, and that it leads to one of the roots. It returns the SHA-256
// of that root. Makers publish revocation lists seldom; none is asked here.
func (r *EKRoots) Check(id *Identity, now time.Time) (root [32]byte, err error) {
	refuse := func(format string, args ...any) ([32]byte, error) {
		return [32]byte{}, fmt.Errorf("%w: %w", ErrEKCertificate, fmt.Errorf(format, args...))
	}
	if id.Certificate == nil {
		return refuse("missing: the TPM has none for its key of type %s", id.EKType)
	}
	c, err := x509.ParseCertificate(id.Certificate)
	if err != nil {
		return refuse("malformed: %w", err)
	}
	var ek tpm2.Public
	if err := tpm2.Decode(id.EK, &ek); err != nil {
		return refuse("endorsement key: %w", err)
	}
	spki, err := keyfile.MarshalPublic(&ek)
	if err != nil {
		return refuse("endorsement key: %w", err)
	}
	if !bytes.Equal(spki, c.RawSubjectPublicKeyInfo) {
		return refuse("for another key: the certificate is not for the endorsement key that the TPM uses")
	}
	if c.IsCA {
		return refuse("of an authority, not of a TPM")
	}
	if len(c.ExtKeyUsage)+len(c.UnknownExtKeyUsage) > 0 {
		ok := false
		for _, u := range c.UnknownExtKeyUsage {
			ok = ok || u.Equal(ekUsage)
		}
		if !ok {
			return refuse("for another use: expected tcg-kp-EKCertificate (%v)", ekUsage)
		}
	}
	// The subject's alternative name is critical and holds the TPM's model, which crypto/x509 does not read.
	for _, u := range c.UnhandledCriticalExtensions {
		if !u.Equal(asn1.ObjectIdentifier{2, 5, 29, 17}) {
			return refuse("an unknown critical extension %v", u)
		}
	}
	for depth := 0; ; depth++ {
		if now.Before(c.NotBefore) || now.After(c.NotAfter) {
			return refuse("expired: %s is good from %s to %s", c.Subject, c.NotBefore.Format(time.DateOnly), c.NotAfter.Format(time.DateOnly))
		}
		if p := issuer(c, r.roots); p != nil {
			if now.Before(p.NotBefore) || now.After(p.NotAfter) {
				return refuse("expired: %s is good from %s to %s", p.Subject, p.NotBefore.Format(time.DateOnly), p.NotAfter.Format(time.DateOnly))
			}
			return sha256.Sum256(p.Raw), nil
		}
		p := issuer(c, r.middle)
		if p == nil || depth == maxChain {
			return refuse("unknown maker: nothing given leads from %q to a root", c.Issuer)
		}
		c = p
	}
}

// issuer finds who signed c among given authorities.
func issuer(c *x509.Certificate, among []*x509.Certificate) *x509.Certificate {
	for _, p := range among {
		if bytes.Equal(p.RawSubject, c.RawIssuer) && (p.KeyUsage == 0 || p.KeyUsage&x509.KeyUsageCertSign != 0) && signedBy(c, p) == nil {
			return p
		}
	}
	return nil
}

// signedBy checks one signature: what crypto/x509 knows, and ML-DSA (RFC 9881).
func signedBy(c, parent *x509.Certificate) error {
	if c.SignatureAlgorithm != x509.UnknownSignatureAlgorithm {
		return parent.CheckSignature(c.SignatureAlgorithm, c.RawTBSCertificate, c.Signature)
	}
	k, err := mldsax509.ParsePKIXPublicKey(parent.RawSubjectPublicKeyInfo)
	if err != nil {
		return err
	}
	pq, ok := k.(*mldsa.PublicKey)
	if !ok {
		return errors.New("a signature algorithm that is not known")
	}
	// The algorithm of the signature must be that of the key, not only verify under it.
	if !bytes.Equal(algorithm(c.Raw, false), algorithm(parent.RawSubjectPublicKeyInfo, true)) {
		return errors.New("the signature's algorithm is not the key's")
	}
	return mldsa.Verify(pq, c.RawTBSCertificate, c.Signature, nil)
}

// algorithm takes the AlgorithmIdentifier out of a certificate (its second
// part) or a SubjectPublicKeyInfo (its first).
func algorithm(der []byte, first bool) []byte {
	in := cryptobyte.String(der)
	var outer, alg cryptobyte.String
	if !in.ReadASN1(&outer, cbasn1.SEQUENCE) || (!first && !outer.SkipASN1(cbasn1.SEQUENCE)) || !outer.ReadASN1Element(&alg, cbasn1.SEQUENCE) {
		return nil
	}
	return alg
}
