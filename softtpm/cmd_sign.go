// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"bytes"

	"holdfast/softtpm/internal/tpmcrypto"
	"holdfast/tpm2"
)

func init() {
	key := []slot{{kObject, roleUser}}
	pub := []slot{{kObject, roleNone}}
	register(&command{code: tpm2.CCSign, slots: key, flags: fDecrypt, run: sign})
	register(&command{code: tpm2.CCVerifySignature, slots: pub, flags: fDecrypt, run: verifySignature})
	register(&command{code: tpm2.CCSignDigest, slots: key, flags: fDecrypt, run: signDigestCmd})
	register(&command{code: tpm2.CCVerifyDigestSignature, slots: pub, flags: fDecrypt, run: verifyDigestSignature})
	register(&command{code: tpm2.CCSignSequenceStart, slots: pub, flags: fDecrypt | fHandle, run: signSequenceStart})
	register(&command{code: tpm2.CCVerifySequenceStart, slots: pub, flags: fDecrypt | fHandle, run: verifySequenceStart})
	register(&command{code: tpm2.CCSignSequenceComplete, slots: []slot{{kObject, roleUser}, {kObject, roleUser}}, flags: fDecrypt | fFlushed, run: signSequenceComplete})
	register(&command{code: tpm2.CCVerifySequenceComplete, slots: []slot{{kObject, roleUser}, {kObject, roleNone}}, flags: fFlushed, run: verifySequenceComplete})
}

// sign is TPM2_Sign (Part 3, 20.5).
func sign(c *call) tpm2.RC {
	digest := c.next().Sized(tpm2.MaxDigest)
	in := readSigScheme(c.next())
	var t tpm2.Ticket
	t.UnmarshalTicket(c.next(), tpm2.STHashcheck)
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	o := c.object(0)
	s, rc := selectSignScheme(o, in)
	if rc == tpm2.RCKey {
		return rc.Handle(1)
	}
	if rc != tpm2.RCSuccess {
		return rc.Parameter(2)
	}
	if isNewScheme(s.Alg) {
		return tpm2.RCScheme.Parameter(2)
	}
	return c.signChecked(o, s, nil, digest, t, 1, 3)
}

// isNewScheme says whether a is a signing scheme that TPM2_Sign and
// TPM2_VerifySignature do not know; SignDigest and the sequences are for it
// (version 185, Part 3, table 115).
func isNewScheme(a tpm2.Alg) bool {
	return a == tpm2.AlgMLDSA || a == tpm2.AlgHashMLDSA || isEdScheme(a)
}

// hasNoHash says whether signatures of a name no hash.
func hasNoHash(a tpm2.Alg) bool { return a == tpm2.AlgMLDSA || isEdScheme(a) }

// signChecked makes the checks that Sign and SignDigest share, signs, and
// writes the signature. pDigest and pTicket are the numbers of their parameters.
func (c *call) signChecked(o *object, s tpm2.Scheme, context, digest []byte, t tpm2.Ticket, pDigest, pTicket int) tpm2.RC {
	if o.pub.Attributes.Has(tpm2.ObjectX509Sign) {
		return tpm2.RCAttributes.Handle(1)
	}
	h := digestHash(o, s)
	if s.Alg == tpm2.AlgMLDSA {
		if !o.pub.Parms.AllowExternalMu {
			return tpm2.RCExtMu.Handle(1)
		}
		if len(digest) != tpmcrypto.MLDSAMuSize {
			return tpm2.RCSize.Parameter(pDigest)
		}
	} else if len(digest) != digestSize(o, s) {
		return tpm2.RCSize.Parameter(pDigest)
	}
	// A restricted key signs only what this TPM has hashed, and what looks
	// like no structure of a TPM (Part 3, 20.5.1).
	if o.pub.Attributes.Has(tpm2.ObjectRestricted) || len(t.HMAC) != 0 {
		if s.Alg == tpm2.AlgMLDSA || !c.st.checkHashCheck(t, h, digest) {
			return tpm2.RCTicket.Parameter(pTicket)
		}
	}
	sig, rc := c.signDigest(o, s, context, digest)
	if rc != tpm2.RCSuccess {
		return rc
	}
	sig.Marshal(&c.out)
	return tpm2.RCSuccess
}

// digestSize is the size of what SignDigest and the like take.
func digestSize(o *object, s tpm2.Scheme) int {
	if s.Alg == tpm2.AlgHashEdDSA {
		return tpmcrypto.EdPrehashSize
	}
	return signHash(o, s).DigestSize()
}

// verifySignature is TPM2_VerifySignature (Part 3, 20.2).
func verifySignature(c *call) tpm2.RC {
	digest := c.next().Sized(tpm2.MaxDigest)
	sig := readSignature(c.next())
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	o := c.object(0)
	if o.isSequence() || !o.pub.Attributes.Has(tpm2.ObjectSignEncrypt) {
		return tpm2.RCAttributes.Handle(1)
	}
	if isNewScheme(sig.Alg) {
		return tpm2.RCScheme.Parameter(2)
	}
	if rc := checkDigestSize(o, &sig, digest, 1); rc != tpm2.RCSuccess {
		return rc
	}
	if rc := verifyDigest(o, &sig, nil, digest); rc != tpm2.RCSuccess {
		if rc == tpm2.RCHandle || rc == tpm2.RCKey {
			return rc.Handle(1)
		}
		return rc.Parameter(2)
	}
	c.st.verifiedTicket(o.hierarchy, tpm2.STVerified, digest, o.name, 0).Marshal(&c.out)
	return tpm2.RCSuccess
}

// checkDigestSize checks the size of a digest to be verified; for pure ML-DSA
// it must be µ, and the key must allow external µ.
func checkDigestSize(o *object, sig *tpm2.Signature, digest []byte, p int) tpm2.RC {
	if sig.Alg == tpm2.AlgMLDSA {
		if o.pub.Type == tpm2.AlgMLDSA && !o.pub.Parms.AllowExternalMu {
			return tpm2.RCExtMu.Handle(1)
		}
		if len(digest) != tpmcrypto.MLDSAMuSize {
			return tpm2.RCSize.Parameter(p)
		}
	} else if n := sig.Hash.DigestSize(); len(digest) != n && (sig.Alg != tpm2.AlgHashEdDSA || len(digest) != tpmcrypto.EdPrehashSize) {
		return tpm2.RCSize.Parameter(p)
	}
	return tpm2.RCSuccess
}

// maxSignatureContext bounds a TPM2B_SIGNATURE_CTX (Part 2, 11.3.7).
const maxSignatureContext = 255

// checkContext says whether a key's scheme takes a context.
func checkContext(o *object, context []byte) bool {
	return len(context) == 0 || o.pub.Type == tpm2.AlgMLDSA || o.pub.Type == tpm2.AlgHashMLDSA
}

// signDigestCmd is TPM2_SignDigest (Part 3, 20.7).
func signDigestCmd(c *call) tpm2.RC {
	context := c.next().Sized(maxSignatureContext)
	digest := c.next().Sized(tpm2.MaxDigest)
	var t tpm2.Ticket
	t.UnmarshalTicket(c.next(), tpm2.STHashcheck)
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	o := c.object(0)
	s, rc := c.ownScheme(o)
	if rc != tpm2.RCSuccess {
		return rc.Handle(1)
	}
	if s.Alg == tpm2.AlgHMAC || s.Alg == tpm2.AlgEdDSA { // they sign messages
		return tpm2.RCScheme.Handle(1)
	}
	if s.Alg == tpm2.AlgECDAA {
		if len(context) != 2 {
			return tpm2.RCSize.Parameter(1)
		}
		s.Count = uint16(context[0])<<8 | uint16(context[1])
		context = nil
	}
	// µ already covers the context.
	if !checkContext(o, context) || s.Alg == tpm2.AlgMLDSA && len(context) != 0 {
		return tpm2.RCValue.Parameter(1)
	}
	return c.signChecked(o, s, context, digest, t, 2, 3)
}

// ownScheme returns the key's own signing scheme: TPM_RC_KEY if it cannot
// sign, TPM_RC_SCHEME if its scheme is null.
func (c *call) ownScheme(o *object) (tpm2.Scheme, tpm2.RC) {
	if o.isSequence() || !o.pub.Attributes.Has(tpm2.ObjectSignEncrypt) || o.pub.Type == tpm2.AlgSymCipher {
		return tpm2.NoScheme, tpm2.RCKey
	}
	s := o.keyScheme()
	if s.Alg == tpm2.AlgNull {
		return s, tpm2.RCScheme
	}
	return s, tpm2.RCSuccess
}

// verifyDigestSignature is TPM2_VerifyDigestSignature (Part 3, 20.4).
func verifyDigestSignature(c *call) tpm2.RC {
	context := c.next().Sized(maxSignatureContext)
	digest := c.next().Sized(tpm2.MaxDigest)
	sig := readSignature(c.next())
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	o := c.object(0)
	s, rc := c.ownScheme(o)
	if rc != tpm2.RCSuccess {
		return rc.Handle(1)
	}
	if sig.Alg != s.Alg || s.Alg == tpm2.AlgHMAC || s.Alg == tpm2.AlgEdDSA || !hasNoHash(s.Alg) && sig.Hash != signHash(o, s) {
		return tpm2.RCScheme.Parameter(3)
	}
	if !checkContext(o, context) || s.Alg == tpm2.AlgMLDSA && len(context) != 0 {
		return tpm2.RCValue.Parameter(1)
	}
	if rc := checkDigestSize(o, &sig, digest, 2); rc != tpm2.RCSuccess {
		return rc
	}
	if rc := verifyDigest(o, &sig, context, digest); rc != tpm2.RCSuccess {
		return rc.Parameter(3)
	}
	if s.Alg == tpm2.AlgMLDSA {
		// Errata 2.5: nothing ties an external µ to a message of this TPM.
		t := tpm2.Ticket{Tag: tpm2.STDigestVerified, Hierarchy: tpm2.RHNull, Hash: tpm2.AlgNull}
		t.Marshal(&c.out)
		return tpm2.RCSuccess
	}
	c.st.verifiedTicket(o.hierarchy, tpm2.STDigestVerified, digest, o.name, digestHash(o, s)).Marshal(&c.out)
	return tpm2.RCSuccess
}

// newSignatureSequence starts a sequence for a key's own scheme.
// hint counts for the verification of pure EdDSA.
func (c *call) newSignatureSequence(kind seqKind, o *object, s tpm2.Scheme, hint, context []byte) (*sequence, tpm2.RC) {
	q := &sequence{kind: kind, alg: signHash(o, s), keyName: bytes.Clone(o.name), context: bytes.Clone(context)}
	if kind == seqVerify {
		q.msg = suspend(ticketHash.New())
	}
	switch s.Alg {
	case tpm2.AlgEdDSA, tpm2.AlgHashEdDSA:
		q.alg = s.Alg
		h := tpmcrypto.NewEdPrehash(uint16(o.pub.Parms.Curve))
		if s.Alg == tpm2.AlgEdDSA {
			if kind == seqSign {
				return q, tpm2.RCSuccess // the message comes with the last command
			}
			k, err := o.edPublic()
			if err != nil {
				return nil, tpm2.RCKey
			}
			if h, err = k.NewChallenge(hint); err != nil {
				return nil, tpm2.RCSize
			}
			q.hint = bytes.Clone(hint)
		}
		var err error
		if q.mu, err = h.MarshalBinary(); err != nil {
			return nil, tpm2.RCFailure
		}
	case tpm2.AlgMLDSA:
		k, err := o.mldsaPublic()
		if err != nil {
			return nil, tpm2.RCKey
		}
		mu, err := k.NewMu(context)
		if err != nil {
			return nil, tpm2.RCValue
		}
		if q.mu, err = mu.MarshalBinary(); err != nil {
			return nil, tpm2.RCFailure
		}
	case tpm2.AlgHMAC:
		h := newHashSequence(seqHMAC, s.Hash, o.sens.Value)
		q.key, q.running = h.key, h.running
	default:
		q.running = newHashSequence(seqHash, q.alg, nil).running
	}
	return q, tpm2.RCSuccess
}

// signSequenceStart is TPM2_SignSequenceStart (Part 3, 17.5).
func signSequenceStart(c *call) tpm2.RC {
	auth := c.next().Sized(tpm2.MaxDigest)
	context := c.next().Sized(maxSignatureContext)
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	o := c.object(0)
	s, rc := c.ownScheme(o)
	if rc != tpm2.RCSuccess {
		return rc.Handle(1)
	}
	if o.pub.Attributes.Has(tpm2.ObjectX509Sign) || s.Alg == tpm2.AlgHMAC && (o.publicOnly || o.pub.Attributes.Has(tpm2.ObjectRestricted)) {
		return tpm2.RCAttributes.Handle(1)
	}
	if s.Alg != tpm2.AlgECDAA && !checkContext(o, context) {
		return tpm2.RCValue.Parameter(2)
	}
	q, rc := c.newSignatureSequence(seqSign, o, s, nil, context)
	if rc != tpm2.RCSuccess {
		return rc.Parameter(2)
	}
	return c.startSequence(auth, q)
}

// verifySequenceStart is TPM2_VerifySequenceStart (Part 3, 17.6).
func verifySequenceStart(c *call) tpm2.RC {
	auth := c.next().Sized(tpm2.MaxDigest)
	hint := bytes.Clone(c.next().Sized(tpm2.MaxECCKeyBytes))
	context := c.next().Sized(maxSignatureContext)
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	o := c.object(0)
	s, rc := c.ownScheme(o)
	if rc != tpm2.RCSuccess {
		return rc.Handle(1)
	}
	if s.Alg == tpm2.AlgHMAC && o.publicOnly {
		return tpm2.RCKey.Handle(1)
	}
	if s.Alg == tpm2.AlgEdDSA {
		if len(hint) != tpmcrypto.EdSize(uint16(o.pub.Parms.Curve)) { // R, the first half of the signature
			return tpm2.RCSize.Parameter(2)
		}
	} else if len(hint) != 0 { // only EdDSA has hints
		return tpm2.RCValue.Parameter(2)
	}
	if !checkContext(o, context) {
		return tpm2.RCValue.Parameter(3)
	}
	q, rc := c.newSignatureSequence(seqVerify, o, s, hint, context)
	if rc != tpm2.RCSuccess {
		return rc.Parameter(3)
	}
	return c.startSequence(auth, q)
}

// sequenceAndKey checks the two handles of the completing commands.
func (c *call) sequenceAndKey(kind seqKind) (*object, *object, tpm2.RC) {
	q, o := c.object(0), c.object(1)
	if !q.isSequence() || q.seq.kind != kind {
		return nil, nil, tpm2.RCMode.Handle(1)
	}
	if o.isSequence() {
		return nil, nil, tpm2.RCKey.Handle(2)
	}
	if !bytes.Equal(q.seq.keyName, o.name) {
		return nil, nil, tpm2.RCSignContextKey.Handle(2)
	}
	return q, o, tpm2.RCSuccess
}

// signSequenceComplete is TPM2_SignSequenceComplete (Part 3, 20.6).
func signSequenceComplete(c *call) tpm2.RC {
	buffer := c.next().Sized(tpm2.MaxBuffer)
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	q, o, rc := c.sequenceAndKey(seqSign)
	if rc != tpm2.RCSuccess {
		return rc
	}
	s, rc := c.ownScheme(o)
	if rc != tpm2.RCSuccess {
		return rc.Handle(2)
	}
	if o.pub.Attributes.Has(tpm2.ObjectX509Sign) {
		return tpm2.RCAttributes.Handle(2)
	}
	seq := q.seq
	if len(buffer) != 0 {
		seq = seq.write(buffer)
		defer seq.wipe()
	}
	// What came in a first block too short to tell may begin with the value.
	if o.pub.Attributes.Has(tpm2.ObjectRestricted) && (seq.generated || seq.short && seq.length >= 4) {
		return tpm2.RCValue.Parameter(1)
	}
	if s.Alg == tpm2.AlgECDAA {
		if len(seq.context) != 2 {
			return tpm2.RCSize.Handle(1)
		}
		s.Count = uint16(seq.context[0])<<8 | uint16(seq.context[1])
	}
	sig := tpm2.Signature{Alg: tpm2.AlgHMAC, Hash: seq.alg}
	if s.Alg == tpm2.AlgHMAC {
		sig.Sig = seq.digest() // the sequence is the HMAC
	} else if s.Alg == tpm2.AlgEdDSA {
		if sig, rc = c.signDigest(o, s, nil, buffer); rc != tpm2.RCSuccess {
			return rc
		}
	} else if sig, rc = c.signDigest(o, s, seq.context, seq.digest()); rc != tpm2.RCSuccess {
		return rc
	}
	c.setObject(c.handle(0), nil)
	sig.Marshal(&c.out)
	return tpm2.RCSuccess
}

// verifySequenceComplete is TPM2_VerifySequenceComplete (Part 3, 20.3).
func verifySequenceComplete(c *call) tpm2.RC {
	sig := readSignature(c.next())
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	q, o, rc := c.sequenceAndKey(seqVerify)
	if rc != tpm2.RCSuccess {
		return rc
	}
	s, rc := c.ownScheme(o)
	if rc != tpm2.RCSuccess {
		return rc.Handle(2)
	}
	if sig.Alg != s.Alg || !hasNoHash(s.Alg) && sig.Hash != signHash(o, s) {
		return tpm2.RCScheme.Parameter(1)
	}
	digest := q.seq.digest()
	if s.Alg == tpm2.AlgEdDSA {
		// The challenge was computed over the hint, so the signature must have it.
		k, err := o.edPublic()
		if err != nil {
			return tpm2.RCKey.Handle(2)
		}
		if !bytes.HasPrefix(sig.Sig, q.seq.hint) || k.VerifyChallenge(digest, sig.Sig) != nil {
			return tpm2.RCSignature.Parameter(1)
		}
	} else if s.Alg == tpm2.AlgHMAC {
		if !tpmcrypto.Equal(digest, sig.Sig) {
			return tpm2.RCSignature.Parameter(1)
		}
	} else if rc := verifyDigest(o, &sig, q.seq.context, digest); rc != tpm2.RCSuccess {
		return rc.Parameter(1)
	}
	c.setObject(c.handle(0), nil)
	c.st.verifiedTicket(o.hierarchy, tpm2.STMessageVerified, q.seq.messageDigest(), o.name, 0).Marshal(&c.out)
	return tpm2.RCSuccess
}
