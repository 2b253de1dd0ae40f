// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/asn1"
	"encoding/binary"
	"math/big"

	"golang.org/x/crypto/cryptobyte"
	cbasn1 "golang.org/x/crypto/cryptobyte/asn1"

	"holdfast/tpm2"
)

// TPM2_CertifyX509: Part 3, 18.8.

func init() {
	register(&command{code: tpm2.CCCertifyX509, slots: []slot{{kObject, roleAdmin}, {kObject, roleUser}}, flags: fDecrypt | fEncrypt, run: certifyX509})
}

// certifyX509 completes a partial certificate with version, serial number,
// public key and, if it is missing, the signature algorithm, and signs it. The
// subject's key is RSA or ECC: a post-quantum public key does not fit the
// TPM2B_MAX_BUFFER of the response. The signer may be of any kind.
func certifyX509(c *call) tpm2.RC {
	reserved := c.next().Sized(tpm2.MaxData)
	in := readSigScheme(c.next())
	der := c.next().Sized(tpm2.MaxBuffer)
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	if len(reserved) != 0 {
		return tpm2.RCSize.Parameter(1)
	}
	signer := c.object(1)
	if signer.isSequence() || !signer.pub.Attributes.Has(tpm2.ObjectSignEncrypt) || !signer.pub.Type.IsAsymmetric() {
		return tpm2.RCKey.Handle(2)
	}
	s, rc := selectSignScheme(signer, in)
	if rc != tpm2.RCSuccess {
		return rc.Parameter(2)
	}
	subject := c.object(0)
	spki := subjectPublicKeyInfo(subject)
	if spki == nil {
		return tpm2.RCAsymmetric.Handle(1)
	}
	p, ok := parsePartial(der)
	if !ok {
		return tpm2.RCValue.Parameter(3)
	}
	if rc := checkKeyUsage(subject, p.extensions); rc != tpm2.RCSuccess {
		if rc == tpm2.RCAttributes {
			return rc.Handle(1)
		}
		return rc.Parameter(3)
	}
	alg := p.algorithm
	if alg == nil {
		if alg = signatureAlgorithm(signer, s); alg == nil {
			return tpm2.RCScheme.Handle(2)
		}
	}
	version := []byte{0xA0, 3, 2, 1, 2} // [0] EXPLICIT INTEGER 2: version 3
	var b cryptobyte.Builder
	b.AddASN1BigInt(serialNumber(signer, subject, alg, &p, spki))
	serial, err := b.Bytes()
	if err != nil {
		return tpm2.RCFailure
	}
	added := [][]byte{version, serial}
	if p.algorithm == nil {
		added = append(added, alg)
	}
	addedDER := sequenceOf(append(added, spki)...)
	tbs := sequenceOf(version, serial, alg, p.issuer, p.validity, p.subject, spki, p.extensions)
	if addedDER == nil || tbs == nil || len(addedDER) > tpm2.MaxBuffer {
		return tpm2.RCSize.Parameter(3)
	}
	sig, rc := c.signMessage(signer, s, tbs)
	if rc != tpm2.RCSuccess {
		return rc
	}
	c.out.Sized(addedDER)
	c.out.Sized(attestHash(signer, s).Sum(tbs))
	sig.Marshal(&c.out)
	return tpm2.RCSuccess
}

// sequenceOf is a DER SEQUENCE of the given elements, nil if it cannot be.
func sequenceOf(elements ...[]byte) []byte {
	var b cryptobyte.Builder
	b.AddASN1(cbasn1.SEQUENCE, func(b *cryptobyte.Builder) {
		for _, e := range elements {
			b.AddBytes(e)
		}
	})
	out, err := b.Bytes()
	if err != nil {
		return nil
	}
	return out
}

// serialNumber derives a positive serial number of at most 20 octets (RFC 5280,
// 4.1.2.2) from all that the certificate says and both Names, so that equal
// certificates have equal numbers.
func serialNumber(signer, subject *object, alg []byte, p *partial, spki []byte) *big.Int {
	d := signer.pub.NameAlg
	if !d.IsHash() {
		d = tpm2.AlgSHA256
	}
	h := d.Sum(alg, p.issuer, p.validity, p.subject, spki, p.extensions, signer.name, subject.name)[:20]
	h[0] = h[0]&0x7F | 0x40
	return new(big.Int).SetBytes(h)
}

// partial holds the elements of a partial certificate, each with its tag;
// algorithm is nil if it is missing.
type partial struct {
	algorithm, issuer, validity, subject, extensions []byte
}

// parsePartial takes a partial certificate apart: a SEQUENCE of three or four
// SEQUENCEs and the extensions.
func parsePartial(der []byte) (p partial, ok bool) {
	in := cryptobyte.String(der)
	var body cryptobyte.String
	if !in.ReadASN1(&body, cbasn1.SEQUENCE) || !in.Empty() {
		return p, false
	}
	var seq [][]byte
	for !body.Empty() {
		var e cryptobyte.String
		var tag cbasn1.Tag
		if !body.ReadAnyASN1Element(&e, &tag) {
			return p, false
		}
		switch {
		case tag == cbasn1.SEQUENCE && len(seq) < 4 && p.extensions == nil:
			seq = append(seq, e)
		case tag == cbasn1.Tag(3).ContextSpecific().Constructed() && p.extensions == nil:
			p.extensions = e
		default:
			return p, false
		}
	}
	if len(seq) < 3 || p.extensions == nil {
		return p, false
	}
	if len(seq) == 4 {
		p.algorithm, seq = seq[0], seq[1:]
	}
	p.issuer, p.validity, p.subject = seq[0], seq[1], seq[2]
	return p, true
}

// Extensions that the TPM looks at.
var (
	oidKeyUsage   = asn1.ObjectIdentifier{2, 5, 29, 15}
	oidTPMAObject = asn1.ObjectIdentifier{2, 23, 133, 10, 1, 1, 1}
)

// Bits of the Key Usage extension (RFC 5280, 4.2.1.3), bit n as 1 << n.
const (
	usageDigitalSignature = 1 << iota
	usageNonRepudiation
	usageKeyEncipherment
	usageDataEncipherment
	usageKeyAgreement
	usageKeyCertSign
	usageCRLSign
	usageEncipherOnly
	usageDecipherOnly
)

// checkKeyUsage checks that the Key Usage extension, which must be there, asks
// for what the attributes of the key allow (Part 2, TPMA_X509_KEY_USAGE), and
// that a TPMA_OBJECT extension has exactly the key's attributes.
func checkKeyUsage(o *object, extensions []byte) tpm2.RC {
	in := cryptobyte.String(extensions)
	var outer, list cryptobyte.String
	if !in.ReadASN1(&outer, cbasn1.Tag(3).ContextSpecific().Constructed()) || !outer.ReadASN1(&list, cbasn1.SEQUENCE) || !outer.Empty() {
		return tpm2.RCValue
	}
	a, found := o.pub.Attributes, false
	for !list.Empty() {
		var e, value cryptobyte.String
		var id asn1.ObjectIdentifier
		if !list.ReadASN1(&e, cbasn1.SEQUENCE) || !e.ReadASN1ObjectIdentifier(&id) ||
			e.PeekASN1Tag(cbasn1.BOOLEAN) && !e.SkipASN1(cbasn1.BOOLEAN) || !e.ReadASN1(&value, cbasn1.OCTET_STRING) || !e.Empty() {
			return tpm2.RCValue
		}
		switch {
		case id.Equal(oidTPMAObject):
			var bits asn1.BitString
			if !value.ReadASN1BitString(&bits) || !value.Empty() || bits.BitLength != 32 {
				return tpm2.RCValue
			}
			if binary.BigEndian.Uint32(bits.Bytes) != uint32(a) {
				return tpm2.RCAttributes
			}
		case id.Equal(oidKeyUsage):
			var bits asn1.BitString
			if found || !value.ReadASN1BitString(&bits) || !value.Empty() || bits.BitLength > 32 {
				return tpm2.RCValue
			}
			found = true
			usage := 0
			for i := range bits.BitLength {
				usage |= bits.At(i) << i
			}
			if usage>>9 != 0 {
				return tpm2.RCReservedBits
			}
			const sign = usageDigitalSignature | usageKeyCertSign | usageCRLSign
			const decrypt = usageKeyEncipherment | usageDataEncipherment | usageKeyAgreement | usageEncipherOnly | usageDecipherOnly
			if usage&sign != 0 && !a.Has(tpm2.ObjectSignEncrypt) || usage&decrypt != 0 && !a.Has(tpm2.ObjectDecrypt) ||
				usage&usageNonRepudiation != 0 && !a.Has(tpm2.ObjectFixedTPM) || usage&usageKeyEncipherment != 0 && !a.Has(tpm2.ObjectRestricted) {
				return tpm2.RCAttributes
			}
		}
	}
	if !found {
		return tpm2.RCValue
	}
	return tpm2.RCSuccess
}

// subjectPublicKeyInfo is the DER of a public key, nil if there is no form for
// it here.
func subjectPublicKeyInfo(o *object) []byte {
	var key any
	switch {
	case o.isSequence():
		return nil
	case o.isEd():
		return edPublicKeyInfo(o)
	case o.pub.Type == tpm2.AlgRSA:
		key = &rsa.PublicKey{N: new(big.Int).SetBytes(o.pub.Unique), E: int(exponent(&o.pub.Parms))}
	case o.pub.Type == tpm2.AlgECC:
		curve := map[tpm2.Curve]elliptic.Curve{tpm2.CurveP224: elliptic.P224(), tpm2.CurveP256: elliptic.P256(), tpm2.CurveP384: elliptic.P384(), tpm2.CurveP521: elliptic.P521()}[o.pub.Parms.Curve]
		pub, err := o.ecPublic()
		if err != nil || curve == nil {
			return nil
		}
		k, err := ecdsa.ParseUncompressedPublicKey(curve, append(append([]byte{4}, pub.X...), pub.Y...))
		if err != nil {
			return nil
		}
		key = k
	default:
		return nil
	}
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return nil
	}
	return der
}

// Object identifiers of hashes and signatures: PKCS #1 (RFC 8017), ECDSA (RFC
// 5758), SHA-2, SHA-3 and the post-quantum ones (NIST CSOR).
var (
	oidPKCS1 = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1}
	oidECDSA = asn1.ObjectIdentifier{1, 2, 840, 10045, 4}
	oidHash  = asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 2}
	oidSig   = asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 3}
)

func under(o asn1.ObjectIdentifier, more ...int) asn1.ObjectIdentifier {
	return append(append(asn1.ObjectIdentifier{}, o...), more...)
}

// signatureAlgorithm is the DER AlgorithmIdentifier of a scheme, nil if it has
// none.
func signatureAlgorithm(o *object, s tpm2.Scheme) []byte {
	null := func(b *cryptobyte.Builder) { b.AddASN1NULL() }
	switch s.Alg {
	case tpm2.AlgRSASSA:
		last := map[tpm2.Alg]int{tpm2.AlgSHA1: 5, tpm2.AlgSHA256: 11, tpm2.AlgSHA384: 12, tpm2.AlgSHA512: 13}[s.Hash]
		if last != 0 {
			return algorithmIdentifier(under(oidPKCS1, last), null)
		}
		if last = map[tpm2.Alg]int{tpm2.AlgSHA3_256: 14, tpm2.AlgSHA3_384: 15, tpm2.AlgSHA3_512: 16}[s.Hash]; last != 0 {
			return algorithmIdentifier(under(oidSig, last), null)
		}
	case tpm2.AlgRSAPSS:
		return pssIdentifier(s.Hash)
	case tpm2.AlgECDSA:
		if s.Hash == tpm2.AlgSHA1 {
			return algorithmIdentifier(under(oidECDSA, 1), nil)
		}
		if last := map[tpm2.Alg]int{tpm2.AlgSHA256: 2, tpm2.AlgSHA384: 3, tpm2.AlgSHA512: 4}[s.Hash]; last != 0 {
			return algorithmIdentifier(under(oidECDSA, 3, last), nil)
		}
		if last := map[tpm2.Alg]int{tpm2.AlgSHA3_256: 10, tpm2.AlgSHA3_384: 11, tpm2.AlgSHA3_512: 12}[s.Hash]; last != 0 {
			return algorithmIdentifier(under(oidSig, last), nil)
		}
	case tpm2.AlgEdDSA:
		return edIdentifier(o.pub.Parms.Curve)
	case tpm2.AlgMLDSA:
		return algorithmIdentifier(under(oidSig, 16+int(o.pub.Parms.MLDSA)), nil) // 17, 18, 19 (RFC 9881)
	}
	return nil
}

// edIdentifier is id-Ed25519 or id-Ed448, of keys and of signatures (RFC 8410, 3).
func edIdentifier(c tpm2.Curve) []byte {
	if c == tpm2.Curve448 {
		return algorithmIdentifier(asn1.ObjectIdentifier{1, 3, 101, 113}, nil)
	}
	return algorithmIdentifier(asn1.ObjectIdentifier{1, 3, 101, 112}, nil)
}

// edPublicKeyInfo is the SubjectPublicKeyInfo of RFC 8410, 4. Keys of HashEdDSA
// have none: its identifiers are for the pure form.
func edPublicKeyInfo(o *object) []byte {
	if o.keyScheme().Alg != tpm2.AlgEdDSA {
		return nil
	}
	var b cryptobyte.Builder
	b.AddASN1(cbasn1.SEQUENCE, func(b *cryptobyte.Builder) {
		b.AddBytes(edIdentifier(o.pub.Parms.Curve))
		b.AddASN1BitString(o.pub.Point.X)
	})
	return b.BytesOrPanic()
}

// hashIdentifier returns the AlgorithmIdentifier of a hash, nil if it has none.
func hashIdentifier(h tpm2.Alg) []byte {
	null := func(b *cryptobyte.Builder) { b.AddASN1NULL() }
	if h == tpm2.AlgSHA1 {
		return algorithmIdentifier(asn1.ObjectIdentifier{1, 3, 14, 3, 2, 26}, null)
	}
	last := map[tpm2.Alg]int{tpm2.AlgSHA256: 1, tpm2.AlgSHA384: 2, tpm2.AlgSHA512: 3, tpm2.AlgSHA3_256: 8, tpm2.AlgSHA3_384: 9, tpm2.AlgSHA3_512: 10}[h]
	if last == 0 {
		return nil
	}
	return algorithmIdentifier(under(oidHash, last), null)
}

// pssIdentifier is id-RSASSA-PSS with its parameters (RFC 8017, A.2.3): MGF1
// with the same hash and a salt of the digest's size, which is what signing
// uses with every key that has room for it.
func pssIdentifier(h tpm2.Alg) []byte {
	hash := hashIdentifier(h)
	if hash == nil {
		return nil
	}
	mgf := algorithmIdentifier(under(oidPKCS1, 8), func(b *cryptobyte.Builder) { b.AddBytes(hash) })
	explicit := func(b *cryptobyte.Builder, n uint8, f cryptobyte.BuilderContinuation) {
		b.AddASN1(cbasn1.Tag(n).ContextSpecific().Constructed(), f)
	}
	return algorithmIdentifier(under(oidPKCS1, 10), func(b *cryptobyte.Builder) {
		b.AddASN1(cbasn1.SEQUENCE, func(b *cryptobyte.Builder) {
			explicit(b, 0, func(b *cryptobyte.Builder) { b.AddBytes(hash) })
			explicit(b, 1, func(b *cryptobyte.Builder) { b.AddBytes(mgf) })
			explicit(b, 2, func(b *cryptobyte.Builder) { b.AddASN1Int64(int64(h.DigestSize())) })
		})
	})
}

func algorithmIdentifier(id asn1.ObjectIdentifier, params cryptobyte.BuilderContinuation) []byte {
	var b cryptobyte.Builder
	b.AddASN1(cbasn1.SEQUENCE, func(b *cryptobyte.Builder) {
		b.AddASN1ObjectIdentifier(id)
		if params != nil {
			params(b)
		}
	})
	out, err := b.Bytes()
	if err != nil {
		return nil
	}
	return out
}
