// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"bytes"
	"testing"

	"holdfast/tpm2"
)

func save(t testing.TB, p *TPM, h tpm2.Handle) tpm2.Context {
	t.Helper()
	var ctx tpm2.Context
	r := request{cc: tpm2.CCContextSave, handles: []tpm2.Handle{h}}.ok(t, p)
	ctx.Unmarshal(r)
	r.End()
	if r.Err() != nil {
		t.Fatal(r.Err())
	}
	return ctx
}

func loadRequest(ctx tpm2.Context) request {
	return request{cc: tpm2.CCContextLoad, params: func(w *tpm2.Writer) { ctx.Marshal(w) }}
}

func flush(t testing.TB, p *TPM, h tpm2.Handle) {
	t.Helper()
	request{cc: tpm2.CCFlushContext, params: func(w *tpm2.Writer) { w.Handle(h) }}.ok(t, p)
}

func TestContextOfObject(t *testing.T) {
	p := newTPM(t, Options{})
	key := addKey(t, p, hmacKeyObject("a secret key", tpm2.Scheme{Alg: tpm2.AlgNull}, tpm2.ObjectSignEncrypt))
	name := string(p.state.object(key).name)
	ctx, again := save(t, p, key), save(t, p, key)
	if ctx.Hierarchy != tpm2.RHOwner || ctx.SavedHandle != savedOrdinary || again.Sequence != ctx.Sequence+1 {
		t.Errorf("%+v", ctx)
	}
	if bytes.Contains(ctx.Blob, []byte("a secret key")) || bytes.Equal(ctx.Blob, again.Blob) {
		t.Error("the context shows the key, or two contexts are alike")
	}
	flush(t, p, key)
	h := startSeq(t, p, loadRequest(ctx))
	o := p.state.object(h)
	if string(o.name) != name || string(o.sens.Value) != "a secret key" || o.hierarchy != tpm2.RHOwner {
		t.Errorf("loaded %+v", o)
	}
	startSeq(t, p, loadRequest(ctx)) // objects may be loaded as often as one likes
	for i := range ctx.Blob {
		bad := ctx
		bad.Blob = append([]byte(nil), ctx.Blob...)
		bad.Blob[i] ^= 1
		if rc, _ := loadRequest(bad).do(t, p); rc == 0 {
			t.Fatalf("octet %d of the context changed, and it loads", i)
		}
	}
	for what, c := range map[string]struct {
		f    func(c *tpm2.Context)
		want tpm2.RC
	}{
		"sequence":       {func(c *tpm2.Context) { c.Sequence++ }, tpm2.RCIntegrity.Parameter(1)},
		"hierarchy":      {func(c *tpm2.Context) { c.Hierarchy = tpm2.RHEndorsement }, tpm2.RCIntegrity.Parameter(1)},
		"kind":           {func(c *tpm2.Context) { c.SavedHandle = savedSequence }, tpm2.RCIntegrity.Parameter(1)},
		"no kind":        {func(c *tpm2.Context) { c.SavedHandle = savedStClear + 1 }, tpm2.RCValue.Parameter(1)},
		"handle":         {func(c *tpm2.Context) { c.SavedHandle = 0x81000000 }, tpm2.RCValue.Parameter(1)},
		"no hierarchy":   {func(c *tpm2.Context) { c.Hierarchy = tpm2.RHLockout }, tpm2.RCValue.Parameter(1)},
		"session's kind": {func(c *tpm2.Context) { c.SavedHandle = tpm2.HandleHMACFirst }, tpm2.RCValue.Parameter(1)},
		"empty":          {func(c *tpm2.Context) { c.Blob = nil }, tpm2.RCInsufficient.Parameter(1)},
	} {
		bad := ctx
		c.f(&bad)
		loadRequest(bad).refused(t, p, what, c.want)
	}
	p.state.clear.shEnable = false
	loadRequest(ctx).refused(t, p, "hierarchy disabled", tpm2.RCHierarchy.Parameter(1))
	p.state.clear.shEnable = true
	request{cc: tpm2.CCContextSave, handles: []tpm2.Handle{0x81000000}}.refused(t, p, "persistent", tpm2.RCValue.Handle(1))
	for {
		rc, _ := loadRequest(ctx).do(t, p)
		if rc == tpm2.RCObjectMemory {
			break
		}
		if rc != 0 {
			t.Fatal(rc)
		}
	}
	other := newTPM(t, Options{})
	loadRequest(ctx).refused(t, other, "another TPM", tpm2.RCIntegrity.Parameter(1))
}

// A context outlives Restart (unless the object has stClear), not Reset.
func TestContextLifetime(t *testing.T) {
	p := newTPM(t, Options{})
	normal := save(t, p, addKey(t, p, hmacKeyObject("k", tpm2.Scheme{Alg: tpm2.AlgNull}, tpm2.ObjectSignEncrypt)))
	stclear := save(t, p, addKey(t, p, hmacKeyObject("k", tpm2.Scheme{Alg: tpm2.AlgNull}, tpm2.ObjectSignEncrypt|tpm2.ObjectStClear)))
	if stclear.SavedHandle != savedStClear {
		t.Errorf("saved handle %v", stclear.SavedHandle)
	}
	startSeq(t, p, loadRequest(stclear))
	mustRun(t, p, "8001 0000000C 00000145 0001")
	p.Init()
	mustRun(t, p, "8001 0000000C 00000144 0000") // Restart
	startSeq(t, p, loadRequest(normal))
	loadRequest(stclear).refused(t, p, "after Restart", tpm2.RCIntegrity.Parameter(1))
	mustRun(t, p, "8001 0000000C 00000145 0000")
	p.Init()
	mustRun(t, p, "8001 0000000C 00000144 0000") // Reset
	loadRequest(normal).refused(t, p, "after Reset", tpm2.RCIntegrity.Parameter(1))
}

func TestContextOfSequence(t *testing.T) {
	p := newTPM(t, Options{})
	h := startSeq(t, p, request{cc: tpm2.CCHashSequenceStart, params: func(w *tpm2.Writer) { w.Sized([]byte("pw")); w.Alg(tpm2.AlgSHA256) }})
	seqRequest(tpm2.CCSequenceUpdate, h, "pw", sized("ab")).ok(t, p)
	ctx := save(t, p, h)
	if ctx.SavedHandle != savedSequence || ctx.Hierarchy != tpm2.RHNull {
		t.Errorf("%+v", ctx)
	}
	flush(t, p, h)
	h = startSeq(t, p, loadRequest(ctx))
	r := seqRequest(tpm2.CCSequenceComplete, h, "pw", func(w *tpm2.Writer) { w.Sized([]byte("c")); w.Handle(tpm2.RHNull) }).ok(t, p)
	if got := string(r.Sized(64)); got != sha("abc") {
		t.Errorf("%x", got)
	}
}

func TestContextOfSession(t *testing.T) {
	p := newTPM(t, Options{})
	h := newPolicy(t, p, tpm2.AlgSHA256, false)
	on(tpm2.CCPolicyAuthValue, h, nil).ok(t, p)
	digest := digestOf(t, p, h)
	first := save(t, p, h)
	if first.Hierarchy != tpm2.RHNull || first.SavedHandle != h {
		t.Errorf("%+v", first)
	}
	on(tpm2.CCPolicyGetDigest, h, nil).refused(t, p, "saved", tpm2.RCReferenceH0)
	if got := startSeq(t, p, loadRequest(first)); got != h || digestOf(t, p, h) != digest {
		t.Errorf("loaded as %v", got)
	}
	loadRequest(first).refused(t, p, "twice", tpm2.RCHandle.Parameter(1))
	second := save(t, p, h)
	loadRequest(first).refused(t, p, "old context", tpm2.RCHandle.Parameter(1))
	startSeq(t, p, loadRequest(second))
	third := save(t, p, h)
	flush(t, p, h) // a saved session can be flushed
	loadRequest(third).refused(t, p, "flushed", tpm2.RCHandle.Parameter(1))
	bad := third
	bad.SavedHandle++
	loadRequest(bad).refused(t, p, "another handle", tpm2.RCIntegrity.Parameter(1))
}

// No old context fits again after 65536 saves, when the low bits come round.
func TestContextReplayAfterWrap(t *testing.T) {
	p := newTPM(t, Options{})
	h := newPolicy(t, p, tpm2.AlgSHA256, false)
	old := save(t, p, h)
	startSeq(t, p, loadRequest(old))
	p.state.reset.contextCounter += 1<<16 - 1
	now := save(t, p, h)
	if uint16(now.Sequence) != uint16(old.Sequence) || now.Sequence == old.Sequence {
		t.Fatalf("sequence %d after %d: the test does not test", now.Sequence, old.Sequence)
	}
	loadRequest(old).refused(t, p, "same low bits", tpm2.RCHandle.Parameter(1))
	startSeq(t, p, loadRequest(now))
}

func TestContextGap(t *testing.T) {
	p := newTPM(t, Options{})
	a, b := newPolicy(t, p, tpm2.AlgSHA256, false), newPolicy(t, p, tpm2.AlgSHA256, false)
	oldest := save(t, p, a)
	p.state.reset.contextCounter += 1<<16 - 1
	request{cc: tpm2.CCContextSave, handles: []tpm2.Handle{b}}.refused(t, p, "gap", tpm2.RCContextGap)
	startSeq(t, p, loadRequest(oldest))
	save(t, p, b)
}

// All sessions can be saved, more cannot exist.
func TestSessionSlots(t *testing.T) {
	p := newTPM(t, Options{Sessions: 3})
	start := request{cc: tpm2.CCStartAuthSession, handles: []tpm2.Handle{tpm2.RHNull, tpm2.RHNull}, params: func(w *tpm2.Writer) {
		w.Sized(make([]byte, 16))
		w.Sized(nil)
		w.U8(uint8(tpm2.SEPolicy))
		w.Alg(tpm2.AlgNull)
		w.Alg(tpm2.AlgSHA256)
	}}
	var saved []tpm2.Context
	for range maxSessions {
		saved = append(saved, save(t, p, startSeq(t, p, start)))
	}
	start.refused(t, p, "handles", tpm2.RCSessionHandles)
	for _, c := range saved[:3] {
		startSeq(t, p, loadRequest(c))
	}
	loadRequest(saved[3]).refused(t, p, "memory", tpm2.RCSessionMemory)
}
