// SPDX-License-Identifier: Apache-2.0

package tss

import (
	"bytes"

	"holdfast/tpm2"
)

// Encapsulate is TPM2_Encapsulate (version 185; Part 3, 14): a fresh shared
// secret for the holder of key.
func (t *TPM) Encapsulate(key Ref) (shared, ciphertext []byte, err error) {
	c := call{cc: tpm2.CCEncapsulate, refs: [3]Ref{key}, handles: 1, outSized: true}
	r, err := t.do(&c, nil)
	if err != nil {
		return nil, nil, err
	}
	shared = r.Sized(tpm2.MaxDigest)
	ciphertext = r.Sized(tpm2.MaxKEM)
	return shared, ciphertext, r.end(c.cc)
}

// Decapsulate is TPM2_Decapsulate (version 185).
func (t *TPM) Decapsulate(key Ref, ciphertext []byte) (shared []byte, err error) {
	c := call{cc: tpm2.CCDecapsulate, refs: [3]Ref{key}, handles: 1, auths: 1, inSized: true, outSized: true}
	r, err := t.do(&c, func(w *tpm2.Writer) { w.Sized(ciphertext) })
	if err != nil {
		return nil, err
	}
	return r.Sized(tpm2.MaxDigest), r.end(c.cc)
}

// KEMEncrypt is the vendor command KEM_Encrypt of our TPM: it encrypts a
// message of at most 1024 octets for the holder of an ML-KEM key (or an ECC key
// with HKDF) and protects a label of at most 66 octets, which is not part of
// the result. It returns the sealed message and the ciphertext of the KEM.
func (t *TPM) KEMEncrypt(key Ref, message, label []byte) (sealed, ciphertext []byte, err error) {
	c := call{cc: tpm2.CCKEMEncrypt, refs: [3]Ref{key}, handles: 1, inSized: true, outSized: true}
	r, err := t.do(&c, func(w *tpm2.Writer) {
		w.Sized(message)
		w.Sized(label)
	})
	if err != nil {
		return nil, nil, err
	}
	sealed = bytes.Clone(r.Sized(tpm2.MaxBuffer + 16))
	ciphertext = bytes.Clone(r.Sized(tpm2.MaxKEM))
	return sealed, ciphertext, r.end(c.cc)
}

// KEMDecrypt is the vendor command KEM_Decrypt. The result is the caller's to
// erase. TPM_RC_INTEGRITY if anything was changed, or is for another key.
func (t *TPM) KEMDecrypt(key Ref, sealed, ciphertext, label []byte) ([]byte, error) {
	c := call{cc: tpm2.CCKEMDecrypt, refs: [3]Ref{key}, handles: 1, auths: 1, inSized: true, outSized: true}
	r, err := t.do(&c, func(w *tpm2.Writer) {
		w.Sized(sealed)
		w.Sized(ciphertext)
		w.Sized(label)
	})
	if err != nil {
		return nil, err
	}
	return r.Sized(tpm2.MaxBuffer), r.end(c.cc)
}

// RSAEncrypt is TPM2_RSA_Encrypt (Part 3, 14.2). label, if not empty, must end
// with a zero byte.
func (t *TPM) RSAEncrypt(key Ref, message []byte, scheme tpm2.Scheme, label []byte) ([]byte, error) {
	c := call{cc: tpm2.CCRSAEncrypt, refs: [3]Ref{key}, handles: 1, inSized: true, outSized: true}
	r, err := t.do(&c, func(w *tpm2.Writer) {
		w.Sized(message)
		scheme.Marshal(w)
		w.Sized(label)
	})
	if err != nil {
		return nil, err
	}
	return bytes.Clone(r.Sized(tpm2.MaxRSAKeyBytes)), r.end(c.cc)
}

// RSADecrypt is TPM2_RSA_Decrypt (Part 3, 14.3).
func (t *TPM) RSADecrypt(key Ref, ciphertext []byte, scheme tpm2.Scheme, label []byte) ([]byte, error) {
	c := call{cc: tpm2.CCRSADecrypt, refs: [3]Ref{key}, handles: 1, auths: 1, inSized: true, outSized: true}
	r, err := t.do(&c, func(w *tpm2.Writer) {
		w.Sized(ciphertext)
		scheme.Marshal(w)
		w.Sized(label)
	})
	if err != nil {
		return nil, err
	}
	return r.Sized(tpm2.MaxRSAKeyBytes), r.end(c.cc)
}

// ECDHKeyGen is TPM2_ECDH_KeyGen (Part 3, 14.4).
func (t *TPM) ECDHKeyGen(key Ref) (z, public tpm2.Point, err error) {
	c := call{cc: tpm2.CCECDHKeyGen, refs: [3]Ref{key}, handles: 1, outSized: true}
	r, err := t.do(&c, nil)
	if err != nil {
		return z, public, err
	}
	readPoint(&r.Reader, &z)
	readPoint(&r.Reader, &public)
	return z, public, r.end(c.cc)
}

// ECDHZGen is TPM2_ECDH_ZGen (Part 3, 14.5).
func (t *TPM) ECDHZGen(key Ref, in tpm2.Point) (out tpm2.Point, err error) {
	c := call{cc: tpm2.CCECDHZGen, refs: [3]Ref{key}, handles: 1, auths: 1, inSized: true, outSized: true}
	r, err := t.do(&c, func(w *tpm2.Writer) {
		m := w.Begin()
		in.Marshal(w)
		w.End(m)
	})
	if err != nil {
		return out, err
	}
	readPoint(&r.Reader, &out)
	return out, r.end(c.cc)
}

func readPoint(r *tpm2.Reader, p *tpm2.Point) {
	in := r.Nested(r.Len())
	p.Unmarshal(&in)
	r.Done(&in)
}
