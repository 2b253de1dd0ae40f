// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"crypto/cipher"

	"holdfast/softtpm/internal/tpmcrypto"
	"holdfast/tpm2"
)

// keyCache holds the expanded form of an object's key, made at first use: on
// the wire and in the Store an ML-DSA key is a seed, an RSA key one prime.
type keyCache struct {
	rsaPriv   *tpmcrypto.RSAPrivate
	rsaPub    *tpmcrypto.RSAPublic
	ecPriv    *tpmcrypto.ECPrivate
	ecPub     *tpmcrypto.ECPublic
	edPriv    *tpmcrypto.EdPrivate
	edPub     *tpmcrypto.EdPublic
	mldsaPriv *tpmcrypto.MLDSAPrivate
	mldsaPub  *tpmcrypto.MLDSAPublic
	mlkemPriv *tpmcrypto.MLKEMPrivate
	mlkemPub  *tpmcrypto.MLKEMPublic
}

func (k *keyCache) wipe() {
	if k.rsaPriv != nil {
		k.rsaPriv.Zero()
	}
	if k.ecPriv != nil {
		k.ecPriv.Zero()
	}
	if k.edPriv != nil {
		k.edPriv.Zero()
	}
	if k.mldsaPriv != nil {
		k.mldsaPriv.Zero()
	}
	if k.mlkemPriv != nil {
		k.mlkemPriv.Zero()
	}
	*k = keyCache{}
}

// once returns *p, made by f if it was nil.
func once[T any](p **T, f func() (*T, error)) (*T, error) {
	if *p == nil {
		v, err := f()
		if err != nil {
			return nil, err
		}
		*p = v
	}
	return *p, nil
}

// exponent returns the RSA exponent with 0 meaning 65537.
func exponent(p *tpm2.Parms) uint32 {
	if p.Exponent == 0 {
		return 65537
	}
	return p.Exponent
}

func (o *object) rsaPrivate() (*tpmcrypto.RSAPrivate, error) {
	return once(&o.key.rsaPriv, func() (*tpmcrypto.RSAPrivate, error) {
		return tpmcrypto.NewRSAPrivate(o.pub.Unique, o.sens.Value, exponent(&o.pub.Parms))
	})
}

func (o *object) rsaPublic() (*tpmcrypto.RSAPublic, error) {
	return once(&o.key.rsaPub, func() (*tpmcrypto.RSAPublic, error) {
		return tpmcrypto.NewRSAPublic(o.pub.Unique, exponent(&o.pub.Parms))
	})
}

// cipher returns the block cipher of a symmetric key.
func (o *object) cipher() (cipher.Block, error) {
	return tpmcrypto.NewCipher(uint16(o.pub.Parms.Symmetric.Alg), o.sens.Value)
}

func (o *object) curve() *tpmcrypto.Curve { return tpmcrypto.CurveByID(uint16(o.pub.Parms.Curve)) }

func (o *object) ecPrivate() (*tpmcrypto.ECPrivate, error) {
	return once(&o.key.ecPriv, func() (*tpmcrypto.ECPrivate, error) { return tpmcrypto.NewECPrivate(o.curve(), o.sens.Value) })
}

func (o *object) ecPublic() (*tpmcrypto.ECPublic, error) {
	return once(&o.key.ecPub, func() (*tpmcrypto.ECPublic, error) {
		return tpmcrypto.NewECPublic(o.curve(), o.pub.Point.X, o.pub.Point.Y)
	})
}

// isEd says whether o is a key for EdDSA: its point is a compressed one, its
// private key that of RFC 8032.
func (o *object) isEd() bool { return isEdKey(&o.pub) }

func isEdKey(p *tpm2.Public) bool { return p.Type == tpm2.AlgECC && isEdScheme(p.Parms.Scheme.Alg) }

func (o *object) edPrivate() (*tpmcrypto.EdPrivate, error) {
	return once(&o.key.edPriv, func() (*tpmcrypto.EdPrivate, error) {
		return tpmcrypto.NewEdPrivate(uint16(o.pub.Parms.Curve), o.sens.Value)
	})
}

func (o *object) edPublic() (*tpmcrypto.EdPublic, error) {
	return once(&o.key.edPub, func() (*tpmcrypto.EdPublic, error) {
		if len(o.pub.Point.Y) != 0 {
			return nil, tpmcrypto.ErrPoint
		}
		return tpmcrypto.NewEdPublic(uint16(o.pub.Parms.Curve), o.pub.Point.X)
	})
}

func (o *object) mldsaPrivate() (*tpmcrypto.MLDSAPrivate, error) {
	return once(&o.key.mldsaPriv, func() (*tpmcrypto.MLDSAPrivate, error) {
		return tpmcrypto.NewMLDSAPrivate(tpmcrypto.MLDSA(o.pub.Parms.MLDSA), o.sens.Value)
	})
}

func (o *object) mldsaPublic() (*tpmcrypto.MLDSAPublic, error) {
	return once(&o.key.mldsaPub, func() (*tpmcrypto.MLDSAPublic, error) {
		return tpmcrypto.NewMLDSAPublic(tpmcrypto.MLDSA(o.pub.Parms.MLDSA), o.pub.Unique)
	})
}

func (o *object) mlkemPrivate() (*tpmcrypto.MLKEMPrivate, error) {
	return once(&o.key.mlkemPriv, func() (*tpmcrypto.MLKEMPrivate, error) {
		return tpmcrypto.NewMLKEMPrivate(tpmcrypto.MLKEM(o.pub.Parms.MLKEM), o.sens.Value)
	})
}

func (o *object) mlkemPublic() (*tpmcrypto.MLKEMPublic, error) {
	return once(&o.key.mlkemPub, func() (*tpmcrypto.MLKEMPublic, error) {
		return tpmcrypto.NewMLKEMPublic(tpmcrypto.MLKEM(o.pub.Parms.MLKEM), o.pub.Unique)
	})
}
