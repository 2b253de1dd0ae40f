// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"bytes"

	"holdfast/softtpm/internal/tpmcrypto"
	"holdfast/tpm2"
)

// Hash and HMAC in one command (Part 3, 15.4 and 15.5) and in sequences (17).

func init() {
	seq := slot{kTransient, roleUser}
	register(&command{code: tpm2.CCHash, flags: fDecrypt | fEncrypt, run: hashCommand})
	register(&command{code: tpm2.CCHMAC, slots: []slot{{kObject, roleUser}}, flags: fDecrypt | fEncrypt, run: hmacCommand})
	register(&command{code: tpm2.CCHMACStart, slots: []slot{{kObject, roleUser}}, flags: fDecrypt | fHandle, run: hmacStart})
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

// hmacKey returns the hash with which the key of handle 1 computes an HMAC
// when the command asks for alg, after the checks of Part 3, 15.5.
func (c *call) hmacKey(alg tpm2.Alg, param int) (*object, tpm2.Alg, tpm2.RC) {
	o := c.object(0)
	a := o.pub.Attributes
	switch {
	case o.isSequence() || o.pub.Type != tpm2.AlgKeyedHash:
		return nil, 0, tpm2.RCType.Handle(1)
	case a.Has(tpm2.ObjectRestricted):
		return nil, 0, tpm2.RCAttributes.Handle(1)
	case !a.Has(tpm2.ObjectSignEncrypt):
		return nil, 0, tpm2.RCKey.Handle(1)
	}
	if s := o.pub.Parms.Scheme; s.Alg != tpm2.AlgNull {
		if alg != tpm2.AlgNull && alg != s.Hash {
			return nil, 0, tpm2.RCValue.Parameter(param)
		}
		alg = s.Hash
	}
	if alg == tpm2.AlgNull {
		return nil, 0, tpm2.RCValue.Parameter(param)
	}
	return o, alg, tpm2.RCSuccess
}

// hmacCommand is TPM2_HMAC (Part 3, 15.5).
func hmacCommand(c *call) tpm2.RC {
	data := c.next().Sized(tpm2.MaxBuffer)
	alg := readHashNull(c.next())
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	o, alg, rc := c.hmacKey(alg, 2)
	if rc != tpm2.RCSuccess {
		return rc
	}
	c.out.Sized(tpmcrypto.HMAC(tpmcrypto.Hash(alg), o.sens.Value, data))
	return tpm2.RCSuccess
}

// startSequence makes a sequence object with the given authValue and returns
// its handle.
func (c *call) startSequence(auth []byte, s *sequence) tpm2.RC {
	h, rc := c.addObject(&object{hierarchy: tpm2.RHNull, seq: s, sens: tpm2.Sensitive{Auth: bytes.Clone(trimAuth(auth))}})
	c.outHandle = h
	return rc
}

// hmacStart is TPM2_HMAC_Start (Part 3, 17.2).
func hmacStart(c *call) tpm2.RC {
	auth := c.next().Sized(tpm2.MaxDigest)
	alg := readHashNull(c.next())
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	o, alg, rc := c.hmacKey(alg, 2)
	if rc != tpm2.RCSuccess {
		return rc
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
	if !o.isSequence() || o.seq.kind != seqHash && o.seq.kind != seqHMAC {
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
