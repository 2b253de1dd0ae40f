// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"bytes"

	"holdfast/softtpm/internal/tpmcrypto"
	"holdfast/tpm2"
)

// Hash and MAC in one command (Part 3, 15.4 to 15.6) and in sequences (17).

func init() {
	seq := slot{kObject, roleUser}
	register(&command{code: tpm2.CCHash, flags: fDecrypt | fEncrypt, run: hashCommand})
	register(&command{code: tpm2.CCHMAC, slots: []slot{{kObject, roleUser}}, flags: fDecrypt | fEncrypt, run: macCommand})
	register(&command{code: tpm2.CCHMACStart, slots: []slot{{kObject, roleUser}}, flags: fDecrypt | fHandle, run: macStart})
	register(&command{code: tpm2.CCHashSequenceStart, flags: fDecrypt | fHandle, run: hashSequenceStart})
	register(&command{code: tpm2.CCSequenceUpdate, slots: []slot{seq}, flags: fDecrypt, run: sequenceUpdate})
	register(&command{code: tpm2.CCSequenceComplete, slots: []slot{seq}, flags: fDecrypt | fEncrypt | fFlushed, run: sequenceComplete})
	register(&command{code: tpm2.CCEventSequenceComplete, slots: []slot{{kPCR | kNull, roleUser}, seq},
		flags: fNV | fReadOnlyOK | fDecrypt | fFlushed, run: eventSequenceComplete})
}

// nullHashcheck is the ticket of a digest that a restricted key may not sign.
var nullHashcheck = tpm2.Ticket{Tag: tpm2.STHashcheck, Hierarchy: tpm2.RHNull}

// hashCommand is TPM2_Hash (Part 3, 15.4).
func hashCommand(c *call) tpm2.RC {
	data := c.next().Sized(tpm2.MaxBuffer)
	alg := readHash(c.next())
	hierarchy := readHierarchy(c.next())
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	digest := alg.Sum(data)
	t := nullHashcheck
	if !startsGenerated(data) {
		t = c.st.hashCheck(hierarchy, alg, digest)
	}
	c.out.Sized(digest)
	t.Marshal(&c.out)
	return tpm2.RCSuccess
}

// macKey returns the algorithm with which the key of handle 1 computes a MAC
// when the command asks for alg (a hash, CMAC or null), after the checks of
// Part 3, 15.6. param is the number of the parameter that asks.
func (c *call) macKey(alg tpm2.Alg, param int) (*object, tpm2.Alg, tpm2.RC) {
	o := c.object(0)
	a := o.pub.Attributes
	have := tpm2.AlgNull
	switch {
	case o.isSequence():
		return nil, 0, tpm2.RCType.Handle(1)
	case o.pub.Type == tpm2.AlgSymCipher:
		have = o.pub.Parms.Symmetric.Mode
	case o.pub.Type == tpm2.AlgKeyedHash:
		if o.pub.Parms.Scheme.Alg != tpm2.AlgNull {
			have = o.pub.Parms.Scheme.Hash
		}
	default:
		return nil, 0, tpm2.RCType.Handle(1)
	}
	switch {
	case a.Has(tpm2.ObjectRestricted):
		return nil, 0, tpm2.RCAttributes.Handle(1)
	case !a.Has(tpm2.ObjectSignEncrypt):
		return nil, 0, tpm2.RCKey.Handle(1)
	case have != tpm2.AlgNull && alg != tpm2.AlgNull && alg != have:
		return nil, 0, tpm2.RCValue.Parameter(param)
	case have == tpm2.AlgNull && alg == tpm2.AlgNull:
		return nil, 0, tpm2.RCValue.Parameter(param)
	case alg == tpm2.AlgNull:
		alg = have
	}
	if (o.pub.Type == tpm2.AlgKeyedHash) != alg.IsHash() || !alg.IsHash() && alg != tpm2.AlgCMAC {
		return nil, 0, tpm2.RCScheme.Parameter(param) // of the other kind of key, or a mode that makes no MAC
	}
	return o, alg, tpm2.RCSuccess
}

// readMAC reads a TPMI_ALG_MAC_SCHEME+.
func readMAC(r *tpm2.Reader) tpm2.Alg {
	a := r.Alg()
	if a != tpm2.AlgNull && a != tpm2.AlgCMAC && !hashImplemented(a) {
		r.Fail(tpm2.RCSymmetric) // Part 2, table 85
	}
	return a
}

// macCommand is TPM2_MAC (Part 3, 15.6), which has the code of TPM2_HMAC and
// does all that TPM2_HMAC does.
func macCommand(c *call) tpm2.RC {
	data := c.next().Sized(tpm2.MaxBuffer)
	alg := readMAC(c.next())
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	o, alg, rc := c.macKey(alg, 2)
	if rc != tpm2.RCSuccess {
		return rc
	}
	if alg != tpm2.AlgCMAC {
		c.out.Sized(tpmcrypto.HMAC(tpmcrypto.Hash(alg), o.sens.Value, data))
		return tpm2.RCSuccess
	}
	b, err := o.cipher()
	if err != nil {
		return tpm2.RCKey.Handle(1)
	}
	m := tpmcrypto.NewCMAC(b)
	m.Write(data)
	c.out.Sized(m.Sum())
	return tpm2.RCSuccess
}

// startSequence makes a sequence object with the given authValue and returns
// its handle.
func (c *call) startSequence(auth []byte, s *sequence) tpm2.RC {
	h, rc := c.addObject(&object{hierarchy: tpm2.RHNull, seq: s, sens: tpm2.Sensitive{Auth: bytes.Clone(trimAuth(auth))}})
	c.outHandle = h
	return rc
}

// macStart is TPM2_MAC_Start (Part 3, 17.3), which has the code of
// TPM2_HMAC_Start.
func macStart(c *call) tpm2.RC {
	auth := c.next().Sized(tpm2.MaxDigest)
	alg := readMAC(c.next())
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	o, alg, rc := c.macKey(alg, 2)
	if rc != tpm2.RCSuccess {
		return rc
	}
	if alg == tpm2.AlgCMAC {
		return c.startSequence(auth, newCMACSequence(o.pub.Parms.Symmetric.Alg, o.sens.Value))
	}
	return c.startSequence(auth, newHashSequence(seqHMAC, alg, o.sens.Value))
}

// hashSequenceStart is TPM2_HashSequenceStart (Part 3, 17.4). The null hash
// starts an event sequence.
func hashSequenceStart(c *call) tpm2.RC {
	auth := c.next().Sized(tpm2.MaxDigest)
	alg := readHashNull(c.next())
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	kind := seqHash
	if alg == tpm2.AlgNull {
		kind = seqEvent
	}
	return c.startSequence(auth, newHashSequence(kind, alg, nil))
}

// sequenceUpdate is TPM2_SequenceUpdate (Part 3, 17.7), for sequences of all
// kinds.
func sequenceUpdate(c *call) tpm2.RC {
	data := c.next().Sized(tpm2.MaxBuffer)
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	o := c.object(0)
	if !o.isSequence() || o.rot != nil {
		return tpm2.RCMode.Handle(1)
	}
	if o.seq.kind == seqSign && o.seq.alg == tpm2.AlgEdDSA {
		return tpm2.RCOneShotSignature.Handle(1) // Part 1, 29.4.5.1: EdDSA reads the message twice
	}
	n := o.clone()
	n.seq = o.seq.write(data)
	c.setObject(c.handle(0), n)
	return tpm2.RCSuccess
}

// sequenceComplete is TPM2_SequenceComplete (Part 3, 17.8).
func sequenceComplete(c *call) tpm2.RC {
	data := c.next().Sized(tpm2.MaxBuffer)
	hierarchy := readHierarchy(c.next())
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	o := c.object(0)
	if !o.isSequence() || o.seq.kind != seqHash && o.seq.kind != seqHMAC && o.seq.kind != seqCMAC {
		return tpm2.RCMode.Handle(1)
	}
	s := o.seq
	if len(data) != 0 || s.length == 0 {
		s = s.write(data)
	}
	defer s.wipe()
	digest := s.digest()
	t := nullHashcheck
	// A first block too short to tell counts as unsafe (17.7.1), but a whole
	// message below four octets cannot begin with the value.
	if s.kind == seqHash && !s.generated && (!s.short || s.length < 4) {
		t = c.st.hashCheck(hierarchy, s.alg, digest)
	}
	c.out.Sized(digest)
	t.Marshal(&c.out)
	c.setObject(c.handle(0), nil)
	return tpm2.RCSuccess
}

// eventSequenceComplete is TPM2_EventSequenceComplete (Part 3, 17.9).
func eventSequenceComplete(c *call) tpm2.RC {
	data := c.next().Sized(tpm2.MaxBuffer)
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	o := c.object(1)
	if !o.isSequence() || o.seq.kind != seqEvent {
		return tpm2.RCMode.Handle(2)
	}
	p, rc := c.extendable()
	if rc != tpm2.RCSuccess {
		return rc
	}
	var out []tpm2.HA
	for b, d := range o.seq.write(data).bankDigests() {
		out = append(out, tpm2.HA{Alg: bankAlgs[b], Digest: d})
		if p >= 0 {
			c.st.extendPCR(b, p, d)
		}
	}
	tpm2.MarshalHAs(&c.out, out)
	c.setObject(c.handle(1), nil)
	return tpm2.RCSuccess
}
