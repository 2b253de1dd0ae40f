// SPDX-License-Identifier: Apache-2.0

package tss

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"holdfast/tpm2"
)

// A transfer between two TPMs over a byte stream. The receiver speaks first:
//
//	receiver                                  sender
//	rotGreeting ‖ modulus u16 ‖ message 1  →
//	                                       ←  message 2
//	message 3                              →
//	                                       ←  empty: the sender has its result
//
// A message is preceded by its length, u16 big-endian. The stream gives the
// messages neither secrecy nor authenticity. A listener learns nothing of the
// results, since they need the secrets of one side; someone who can change the
// stream can be a third party in the middle, so use a channel whose other end
// is known if that matters.
const rotGreeting = "holdfast/rot/v1\n"

func writeROT(w io.Writer, head, message []byte) error {
	if len(message) > maxROTMessage {
		return fmt.Errorf("tss: rot: a message of %d octets, expected at most %d", len(message), maxROTMessage)
	}
	b := binary.BigEndian.AppendUint16(append([]byte(nil), head...), uint16(len(message)))
	_, err := w.Write(append(b, message...))
	return err
}

// readROT reads one message; what says which, for errors.
func readROT(r io.Reader, what string) ([]byte, error) {
	var n [2]byte
	if _, err := io.ReadFull(r, n[:]); err != nil {
		return nil, fmt.Errorf("tss: rot: waiting for %s: %w", what, err)
	}
	size := binary.BigEndian.Uint16(n[:])
	if size > maxROTMessage {
		return nil, fmt.Errorf("tss: rot: %s has %d octets, expected at most %d", what, size, maxROTMessage)
	}
	b := make([]byte, size)
	if _, err := io.ReadFull(r, b); err != nil {
		return nil, fmt.Errorf("tss: rot: reading %s: %w", what, err)
	}
	return b, nil
}

// ROTReceive runs the receiver's side of a whole transfer over peer. modulus
// is as in ROT1. It returns when the sender has confirmed that it has its
// result too. The caller sets deadlines on peer.
func (t *TPM) ROTReceive(peer io.ReadWriter, modulus uint16) (out Received, err error) {
	if modulus == 0 {
		modulus = rotDefault
	}
	sid, err := t.GetRandom(4)
	if err != nil {
		return out, err
	}
	state, m1, err := t.ROT1(nil, modulus, binary.BigEndian.Uint32(sid))
	if err != nil {
		return out, err
	}
	defer t.endROT(state, &err)
	if err = writeROT(peer, binary.BigEndian.AppendUint16([]byte(rotGreeting), modulus), m1); err != nil {
		return out, err
	}
	m2, err := readROT(peer, "message 2")
	if err != nil {
		return out, err
	}
	got, m3, err := t.ROT3(state, m2)
	if err != nil {
		return out, err
	}
	defer clear(got.MB[:])
	if err = writeROT(peer, nil, m3); err != nil {
		return out, err
	}
	last, err := readROT(peer, "the sender's confirmation")
	if err == nil && len(last) != 0 {
		err = fmt.Errorf("tss: rot: the sender's confirmation has %d octets, expected none", len(last))
	}
	if err != nil {
		return out, err
	}
	return got, nil
}

// rotDefault is the modulus that 0 stands for.
const rotDefault = 13313

// ROTSend runs the sender's side. The moduli of the two sides must be equal.
func (t *TPM) ROTSend(peer io.ReadWriter, modulus uint16) (out Sent, err error) {
	if modulus == 0 {
		modulus = rotDefault
	}
	var head [len(rotGreeting) + 2]byte
	if _, err := io.ReadFull(peer, head[:]); err != nil {
		return out, fmt.Errorf("tss: rot: waiting for message 1: %w", err)
	}
	if string(head[:len(rotGreeting)]) != rotGreeting {
		return out, errors.New("tss: rot: the other side does not speak this protocol")
	}
	if q := binary.BigEndian.Uint16(head[len(rotGreeting):]); q != modulus {
		return out, fmt.Errorf("tss: rot: the receiver uses modulus %d, expected %d: give both sides the same", q, modulus)
	}
	m1, err := readROT(peer, "message 1")
	if err != nil {
		return out, err
	}
	state, m2, err := t.ROT2(nil, modulus, m1)
	if err != nil {
		return out, err
	}
	defer t.endROT(state, &err)
	if err = writeROT(peer, nil, m2); err != nil {
		return out, err
	}
	m3, err := readROT(peer, "message 3")
	if err != nil {
		return out, err
	}
	got, err := t.ROT4(state, m3)
	if err != nil {
		return out, err
	}
	defer func() { clear(got.M0[:]); clear(got.M1[:]) }()
	if err = writeROT(peer, nil, nil); err != nil {
		return out, err
	}
	return got, nil
}

// endROT takes a state away that an error left behind.
func (t *TPM) endROT(state Ref, err *error) {
	if *err == nil {
		return
	}
	// The TPM has ended the state itself if it got as far as ROT3 or ROT4.
	if e := t.FlushContext(state.Handle); e != nil && !isRC(e) {
		*err = errors.Join(*err, e)
	}
}

func isRC(err error) bool {
	var rc tpm2.RC
	return errors.As(err, &rc)
}
