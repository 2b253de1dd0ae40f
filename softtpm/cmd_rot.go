// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"bytes"

	"holdfast/rot"
	"holdfast/tpm2"
)

// Random Oblivious Transfer (package rot) as four vendor commands. Receiver:
// ROT_MSG1, then ROT_MSG3. Sender: ROT_MSG2, then ROT_MSG4. Between the two
// commands of a side its state is a transient object with an authValue.
//
//	command   in                                        out
//	ROT_MSG1  TPM2B_AUTH auth, u16 modulus, u32 sid     handle, TPM2B message 1
//	ROT_MSG2  TPM2B_AUTH auth, u16 modulus, TPM2B msg 1 handle, TPM2B message 2
//	ROT_MSG3  @handle, TPM2B message 2                  TPM2B result, TPM2B message 3
//	ROT_MSG4  @handle, TPM2B message 3                  TPM2B result
//
// modulus is 13313 or 15361, 0 for 13313. The result of MSG3 is b (one octet, 0
// or 1) ‖ M_b (32 octets), that of MSG4 is M0 ‖ M1. The results come first so
// that a session can encrypt them.
//
// A state is used once. MSG3 and MSG4 end it whether they succeed or not; it
// cannot be saved, copied or made persistent, and it is lost at Startup.

func init() {
	state := []slot{{kTransient, roleUser}}
	register(&command{code: tpm2.CCROTMsg1, flags: fDecrypt | fEncrypt | fHandle, run: rotMsg1})
	register(&command{code: tpm2.CCROTMsg2, flags: fDecrypt | fEncrypt | fHandle, run: rotMsg2})
	register(&command{code: tpm2.CCROTMsg3, slots: state, flags: fDecrypt | fEncrypt | fFlushed, run: rotMsg3})
	register(&command{code: tpm2.CCROTMsg4, slots: state, flags: fDecrypt | fEncrypt | fFlushed, run: rotMsg4})
}

// transfer is one side of an oblivious transfer: exactly one field is set.
// Unlike other state it erases itself when it is used, and no command that
// fails afterwards brings it back.
type transfer struct {
	receiver *rot.Receiver
	sender   *rot.Sender
}

func (x *transfer) close() {
	if x.receiver != nil {
		x.receiver.Close()
	}
	if x.sender != nil {
		x.sender.Close()
	}
}

// readModulus reads the parameter set.
func readModulus(r *tpm2.Reader) *rot.Params {
	q := int(r.U16())
	if q == 0 {
		q = rot.Q13313
	}
	p := rot.Standard(q)
	if p == nil {
		r.Fail(tpm2.RCValue)
	}
	return p
}

// addTransfer makes the object that holds x.
func (c *call) addTransfer(auth []byte, x *transfer) tpm2.RC {
	o := &object{hierarchy: tpm2.RHNull, seq: &sequence{kind: seqROT}, rot: x, sens: tpm2.Sensitive{Auth: bytes.Clone(trimAuth(auth))}}
	h, rc := c.addObject(o)
	if rc != tpm2.RCSuccess {
		x.close()
	}
	c.outHandle = h
	return rc
}

// rotMsg1 starts a receiver.
func rotMsg1(c *call) tpm2.RC {
	auth := c.next().Sized(tpm2.MaxDigest)
	params := readModulus(c.next())
	sid := c.next().U32()
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	r, msg, err := rot.NewReceiver(params, sid, c.t.rng)
	if err != nil {
		return tpm2.RCFailure
	}
	c.out.Sized(msg)
	return c.addTransfer(auth, &transfer{receiver: r})
}

// rotMsg2 starts a sender with the receiver's message. TPM_RC_VALUE if the
// message is malformed.
func rotMsg2(c *call) tpm2.RC {
	auth := c.next().Sized(tpm2.MaxDigest)
	params := readModulus(c.next())
	in := c.next().Sized(rot.Message1Size)
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	if rc := c.objectRoom(); rc != tpm2.RCSuccess {
		return rc
	}
	s, msg, err := rot.NewSender(params, in, c.t.rng)
	if err != nil {
		return tpm2.RCValue.Parameter(3)
	}
	c.out.Sized(msg)
	return c.addTransfer(auth, &transfer{sender: s})
}

// takeTransfer returns the state of handle 1 and sees to it that it ends with
// this command.
func (c *call) takeTransfer(receiver bool) (*transfer, tpm2.RC) {
	x := c.object(0).rot
	if x == nil || (x.receiver != nil) != receiver {
		return nil, tpm2.RCType.Handle(1)
	}
	c.fail, c.failed = failROT, c.handle(0)
	c.setObject(c.handle(0), nil)
	return x, tpm2.RCSuccess
}

// rotMsg3 ends a receiver. TPM_RC_VALUE if the message is malformed or the
// check values do not fit: the sender cheats, or it is another run's message.
func rotMsg3(c *call) tpm2.RC {
	in := c.next().Sized(rot.Message2Size)
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	x, rc := c.takeTransfer(true)
	if rc != tpm2.RCSuccess {
		return rc
	}
	msg, b, mb, err := x.receiver.Finish(in)
	if err != nil {
		return tpm2.RCValue.Parameter(1)
	}
	defer clear(mb[:])
	c.out.Sized(append([]byte{b}, mb[:]...))
	c.out.Sized(msg)
	return tpm2.RCSuccess
}

// rotMsg4 ends a sender. TPM_RC_VALUE if the message is malformed or its masks
// are not those of message 1.
func rotMsg4(c *call) tpm2.RC {
	in := c.next().Sized(rot.Message3Size)
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	x, rc := c.takeTransfer(false)
	if rc != tpm2.RCSuccess {
		return rc
	}
	m0, m1, err := x.sender.Finish(in)
	if err != nil {
		return tpm2.RCValue.Parameter(1)
	}
	defer clear(m0[:])
	defer clear(m1[:])
	c.out.Sized(append(m0[:], m1[:]...))
	return tpm2.RCSuccess
}
