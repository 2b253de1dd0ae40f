// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"bytes"

	"holdfast/softtpm/internal/tpmcrypto"
	"holdfast/tpm2"
)

// Saving and loading contexts: Part 3, 28.2 and 28.3, and Part 1, 30.

func init() {
	register(&command{code: tpm2.CCContextSave, slots: []slot{{kTransient | kHMAC | kPolicy, roleNone}}, flags: fNoSessions | fNotAudited, run: contextSave})
	register(&command{code: tpm2.CCContextLoad, flags: fNoSessions | fNotAudited | fHandle, run: contextLoad})
}

// Values of savedHandle for objects (Part 2, 14.3).
const (
	savedOrdinary = tpm2.HandleTransientFirst
	savedSequence = tpm2.HandleTransientFirst + 1
	savedStClear  = tpm2.HandleTransientFirst + 2
)

// contextGap is CONTEXT_GAP_MAX plus 1: how far the counter of session
// contexts may run ahead of the oldest saved session.
const contextGap = 1 << 16

// contextSave is TPM2_ContextSave (Part 3, 28.2). An object stays loaded, a
// session leaves the TPM, which remembers that it exists.
func contextSave(c *call) tpm2.RC {
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	h := c.handle(0)
	ctx := tpm2.Context{Hierarchy: tpm2.RHNull, SavedHandle: h}
	var plain tpm2.Writer
	if o := c.st.object(h); o != nil && o.rot != nil {
		return tpm2.RCType.Handle(1) // one-use state leaves the TPM in no form
	} else if o != nil {
		c.st.reset.contextID++
		ctx.Sequence, ctx.Hierarchy, ctx.SavedHandle = c.st.reset.contextID, o.hierarchy, savedOrdinary
		switch {
		case o.isSequence():
			ctx.SavedHandle = savedSequence
		case o.pub.Attributes.Has(tpm2.ObjectStClear):
			ctx.SavedHandle = savedStClear
		}
		codec{w: &plain}.object(o)
	} else {
		seq, rc := c.st.nextContext()
		if rc != tpm2.RCSuccess {
			return rc
		}
		ctx.Sequence = seq
		codec{w: &plain}.session(c.st.session(h))
		i := sessionSlot(h)
		c.st.volatile.sessions[i] = nil
		c.st.volatile.savedSessions[i] = true
		c.st.reset.contextSlots[i] = uint16(seq)
		if c.st.volatile.exclusive == h {
			c.st.volatile.exclusive = 0
		}
	}
	b := plain.Bytes()
	if b == nil {
		return tpm2.RCSize
	}
	defer tpmcrypto.Zero(b)
	ctx.Blob = c.sealContext(&ctx, b)
	ctx.Marshal(&c.out)
	return tpm2.RCSuccess
}

// nextContext returns the sequence number for the next session context. Its low
// 16 bits, which the TPM keeps per saved session, are never 0 and differ from
// those of every saved session, so that a context fits only while it is the
// last one of its session; TPM_RC_CONTEXT_GAP if the oldest one is in the way.
func (s *state) nextContext() (uint64, tpm2.RC) {
	n := s.reset.contextCounter + 1
	if uint16(n) == 0 {
		n++
	}
	for _, x := range s.reset.contextSlots {
		if x == uint16(n) {
			return 0, tpm2.RCContextGap
		}
	}
	s.reset.contextCounter = n
	return n, tpm2.RCSuccess
}

// contextLoad is TPM2_ContextLoad (Part 3, 28.3).
func contextLoad(c *call) tpm2.RC {
	var ctx tpm2.Context
	ctx.Unmarshal(c.next())
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	bad := func(rc tpm2.RC) tpm2.RC { return rc.Parameter(1) }
	isSession := false
	switch h := ctx.SavedHandle; h.Type() {
	case tpm2.HTHMACSession, tpm2.HTPolicySession:
		isSession = true
		if ctx.Hierarchy != tpm2.RHNull {
			return bad(tpm2.RCValue)
		}
	default:
		if h != savedOrdinary && h != savedSequence && h != savedStClear {
			return bad(tpm2.RCValue)
		}
	}
	if !isHierarchy(ctx.Hierarchy) {
		return bad(tpm2.RCValue)
	}
	if !c.st.hierarchyEnabled(ctx.Hierarchy) {
		return bad(tpm2.RCHierarchy)
	}
	plain, rc := c.openContext(&ctx)
	if rc != tpm2.RCSuccess {
		return bad(rc)
	}
	defer tpmcrypto.Zero(plain)
	r := tpm2.NewReader(plain)
	if isSession {
		return c.loadSession(&ctx, r)
	}
	o := new(object)
	codec{r: r}.object(o)
	// The integrity value says that we wrote this: what does not fit is a fault.
	if r.Len() != 0 || r.Code() != tpm2.RCSuccess || o.hierarchy != ctx.Hierarchy || o.isSequence() != (ctx.SavedHandle == savedSequence) {
		o.wipe()
		return bad(tpm2.RCSize)
	}
	h, rc := c.addObject(o)
	if rc != tpm2.RCSuccess {
		o.wipe()
		return rc
	}
	c.outHandle = h
	return tpm2.RCSuccess
}

// loadSession takes a session back. Each saved context fits once: the slot must
// hold the low bits of its sequence number, which are gone after loading.
func (c *call) loadSession(ctx *tpm2.Context, r *tpm2.Reader) tpm2.RC {
	h := ctx.SavedHandle
	i := sessionSlot(h)
	counter := c.st.reset.contextCounter
	if i >= maxSessions || !c.st.volatile.savedSessions[i] || c.st.reset.contextSlots[i] != uint16(ctx.Sequence) ||
		ctx.Sequence > counter || counter-ctx.Sequence >= contextGap {
		return tpm2.RCHandle.Parameter(1)
	}
	loaded := 0
	for _, s := range c.st.volatile.sessions {
		if s != nil {
			loaded++
		}
	}
	if loaded >= c.t.opt.Sessions {
		return tpm2.RCSessionMemory
	}
	s := new(session)
	codec{r: r}.session(s)
	if r.Len() != 0 || r.Code() != tpm2.RCSuccess || s.handle != h {
		s.wipe()
		return tpm2.RCSize.Parameter(1)
	}
	c.st.volatile.sessions[i] = s
	c.st.volatile.savedSessions[i] = false
	c.st.reset.contextSlots[i] = 0
	c.outHandle = h
	return tpm2.RCSuccess
}

// contextKeys derives the keys that protect a context from the proof of its
// hierarchy (Part 1, 30.3.1): encryption key and IV, and the HMAC key. All that
// can make two contexts differ is an input, so no key stream is used twice. A
// context ends with TPM Reset, since totalResets changes; one of an object with
// stClear also with TPM Restart.
func (c *call) contextKeys(ctx *tpm2.Context) (sym, iv, mac []byte) {
	var w tpm2.Writer
	w.U64(ctx.Sequence)
	w.Handle(ctx.SavedHandle)
	w.U64(c.st.perm.totalResets)
	if ctx.SavedHandle == savedStClear {
		w.U32(c.st.reset.clearCount)
	}
	proof := c.st.proof(ctx.Hierarchy)
	k := tpmcrypto.KDFa(ticketHash, proof, "CONTEXT", w.Bytes(), nil, 8*(32+ivSize))
	m := tpmcrypto.KDFa(ticketHash, proof, "CONTEXT INTEGRITY", w.Bytes(), nil, 8*64)
	return k[:32], k[32:], m
}

// sealContext returns the TPM2B_CONTEXT_DATA: TPMS_CONTEXT_DATA with integrity
// value and encrypted contents (Part 2, 14.4).
func (c *call) sealContext(ctx *tpm2.Context, plain []byte) []byte {
	sym, iv, mac := c.contextKeys(ctx)
	defer tpmcrypto.Zero(sym)
	defer tpmcrypto.Zero(mac)
	enc := bytes.Clone(plain)
	b, err := tpmcrypto.NewAES(sym)
	if err != nil {
		panic(err) // the key has 32 octets
	}
	tpmcrypto.CFBEncrypt(b, iv, enc)
	var w tpm2.Writer
	w.Sized(tpmcrypto.HMAC(ticketHash, mac, enc))
	w.Sized(enc)
	return w.Bytes()
}

// openContext is the inverse of sealContext; TPM_RC_INTEGRITY for what this TPM
// did not save since its last TPM Reset.
func (c *call) openContext(ctx *tpm2.Context) ([]byte, tpm2.RC) {
	r := tpm2.NewReader(ctx.Blob)
	got := r.Sized(tpm2.MaxDigest)
	enc := bytes.Clone(r.Sized(len(ctx.Blob)))
	r.End()
	if rc := r.Code(); rc != tpm2.RCSuccess {
		return nil, rc
	}
	sym, iv, mac := c.contextKeys(ctx)
	defer tpmcrypto.Zero(sym)
	defer tpmcrypto.Zero(mac)
	if !tpmcrypto.Equal(tpmcrypto.HMAC(ticketHash, mac, enc), got) {
		return nil, tpm2.RCIntegrity
	}
	b, err := tpmcrypto.NewAES(sym)
	if err != nil {
		panic(err) // the key has 32 octets
	}
	tpmcrypto.CFBDecrypt(b, iv, enc)
	return enc, tpm2.RCSuccess
}
