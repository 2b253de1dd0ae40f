// SPDX-License-Identifier: Apache-2.0

package tss

import (
	"bytes"

	"holdfast/tpm2"
)

// Commands newer than version 1.59 that change what a TPM does.

// ReadOnlyControl is TPM2_ReadOnlyControl (version 185, Part 3, 24.9): while it
// is on, the TPM refuses what would change its persistent state. auth is Platform.
func (t *TPM) ReadOnlyControl(auth Ref, on bool) error {
	return t.simple(&call{cc: tpm2.CCReadOnlyControl, refs: [3]Ref{auth}, handles: 1, auths: 1}, func(w *tpm2.Writer) { w.Bool(on) })
}

// SetCapability is TPM2_SetCapability (version 185, Part 3, 30.4) with a value
// of data, whose form is the capability's own. auth is the hierarchy that the
// capability asks for.
func (t *TPM) SetCapability(auth Ref, c tpm2.Cap, data []byte) error {
	return t.simple(&call{cc: tpm2.CCSetCapability, refs: [3]Ref{auth}, handles: 1, auths: 1, inSized: true}, func(w *tpm2.Writer) {
		m := w.Begin()
		(&tpm2.SetCapabilityData{Cap: c, Data: data}).Marshal(w)
		w.End(m)
	})
}

// ACTSetTimeout is TPM2_ACT_SetTimeout (version 185, Part 3, 33.2): the authenticated
// countdown timer with handle act expires after seconds; 0xFFFFFFFF ends its signal.
func (t *TPM) ACTSetTimeout(act Ref, seconds uint32) error {
	return t.simple(&call{cc: tpm2.CCACTSetTimeout, refs: [3]Ref{act}, handles: 1, auths: 1}, func(w *tpm2.Writer) { w.U32(seconds) })
}

// ECCCiphertext is what TPM2_ECC_Encrypt makes: an ephemeral point, the
// encrypted text, and a digest.
type ECCCiphertext struct {
	C1     tpm2.Point
	C2, C3 []byte
}

// Marshal writes the three parts as they are in the command: a sized point and
// two buffers, each behind its length.
func (e *ECCCiphertext) Marshal(w *tpm2.Writer) {
	m := w.Begin()
	e.C1.Marshal(w)
	w.End(m)
	w.Sized(e.C2)
	w.Sized(e.C3)
}

// Unmarshal reads what Marshal writes.
func (e *ECCCiphertext) Unmarshal(r *tpm2.Reader) {
	in := r.Nested(r.Len())
	e.C1.Unmarshal(&in)
	r.Done(&in)
	e.C1.X, e.C1.Y = bytes.Clone(e.C1.X), bytes.Clone(e.C1.Y)
	e.C2 = bytes.Clone(r.Sized(tpm2.MaxBuffer))
	e.C3 = bytes.Clone(r.Sized(tpm2.MaxDigest))
}

// ECCEncrypt is TPM2_ECC_Encrypt (version 185, Part 3, 14.8). kdf is KDF2 with a
// hash, or NoScheme if the key has one.
func (t *TPM) ECCEncrypt(key Ref, data []byte, kdf tpm2.Scheme) (*ECCCiphertext, error) {
	c := call{cc: tpm2.CCECCEncrypt, refs: [3]Ref{key}, handles: 1, inSized: true, outSized: true}
	r, err := t.do(&c, func(w *tpm2.Writer) { w.Sized(data); kdf.Marshal(w) })
	if err != nil {
		return nil, err
	}
	e := new(ECCCiphertext)
	e.Unmarshal(&r.Reader)
	return e, r.end(c.cc)
}

// ECCDecrypt is TPM2_ECC_Decrypt (version 185, Part 3, 14.9).
func (t *TPM) ECCDecrypt(key Ref, e *ECCCiphertext, kdf tpm2.Scheme) ([]byte, error) {
	c := call{cc: tpm2.CCECCDecrypt, refs: [3]Ref{key}, handles: 1, auths: 1, inSized: true, outSized: true}
	r, err := t.do(&c, func(w *tpm2.Writer) { e.Marshal(w); kdf.Marshal(w) })
	if err != nil {
		return nil, err
	}
	data := bytes.Clone(r.Sized(tpm2.MaxBuffer))
	return data, r.end(c.cc)
}

// CertifyX509 is TPM2_CertifyX509 (version 184, Part 3, 18.8): signer signs an
// X.509 certificate of object. partial is what the caller gives of the certificate in
// DER; the results are what the TPM adds, the digest signed, and the signature.
func (t *TPM) CertifyX509(object, signer Ref, scheme tpm2.Scheme, partial []byte) (added, digest []byte, sig *tpm2.Signature, err error) {
	c := call{cc: tpm2.CCCertifyX509, refs: [3]Ref{object, signer}, handles: 2, auths: 2, inSized: true, outSized: true}
	r, err := t.do(&c, func(w *tpm2.Writer) { w.Sized(nil); scheme.Marshal(w); w.Sized(partial) })
	if err != nil {
		return nil, nil, nil, err
	}
	added, digest = bytes.Clone(r.Sized(tpm2.MaxBuffer)), bytes.Clone(r.Sized(tpm2.MaxDigest))
	sig = new(tpm2.Signature)
	sig.Unmarshal(&r.Reader)
	sig.R, sig.S, sig.Sig = bytes.Clone(sig.R), bytes.Clone(sig.S), bytes.Clone(sig.Sig)
	return added, digest, sig, r.end(c.cc)
}
