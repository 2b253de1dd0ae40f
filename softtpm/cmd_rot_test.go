// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"bytes"
	"testing"

	"holdfast/rot"
	"holdfast/tpm2"
)

// rotStart runs ROT_MSG1 or ROT_MSG2 and returns handle and message.
func rotStart(t testing.TB, p *TPM, cc tpm2.CC, modulus uint16, arg func(w *tpm2.Writer)) (tpm2.Handle, string) {
	t.Helper()
	rc, r := rotRequest(cc, modulus, arg).send(t, p)
	if rc != 0 {
		t.Fatalf("%v: %v", cc, rc)
	}
	h := r.Handle()
	return h, string(r.Sized(4000))
}

func rotRequest(cc tpm2.CC, modulus uint16, arg func(w *tpm2.Writer)) request {
	return request{cc: cc, params: func(w *tpm2.Writer) { w.Sized([]byte("pw")); w.U16(modulus); arg(w) }}
}

func rotEnd(cc tpm2.CC, h tpm2.Handle, msg string) request {
	return seqRequest(cc, h, "pw", sized(msg))
}

// Two TPMs, both moduli.
func TestROT(t *testing.T) {
	for _, modulus := range []uint16{0, rot.Q13313, rot.Q15361} {
		p, q := newTPM(t, Options{CommandSize: 4096}), newTPM(t, Options{CommandSize: 4096})
		for i := range uint32(8) {
			receiver, m1 := rotStart(t, p, tpm2.CCROTMsg1, modulus, u32(i))
			sender, m2 := rotStart(t, q, tpm2.CCROTMsg2, modulus, sized(m1))
			r := rotEnd(tpm2.CCROTMsg3, receiver, m2).ok(t, p)
			result, m3 := r.Sized(99), string(r.Sized(99))
			r.End()
			both := rotEnd(tpm2.CCROTMsg4, sender, m3).ok(t, q).Sized(99)
			if r.Err() != nil || len(result) != 33 || result[0] > 1 || len(both) != 64 {
				t.Fatalf("%v %d %d", r.Err(), len(result), len(both))
			}
			b := int(result[0])
			if !bytes.Equal(result[1:], both[32*b:32*b+32]) || bytes.Equal(both[:32], both[32:]) {
				t.Errorf("b = %d, M_b %x, sender has %x", b, result[1:], both)
			}
			rotEnd(tpm2.CCROTMsg3, receiver, m2).refused(t, p, "twice", tpm2.RCReferenceH0)
			rotEnd(tpm2.CCROTMsg4, sender, m3).refused(t, q, "twice", tpm2.RCReferenceH0)
		}
	}
}

func TestROTRefuses(t *testing.T) {
	p := newTPM(t, Options{})
	rotRequest(tpm2.CCROTMsg1, 12289, u32(1)).refused(t, p, "modulus", tpm2.RCValue.Parameter(2))
	h, m1 := rotStart(t, p, tpm2.CCROTMsg1, 0, u32(1))
	rotRequest(tpm2.CCROTMsg2, 0, sized(m1[1:])).refused(t, p, "short", tpm2.RCValue.Parameter(3))
	rotRequest(tpm2.CCROTMsg2, 0, sized(m1+"x")).refused(t, p, "long", tpm2.RCSize.Parameter(3))
	rotRequest(tpm2.CCROTMsg2, 0, sized(m1[:4]+"\xff\xff"+m1[6:])).refused(t, p, "coefficient", tpm2.RCValue.Parameter(3))
	s, m2 := rotStart(t, p, tpm2.CCROTMsg2, 0, sized(m1))
	// The wrong side, the wrong password, a decoding error: the state lives.
	rotEnd(tpm2.CCROTMsg4, h, "x").refused(t, p, "receiver", tpm2.RCType.Handle(1))
	rotEnd(tpm2.CCROTMsg3, s, "x").refused(t, p, "sender", tpm2.RCType.Handle(1))
	seqRequest(tpm2.CCROTMsg3, h, "wrong", sized(m2)).refused(t, p, "password", tpm2.RCBadAuth.Session(1))
	rotEnd(tpm2.CCROTMsg3, h, m2+"x").refused(t, p, "long", tpm2.RCSize.Parameter(1))
	// It cannot be saved, cloned, or used as anything else.
	request{cc: tpm2.CCContextSave, handles: []tpm2.Handle{h}}.refused(t, p, "ContextSave", tpm2.RCType.Handle(1))
	if rc, _ := (request{cc: tpm2.CCEvictControl, handles: []tpm2.Handle{tpm2.RHOwner, h}, auth: noAuth, params: u32(0x81000001)}).do(t, p); rc == 0 {
		t.Error("made persistent")
	}
	seqRequest(tpm2.CCSequenceUpdate, h, "pw", sized("x")).refused(t, p, "SequenceUpdate", tpm2.RCMode.Handle(1))
	seqRequest(tpm2.CCSequenceComplete, h, "pw", func(w *tpm2.Writer) { w.Sized(nil); w.Handle(tpm2.RHNull) }).refused(t, p, "SequenceComplete", tpm2.RCMode.Handle(1))
	if rc, _ := on(tpm2.CCReadPublic, h, nil).do(t, p); rc == 0 {
		t.Error("ReadPublic")
	}
	vol, err := p.VolatileState()
	if err != nil {
		t.Fatal(err)
	}
	q := newTPM(t, Options{})
	perm, _ := p.PermanentState()
	if err := q.SetState(perm, vol); err != nil {
		t.Fatal(err)
	}
	if q.state.object(h) != nil || q.state.object(s) != nil {
		t.Error("the state went into a blob")
	}
	// A message that does not fit ends the run.
	bad := m2[:len(m2)-64] + string(make([]byte, 64))
	r := p.state.object(h).rot.receiver
	rotEnd(tpm2.CCROTMsg3, h, bad).refused(t, p, "check values", tpm2.RCValue.Parameter(1))
	rotEnd(tpm2.CCROTMsg3, h, m2).refused(t, p, "after an abort", tpm2.RCReferenceH0)
	if _, _, _, err := r.Finish([]byte(m2)); err != rot.ErrUsed {
		t.Errorf("secrets remain: %v", err)
	}
	rotEnd(tpm2.CCROTMsg4, s, string(make([]byte, rot.Message3Size))).refused(t, p, "masks", tpm2.RCValue.Parameter(1))
	rotEnd(tpm2.CCROTMsg4, s, "").refused(t, p, "after an abort", tpm2.RCReferenceH0)
	// Flushing erases too, and a start loses all.
	h, m1 = rotStart(t, p, tpm2.CCROTMsg1, 0, u32(1))
	r = p.state.object(h).rot.receiver
	flush(t, p, h)
	if _, _, _, err := r.Finish(nil); err != rot.ErrUsed {
		t.Errorf("a flushed state lives: %v", err)
	}
	h, _ = rotStart(t, p, tpm2.CCROTMsg1, 0, u32(1))
	r = p.state.object(h).rot.receiver
	p.Init()
	if _, _, _, err := r.Finish(nil); err != rot.ErrUsed {
		t.Errorf("a state lives after _TPM_Init: %v", err)
	}
	mustRun(t, p, "8001 0000000C 00000144 0000")
	for range p.opt.Objects {
		rotStart(t, p, tpm2.CCROTMsg2, 0, sized(m1))
	}
	rotRequest(tpm2.CCROTMsg2, 0, sized(m1)).refused(t, p, "slots", tpm2.RCObjectMemory)
}
