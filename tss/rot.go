// SPDX-License-Identifier: Apache-2.0

package tss

import (
	"bytes"
	"fmt"

	"holdfast/tpm2"
)

// Random Oblivious Transfer: the vendor commands of our TPM. The receiver runs
// ROT1 and ROT3, the sender ROT2 and ROT4; each message goes to the other
// side. Between its two commands a side's state is a transient object that is
// used once: ROT3 and ROT4 end it whatever their result.

// Bounds of what the four commands carry, in octets.
const (
	maxROTMessage  = 2048
	rotReceived    = 1 + 32
	rotSentSecrets = 2 * 32
)

// Received is what a receiver learns: the message M_b, where neither side
// chose b. Erase both after use.
type Received struct {
	B  byte // 0 or 1
	MB [32]byte
}

// Sent is what a sender learns: both messages, but not which the receiver has.
type Sent struct{ M0, M1 [32]byte }

func (t *TPM) rotStart(cc tpm2.CC, auth []byte, modulus uint16, arg func(w *tpm2.Writer)) (state Ref, message []byte, err error) {
	c := call{cc: cc, inSized: true, outSized: true, outHandle: true}
	r, err := t.do(&c, func(w *tpm2.Writer) {
		w.Sized(auth)
		w.U16(modulus)
		arg(w)
	})
	if err != nil {
		return Ref{}, nil, err
	}
	message = bytes.Clone(r.Sized(maxROTMessage))
	if err := r.end(cc); err != nil {
		return Ref{}, nil, err
	}
	return ROTState(r.handle, auth), message, nil
}

// ROTState refers to the state of a transfer: like a sequence it has the Empty
// Buffer for a Name.
func ROTState(h tpm2.Handle, auth []byte) Ref {
	return Ref{Handle: h, Name: []byte{}, Auth: Password(auth)}
}

// ROT1 is ROT_MSG1: a receiver begins the transfer sid. modulus is 13313 or
// 15361, 0 for 13313; auth is the authValue of the state.
func (t *TPM) ROT1(auth []byte, modulus uint16, sid uint32) (state Ref, message1 []byte, err error) {
	return t.rotStart(tpm2.CCROTMsg1, auth, modulus, func(w *tpm2.Writer) { w.U32(sid) })
}

// ROT2 is ROT_MSG2: a sender answers message 1.
func (t *TPM) ROT2(auth []byte, modulus uint16, message1 []byte) (state Ref, message2 []byte, err error) {
	return t.rotStart(tpm2.CCROTMsg2, auth, modulus, func(w *tpm2.Writer) { w.Sized(message1) })
}

// ROT3 is ROT_MSG3: the receiver takes message 2 and is done once message 3 is
// with the sender.
func (t *TPM) ROT3(state Ref, message2 []byte) (out Received, message3 []byte, err error) {
	c := call{cc: tpm2.CCROTMsg3, refs: [3]Ref{state}, handles: 1, auths: 1, inSized: true, outSized: true}
	r, err := t.do(&c, func(w *tpm2.Writer) { w.Sized(message2) })
	if err != nil {
		return out, nil, err
	}
	b := r.Sized(rotReceived)
	message3 = bytes.Clone(r.Sized(maxROTMessage))
	if err := r.end(c.cc); err != nil {
		return out, nil, err
	}
	defer clear(b)
	if len(b) != rotReceived || b[0] > 1 {
		return out, nil, fmt.Errorf("%v: %w: a result of %d octets, expected a bit and 32 octets", c.cc, ErrResponse, len(b))
	}
	out.B = b[0]
	copy(out.MB[:], b[1:])
	return out, message3, nil
}

// ROT4 is ROT_MSG4: the sender takes message 3.
func (t *TPM) ROT4(state Ref, message3 []byte) (out Sent, err error) {
	c := call{cc: tpm2.CCROTMsg4, refs: [3]Ref{state}, handles: 1, auths: 1, inSized: true, outSized: true}
	r, err := t.do(&c, func(w *tpm2.Writer) { w.Sized(message3) })
	if err != nil {
		return out, err
	}
	b := r.Sized(rotSentSecrets)
	if err := r.end(c.cc); err != nil {
		return out, err
	}
	defer clear(b)
	if len(b) != rotSentSecrets {
		return out, fmt.Errorf("%v: %w: a result of %d octets, expected %d", c.cc, ErrResponse, len(b), rotSentSecrets)
	}
	copy(out.M0[:], b)
	copy(out.M1[:], b[32:])
	return out, nil
}
