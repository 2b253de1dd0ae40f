// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"encoding"
	"hash"
	"slices"

	"holdfast/softtpm/internal/tpmcrypto"
	"holdfast/tpm2"
)

// seqKind is the kind of a sequence object.
type seqKind uint8

const (
	seqHash   seqKind = iota // HashSequenceStart with a hash
	seqEvent                 // HashSequenceStart with the null hash: all PCR banks
	seqHMAC                  // HMAC_Start
	seqSign                  // SignSequenceStart
	seqVerify                // VerifySequenceStart
	seqROT                   // ROT_MSG1 and ROT_MSG2: no message, see transfer
	seqCMAC                  // MAC_Start with a symmetric key
)

// sequence is the state of a sequence object (Part 1, 32.4; version 185:
// signature sequences). Like all state it does not change: write returns a
// changed copy.
type sequence struct {
	kind    seqKind
	alg     tpm2.Alg // hash of seqHash and seqHMAC, of the message in seqSign and seqVerify, or AlgEdDSA or AlgHashEdDSA there; cipher of seqCMAC
	running [][]byte // marshalled hash states: one per bank in seqEvent, else one
	key     []byte   // HMAC or cipher key
	mu      []byte   // in place of running: marshalled µ of pure ML-DSA, EdHash of EdDSA; nil where pure EdDSA signs
	msg     []byte   // marshalled ticketHash of the message, in seqVerify: for the ticket
	length  uint64   // bytes so far

	// generated says that the message begins with TPM_GENERATED_VALUE, short
	// that its first block was too short to tell.
	generated, short bool

	keyName []byte // of the signing key: the key at the end must be that of the start
	context []byte
	hint    []byte
}

func (s *sequence) wipe() { tpmcrypto.Zero(s.key) }

// visit reads or writes the sequence (see codec).
func (s *sequence) visit(x codec) {
	k := uint8(s.kind)
	x.u8(&k)
	s.kind = seqKind(k)
	x.alg(&s.alg)
	n := x.count(len(s.running), numBanks)
	if x.r != nil {
		s.running = make([][]byte, n)
	}
	for i := range s.running {
		x.bytes(&s.running[i])
	}
	x.bytes(&s.key)
	x.bytes(&s.mu)
	x.bytes(&s.msg)
	x.u64(&s.length)
	x.flag(&s.generated)
	x.flag(&s.short)
	x.bytes(&s.keyName)
	x.bytes(&s.context)
	x.bytes(&s.hint)
	if x.r != nil && x.r.Err() == nil && !s.valid() {
		x.r.Fail(tpm2.RCValue)
	}
}

// valid says whether all hash states can be taken up again.
func (s *sequence) valid() bool {
	if s.kind == seqCMAC {
		return len(s.running) == 1 && s.msg == nil && s.mu == nil && s.cmac() != nil
	}
	algs := s.algs()
	if s.kind > seqVerify || len(s.running) != len(algs) {
		return false
	}
	if (s.msg != nil) != (s.kind == seqVerify) || s.msg != nil && resume(tpm2.Alg(ticketHash), s.msg) == nil {
		return false
	}
	for i, a := range algs {
		if resume(a, s.running[i]) == nil {
			return false
		}
	}
	if isEdScheme(s.alg) {
		if s.kind != seqSign && s.kind != seqVerify {
			return false
		}
		if s.alg == tpm2.AlgEdDSA && s.kind == seqSign {
			return s.mu == nil && s.length == 0
		}
		_, err := tpmcrypto.UnmarshalEdHash(s.mu)
		return err == nil
	}
	if s.mu != nil {
		_, err := tpmcrypto.UnmarshalMu(s.mu)
		return err == nil
	}
	return len(algs) != 0
}

// algs returns the hash algorithm of each running hash.
func (s *sequence) algs() []tpm2.Alg {
	switch {
	case s.kind == seqEvent:
		return bankAlgs[:]
	case s.mu != nil, isEdScheme(s.alg):
		return nil
	}
	return []tpm2.Alg{s.alg}
}

// suspend returns the marshalled state of a hash of this package's algorithms, which all can.
func suspend(h hash.Hash) []byte {
	b, err := h.(encoding.BinaryMarshaler).MarshalBinary()
	if err != nil {
		panic("softtpm: a hash state cannot be saved: " + err.Error())
	}
	return b
}

// resume returns the hash that suspend saved, nil if state is not one of alg.
func resume(alg tpm2.Alg, state []byte) hash.Hash {
	h := tpmcrypto.Hash(alg).New()
	if h == nil || h.(encoding.BinaryUnmarshaler).UnmarshalBinary(state) != nil {
		return nil
	}
	return h
}

// newHashSequence starts a hash, event or HMAC sequence; alg must be implemented.
func newHashSequence(kind seqKind, alg tpm2.Alg, key []byte) *sequence {
	s := &sequence{kind: kind, alg: alg}
	for _, a := range s.algs() {
		h := tpmcrypto.Hash(a).New()
		if kind == seqHMAC {
			s.key = hmacPad(a, key)
			h.Write(xorByte(s.key, 0x36))
		}
		s.running = append(s.running, suspend(h))
	}
	return s
}

// newCMACSequence starts a CMAC sequence with a cipher key.
func newCMACSequence(cipher tpm2.Alg, key []byte) *sequence {
	s := &sequence{kind: seqCMAC, alg: cipher, key: slices.Clone(key)}
	b, err := tpmcrypto.NewCipher(uint16(cipher), key)
	if err != nil {
		panic(err) // the key was checked when it was loaded
	}
	s.running = [][]byte{tpmcrypto.NewCMAC(b).State()}
	return s
}

// cmac returns the CMAC as it runs, nil if the state is not one.
func (s *sequence) cmac() *tpmcrypto.CMAC {
	b, err := tpmcrypto.NewCipher(uint16(s.alg), s.key)
	if err != nil {
		return nil
	}
	m, err := tpmcrypto.ResumeCMAC(b, s.running[0])
	if err != nil {
		return nil
	}
	return m
}

// hmacPad is K0 of FIPS 198-1: the key as one block of the hash.
func hmacPad(alg tpm2.Alg, key []byte) []byte {
	n := tpmcrypto.Hash(alg).BlockSize()
	if len(key) > n {
		key = alg.Sum(key)
	}
	k := make([]byte, n)
	copy(k, key)
	return k
}

func xorByte(b []byte, x byte) []byte {
	out := make([]byte, len(b))
	for i := range b {
		out[i] = b[i] ^ x
	}
	return out
}

// write returns the sequence with p appended to its message.
func (s *sequence) write(p []byte) *sequence {
	n := *s
	n.key = slices.Clone(s.key)
	if s.length == 0 {
		n.short = len(p) < 4
		n.generated = len(p) >= 4 && startsGenerated(p)
	}
	n.length += uint64(len(p))
	if s.msg != nil {
		h := resume(tpm2.Alg(ticketHash), s.msg)
		h.Write(p)
		n.msg = suspend(h)
	}
	if isEdScheme(s.alg) {
		if s.mu != nil { // else the whole message comes with SignSequenceComplete
			h := s.edHash()
			h.Write(p)
			b, err := h.MarshalBinary()
			if err != nil {
				panic("softtpm: a hash of EdDSA cannot be saved")
			}
			n.mu = b
		}
		return &n
	}
	if s.mu != nil {
		m, err := tpmcrypto.UnmarshalMu(s.mu)
		if err != nil {
			panic("softtpm: µ cannot be taken up again") // valid checked it
		}
		m.Write(p)
		if n.mu, err = m.MarshalBinary(); err != nil {
			panic("softtpm: µ cannot be saved")
		}
		return &n
	}
	if s.kind == seqCMAC {
		m := s.cmac() // valid checked it
		m.Write(p)
		n.running = [][]byte{m.State()}
		return &n
	}
	n.running = make([][]byte, len(s.running))
	for i, a := range s.algs() {
		h := resume(a, s.running[i])
		h.Write(p)
		n.running[i] = suspend(h)
	}
	return &n
}

// edHash takes up the running hash of EdDSA.
func (s *sequence) edHash() *tpmcrypto.EdHash {
	h, err := tpmcrypto.UnmarshalEdHash(s.mu)
	if err != nil {
		panic("softtpm: a hash of EdDSA cannot be taken up again") // valid checked it
	}
	return h
}

// digest returns the digest of the message: the HMAC of an HMAC sequence, µ of
// pure ML-DSA, the challenge of a verification of pure EdDSA, nil for its
// signing.
func (s *sequence) digest() []byte {
	if isEdScheme(s.alg) {
		if s.mu == nil {
			return nil
		}
		return s.edHash().Sum()
	}
	if s.mu != nil {
		m, err := tpmcrypto.UnmarshalMu(s.mu)
		if err != nil {
			panic("softtpm: µ cannot be taken up again") // valid checked it
		}
		return m.Sum()
	}
	if s.kind == seqCMAC {
		return s.cmac().Sum()
	}
	d := resume(s.algs()[0], s.running[0]).Sum(nil)
	if s.key != nil {
		d = s.alg.Sum(xorByte(s.key, 0x5C), d)
	}
	return d
}

// messageDigest returns the digest of the message by ticketHash, for the ticket
// of a verification: µ and HMACs cannot be computed without the key, which
// PolicyAuthorize does not have.
func (s *sequence) messageDigest() []byte {
	return resume(tpm2.Alg(ticketHash), s.msg).Sum(nil)
}

// bankDigests returns the digest of an event sequence for each bank.
func (s *sequence) bankDigests() [numBanks][]byte {
	var out [numBanks][]byte
	for i, a := range bankAlgs {
		out[i] = resume(a, s.running[i]).Sum(nil)
	}
	return out
}

// startsGenerated says whether p begins with TPM_GENERATED_VALUE.
func startsGenerated(p []byte) bool {
	return len(p) >= 4 && p[0] == 0xFF && p[1] == 'T' && p[2] == 'C' && p[3] == 'G'
}

// hashSequence is the sequence of _TPM_Hash_Start, _TPM_Hash_Data and _TPM_Hash_End.
type hashSequence struct {
	open bool
	h    [numBanks]hash.Hash
}

func (s *hashSequence) reset() { *s = hashSequence{} }

// HashStart is _TPM_Hash_Start (Part 3, 33.7; locality 4): begins the
// measurement of an H-CRTM or of a dynamic root of trust.
func (t *TPM) HashStart() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return
	}
	t.drtm.open = true
	for i, a := range bankAlgs {
		t.drtm.h[i] = a.New()
	}
}

// HashData is _TPM_Hash_Data: data of the measurement that HashStart began.
func (t *TPM) HashData(p []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || !t.drtm.open {
		return
	}
	for _, h := range t.drtm.h {
		h.Write(p)
	}
}

// HashEnd is _TPM_Hash_End: before Startup the digest goes into PCR 0 (H-CRTM,
// Part 1, 34.3), after it into PCR 17 with PCRs 17 to 22 reset (D-RTM).
func (t *TPM) HashEnd() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || !t.drtm.open {
		return
	}
	s := &t.state
	pcr := 17
	if !s.volatile.started {
		pcr = 0
		s.volatile.drtm = true
	} else {
		for p := 17; p <= 22; p++ {
			for b := range bankAlgs {
				s.volatile.pcr[b][p] = [tpm2.MaxDigest]byte{}
			}
		}
	}
	for b, a := range bankAlgs {
		if pcr == 0 {
			s.volatile.pcr[b][0] = [tpm2.MaxDigest]byte{}
			s.volatile.pcr[b][0][a.DigestSize()-1] = 4
		}
		s.extendPCR(b, pcr, t.drtm.h[b].Sum(nil))
	}
	t.drtm.reset()
}
