// SPDX-License-Identifier: Apache-2.0

package ekcert

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	encasn1 "encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"time"

	"filippo.io/mldsa"
	mldsax509 "filippo.io/mldsa/x509"
	"golang.org/x/crypto/cryptobyte"
	"golang.org/x/crypto/cryptobyte/asn1"

	"holdfast/tpm2"
	"holdfast/tss/keyfile"
)

// Makers are the makers of TPMs that somebody accepts: certificates of their
// roots, intermediate ones that may stand between, and their revocation lists.
type Makers struct {
	roots, middle []*x509.Certificate
	lists         []*x509.RevocationList
}

// ErrCertificate is wrapped by every refusal of an endorsement key's certificate.
var ErrCertificate = errors.New("endorsement key certificate refused")

// ParseMakers reads certificates of authorities in PEM: what is signed by
// itself is a root, and there must be one.
func ParseMakers(b []byte) (*Makers, error) {
	m := &Makers{}
	for {
		var block *pem.Block
		if block, b = pem.Decode(b); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("makers of TPMs: expected certificates, got %s", block.Type)
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("makers of TPMs: %w", err)
		}
		if !c.IsCA || !c.BasicConstraintsValid {
			return nil, fmt.Errorf("makers of TPMs: %s is no certificate of an authority", c.Subject)
		}
		if !bytes.Equal(c.RawIssuer, c.RawSubject) {
			m.middle = append(m.middle, c)
			continue
		}
		if err := signedBy(c, signedPart{c.Raw, c.RawTBSCertificate, c.Signature, c.SignatureAlgorithm}); err != nil {
			return nil, fmt.Errorf("makers of TPMs: %s: %w", c.Subject, err)
		}
		m.roots = append(m.roots, c)
	}
	if len(bytes.TrimSpace(b)) != 0 || len(m.roots) == 0 {
		return nil, errors.New("makers of TPMs: expected PEM certificates with at least one root, and nothing else")
	}
	return m, nil
}

// AddLists adds revocation lists, in PEM or one in DER. From the first one on
// Check demands a list, in date, of every authority in a chain.
func (m *Makers) AddLists(b []byte) error {
	var ders [][]byte
	if block, _ := pem.Decode(b); block == nil {
		ders = [][]byte{b}
	} else {
		for len(bytes.TrimSpace(b)) > 0 {
			if block, b = pem.Decode(b); block == nil || block.Type != "X509 CRL" {
				return errors.New("revocation lists: expected PEM blocks X509 CRL and nothing else")
			}
			ders = append(ders, block.Bytes)
		}
	}
	var lists []*x509.RevocationList
	for _, der := range ders {
		l, err := x509.ParseRevocationList(der)
		if err != nil {
			return fmt.Errorf("revocation list: %w", err)
		}
		for _, e := range l.Extensions {
			// RFC 5280, 5.2: a list with a critical extension that one does not know (a part of a list, or one of another's certificates) says nothing.
			if e.Critical {
				return fmt.Errorf("revocation list of %s: an unknown critical extension %v", l.Issuer, e.Id)
			}
		}
		lists = append(lists, l)
	}
	m.lists = append(m.lists, lists...)
	return nil
}

// maxChain bounds the certificates between an EK's and its maker's root.
const maxChain = 4

// Check checks that der is the certificate of the endorsement key ek, that it
// was made for endorsement keys (TCG EK Credential Profile, 3.2), and that it
// leads to one of the roots, by classic or ML-DSA signatures. It returns the
// SHA-256 of that root.
func (m *Makers) Check(der []byte, ek *tpm2.Public, now time.Time) (root [32]byte, err error) {
	refuse := func(format string, args ...any) ([32]byte, error) {
		return [32]byte{}, fmt.Errorf("%w: %w", ErrCertificate, fmt.Errorf(format, args...))
	}
	if len(der) == 0 {
		return refuse("missing: the TPM has none")
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		return refuse("malformed: %w", err)
	}
	spki, err := keyfile.MarshalPublic(ek)
	if err != nil {
		return refuse("endorsement key: %w", err)
	}
	if !bytes.Equal(spki, c.RawSubjectPublicKeyInfo) {
		return refuse("for another key: the certificate is not for the endorsement key that the TPM uses")
	}
	if c.IsCA {
		return refuse("of an authority, not of a TPM")
	}
	if len(c.ExtKeyUsage)+len(c.UnknownExtKeyUsage) > 0 && !slices.ContainsFunc(c.UnknownExtKeyUsage, oidEKCertificate.Equal) {
		return refuse("for another use: expected tcg-kp-EKCertificate (%v)", oidEKCertificate)
	}
	r, err := m.follow(c, 0, now)
	if err != nil {
		return refuse("%w", err)
	}
	return sha256.Sum256(r.Raw), nil
}

// errUnknownMaker says that no path was found at all.
var errUnknownMaker = errors.New("unknown maker")

// follow finds a way from c to a root; below is how many authorities are
// between it and the endorsement key's certificate. Authorities may share a
// name, so that every one is tried. The error is that of the way that got
// furthest.
func (m *Makers) follow(c *x509.Certificate, below int, now time.Time) (*x509.Certificate, error) {
	if err := usable(c, below == 0, now); err != nil {
		return nil, err
	}
	best := fmt.Errorf("%w: no authority vouches for it: nothing given leads from %q to a root", errUnknownMaker, c.Issuer)
	for i, p := range slices.Concat(m.roots, m.middle) {
		if !bytes.Equal(p.RawSubject, c.RawIssuer) || signedBy(p, signedPart{c.Raw, c.RawTBSCertificate, c.Signature, c.SignatureAlgorithm}) != nil {
			continue
		}
		err := m.vouches(p, c, below, now)
		isRoot := i < len(m.roots)
		var root *x509.Certificate
		switch {
		case err != nil:
		case isRoot:
			if err = usable(p, false, now); err == nil {
				return p, nil
			}
		case below == maxChain:
			err = fmt.Errorf("%w: more than %d authorities between it and a root", errUnknownMaker, maxChain)
		default:
			if root, err = m.follow(p, below+1, now); err == nil {
				return root, nil
			}
		}
		if errors.Is(best, errUnknownMaker) {
			best = err
		}
	}
	return nil, best
}

// vouches says why the authority p, which signed c, may not.
func (m *Makers) vouches(p, c *x509.Certificate, below int, now time.Time) error {
	if p.KeyUsage != 0 && p.KeyUsage&x509.KeyUsageCertSign == 0 {
		return fmt.Errorf("%s may not sign certificates", p.Subject)
	}
	if (p.MaxPathLen > 0 || p.MaxPathLenZero) && below > p.MaxPathLen {
		return fmt.Errorf("%s allows %d authorities below it, there are %d", p.Subject, p.MaxPathLen, below)
	}
	if len(m.lists) == 0 {
		return nil
	}
	old := error(nil)
	for _, l := range m.lists {
		if !bytes.Equal(l.RawIssuer, p.RawSubject) || (p.KeyUsage != 0 && p.KeyUsage&x509.KeyUsageCRLSign == 0) ||
			signedBy(p, signedPart{l.Raw, l.RawTBSRevocationList, l.Signature, l.SignatureAlgorithm}) != nil {
			continue
		}
		for _, e := range l.RevokedCertificateEntries { // in an old list too: nothing is unrevoked
			if e.SerialNumber.Cmp(c.SerialNumber) == 0 {
				return fmt.Errorf("revoked: %s revoked the certificate with serial number %x on %s", p.Subject, c.SerialNumber, e.RevocationTime.Format(time.DateOnly))
			}
		}
		if now.Before(l.ThisUpdate) || !now.Before(l.NextUpdate) {
			old = fmt.Errorf("revocation list expired: that of %s is good from %s to %s", p.Subject, l.ThisUpdate.Format(time.DateOnly), l.NextUpdate.Format(time.DateOnly))
			continue
		}
		return nil
	}
	if old != nil {
		return old
	}
	return fmt.Errorf("revocation list missing: there is none of %s", p.Subject)
}

// usable refuses certificates out of date or with conditions that nobody here
// understands. ek says that it is the endorsement key's own.
func usable(c *x509.Certificate, ek bool, now time.Time) error {
	if now.Before(c.NotBefore) || now.After(c.NotAfter) {
		return fmt.Errorf("expired: %s is good from %s to %s", c.Subject, c.NotBefore.Format(time.DateOnly), c.NotAfter.Format(time.DateOnly))
	}
	for _, u := range c.UnhandledCriticalExtensions {
		// The endorsement key's alternative name is critical and holds the TPM's model (3.2.9), which crypto/x509 does not read.
		if !ek || !u.Equal(oidSubjectAlt) {
			return fmt.Errorf("an unknown critical extension %v in the certificate of %s", u, c.Subject)
		}
	}
	for _, e := range c.Extensions {
		if e.Critical && e.Id.Equal(oidNameConstraints) {
			return fmt.Errorf("an unknown critical extension in the certificate of %s: name constraints are not understood here", c.Subject)
		}
	}
	return nil
}

var oidNameConstraints = encasn1.ObjectIdentifier{2, 5, 29, 30}

// signedPart is what certificates and revocation lists have in common.
type signedPart struct {
	raw, tbs, signature []byte
	algorithm           x509.SignatureAlgorithm
}

// signedBy checks one signature: what crypto/x509 knows, and ML-DSA (RFC 9881).
func signedBy(parent *x509.Certificate, s signedPart) error {
	if s.algorithm != x509.UnknownSignatureAlgorithm {
		return parent.CheckSignature(s.algorithm, s.tbs, s.signature)
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
	if !bytes.Equal(algorithm(s.raw, false), algorithm(parent.RawSubjectPublicKeyInfo, true)) {
		return errors.New("the signature's algorithm is not the key's")
	}
	return mldsa.Verify(pq, s.tbs, s.signature, nil)
}

// algorithm takes the AlgorithmIdentifier out of a certificate or list (its
// second part) or a SubjectPublicKeyInfo (its first).
func algorithm(der []byte, first bool) []byte {
	in := cryptobyte.String(der)
	var outer, alg cryptobyte.String
	if !in.ReadASN1(&outer, asn1.SEQUENCE) || (!first && !outer.SkipASN1(asn1.SEQUENCE)) || !outer.ReadASN1Element(&alg, asn1.SEQUENCE) {
		return nil
	}
	return alg
}
