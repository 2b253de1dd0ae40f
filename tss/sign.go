// SPDX-License-Identifier: Apache-2.0

package tss

import (
	"bytes"

	"holdfast/tpm2"
)

// NullHashcheck is the ticket for a digest that the TPM did not compute; good
// for keys that are not restricted.
var NullHashcheck = tpm2.Ticket{Tag: tpm2.STHashcheck, Hierarchy: tpm2.RHNull}

// Clone gives a signature memory of its own.
func cloneSignature(s *tpm2.Signature) {
	s.R, s.S, s.Sig = bytes.Clone(s.R), bytes.Clone(s.S), bytes.Clone(s.Sig)
}

func readSignature(cc tpm2.CC, r *reply) (*tpm2.Signature, error) {
	s := new(tpm2.Signature)
	s.Unmarshal(&r.Reader)
	if err := r.end(cc); err != nil {
		return nil, err
	}
	cloneSignature(s)
	return s, nil
}

func readVerified(cc tpm2.CC, r *reply) (tpm2.Ticket, error) {
	var k tpm2.Ticket
	k.UnmarshalVerified(&r.Reader)
	k.HMAC = bytes.Clone(k.HMAC)
	return k, r.end(cc)
}

// Sign is TPM2_Sign (Part 3, 20.2).
func (t *TPM) Sign(key Ref, digest []byte, scheme tpm2.Scheme, ticket tpm2.Ticket) (*tpm2.Signature, error) {
	c := call{cc: tpm2.CCSign, refs: [3]Ref{key}, handles: 1, auths: 1, inSized: true}
	r, err := t.do(&c, func(w *tpm2.Writer) {
		w.Sized(digest)
		scheme.Marshal(w)
		ticket.Marshal(w)
	})
	if err != nil {
		return nil, err
	}
	return readSignature(c.cc, &r)
}

// VerifySignature is TPM2_VerifySignature (Part 3, 20.1). No error means that
// the signature is good.
func (t *TPM) VerifySignature(key Ref, digest []byte, s *tpm2.Signature) (tpm2.Ticket, error) {
	c := call{cc: tpm2.CCVerifySignature, refs: [3]Ref{key}, handles: 1, inSized: true}
	r, err := t.do(&c, func(w *tpm2.Writer) {
		w.Sized(digest)
		s.Marshal(w)
	})
	if err != nil {
		return tpm2.Ticket{}, err
	}
	return readVerified(c.cc, &r)
}

// SignDigest is TPM2_SignDigest (version 185; Part 3, 20): for ML-DSA keys that
// allow it, digest is the external mu of 64 bytes.
func (t *TPM) SignDigest(key Ref, context, digest []byte, ticket tpm2.Ticket) (*tpm2.Signature, error) {
	c := call{cc: tpm2.CCSignDigest, refs: [3]Ref{key}, handles: 1, auths: 1, inSized: true}
	r, err := t.do(&c, func(w *tpm2.Writer) {
		w.Sized(context)
		w.Sized(digest)
		ticket.Marshal(w)
	})
	if err != nil {
		return nil, err
	}
	return readSignature(c.cc, &r)
}

// VerifyDigestSignature is TPM2_VerifyDigestSignature (version 185).
func (t *TPM) VerifyDigestSignature(key Ref, context, digest []byte, s *tpm2.Signature) (tpm2.Ticket, error) {
	c := call{cc: tpm2.CCVerifyDigestSignature, refs: [3]Ref{key}, handles: 1, inSized: true}
	r, err := t.do(&c, func(w *tpm2.Writer) {
		w.Sized(context)
		w.Sized(digest)
		s.Marshal(w)
	})
	if err != nil {
		return tpm2.Ticket{}, err
	}
	return readVerified(c.cc, &r)
}

// Sequence is a running hash, HMAC, signing or verifying sequence. Its Name is
// the empty buffer (Part 1, 32.4.5).
type Sequence struct{ Ref }

func (t *TPM) sequence(c *call, auth []byte, params func(w *tpm2.Writer)) (*Sequence, error) {
	c.outHandle = true
	r, err := t.do(c, params)
	if err != nil {
		return nil, err
	}
	if err := r.end(c.cc); err != nil {
		return nil, err
	}
	return &Sequence{Ref{Handle: r.handle, Name: []byte{}, Auth: Password(auth)}}, nil
}

// SignSequenceStart is TPM2_SignSequenceStart (version 185; Part 3, 17): key
// will sign the data of the sequence, with a context where the scheme has one.
func (t *TPM) SignSequenceStart(key Ref, auth, context []byte) (*Sequence, error) {
	c := call{cc: tpm2.CCSignSequenceStart, refs: [3]Ref{key}, handles: 1, inSized: true}
	return t.sequence(&c, auth, func(w *tpm2.Writer) {
		w.Sized(auth)
		w.Sized(context)
	})
}

// VerifySequenceStart is TPM2_VerifySequenceStart (version 185). hint is R of
// an EdDSA signature, else empty.
func (t *TPM) VerifySequenceStart(key Ref, auth, hint, context []byte) (*Sequence, error) {
	c := call{cc: tpm2.CCVerifySequenceStart, refs: [3]Ref{key}, handles: 1, inSized: true}
	return t.sequence(&c, auth, func(w *tpm2.Writer) {
		w.Sized(auth)
		w.Sized(hint)
		w.Sized(context)
	})
}

// HashSequenceStart is TPM2_HashSequenceStart (Part 3, 17.3); AlgNull starts
// an event sequence.
func (t *TPM) HashSequenceStart(auth []byte, hash tpm2.Alg) (*Sequence, error) {
	c := call{cc: tpm2.CCHashSequenceStart, inSized: true}
	return t.sequence(&c, auth, func(w *tpm2.Writer) {
		w.Sized(auth)
		w.Alg(hash)
	})
}

// HMACStart is TPM2_HMAC_Start (Part 3, 17.2); AlgNull means the key's hash.
func (t *TPM) HMACStart(key Ref, auth []byte, hash tpm2.Alg) (*Sequence, error) {
	c := call{cc: tpm2.CCHMACStart, refs: [3]Ref{key}, handles: 1, auths: 1, inSized: true}
	return t.sequence(&c, auth, func(w *tpm2.Writer) {
		w.Sized(auth)
		w.Alg(hash)
	})
}

// SequenceUpdate is TPM2_SequenceUpdate (Part 3, 17.4), as often as data needs.
func (t *TPM) SequenceUpdate(s *Sequence, data []byte) error {
	for len(data) > 0 {
		n := min(len(data), tpm2.MaxBuffer)
		c := call{cc: tpm2.CCSequenceUpdate, refs: [3]Ref{s.Ref}, handles: 1, auths: 1, inSized: true}
		if err := t.simple(&c, func(w *tpm2.Writer) { w.Sized(data[:n]) }); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

// last sends all of data but the last buffer, which it returns.
func (t *TPM) last(s *Sequence, data []byte) ([]byte, error) {
	if len(data) <= tpm2.MaxBuffer {
		return data, nil
	}
	n := (len(data) - 1) / tpm2.MaxBuffer * tpm2.MaxBuffer
	return data[n:], t.SequenceUpdate(s, data[:n])
}

// SequenceComplete is TPM2_SequenceComplete (Part 3, 17.5) for hash and HMAC
// sequences, behind the rest of the data.
func (t *TPM) SequenceComplete(s *Sequence, data []byte, hierarchy tpm2.Handle) (digest []byte, ticket tpm2.Ticket, err error) {
	if data, err = t.last(s, data); err != nil {
		return nil, ticket, err
	}
	c := call{cc: tpm2.CCSequenceComplete, refs: [3]Ref{s.Ref}, handles: 1, auths: 1, inSized: true, outSized: true}
	r, err := t.do(&c, func(w *tpm2.Writer) {
		w.Sized(data)
		w.Handle(hierarchy)
	})
	if err != nil {
		return nil, ticket, err
	}
	digest = r.Sized(tpm2.MaxDigest)
	ticket.UnmarshalTicket(&r.Reader, tpm2.STHashcheck)
	ticket.HMAC = bytes.Clone(ticket.HMAC)
	return digest, ticket, r.end(c.cc)
}

// SignSequenceComplete is TPM2_SignSequenceComplete (version 185), behind the
// rest of the data.
func (t *TPM) SignSequenceComplete(s *Sequence, key Ref, data []byte) (*tpm2.Signature, error) {
	data, err := t.last(s, data)
	if err != nil {
		return nil, err
	}
	c := call{cc: tpm2.CCSignSequenceComplete, refs: [3]Ref{s.Ref, key}, handles: 2, auths: 2, inSized: true}
	r, err := t.do(&c, func(w *tpm2.Writer) { w.Sized(data) })
	if err != nil {
		return nil, err
	}
	return readSignature(c.cc, &r)
}

// VerifySequenceComplete is TPM2_VerifySequenceComplete (version 185). No
// error means that the signature is good.
func (t *TPM) VerifySequenceComplete(s *Sequence, key Ref, sig *tpm2.Signature) (tpm2.Ticket, error) {
	c := call{cc: tpm2.CCVerifySequenceComplete, refs: [3]Ref{s.Ref, key}, handles: 2, auths: 1}
	r, err := t.do(&c, func(w *tpm2.Writer) { sig.Marshal(w) })
	if err != nil {
		return tpm2.Ticket{}, err
	}
	return readVerified(c.cc, &r)
}

// SignMessage signs a message by a whole sequence: the way to sign with a
// pure ML-DSA or EdDSA key. Pure EdDSA signs at most 1024 bytes: a TPM has to
// hold the whole message (Part 1, 29.4.5.1).
func (t *TPM) SignMessage(key Ref, context, message []byte) (*tpm2.Signature, error) {
	s, err := t.SignSequenceStart(key, nil, context)
	if err != nil {
		return nil, err
	}
	sig, err := t.SignSequenceComplete(s, key, message)
	if err != nil {
		_ = t.FlushContext(s.Handle) // it is gone already if the TPM got that far
		return nil, err
	}
	return sig, nil
}

// VerifyMessage verifies a signature of a message by a whole sequence.
func (t *TPM) VerifyMessage(key Ref, context, message []byte, sig *tpm2.Signature) error {
	_, err := t.VerifyMessageTicket(key, context, message, sig)
	return err
}

// VerifyMessageTicket is VerifyMessage, with the ticket for PolicyAuthorize.
func (t *TPM) VerifyMessageTicket(key Ref, context, message []byte, sig *tpm2.Signature) (k tpm2.Ticket, err error) {
	var hint []byte
	if sig.Alg == tpm2.AlgEdDSA {
		hint = sig.Sig[:len(sig.Sig)/2] // R
	}
	s, err := t.VerifySequenceStart(key, nil, hint, context)
	if err != nil {
		return k, err
	}
	err = t.SequenceUpdate(s, message)
	if err == nil {
		k, err = t.VerifySequenceComplete(s, key, sig)
	}
	if err != nil {
		_ = t.FlushContext(s.Handle)
	}
	return k, err
}

// Hash is TPM2_Hash (Part 3, 15.4) for data of one buffer, a sequence for more.
func (t *TPM) Hash(data []byte, hash tpm2.Alg, hierarchy tpm2.Handle) (digest []byte, ticket tpm2.Ticket, err error) {
	if len(data) > tpm2.MaxBuffer {
		s, err := t.HashSequenceStart(nil, hash)
		if err != nil {
			return nil, ticket, err
		}
		return t.SequenceComplete(s, data, hierarchy)
	}
	c := call{cc: tpm2.CCHash, inSized: true, outSized: true}
	r, err := t.do(&c, func(w *tpm2.Writer) {
		w.Sized(data)
		w.Alg(hash)
		w.Handle(hierarchy)
	})
	if err != nil {
		return nil, ticket, err
	}
	digest = r.Sized(tpm2.MaxDigest)
	ticket.UnmarshalTicket(&r.Reader, tpm2.STHashcheck)
	ticket.HMAC = bytes.Clone(ticket.HMAC)
	return digest, ticket, r.end(c.cc)
}
