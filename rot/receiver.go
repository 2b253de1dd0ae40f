// SPDX-License-Identifier: Apache-2.0

package rot

import (
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"io"
)

// ErrUsed says that a Receiver or Sender was used, or closed, before.
var ErrUsed = errors.New("rot: this side of the exchange is over; start a new one")

// ErrAbort says that the peer's message has the right form but does not belong
// to this run. The state is erased; the outputs of both sides are void.
var ErrAbort = errors.New("rot: the peer's values do not fit this exchange")

// Receiver is the receiver's state between its two messages. Not safe for
// concurrent use.
type Receiver struct {
	p   *Params
	sid uint32
	receiverSecrets
	done bool
}

// receiverSecrets are the draws of one run.
type receiverSecrets struct {
	b1  byte // 0 or 1
	sR  poly // NTT domain
	eR  poly // 2e, NTT domain
	eR1 poly // 2e, coefficients
	r   [16]byte
	s   [2][16]byte
}

// NewReceiver starts a run with session id sid and returns message 1. It reads
// 32 octets from rand, whose errors it returns.
func NewReceiver(p *Params, sid uint32, rand io.Reader) (*Receiver, []byte, error) {
	stream, err := expand(rand)
	if err != nil {
		return nil, nil, err
	}
	var d receiverSecrets
	defer d.erase()
	p.sample(&d.sR, 1, stream)
	p.sample(&d.eR, 2, stream)
	p.sample(&d.eR1, 2, stream)
	p.ntt(&d.sR)
	p.ntt(&d.eR)
	var bit [1]byte
	for _, b := range [][]byte{d.r[:], d.s[0][:], d.s[1][:], bit[:]} {
		io.ReadFull(stream, b)
	}
	d.b1 = bit[0] & 1
	r, m := startReceiver(p, sid, &d)
	return r, m.append(nil), nil
}

// startReceiver computes message 1 from the draws. h is computed and
// subtracted under a mask whether b1 is 0 or 1, so time does not tell b1.
func startReceiver(p *Params, sid uint32, d *receiverSecrets) (*Receiver, *message1) {
	m := &message1{sid: sid}
	binary.LittleEndian.PutUint32(m.rid[:], sid)
	copy(m.rid[4:], d.r[:])
	m.hS[0], m.hS[1] = hash(d.s[0][:]), hash(d.s[1][:])
	p.mul(&m.p0, p.m, &d.sR)
	p.add(&m.p0, &m.p0, &d.eR)
	h := p.rom1(m.rid[:])
	mask := -uint16(d.b1)
	for i := range h {
		h[i] &= mask
	}
	p.sub(&m.p0, &m.p0, h)
	return &Receiver{p: p, sid: sid, receiverSecrets: *d}, m
}

// Finish takes message 2 and returns message 3, the random bit b (0 or 1) and
// M_b. It works once: afterwards, and after an error, the state is erased. A
// message with wrong form gives an error that matches ErrMessage, one from
// another run ErrAbort.
//
// Both signals and both check values go through masks, so time does not tell
// b1 or b; that a run aborts is visible.
func (r *Receiver) Finish(msg2 []byte) (msg3 []byte, b byte, mb [32]byte, err error) {
	if r.done {
		return nil, 0, mb, ErrUsed
	}
	defer r.Close()
	var m message2
	if err := m.decode(r.p, msg2); err != nil {
		return nil, 0, mb, err
	}
	if m.sid != r.sid {
		return nil, 0, mb, ErrAbort
	}
	var k, sk, w poly
	defer func() { clear(k[:]); clear(sk[:]); clear(w[:]) }()
	r.p.mul(&k, &m.pS, &r.sR)
	r.p.inverseNTT(&k)
	r.p.add(&k, &k, &r.eR1)
	mask := -uint16(r.b1)
	for i := range w {
		w[i] = m.w[0][i]&^mask | m.w[1][i]&mask
	}
	r.p.mod2(&sk, &k, &w)
	c := hashPoly(&sk)
	is0 := subtle.ConstantTimeCompare(c[:], m.hma[0][:])
	is1 := subtle.ConstantTimeCompare(c[:], m.hma[1][:])
	// Both equal would make b ambiguous: the sender cheats.
	if is0^is1 != 1 {
		return nil, 0, mb, ErrAbort
	}
	var chosen [16]byte
	defer clear(chosen[:])
	subtle.ConstantTimeCopy(1-int(r.b1), chosen[:], r.s[0][:])
	subtle.ConstantTimeCopy(int(r.b1), chosen[:], r.s[1][:])
	mb = output(r.sid, &sk, &chosen, &m.u)
	out := message3{sid: r.sid, s: r.s}
	return out.append(nil), byte(is1), mb, nil
}

// Close erases the state. It may be called at any time.
func (r *Receiver) Close() {
	r.erase()
	r.done = true
}

func (d *receiverSecrets) erase() { *d = receiverSecrets{} }
