// SPDX-License-Identifier: Apache-2.0

//go:build linux

package tpmdiff

import (
	"crypto/ecdh"
	"crypto/rand"
	"crypto/rsa"
	"encoding/binary"
	"math/big"
	"sync"

	"holdfast/tpm2"
)

// Salts for the two keys from outside. Their public halves are constants, so
// both TPMs get the same bytes.

// theSalt is the salt under the RSA key.
var theSalt = []byte("a salt of thirty-two bytes length")[:32]

// saltKey returns a loaded key from outside that decrypts, nil if there is none.
func (g *gen) saltKey() *object {
	for i, o := range g.objects {
		if o.made == 0 && !o.public && o.h.step != 0 && o.nameAlg.IsHash() && (o.kind == rsaDecrypt || o.kind == eccDecrypt) {
			return &g.objects[i]
		}
	}
	return nil
}

// salt returns a salt and its encrypted form for the key: OAEP with the label
// SECRET (Part 1, B.4), or a one-pass ECDH (C.6.1).
func (o *object) salt() (salt, encrypted []byte) {
	if o.kind == eccDecrypt {
		return eccSalt(o.nameAlg)
	}
	hash := o.nameAlg
	if s := o.oaep; s != tpm2.AlgNull {
		hash = s
	}
	return theSalt[:min(32, o.nameAlg.DigestSize())], rsaSalt(hash, o.nameAlg)
}

var salts sync.Map // of rsaSalt, by its hashes

func rsaSalt(hash, name tpm2.Alg) []byte {
	k := [2]tpm2.Alg{hash, name}
	if b, ok := salts.Load(k); ok {
		return b.([]byte)
	}
	pub := &rsa.PublicKey{N: new(big.Int).SetBytes(unhex(rsaModulus)), E: 65537}
	b, err := rsa.EncryptOAEP(hash.New(), rand.Reader, pub, theSalt[:min(32, name.DigestSize())], []byte("SECRET\x00"))
	if err != nil {
		panic(err)
	}
	salts.Store(k, b)
	return b
}

// eccSalt makes the ephemeral key from a constant.
func eccSalt(name tpm2.Alg) (salt, encrypted []byte) {
	scalar := make([]byte, 32)
	scalar[31] = 77
	e, err := ecdh.P256().NewPrivateKey(scalar)
	if err != nil {
		panic(err)
	}
	pub, err := ecdh.P256().NewPublicKey(append(append([]byte{4}, unhex(eccX)...), unhex(eccY)...))
	if err != nil {
		panic(err)
	}
	z, err := e.ECDH(pub)
	if err != nil {
		panic(err)
	}
	q := e.PublicKey().Bytes()
	w := tpm2.NewWriter(nil)
	w.Sized(q[1:33])
	w.Sized(q[33:])
	return kdfe(name, z, "SECRET", q[1:33], unhex(eccX)), w.Bytes()
}

// kdfe is KDFe (Part 1, 11.4.10.3), of as many bits as a digest has.
func kdfe(hash tpm2.Alg, z []byte, label string, u, v []byte) []byte {
	return hash.Sum(binary.BigEndian.AppendUint32(nil, 1), z, append([]byte(label), 0), u, v)
}
