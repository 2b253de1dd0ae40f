// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"crypto/hkdf"
	"errors"
	"hash"
	"io"

	"holdfast/softtpm/internal/tpmcrypto"
	"holdfast/tpm2"
)

// DHKEM of RFC 9180, 4.1, for ECC keys whose key derivation scheme is HKDF
// (version 185, Part 1, C.6). The hash is that of the suite; the one in the
// key's scheme does not count.

// dhkem is one suite of RFC 9180, 7.1.
type dhkem struct {
	id   uint16
	hash tpmcrypto.Hash
}

// dhkemSuite returns the suite of a curve, nil if it has none.
func dhkemSuite(c tpm2.Curve) *dhkem {
	switch c {
	case tpm2.CurveP256:
		return &dhkem{0x10, tpmcrypto.SHA256}
	case tpm2.CurveP384:
		return &dhkem{0x11, tpmcrypto.SHA384}
	case tpm2.CurveP521:
		return &dhkem{0x12, tpmcrypto.SHA512}
	case tpm2.Curve25519:
		return &dhkem{0x20, tpmcrypto.SHA256}
	case tpm2.Curve448:
		return &dhkem{0x21, tpmcrypto.SHA512}
	}
	return nil
}

var errDHKEM = errors.New("softtpm: not a DHKEM ciphertext of this key's curve")

// serialize is SerializePublicKey: the uncompressed point, for X25519 and X448
// the u-coordinate (RFC 9180, 7.1.1).
func serialize(p tpmcrypto.Point) []byte {
	if p.Y == nil {
		return append([]byte(nil), p.X...)
	}
	return append(append([]byte{4}, p.X...), p.Y...)
}

// extractAndExpand is ExtractAndExpand of RFC 9180, 4.1.
func (d *dhkem) extractAndExpand(dh, context []byte) ([]byte, error) {
	suite := append([]byte("KEM"), byte(d.id>>8), byte(d.id))
	n := d.hash.Size()
	label := func(l string) []byte { return append(append([]byte("HPKE-v1"), suite...), l...) }
	h := func() hash.Hash { return d.hash.New() }
	prk, err := hkdf.Extract(h, append(label("eae_prk"), dh...), nil)
	if err != nil {
		return nil, err
	}
	defer tpmcrypto.Zero(prk)
	info := append([]byte{byte(n >> 8), byte(n)}, label("shared_secret")...)
	return hkdf.Expand(h, prk, string(append(info, context...)), n)
}

// dhkemEncap is Encap.
func dhkemEncap(pub *tpmcrypto.ECPublic, rand io.Reader) (secret, enc []byte, err error) {
	e, err := tpmcrypto.GenerateEC(pub.Curve, rand)
	if err != nil {
		return nil, nil, err
	}
	defer e.Zero()
	z, err := e.ECDH(pub.X, pub.Y)
	if err != nil {
		return nil, nil, err
	}
	enc = serialize(e.Point)
	secret, err = dhkemSuite(tpm2.Curve(pub.Curve.ID)).extractAndExpand(z.X, append(append([]byte(nil), enc...), serialize(pub.Point)...))
	return secret, enc, err
}

// dhkemDecap is Decap.
func dhkemDecap(k *tpmcrypto.ECPrivate, enc []byte) ([]byte, error) {
	n := k.Curve.Size()
	if k.Curve.IsMontgomery() {
		if len(enc) != n {
			return nil, errDHKEM
		}
		z, err := k.ECDH(enc, nil)
		if err != nil {
			return nil, err
		}
		return dhkemSuite(tpm2.Curve(k.Curve.ID)).extractAndExpand(z.X, append(append([]byte(nil), enc...), k.X...))
	}
	if len(enc) != 1+2*n || enc[0] != 4 {
		return nil, errDHKEM
	}
	z, err := k.ECDH(enc[1:1+n], enc[1+n:])
	if err != nil {
		return nil, err
	}
	return dhkemSuite(tpm2.Curve(k.Curve.ID)).extractAndExpand(z.X, append(append([]byte(nil), enc...), serialize(k.Point)...))
}
