// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"holdfast/tpm2"
)

// Execute runs one command and returns the response. It never panics: what is
// no well-formed command gets an error response. The response is the caller's.
func (t *TPM) Execute(locality uint8, command []byte) []byte {
	return t.AppendExecute(nil, locality, command)
}

// AppendExecute is Execute that appends the response to dst, for callers that
// reuse a buffer. dst and command may not overlap.
func (t *TPM) AppendExecute(dst []byte, locality uint8, command []byte) []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	start := len(dst)
	if t.closed {
		return appendError(dst, tpm2.RCFailure)
	}
	out, rc := t.execute(dst, locality, command)
	t.tellACTs()
	if rc != tpm2.RCSuccess {
		return appendError(dst[:start], rc)
	}
	return out
}

// appendError appends an error response. Part 1, 18.10: a bad tag is answered
// with the tag that a TPM 1.2 understands.
func appendError(dst []byte, rc tpm2.RC) []byte {
	w := tpm2.NewWriter(dst)
	tag := tpm2.STNoSessions
	if rc == tpm2.RCBadTag {
		tag = tpm2.STRspCommand
	}
	tpm2.Header{Tag: tag, Size: tpm2.HeaderSize, Code: uint32(rc)}.Marshal(w)
	return w.Bytes()
}

// execute runs a command with the order of checks of Part 3, 5, and makes it
// atomic: unless it succeeds as a whole, state is as before.
func (t *TPM) execute(dst []byte, locality uint8, command []byte) (out []byte, rc tpm2.RC) {
	if t.tick() {
		t.state.volatile.dirty = true // also if this command fails: the next that succeeds saves the Clock
	}
	t.heal()
	t.state.countDown(t.clk.time)
	t.before = t.state
	c := &t.c
	*c = call{t: t, st: &t.state, locality: locality}

	defer func() {
		if r := recover(); r != nil {
			// A fault of ours. The specification's answer to that is failure
			// mode: state as before the command, nothing more until _TPM_Init.
			t.state = t.before
			t.failed = true
			out, rc = nil, tpm2.RCFailure
		}
	}()
	out, rc = t.run(c, dst, command)
	if rc == tpm2.RCSuccess && (c.cmd.has(fSave) || t.state.volatile.dirty) {
		t.state.volatile.dirty = false
		if t.save() != nil {
			rc = tpm2.RCNVUnavailable
		}
	}
	if rc != tpm2.RCSuccess {
		t.state = t.before
		if c.fail != failNone {
			rc = t.punish(c.fail, rc)
		}
		return nil, rc
	}
	t.wipeGone()
	return out, rc
}

// run does the work of execute between its brackets.
func (t *TPM) run(c *call, dst, command []byte) ([]byte, tpm2.RC) {
	var r tpm2.Reader
	t.buf = append(t.buf[:0], command...)
	r.Reset(t.buf)
	var h tpm2.Header
	h.Unmarshal(&r)
	if t.failed && h.Code != uint32(tpm2.CCGetTestResult) && h.Code != uint32(tpm2.CCGetCapability) {
		return nil, tpm2.RCFailure
	}
	if r.Code() != tpm2.RCSuccess {
		return nil, tpm2.RCInsufficient
	}
	if h.Tag != tpm2.STNoSessions && h.Tag != tpm2.STSessions {
		return nil, tpm2.RCBadTag
	}
	if int64(h.Size) != int64(len(command)) || len(command) > t.commandSize() {
		return nil, tpm2.RCCommandSize
	}
	c.cmd = t.table.byCode[tpm2.CC(h.Code)]
	if c.cmd == nil {
		return nil, tpm2.RCCommandCode
	}
	if !t.state.volatile.started && !c.cmd.has(fBeforeStartup) && !t.failed {
		return nil, tpm2.RCInitialize
	}
	if h.Tag == tpm2.STSessions && c.cmd.has(fNoSessions) {
		return nil, tpm2.RCAuthContext
	}
	if t.state.clear.readOnly && c.cmd.has(fNV) && !c.cmd.has(fReadOnlyOK) {
		return nil, tpm2.RCReadOnly
	}
	if rc := c.readHandles(&r); rc != tpm2.RCSuccess {
		return nil, rc
	}
	if h.Tag == tpm2.STSessions {
		if rc := c.readSessions(&r); rc != tpm2.RCSuccess {
			return nil, rc
		}
	} else {
		c.params = r.Rest()
		if rc := c.checkNoSessions(); rc != tpm2.RCSuccess {
			return nil, rc
		}
	}
	c.in.Reset(c.params)

	// The response is built in place: header, handle, parameter size, parameters, sessions.
	c.out.Reset(dst)
	start := c.out.Len()
	tpm2.Header{Tag: h.Tag}.Marshal(&c.out)
	if c.cmd.has(fHandle) {
		c.out.Handle(0)
	}
	if h.Tag == tpm2.STSessions {
		c.out.U32(0)
	}
	first := c.out.Len()
	if rc := c.cmd.run(c); rc != tpm2.RCSuccess {
		return nil, rc
	}
	if p := &t.state.perm; p.orderly != suNone && t.state.volatile.started && c.cmd.code != tpm2.CCShutdown &&
		(c.cmd.has(fNV) || c.cmd.code == tpm2.CCContextSave || c.cmd.code == tpm2.CCACTSetTimeout) {
		// What Shutdown promised to find again is changing (Part 3, 9.4.1).
		p.orderly, p.savedReset, p.savedClear, p.savedPCR = suNone, nil, nil, nil
		t.state.volatile.dirty = true
	}
	if c.cmd.has(fHandle) {
		c.out.PutU32(start+tpm2.HeaderSize, uint32(c.outHandle))
	}
	if h.Tag == tpm2.STSessions {
		c.out.PutU32(first-4, uint32(c.out.Len()-first))
	}
	if rc := c.finishSessions(first, h.Tag == tpm2.STSessions); rc != tpm2.RCSuccess {
		return nil, rc
	}
	size := c.out.Len() - start
	if c.out.Err() != nil || size > t.commandSize() {
		return nil, tpm2.RCSize
	}
	c.out.PutU32(start+2, uint32(size))
	return c.out.Bytes(), tpm2.RCSuccess
}

// readHandles reads the handle area and checks that each handle names an
// entity that is there and of a kind that the command takes (Part 3, 5.4).
func (c *call) readHandles(r *tpm2.Reader) tpm2.RC {
	for i, s := range c.cmd.slots {
		h := r.Handle()
		if rc := r.Code(); rc != tpm2.RCSuccess {
			return rc.Handle(i + 1)
		}
		if rc := c.checkHandle(h, s.kinds, i); rc != tpm2.RCSuccess {
			return rc
		}
		c.handles[i] = h
	}
	return tpm2.RCSuccess
}

// checkHandle checks handle number i (from 0) against the kinds that are allowed.
func (c *call) checkHandle(h tpm2.Handle, k kind, i int) tpm2.RC {
	bad := tpm2.RCValue.Handle(i + 1)
	gone := tpm2.RCReferenceH0 + tpm2.RC(i)
	need := func(b kind) bool { return k&b != 0 }
	switch h.Type() {
	case tpm2.HTTransient:
		if !need(kTransient) || h > tpm2.HandleTransientLast {
			return bad
		}
		if c.st.object(h) == nil {
			return gone
		}
	case tpm2.HTPersistent:
		if !need(kPersistent) {
			return bad
		}
		if c.st.object(h) == nil {
			return tpm2.RCHandle.Handle(i + 1)
		}
	case tpm2.HTPCR:
		if !need(kPCR) || h >= numPCRs {
			return bad
		}
	case tpm2.HTNVIndex:
		if !need(kNV) {
			return bad
		}
		if c.st.nv(h) == nil {
			return tpm2.RCHandle.Handle(i + 1)
		}
	case tpm2.HTHMACSession, tpm2.HTPolicySession:
		if h.Type() == tpm2.HTHMACSession && !need(kHMAC) || h.Type() == tpm2.HTPolicySession && !need(kPolicy) {
			return bad
		}
		if c.st.session(h) == nil {
			return gone
		}
	default:
		var want kind
		switch h {
		case tpm2.RHOwner:
			want = kOwner
		case tpm2.RHEndorsement:
			want = kEndorsement
		case tpm2.RHPlatform:
			want = kPlatform
		case tpm2.RHLockout:
			want = kLockout
		case tpm2.RHNull:
			want = kNull
		}
		switch {
		case isACT(h):
			want = kACT
		case h.Type() == tpm2.HTAC:
			if want = kAC; need(want) && c.t.component(h) == nil {
				return bad // in the range of the type, but no component is there
			}
		}
		if !need(want) {
			return bad
		}
		if !c.st.hierarchyEnabled(h) {
			return tpm2.RCHierarchy.Handle(i + 1)
		}
	}
	return tpm2.RCSuccess
}

// wipeGone erases the secrets of objects and sessions that the command removed.
func (t *TPM) wipeGone() {
	for i, o := range &t.before.volatile.objects {
		if o != nil && t.state.volatile.objects[i] == nil {
			o.wipe()
		}
	}
	for i, s := range &t.before.volatile.sessions {
		if s != nil && t.state.volatile.sessions[i] == nil {
			s.wipe()
		}
	}
	if len(t.before.perm.persistent) > len(t.state.perm.persistent) {
		for _, o := range t.before.perm.persistent {
			if t.state.persistentObject(o.handle) == nil {
				o.wipe()
			}
		}
	}
}
