// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"testing"
	"time"

	"holdfast/tpm2"
)

// request is a command for tests: one password (mostly empty) for each of the
// first handles that need authorization.
type request struct {
	cc       tpm2.CC
	handles  []tpm2.Handle
	auth     []string // passwords; their number is that of the authorizations
	params   func(w *tpm2.Writer)
	locality uint8
}

// do runs the request and returns its response code and the parameters of the
// response (without a response handle, which no command that needs it here has).
func (q request) do(t testing.TB, p *TPM) (tpm2.RC, *tpm2.Reader) {
	t.Helper()
	rc, r := q.send(t, p)
	if rc == 0 && q.auth != nil {
		r = tpm2.NewReader(r.Bytes(int(r.U32())))
	}
	return rc, r
}

// handle is do for commands that return a handle.
func (q request) handle(t testing.TB, p *TPM) (tpm2.RC, tpm2.Handle) {
	t.Helper()
	rc, r := q.send(t, p)
	return rc, r.Handle()
}

// bytes is the request as it is sent.
func (q request) bytes() []byte {
	var w tpm2.Writer
	tag := tpm2.STNoSessions
	if q.auth != nil {
		tag = tpm2.STSessions
	}
	tpm2.Header{Tag: tag, Code: uint32(q.cc)}.Marshal(&w)
	for _, h := range q.handles {
		w.Handle(h)
	}
	if q.auth != nil {
		at := w.Len()
		w.U32(0)
		for _, a := range q.auth {
			(&tpm2.AuthCommand{Handle: tpm2.RSPW, Attributes: tpm2.SessionContinue, HMAC: []byte(a)}).Marshal(&w)
		}
		w.PutU32(at, uint32(w.Len()-at-4))
	}
	if q.params != nil {
		q.params(&w)
	}
	w.PutU32(2, uint32(w.Len()))
	return w.Bytes()
}

// send returns the response code and what follows the header. With the first
// success of a command its mutants run on a copy of the TPM as it was before.
func (q request) send(t testing.TB, p *TPM) (tpm2.RC, *tpm2.Reader) {
	t.Helper()
	var before *TPM
	if commands.byCode[q.cc] != nil && seen.first(q.cc) {
		before = copyOf(t, p)
	}
	rsp := p.Execute(q.locality, q.bytes())
	rc := rcOf(t, rsp)
	if rc == 0 {
		seen.record(q.cc, 0)
		if before != nil {
			q.mutants(t, before)
		}
	} else if before != nil {
		seen.again(q.cc)
	}
	return rc, tpm2.NewReader(rsp[tpm2.HeaderSize:])
}

// copyOf returns another TPM in the same state, without transfers under way.
func copyOf(t testing.TB, p *TPM) *TPM {
	t.Helper()
	perm, err := p.PermanentState()
	if err != nil {
		t.Fatal(err)
	}
	vol, err := p.VolatileState()
	if err != nil {
		t.Fatal(err)
	}
	o := p.opt
	now := p.clk.last
	o.Now = func() time.Time { return now }
	n, err := New(NewMemoryStore(), o)
	if err == nil {
		err = n.SetState(perm, vol)
	}
	if err != nil {
		t.Fatal(err)
	}
	n.present, n.failed, n.drtm = p.present, p.failed, p.drtm
	return n
}

// ok runs the request, which must succeed.
func (q request) ok(t testing.TB, p *TPM) *tpm2.Reader {
	t.Helper()
	rc, r := q.do(t, p)
	if rc != 0 {
		t.Fatalf("%v: %v", q.cc, rc)
	}
	return r
}

// refused runs the request, which must fail with want and leave the permanent
// state as it was.
func (q request) refused(t testing.TB, p *TPM, name string, want tpm2.RC) {
	t.Helper()
	now := p.clk.last
	clock := p.opt.Now
	p.opt.Now = func() time.Time { return now } // the Clock is part of the permanent state
	defer func() { p.opt.Now = clock }()
	before, err := p.PermanentState()
	if err != nil {
		t.Fatal(err)
	}
	rc, _ := q.do(t, p)
	if rc != want {
		t.Errorf("%v, %s: %v, want %v", q.cc, name, rc, want)
	} else {
		seen.record(q.cc, rc)
	}
	if after, _ := p.PermanentState(); string(after) != string(before) && rc != 0 {
		t.Errorf("%v, %s: an error changed the state", q.cc, name)
	}
}

// owner and platform are the authorization of one handle with an empty password.
var noAuth = []string{""}

// newPolicy puts a policy session into the TPM's state and returns its handle.
func newPolicy(t testing.TB, p *TPM, alg tpm2.Alg, trial bool) tpm2.Handle {
	t.Helper()
	for i := range p.state.volatile.sessions {
		if p.state.volatile.sessions[i] == nil {
			h := tpm2.HandlePolicyFirst + tpm2.Handle(i)
			p.state.volatile.sessions[i] = &session{
				handle: h, hash: alg, nonce: []byte("sixteen octets..")[:16], policy: true, trial: trial,
				startTime: p.clk.time, epoch: p.state.volatile.timeEpoch, policyAssert: newAsserts(alg), sym: tpm2.SymDef{Alg: tpm2.AlgNull},
			}
			p.state.reset.contextSlots[i] = 0
			return h
		}
	}
	t.Fatal("no session slot")
	return 0
}

// digestOf is PolicyGetDigest.
func digestOf(t testing.TB, p *TPM, h tpm2.Handle) string {
	t.Helper()
	return string(request{cc: tpm2.CCPolicyGetDigest, handles: []tpm2.Handle{h}}.ok(t, p).Sized(tpm2.MaxDigest))
}

func sized(parts ...string) func(w *tpm2.Writer) {
	return func(w *tpm2.Writer) {
		for _, s := range parts {
			w.Sized([]byte(s))
		}
	}
}
