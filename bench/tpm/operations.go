// SPDX-License-Identifier: Apache-2.0

package tpm

import (
	"crypto/mlkem"
	"crypto/rand"
	"crypto/sha256"
	"fmt"

	"filippo.io/mldsa"

	"holdfast/tpm2"
	"holdfast/tss"
)

// An operation prepares what it needs in a TPM and returns the call to
// measure and what cleans up afterwards.
type operation struct {
	name    string
	calls   int  // in all, in a full run; --quick takes a fifth
	pq      bool // swtpm lacks it
	prepare func(t *tss.TPM) (call func() error, cleanup func() error, err error)
	bare    func() (call func() error, err error) // the primitive alone, for pq
}

const keyAttributes = tpm2.ObjectFixedTPM | tpm2.ObjectFixedParent | tpm2.ObjectSensitiveDataOrigin | tpm2.ObjectUserWithAuth

var ecdsa = tpm2.Scheme{Alg: tpm2.AlgECDSA, Hash: tpm2.AlgSHA256}
var rsassa = tpm2.Scheme{Alg: tpm2.AlgRSASSA, Hash: tpm2.AlgSHA256}
var oaep = tpm2.Scheme{Alg: tpm2.AlgOAEP, Hash: tpm2.AlgSHA256}

func storageKey() tpm2.Public {
	return tpm2.Public{Type: tpm2.AlgECC, NameAlg: tpm2.AlgSHA256, Attributes: keyAttributes | tpm2.ObjectRestricted | tpm2.ObjectDecrypt,
		Parms: tpm2.Parms{Symmetric: tss.AES128CFB, Scheme: tpm2.NoScheme, Curve: tpm2.CurveP256, KDF: tpm2.NoScheme}}
}

// eccKey is a P-256 signing key; a restricted one is an attestation key.
func eccKey(more tpm2.ObjectAttributes) tpm2.Public {
	return tpm2.Public{Type: tpm2.AlgECC, NameAlg: tpm2.AlgSHA256, Attributes: keyAttributes | tpm2.ObjectSignEncrypt | more,
		Parms: tpm2.Parms{Symmetric: tpm2.SymDef{Alg: tpm2.AlgNull}, Scheme: ecdsa, Curve: tpm2.CurveP256, KDF: tpm2.NoScheme}}
}

func rsaKey(use tpm2.ObjectAttributes, scheme tpm2.Scheme, unique []byte) tpm2.Public {
	return tpm2.Public{Type: tpm2.AlgRSA, NameAlg: tpm2.AlgSHA256, Attributes: keyAttributes | use,
		Parms: tpm2.Parms{Symmetric: tpm2.SymDef{Alg: tpm2.AlgNull}, Scheme: scheme, KeyBits: 2048}, Unique: unique}
}

func mldsaKey(more tpm2.ObjectAttributes) tpm2.Public {
	return tpm2.Public{Type: tpm2.AlgMLDSA, NameAlg: tpm2.AlgSHA256, Attributes: keyAttributes | tpm2.ObjectSignEncrypt | more, Parms: tpm2.Parms{MLDSA: tpm2.MLDSA65}}
}

func mlkemKey() tpm2.Public {
	return tpm2.Public{Type: tpm2.AlgMLKEM, NameAlg: tpm2.AlgSHA256, Attributes: keyAttributes | tpm2.ObjectDecrypt,
		Parms: tpm2.Parms{Symmetric: tpm2.SymDef{Alg: tpm2.AlgNull}, MLKEM: tpm2.MLKEM768}}
}

// pcrs is what the quotes are over.
var pcrs = []tpm2.PCRSelection{tpm2.SelectPCRs(tpm2.AlgSHA256, 0, 1, 2, 3, 4, 5, 6, 7)}

var digest = sha256.Sum256([]byte("holdfast bench tpm"))

func none() error { return nil }

// direct is an operation that needs nothing prepared.
func direct(f func(t *tss.TPM) error) func(*tss.TPM) (func() error, func() error, error) {
	return func(t *tss.TPM) (func() error, func() error, error) {
		return func() error { return f(t) }, none, nil
	}
}

// withPrimary prepares a primary key; the call gets it.
func withPrimary(template func() tpm2.Public, f func(t *tss.TPM, k tss.Ref) error) func(*tss.TPM) (func() error, func() error, error) {
	return func(t *tss.TPM) (func() error, func() error, error) {
		k, err := t.CreatePrimary(tss.Owner(nil), template(), nil)
		if err != nil {
			return nil, nil, err
		}
		return func() error { return f(t, k.Ref(nil)) }, func() error { return t.FlushContext(k.Handle) }, nil
	}
}

// createPrimary measures creation; the flush in it is the same on both sides.
func createPrimary(template func() tpm2.Public) func(*tss.TPM) (func() error, func() error, error) {
	return direct(func(t *tss.TPM) error {
		k, err := t.CreatePrimary(tss.Owner(nil), template(), nil)
		if err != nil {
			return err
		}
		return t.FlushContext(k.Handle)
	})
}

// nvIndex is in the range of the owner.
const nvIndex tpm2.Handle = 0x01500020

// operations are in the order of the table.
var operations = []operation{
	{name: "GetRandom 32 B", calls: 4000, prepare: direct(func(t *tss.TPM) error { _, err := t.GetRandom(32); return err })},
	{name: "PCR_Read", calls: 4000, prepare: direct(func(t *tss.TPM) error {
		_, _, err := t.PCRRead(tpm2.SelectPCRs(tpm2.AlgSHA256, 0, 1, 2, 3))
		return err
	})},
	{name: "PCR_Extend", calls: 4000, prepare: direct(func(t *tss.TPM) error {
		return t.PCRExtend(tss.PCR(16), []tpm2.HA{{Alg: tpm2.AlgSHA256, Digest: digest[:]}})
	})},
	{name: "Hash 1 KiB", calls: 4000, prepare: direct(func(t *tss.TPM) error {
		_, _, err := t.Hash(make([]byte, 1024), tpm2.AlgSHA256, tpm2.RHNull)
		return err
	})},
	{name: "StartAuthSession + Flush", calls: 2000, prepare: direct(func(t *tss.TPM) error {
		s, err := t.StartSession(tss.SessionOptions{Kind: tpm2.SEPolicy})
		if err != nil {
			return err
		}
		return t.FlushContext(s.Handle())
	})},
	{name: "StartAuthSession, ECC salt, + Flush", calls: 500, prepare: saltedSession},
	{name: "CreatePrimary P-256 + Flush", calls: 500, prepare: createPrimary(func() tpm2.Public { return eccKey(0) })},
	{name: "Create P-256", calls: 500, prepare: withPrimary(storageKey, func(t *tss.TPM, k tss.Ref) error {
		_, err := t.Create(k, eccKey(0), nil)
		return err
	})},
	{name: "Load P-256 + Flush", calls: 1000, prepare: loadP256},
	{name: "Sign ECDSA P-256", calls: 500, prepare: withPrimary(func() tpm2.Public { return eccKey(0) }, func(t *tss.TPM, k tss.Ref) error {
		_, err := t.Sign(k, digest[:], tpm2.NoScheme, tss.NullHashcheck)
		return err
	})},
	{name: "VerifySignature ECDSA P-256", calls: 500, prepare: verifySignature(func() tpm2.Public { return eccKey(0) })},
	{name: "Quote ECDSA P-256", calls: 500, prepare: withPrimary(func() tpm2.Public { return eccKey(tpm2.ObjectRestricted) }, quote)},
	{name: "Sign RSA-2048", calls: 250, prepare: withPrimary(func() tpm2.Public { return rsaKey(tpm2.ObjectSignEncrypt, rsassa, nil) }, func(t *tss.TPM, k tss.Ref) error {
		_, err := t.Sign(k, digest[:], tpm2.NoScheme, tss.NullHashcheck)
		return err
	})},
	{name: "VerifySignature RSA-2048", calls: 1000, prepare: verifySignature(func() tpm2.Public { return rsaKey(tpm2.ObjectSignEncrypt, rsassa, nil) })},
	{name: "RSA_Decrypt 2048", calls: 250, prepare: rsaDecrypt},
	{name: "CreatePrimary RSA-2048 + Flush", calls: 60, prepare: rsaPrimaries},
	{name: "NV_Write 32 B", calls: 500, prepare: nv(func(t *tss.TPM, i tss.Ref) error { return t.NVWrite(i, i, digest[:], 0) })},
	{name: "NV_Read 32 B", calls: 2000, prepare: nv(func(t *tss.TPM, i tss.Ref) error { _, err := t.NVRead(i, i, 32, 0); return err })},

	{name: "CreatePrimary ML-DSA-65 + Flush", calls: 250, pq: true, prepare: createPrimary(func() tpm2.Public { return mldsaKey(0) }), bare: func() (func() error, error) {
		return func() error { _, err := mldsa.GenerateKey(mldsa.MLDSA65()); return err }, nil
	}},
	{name: "Sign ML-DSA-65, 32 B", calls: 250, pq: true, prepare: withPrimary(func() tpm2.Public { return mldsaKey(0) }, func(t *tss.TPM, k tss.Ref) error {
		_, err := t.SignMessage(k, nil, digest[:])
		return err
	}), bare: bareSign},
	{name: "Quote ML-DSA-65", calls: 250, pq: true, prepare: withPrimary(func() tpm2.Public { return mldsaKey(tpm2.ObjectRestricted) }, quote), bare: bareSign},
	{name: "CreatePrimary ML-KEM-768 + Flush", calls: 500, pq: true, prepare: createPrimary(mlkemKey), bare: func() (func() error, error) {
		return func() error { _, err := mlkem.GenerateKey768(); return err }, nil
	}},
	{name: "Encapsulate ML-KEM-768", calls: 500, pq: true, prepare: withPrimary(mlkemKey, func(t *tss.TPM, k tss.Ref) error {
		_, _, err := t.Encapsulate(k)
		return err
	}), bare: func() (func() error, error) {
		k, err := mlkem.GenerateKey768()
		if err != nil {
			return nil, err
		}
		e := k.EncapsulationKey()
		return func() error { e.Encapsulate(); return nil }, nil
	}},
	{name: "Decapsulate ML-KEM-768", calls: 500, pq: true, prepare: decapsulate, bare: func() (func() error, error) {
		k, err := mlkem.GenerateKey768()
		if err != nil {
			return nil, err
		}
		_, c := k.EncapsulationKey().Encapsulate()
		return func() error { _, err := k.Decapsulate(c); return err }, nil
	}},
}

func quote(t *tss.TPM, k tss.Ref) error {
	_, err := t.Quote(k, digest[:], tpm2.NoScheme, pcrs)
	return err
}

// bareSign signs as the TPM does: the key is expanded already.
func bareSign() (func() error, error) {
	k, err := mldsa.GenerateKey(mldsa.MLDSA65())
	if err != nil {
		return nil, err
	}
	return func() error { _, err := k.Sign(rand.Reader, digest[:], nil); return err }, nil
}

func saltedSession(t *tss.TPM) (func() error, func() error, error) {
	k, err := t.CreatePrimary(tss.Owner(nil), storageKey(), nil)
	if err != nil {
		return nil, nil, err
	}
	call := func() error {
		s, err := t.StartSession(tss.SessionOptions{SaltKey: k.Handle, SaltPublic: &k.Key.Public})
		if err != nil {
			return err
		}
		return t.FlushContext(s.Handle())
	}
	return call, func() error { return t.FlushContext(k.Handle) }, nil
}

func loadP256(t *tss.TPM) (func() error, func() error, error) {
	parent, err := t.CreatePrimary(tss.Owner(nil), storageKey(), nil)
	if err != nil {
		return nil, nil, err
	}
	child, err := t.Create(parent.Ref(nil), eccKey(0), nil)
	if err != nil {
		return nil, nil, err
	}
	call := func() error {
		k, err := t.Load(parent.Ref(nil), child.Private, &child.Public)
		if err != nil {
			return err
		}
		return t.FlushContext(k.Handle)
	}
	return call, func() error { return t.FlushContext(parent.Handle) }, nil
}

func verifySignature(template func() tpm2.Public) func(*tss.TPM) (func() error, func() error, error) {
	return func(t *tss.TPM) (func() error, func() error, error) {
		k, err := t.CreatePrimary(tss.Owner(nil), template(), nil)
		if err != nil {
			return nil, nil, err
		}
		s, err := t.Sign(k.Ref(nil), digest[:], tpm2.NoScheme, tss.NullHashcheck)
		if err != nil {
			return nil, nil, err
		}
		return func() error { _, err := t.VerifySignature(k.Ref(nil), digest[:], s); return err }, func() error { return t.FlushContext(k.Handle) }, nil
	}
}

func rsaDecrypt(t *tss.TPM) (func() error, func() error, error) {
	k, err := t.CreatePrimary(tss.Owner(nil), rsaKey(tpm2.ObjectDecrypt, oaep, nil), nil)
	if err != nil {
		return nil, nil, err
	}
	c, err := t.RSAEncrypt(k.Ref(nil), digest[:], tpm2.NoScheme, nil)
	if err != nil {
		return nil, nil, err
	}
	return func() error { _, err := t.RSADecrypt(k.Ref(nil), c, tpm2.NoScheme, nil); return err }, func() error { return t.FlushContext(k.Handle) }, nil
}

// rsaPrimaries makes another key each time: how long the search for primes
// takes is luck, and a seed with much luck would lie.
func rsaPrimaries(t *tss.TPM) (func() error, func() error, error) {
	n := 0
	return func() error {
		n++
		unique := make([]byte, 256)
		copy(unique, fmt.Sprintf("key %d", n))
		k, err := t.CreatePrimary(tss.Owner(nil), rsaKey(tpm2.ObjectSignEncrypt, rsassa, unique), nil)
		if err != nil {
			return err
		}
		return t.FlushContext(k.Handle)
	}, none, nil
}

func nv(f func(t *tss.TPM, index tss.Ref) error) func(*tss.TPM) (func() error, func() error, error) {
	return func(t *tss.TPM) (func() error, func() error, error) {
		public := tpm2.NVPublic{Index: nvIndex, NameAlg: tpm2.AlgSHA256, Attributes: tpm2.NVAuthRead | tpm2.NVAuthWrite | tpm2.NVNoDA, DataSize: 32}
		if err := t.NVDefine(tss.Owner(nil), nil, public); err != nil {
			return nil, nil, err
		}
		i, err := t.NVReadPublic(nvIndex)
		if err != nil {
			return nil, nil, err
		}
		if err := t.NVWrite(i.Ref(nil), i.Ref(nil), digest[:], 0); err != nil {
			return nil, nil, err
		}
		if i, err = t.NVReadPublic(nvIndex); err != nil { // writing changed the Name
			return nil, nil, err
		}
		return func() error { return f(t, i.Ref(nil)) }, func() error { return t.NVUndefine(tss.Owner(nil), i.Ref(nil)) }, nil
	}
}

func decapsulate(t *tss.TPM) (func() error, func() error, error) {
	k, err := t.CreatePrimary(tss.Owner(nil), mlkemKey(), nil)
	if err != nil {
		return nil, nil, err
	}
	_, c, err := t.Encapsulate(k.Ref(nil))
	if err != nil {
		return nil, nil, err
	}
	return func() error { _, err := t.Decapsulate(k.Ref(nil), c); return err }, func() error { return t.FlushContext(k.Handle) }, nil
}
