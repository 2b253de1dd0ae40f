// SPDX-License-Identifier: Apache-2.0

package rot

import (
	"crypto/subtle"
	"io"
)

// Sender is the sender's state between its message and the end. Not safe for
// concurrent use.
type Sender struct {
	p    *Params
	sid  uint32
	a1   byte
	u    [16]byte
	hS   [2][32]byte
	sk   [2]poly
	done bool
}

// senderSecrets are the draws of one run.
type senderSecrets struct {
	a1  byte
	sS  poly // NTT domain
	eS  poly // 2e, NTT domain
	eS1 poly // 2e, coefficients
	u   [16]byte
}

// NewSender answers message 1 and returns message 2. It reads 32 octets from
// rand, whose errors it returns; a malformed message gives an error that
// matches ErrMessage.
func NewSender(p *Params, msg1 []byte, rand io.Reader) (*Sender, []byte, error) {
	var m message1
	if err := m.decode(p, msg1); err != nil {
		return nil, nil, err
	}
	stream, err := expand(rand)
	if err != nil {
		return nil, nil, err
	}
	var d senderSecrets
	defer func() { d = senderSecrets{} }()
	p.sample(&d.sS, 1, stream)
	p.sample(&d.eS, 2, stream)
	p.sample(&d.eS1, 2, stream)
	p.ntt(&d.sS)
	p.ntt(&d.eS)
	var bit [1]byte
	for _, b := range [][]byte{d.u[:], bit[:]} {
		io.ReadFull(stream, b)
	}
	d.a1 = bit[0] & 1
	s, out := startSender(p, &m, &d)
	return s, out.append(nil), nil
}

// startSender computes message 2 from the draws. The two check values are
// swapped under a mask, so time does not tell a1.
func startSender(p *Params, in *message1, d *senderSecrets) (*Sender, *message2) {
	s := &Sender{p: p, sid: in.sid, a1: d.a1, u: d.u, hS: in.hS}
	m := &message2{sid: in.sid, u: d.u}
	p.mul(&m.pS, p.m, &d.sS)
	p.add(&m.pS, &m.pS, &d.eS)
	pi := [2]poly{in.p0, {}}
	p.add(&pi[1], &in.p0, p.rom1(in.rid[:]))
	var check [2][32]byte
	for i := range pi {
		k := &pi[i]
		p.mul(k, k, &d.sS)
		p.inverseNTT(k)
		p.add(k, k, &d.eS1)
		p.signal(&m.w[i], k)
		p.mod2(&s.sk[i], k, &m.w[i])
		check[i] = hashPoly(&s.sk[i])
		clear(k[:])
	}
	m.hma = check
	swap32(int(d.a1), &m.hma)
	return s, m
}

// swap32 exchanges the two values if bit is 1, in constant time.
func swap32(bit int, x *[2][32]byte) {
	t := x[0]
	subtle.ConstantTimeCopy(bit, x[0][:], x[1][:])
	subtle.ConstantTimeCopy(bit, x[1][:], t[:])
	clear(t[:])
}

// Finish takes message 3 and returns M0 and M1. It works once: afterwards, and
// after an error, the state is erased. Both masks are checked against the
// hashes of message 1 in full; which one fails does not show.
func (s *Sender) Finish(msg3 []byte) (m0, m1 [32]byte, err error) {
	if s.done {
		return m0, m1, ErrUsed
	}
	defer s.Close()
	var m message3
	if err := m.decode(msg3); err != nil {
		return m0, m1, err
	}
	if m.sid != s.sid {
		return m0, m1, ErrAbort
	}
	h0, h1 := hash(m.s[0][:]), hash(m.s[1][:])
	if subtle.ConstantTimeCompare(h0[:], s.hS[0][:])&subtle.ConstantTimeCompare(h1[:], s.hS[1][:]) != 1 {
		return m0, m1, ErrAbort
	}
	// Output i belongs to branch i^a1: compute by branch, then swap by mask.
	out := [2][32]byte{output(s.sid, &s.sk[0], &m.s[0], &s.u), output(s.sid, &s.sk[1], &m.s[1], &s.u)}
	swap32(int(s.a1), &out)
	m0, m1 = out[0], out[1]
	clear(out[:])
	return m0, m1, nil
}

// Close erases the state. It may be called at any time.
func (s *Sender) Close() { *s = Sender{done: true} }
