// SPDX-License-Identifier: Apache-2.0

//go:build linux

package tpmdiff

import (
	"encoding/hex"

	"holdfast/tpm2"
)

// Keys from outside, made for this test: RSA-2048 (modulus, first prime) and
// P-256 (private value, point).
const (
	rsaModulus = "b66ef745ac5738118a0e4e075f814e070701a34799cf34c13c2094bfc8e37235ddf775a05750b9765c7d045cd999a39ed3fe572d07e6314026eb393eb4d67ae5335286f9c1b8a2c9503959742ade8cf190d5bb5311a8a0c3fb0a4c3f32516b35c1ed12d828a59f0c39d230dcaf3e63f7b1d3d535cd93067dd73cba9604214846d4c516c99da47b0865a134bc7e942c06cf4d03518e2056ae5237702d3c847e6108226e2bf6335b92f2f8c37e365f2e66ef1e50771493727f70f8d5614704ba7ad948550f027b58f18623a09f7deaa9b3af009f90654cc1df1a559a96b00d90709ad4f622501e3c22b8e1f9336c7cd272468daf86736f2d9815025933df05e673"
	rsaPrime   = "eef35f371af8abd01192770e1a77ed17d0e7c005af446176f0ecbdb958d3f8bfc97411ef5d4f1452c50ec610e005286597a170a6457b7821192b6f432fadc8a97c314014430a92a8106b608ec0d7b2677800c2582dc18c9fd08aa65a884632e474f907210e87815efc4fcec1a2b9c3d9946f5f294e27d90be422ef235893ca67"
	eccPrivate = "acf905834183012e8662686d028c263235d3eeefb628fc812f8328deef56cfc4"
	eccX       = "9c537147401a5e42e15cd332f7af6f15f2b24ada70c62ce2b1e01382003f2934"
	eccY       = "1a0e655634067e093e0474b64d1357a14ff5afe887d250b9dc5b3329e1da3d52"
)

func unhex(s string) []byte {
	b, err := hex.DecodeString(s)
	if err != nil {
		panic(err)
	}
	return b
}

// kind is a kind of object that the generator makes.
type kind int

const (
	eccStorage kind = iota
	eccSign
	eccAK
	eccDecrypt
	eccBoth // signs and decrypts, no scheme
	hmacKey
	xorKey
	sealed
	aesKey
	rsaSign
	rsaDecrypt
	rsaStorage
	kinds
)

func (k kind) isParent() bool { return k == eccStorage || k == rsaStorage }
func (k kind) signs() bool {
	return k == eccSign || k == eccAK || k == eccBoth || k == hmacKey || k == rsaSign
}

// attributes of a kind, without those that say where it came from.
func (k kind) attributes() tpm2.ObjectAttributes {
	a := tpm2.ObjectUserWithAuth
	switch k {
	case eccStorage, rsaStorage:
		a |= tpm2.ObjectRestricted | tpm2.ObjectDecrypt
	case eccAK:
		a |= tpm2.ObjectRestricted | tpm2.ObjectSignEncrypt
	case eccSign, hmacKey, rsaSign:
		a |= tpm2.ObjectSignEncrypt
	case eccDecrypt, xorKey, rsaDecrypt:
		a |= tpm2.ObjectDecrypt
	case eccBoth, aesKey:
		a |= tpm2.ObjectDecrypt | tpm2.ObjectSignEncrypt
	}
	return a
}

// area makes a TPMT_PUBLIC (Part 2, 12.2.4); unique is its last field.
func (g *gen) area(k kind, attrs tpm2.ObjectAttributes, policy []byte, unique func(w *tpm2.Writer)) []byte {
	w := tpm2.NewWriter(nil)
	nameAlg := tpm2.AlgSHA256
	if g.one(12) {
		nameAlg = g.hash()
	}
	types := [...]tpm2.Alg{tpm2.AlgECC, tpm2.AlgECC, tpm2.AlgECC, tpm2.AlgECC, tpm2.AlgECC, tpm2.AlgKeyedHash, tpm2.AlgKeyedHash, tpm2.AlgKeyedHash,
		tpm2.AlgSymCipher, tpm2.AlgRSA, tpm2.AlgRSA, tpm2.AlgRSA}
	w.Alg(types[k])
	w.Alg(nameAlg)
	if g.one(12) {
		attrs ^= 1 << g.Intn(32)
	}
	w.U32(uint32(attrs))
	w.Sized(policy)
	sym := func(object bool) {
		switch {
		case g.one(30):
			w.Alg(g.alg())
		case object:
			w.Alg(tpm2.AlgAES)
			w.U16(pick(g, []uint16{128, 128, 128, 256, 127}))
			w.Alg(pick(g, []tpm2.Alg{tpm2.AlgCFB, tpm2.AlgCFB, tpm2.AlgCFB, tpm2.AlgCFB, tpm2.AlgCBC, tpm2.AlgNull}))
		default:
			w.Alg(tpm2.AlgNull)
		}
	}
	scheme := func(a tpm2.Alg, more ...tpm2.Alg) {
		if g.one(12) {
			a, more = g.alg(), more[:0]
			if g.one(2) {
				more = append(more, g.hash())
			}
		}
		w.Alg(a)
		for _, m := range more {
			w.Alg(m)
		}
	}
	switch k {
	case eccStorage, eccSign, eccAK, eccDecrypt, eccBoth:
		sym(k == eccStorage)
		switch k {
		case eccSign:
			if g.one(3) {
				scheme(tpm2.AlgNull)
			} else {
				scheme(pick(g, []tpm2.Alg{tpm2.AlgECDSA, tpm2.AlgECDSA, tpm2.AlgECSchnorr}), pick(g, []tpm2.Alg{tpm2.AlgSHA256, tpm2.AlgSHA256, tpm2.AlgSHA384, tpm2.AlgSHA1}))
			}
		case eccAK:
			scheme(tpm2.AlgECDSA, tpm2.AlgSHA256)
		case eccDecrypt:
			if g.one(2) {
				scheme(tpm2.AlgNull)
			} else {
				scheme(tpm2.AlgECDH, tpm2.AlgSHA256)
			}
		default:
			scheme(tpm2.AlgNull)
		}
		curve := tpm2.CurveP256
		if g.one(8) {
			curve = tpm2.Curve(pick(g, []uint16{3, 4, 4, 4, 0, 6}))
		}
		w.U16(uint16(curve))
		if g.one(20) {
			w.Alg(g.alg())
			w.Alg(g.hash())
		} else {
			w.Alg(tpm2.AlgNull)
		}
	case hmacKey:
		if g.one(4) {
			scheme(tpm2.AlgNull)
		} else {
			scheme(tpm2.AlgHMAC, pick(g, []tpm2.Alg{tpm2.AlgSHA256, tpm2.AlgSHA256, tpm2.AlgSHA1, tpm2.AlgSHA512}))
		}
	case xorKey:
		scheme(tpm2.AlgXOR, tpm2.AlgSHA256, tpm2.AlgKDF1SP800_108)
	case sealed:
		scheme(tpm2.AlgNull)
	case aesKey:
		w.Alg(tpm2.AlgAES)
		w.U16(pick(g, []uint16{128, 128, 256, 100}))
		w.Alg(pick(g, []tpm2.Alg{tpm2.AlgCFB, tpm2.AlgCFB, tpm2.AlgCBC, tpm2.AlgCTR, tpm2.AlgECB, tpm2.AlgOFB, tpm2.AlgNull, tpm2.AlgSHA1}))
	case rsaSign, rsaDecrypt, rsaStorage:
		sym(k == rsaStorage)
		switch {
		case k == rsaStorage || g.one(3):
			scheme(tpm2.AlgNull)
		case k == rsaSign:
			scheme(pick(g, []tpm2.Alg{tpm2.AlgRSASSA, tpm2.AlgRSAPSS}), pick(g, []tpm2.Alg{tpm2.AlgSHA256, tpm2.AlgSHA256, tpm2.AlgSHA1, tpm2.AlgSHA384}))
		case g.one(2):
			scheme(tpm2.AlgRSAES)
		default:
			scheme(tpm2.AlgOAEP, tpm2.AlgSHA256)
		}
		bits := uint16(2048)
		if g.one(25) {
			bits = pick(g, []uint16{0, 1, 512, 1536, 2047, 4095})
		}
		w.U16(bits)
		exponent := uint32(0)
		if g.one(20) {
			exponent = pick(g, []uint32{1, 3, 65537, 65536, 17})
		}
		w.U32(exponent)
	}
	unique(w)
	return w.Bytes()
}

// template makes the public area of a key that the TPM shall make.
func (g *gen) template(k kind) []byte {
	attrs := k.attributes() | tpm2.ObjectFixedTPM | tpm2.ObjectFixedParent
	if k != sealed {
		attrs |= tpm2.ObjectSensitiveDataOrigin
	}
	if !g.one(4) {
		attrs |= tpm2.ObjectNoDA
	}
	if g.one(4) {
		attrs &^= tpm2.ObjectFixedTPM | tpm2.ObjectFixedParent
	}
	return g.area(k, attrs, g.policy(), func(w *tpm2.Writer) {
		u := g.some(20, nil, 32)
		switch k {
		case eccStorage, eccSign, eccAK, eccDecrypt, eccBoth:
			w.Sized(u)
			w.Sized(nil)
		default:
			w.Sized(u)
		}
	})
}

// external makes the public and sensitive areas of an object from outside.
// public tells whether the private part is left out.
func (g *gen) external(k kind, public bool) (sensitive, area []byte) {
	attrs := k.attributes() &^ tpm2.ObjectRestricted
	if public || g.one(10) {
		attrs = k.attributes()
	}
	if !g.one(5) {
		attrs |= tpm2.ObjectNoDA
	}
	var secret, unique []byte
	kinds := tpm2.AlgECC
	seed := []byte(nil)
	switch k {
	case eccStorage, eccSign, eccAK, eccDecrypt, eccBoth:
		secret = unhex(eccPrivate)
	case rsaSign, rsaDecrypt, rsaStorage:
		kinds, secret, unique = tpm2.AlgRSA, unhex(rsaPrime), unhex(rsaModulus)
	case aesKey:
		kinds, secret = tpm2.AlgSymCipher, []byte("0123456789abcdef")
	default:
		kinds, secret = tpm2.AlgKeyedHash, []byte("a key from outside")
	}
	if kinds == tpm2.AlgSymCipher || kinds == tpm2.AlgKeyedHash {
		seed = tpm2.AlgSHA256.Sum([]byte("seed"))
		unique = tpm2.AlgSHA256.Sum(seed, secret)
	}
	area = g.area(k, attrs, g.policy(), func(w *tpm2.Writer) {
		if kinds == tpm2.AlgECC {
			w.Sized(unhex(eccX))
			w.Sized(unhex(eccY))
		} else {
			w.Sized(unique)
		}
	})
	if public {
		return nil, area
	}
	w := tpm2.NewWriter(nil)
	w.Alg(kinds)
	w.Sized([]byte(g.newAuth()))
	w.Sized(seed)
	w.Sized(secret)
	return w.Bytes(), area
}
