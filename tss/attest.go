// SPDX-License-Identifier: Apache-2.0

package tss

import (
	"fmt"

	"holdfast/tpm2"
)

// Attestation is a signed statement of the TPM. Both slices share the memory
// of the response.
type Attestation struct {
	Attest    []byte // TPMS_ATTEST, the signed bytes
	Signature []byte // TPMT_SIGNATURE
}

// Parse returns the statement and the signature as structures, and checks that
// the statement says what kind it is. It verifies nothing.
func (a *Attestation) Parse(kind tpm2.Tag) (*tpm2.Attest, *tpm2.Signature, error) {
	var at tpm2.Attest
	if err := tpm2.Decode(a.Attest, &at); err != nil {
		return nil, nil, fmt.Errorf("tss: attestation: %w", err)
	}
	if at.Type != kind {
		return nil, nil, fmt.Errorf("tss: attestation of type %#04x, expected %#04x", uint16(at.Type), uint16(kind))
	}
	var s tpm2.Signature
	if err := tpm2.Decode(a.Signature, &s); err != nil {
		return nil, nil, fmt.Errorf("tss: signature of an attestation: %w", err)
	}
	return &at, &s, nil
}

func (t *TPM) attest(c *call, params func(w *tpm2.Writer)) (*Attestation, error) {
	r, err := t.do(c, params)
	if err != nil {
		return nil, err
	}
	out := &Attestation{Attest: r.Sized(r.Len())}
	out.Signature = r.Rest()
	if err := r.end(c.cc); err != nil {
		return nil, err
	}
	return out, nil
}

// Quote is TPM2_Quote (Part 3, 18.4). qualifying is at most a digest and its
// algorithm long. A scheme of tpm2.NoScheme means that of the key.
func (t *TPM) Quote(key Ref, qualifying []byte, scheme tpm2.Scheme, sel []tpm2.PCRSelection) (*Attestation, error) {
	c := call{cc: tpm2.CCQuote, refs: [3]Ref{key}, handles: 1, auths: 1, inSized: true, outSized: true}
	return t.attest(&c, func(w *tpm2.Writer) {
		w.Sized(qualifying)
		scheme.Marshal(w)
		tpm2.MarshalPCRSelections(w, sel)
	})
}

// Certify is TPM2_Certify (Part 3, 18.2): key states that object is loaded.
func (t *TPM) Certify(object, key Ref, qualifying []byte, scheme tpm2.Scheme) (*Attestation, error) {
	c := call{cc: tpm2.CCCertify, refs: [3]Ref{object, key}, handles: 2, auths: 2, inSized: true, outSized: true}
	return t.attest(&c, func(w *tpm2.Writer) {
		w.Sized(qualifying)
		scheme.Marshal(w)
	})
}

// CertifyCreation is TPM2_CertifyCreation (Part 3, 18.3).
func (t *TPM) CertifyCreation(key, object Ref, qualifying, creationHash []byte, scheme tpm2.Scheme, ticket tpm2.Ticket) (*Attestation, error) {
	c := call{cc: tpm2.CCCertifyCreation, refs: [3]Ref{key, object}, handles: 2, auths: 1, inSized: true, outSized: true}
	return t.attest(&c, func(w *tpm2.Writer) {
		w.Sized(qualifying)
		w.Sized(creationHash)
		scheme.Marshal(w)
		ticket.Marshal(w)
	})
}

// GetTime is TPM2_GetTime (Part 3, 18.7), with the privacy administrator.
func (t *TPM) GetTime(privacy, key Ref, qualifying []byte, scheme tpm2.Scheme) (*Attestation, error) {
	c := call{cc: tpm2.CCGetTime, refs: [3]Ref{privacy, key}, handles: 2, auths: 2, inSized: true, outSized: true}
	return t.attest(&c, func(w *tpm2.Writer) {
		w.Sized(qualifying)
		scheme.Marshal(w)
	})
}

// NVCertify is TPM2_NV_Certify (Part 3, 31.16). size and offset 0 ask for the
// digest of the index instead of its content.
func (t *TPM) NVCertify(key, auth, index Ref, qualifying []byte, scheme tpm2.Scheme, size, offset uint16) (*Attestation, error) {
	c := call{cc: tpm2.CCNVCertify, refs: [3]Ref{key, auth, index}, handles: 3, auths: 2, inSized: true, outSized: true}
	return t.attest(&c, func(w *tpm2.Writer) {
		w.Sized(qualifying)
		scheme.Marshal(w)
		w.U16(size)
		w.U16(offset)
	})
}
