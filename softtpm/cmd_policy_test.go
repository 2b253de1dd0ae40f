// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"testing"

	"holdfast/tpm2"
)

func u32(v uint32) func(w *tpm2.Writer) { return func(w *tpm2.Writer) { w.U32(v) } }

func on(cc tpm2.CC, h tpm2.Handle, params func(w *tpm2.Writer)) request {
	return request{cc: cc, handles: []tpm2.Handle{h}, params: params}
}

// sha is H(parts) as a string, for digests written out from Part 3's equations.
func sha(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		h.Write([]byte(p))
	}
	return string(h.Sum(nil))
}

func be32(v uint32) string { return string(binary.BigEndian.AppendUint32(nil, v)) }

const zero32 = "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"

// Digests typed from the equations of Part 3, 23, with the numbers of the
// command codes, so that the shared code of tpm2 is not its own judge.
func TestPolicyDigests(t *testing.T) {
	other := sha("other")
	ref := sha("reference digest")
	for _, c := range []struct {
		name   string
		cc     tpm2.CC
		params func(w *tpm2.Writer)
		want   string
	}{
		{"CommandCode", tpm2.CCPolicyCommandCode, u32(0x137), sha(zero32, be32(0x16C), be32(0x137))},
		{"AuthValue", tpm2.CCPolicyAuthValue, nil, sha(zero32, be32(0x16B))},
		{"Password", tpm2.CCPolicyPassword, nil, sha(zero32, be32(0x16B))},
		{"PhysicalPresence", tpm2.CCPolicyPhysicalPresence, nil, sha(zero32, be32(0x187))},
		{"Locality", tpm2.CCPolicyLocality, func(w *tpm2.Writer) { w.U8(3) }, sha(zero32, be32(0x16F), "\x03")},
		{"Locality 32", tpm2.CCPolicyLocality, func(w *tpm2.Writer) { w.U8(32) }, sha(zero32, be32(0x16F), "\x20")},
		{"CpHash", tpm2.CCPolicyCpHash, sized(ref), sha(zero32, be32(0x16E), ref)},
		{"NameHash", tpm2.CCPolicyNameHash, sized(ref), sha(zero32, be32(0x170), ref)},
		{"Template", tpm2.CCPolicyTemplate, sized(ref), sha(zero32, be32(0x190), ref)},
		{"Parameters", tpm2.CCPolicyParameters, sized(ref), sha(zero32, be32(0x19C), ref)},
		{"NvWritten", tpm2.CCPolicyNvWritten, func(w *tpm2.Writer) { w.U8(1) }, sha(zero32, be32(0x18F), "\x01")},
		{"OR", tpm2.CCPolicyOR, func(w *tpm2.Writer) { w.U32(2); sized(other, zero32)(w) }, sha(zero32, be32(0x171), other, zero32)},
		{"DuplicationSelect", tpm2.CCPolicyDuplicationSelect, func(w *tpm2.Writer) { sized("object", "parent")(w); w.U8(1) },
			sha(zero32, be32(0x188), "object", "parent", "\x01")},
		{"DuplicationSelect parent", tpm2.CCPolicyDuplicationSelect, func(w *tpm2.Writer) { sized("object", "parent")(w); w.U8(0) },
			sha(zero32, be32(0x188), "parent", "\x00")},
		{"PCR", tpm2.CCPolicyPCR, func(w *tpm2.Writer) {
			w.Sized(nil)
			tpm2.MarshalPCRSelections(w, []tpm2.PCRSelection{tpm2.SelectPCRs(tpm2.AlgSHA256, 0, 1)})
		}, sha(zero32, be32(0x17F), "\x00\x00\x00\x01\x00\x0B\x03\x03\x00\x00", sha(zero32, zero32))},
		{"CounterTimer", tpm2.CCPolicyCounterTimer, func(w *tpm2.Writer) { w.Sized([]byte{0, 0, 0, 1}); w.U16(16); w.U16(0) },
			sha(zero32, be32(0x16D), sha("\x00\x00\x00\x01", "\x00\x10", "\x00\x00"))},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newTPM(t, Options{})
			for _, trial := range []bool{false, true} {
				h := newPolicy(t, p, tpm2.AlgSHA256, trial)
				on(c.cc, h, c.params).ok(t, p)
				if got := digestOf(t, p, h); got != c.want {
					t.Errorf("trial %v: digest %x, want %x", trial, got, c.want)
				}
				on(tpm2.CCPolicyRestart, h, nil).ok(t, p)
				if got := digestOf(t, p, h); got != zero32 {
					t.Errorf("after PolicyRestart %x", got)
				}
			}
			hmac := tpm2.HandleHMACFirst + 9
			on(c.cc, hmac, c.params).refused(t, p, "HMAC session", tpm2.RCValue.Handle(1))
			on(c.cc, tpm2.HandlePolicyFirst+9, c.params).refused(t, p, "no session", tpm2.RCReferenceH0)
			if c.params != nil {
				on(c.cc, newPolicy(t, p, tpm2.AlgSHA256, false), nil).refused(t, p, "no parameters", tpm2.RCInsufficient.Parameter(1))
			}
		})
	}
}

func TestPolicyRefusals(t *testing.T) {
	p := newTPM(t, Options{})
	fresh := func() tpm2.Handle {
		for i := range p.state.volatile.sessions {
			p.state.volatile.sessions[i] = nil
		}
		return newPolicy(t, p, tpm2.AlgSHA256, false)
	}
	a, b := sha("a"), sha("b")
	h := fresh()
	on(tpm2.CCPolicyOR, h, func(w *tpm2.Writer) { w.U32(2); sized(a, b)(w) }).refused(t, p, "no branch", tpm2.RCValue.Parameter(1))
	on(tpm2.CCPolicyOR, h, func(w *tpm2.Writer) { w.U32(1); sized(zero32)(w) }).refused(t, p, "one branch", tpm2.RCSize.Parameter(1))
	on(tpm2.CCPolicyOR, h, u32(9)).refused(t, p, "nine branches", tpm2.RCSize.Parameter(1))
	on(tpm2.CCPolicyCommandCode, h, u32(0x13FF)).refused(t, p, "unknown command", tpm2.RCPolicyCC.Parameter(1))
	on(tpm2.CCPolicyCommandCode, h, u32(0x137)).ok(t, p)
	on(tpm2.CCPolicyCommandCode, h, u32(0x137)).ok(t, p)
	on(tpm2.CCPolicyCommandCode, h, u32(0x138)).refused(t, p, "another command", tpm2.RCValue.Parameter(1))
	on(tpm2.CCPolicyDuplicationSelect, h, func(w *tpm2.Writer) { sized("", "")(w); w.U8(0) }).refused(t, p, "command set", tpm2.RCCommandCode)
	on(tpm2.CCPolicyDuplicationSelect, fresh(), func(w *tpm2.Writer) { sized("", "")(w); w.U8(2) }).refused(t, p, "not YES or NO", tpm2.RCValue.Parameter(3))

	h = fresh()
	on(tpm2.CCPolicyCpHash, h, sized(a[:31])).refused(t, p, "size", tpm2.RCSize.Parameter(1))
	on(tpm2.CCPolicyCpHash, h, sized(a)).ok(t, p)
	on(tpm2.CCPolicyCpHash, h, sized(a)).ok(t, p)
	on(tpm2.CCPolicyCpHash, h, sized(b)).refused(t, p, "another", tpm2.RCCpHash)
	on(tpm2.CCPolicyNameHash, h, sized(a)).refused(t, p, "cpHash is set", tpm2.RCCpHash)
	on(tpm2.CCPolicyTemplate, h, sized(a)).refused(t, p, "cpHash is set", tpm2.RCCpHash)
	on(tpm2.CCPolicyParameters, h, sized(a)).refused(t, p, "cpHash is set", tpm2.RCCpHash)
	on(tpm2.CCPolicyDuplicationSelect, h, func(w *tpm2.Writer) { sized("", "")(w); w.U8(0) }).refused(t, p, "cpHash is set", tpm2.RCCpHash)
	h = fresh()
	on(tpm2.CCPolicyTemplate, h, sized(a)).ok(t, p)
	on(tpm2.CCPolicyTemplate, h, sized(a)).ok(t, p)
	on(tpm2.CCPolicyTemplate, h, sized(b)).refused(t, p, "another", tpm2.RCCpHash)
	h = fresh()
	on(tpm2.CCPolicyNameHash, h, sized(a)).ok(t, p)
	on(tpm2.CCPolicyNameHash, h, sized(a)).refused(t, p, "again", tpm2.RCCpHash)

	h = fresh()
	loc := func(l uint8) request { return on(tpm2.CCPolicyLocality, h, func(w *tpm2.Writer) { w.U8(l) }) }
	loc(0).refused(t, p, "none", tpm2.RCRange.Parameter(1))
	loc(6).ok(t, p)
	loc(3).ok(t, p)
	if got := p.state.session(h).policyAssert.locality; got != 2 {
		t.Errorf("localities %x, want the common one", got)
	}
	loc(1).refused(t, p, "nothing common", tpm2.RCRange.Parameter(1))
	loc(40).refused(t, p, "extended after bits", tpm2.RCRange.Parameter(1))
	h = fresh()
	loc(40).ok(t, p)
	loc(40).ok(t, p)
	loc(41).refused(t, p, "another extended", tpm2.RCRange.Parameter(1))
	loc(1).refused(t, p, "bits after extended", tpm2.RCRange.Parameter(1))

	h = fresh()
	nv := func(v uint8) request { return on(tpm2.CCPolicyNvWritten, h, func(w *tpm2.Writer) { w.U8(v) }) }
	nv(0).ok(t, p)
	nv(0).ok(t, p)
	nv(1).refused(t, p, "the contrary", tpm2.RCValue.Parameter(1))
	nv(2).refused(t, p, "not YES or NO", tpm2.RCValue.Parameter(1))
}

func TestPolicyPCR(t *testing.T) {
	p := newTPM(t, Options{})
	pcr := func(h tpm2.Handle, digest string) request {
		return on(tpm2.CCPolicyPCR, h, func(w *tpm2.Writer) {
			w.Sized([]byte(digest))
			tpm2.MarshalPCRSelections(w, []tpm2.PCRSelection{tpm2.SelectPCRs(tpm2.AlgSHA256, 7)})
		})
	}
	h, trial := newPolicy(t, p, tpm2.AlgSHA256, false), newPolicy(t, p, tpm2.AlgSHA256, true)
	pcr(h, sha("wrong")).refused(t, p, "digest", tpm2.RCValue.Parameter(1))
	pcr(h, sha(zero32)).ok(t, p)
	pcr(trial, sha(zero32)).ok(t, p)
	if digestOf(t, p, h) != digestOf(t, p, trial) {
		t.Error("trial and real digests differ")
	}
	// A trial session takes the digest of PCR values to come.
	future := newPolicy(t, p, tpm2.AlgSHA256, true)
	pcr(future, sha("to come")).ok(t, p)
	want := sha(zero32, be32(0x17F), "\x00\x00\x00\x01\x00\x0B\x03\x80\x00\x00", sha("to come"))
	if digestOf(t, p, future) != want {
		t.Error("trial digest")
	}
	extend(16, tpm2.HA{Alg: tpm2.AlgSHA256, Digest: []byte(zero32)}).ok(t, p) // does not count
	pcr(h, "").ok(t, p)
	extend(8, tpm2.HA{Alg: tpm2.AlgSHA256, Digest: []byte(zero32)}).ok(t, p)
	pcr(h, "").refused(t, p, "PCRs changed since", tpm2.RCPCRChanged)
}

func TestPolicyNV(t *testing.T) {
	p := newTPM(t, Options{})
	define(tpm2.RHOwner, "", nvPublic(testIndex, ownerRW, 4)).ok(t, p)
	h := newPolicy(t, p, tpm2.AlgSHA256, false)
	q := func(operand string, offset uint16, op tpm2.EO) request {
		return request{cc: tpm2.CCPolicyNV, handles: []tpm2.Handle{tpm2.RHOwner, testIndex, h}, auth: noAuth,
			params: func(w *tpm2.Writer) { w.Sized([]byte(operand)); w.U16(offset); w.U16(uint16(op)) }}
	}
	q("\x01", 0, tpm2.EOEq).refused(t, p, "unwritten", tpm2.RCNVUninitialized)
	write(tpm2.RHOwner, testIndex, "\x01\x82\x03\x04", 0).ok(t, p)
	q("\x82", 1, tpm2.EOEq).ok(t, p)
	name := string(p.state.nv(testIndex).name())
	if want := sha(zero32, be32(0x149), sha("\x82", "\x00\x01", "\x00\x00"), name); digestOf(t, p, h) != want {
		t.Error("digest")
	}
	q("\x83", 1, tpm2.EOEq).refused(t, p, "unequal", tpm2.RCPolicy)
	q("\x83", 5, tpm2.EOEq).refused(t, p, "offset", tpm2.RCValue.Parameter(2))
	q("\x83\x00", 3, tpm2.EOEq).refused(t, p, "over the end", tpm2.RCSize.Parameter(1))
	q("\x83", 0, 12).refused(t, p, "operation", tpm2.RCValue.Parameter(3))
	plat := q("\x82", 1, tpm2.EOEq)
	plat.handles[0] = tpm2.RHPlatform
	plat.refused(t, p, "platform", tpm2.RCNVAuthorization)
	h = newPolicy(t, p, tpm2.AlgSHA256, true)
	q("\x83", 9, tpm2.EOEq).ok(t, p) // a trial session does not compare
}

func TestConditions(t *testing.T) {
	for _, c := range []struct {
		op   tpm2.EO
		a, b string
		want bool
	}{
		{tpm2.EOEq, "0102", "0102", true}, {tpm2.EOEq, "0102", "0103", false}, {tpm2.EOEq, "", "", true},
		{tpm2.EONeq, "0102", "0103", true}, {tpm2.EONeq, "00", "00", false}, {tpm2.EONeq, "", "", false},
		{tpm2.EOSignedGT, "01", "ff", true}, {tpm2.EOSignedGT, "ff", "01", false}, {tpm2.EOSignedGT, "ff", "fe", true}, {tpm2.EOSignedGT, "81", "82", false}, {tpm2.EOSignedGT, "01", "01", false},
		{tpm2.EOUnsignedGT, "ff", "01", true}, {tpm2.EOUnsignedGT, "01", "ff", false},
		{tpm2.EOSignedLT, "ff", "01", true}, {tpm2.EOSignedLT, "80", "81", true}, {tpm2.EOSignedLT, "81", "80", false}, {tpm2.EOSignedLT, "01", "ff", false},
		{tpm2.EOUnsignedLT, "01", "ff", true}, {tpm2.EOUnsignedLT, "ff", "ff", false},
		{tpm2.EOSignedGE, "01", "01", true}, {tpm2.EOSignedGE, "80", "7f", false},
		{tpm2.EOUnsignedGE, "80", "7f", true}, {tpm2.EOUnsignedGE, "7f", "80", false},
		{tpm2.EOSignedLE, "80", "7f", true}, {tpm2.EOSignedLE, "7f", "80", false},
		{tpm2.EOUnsignedLE, "7f", "80", true}, {tpm2.EOUnsignedLE, "80", "7f", false},
		{tpm2.EOBitSet, "f0", "30", true}, {tpm2.EOBitSet, "f0", "31", false}, {tpm2.EOBitSet, "f0", "00", true},
		{tpm2.EOBitClear, "f0", "0f", true}, {tpm2.EOBitClear, "f0", "1f", false},
		{0x0F, "00", "00", false},
	} {
		a, _ := hex.DecodeString(c.a)
		b, _ := hex.DecodeString(c.b)
		if got := ProfileFull.holds(c.op, a, b); got != c.want {
			t.Errorf("%s op %d %s = %v", c.a, c.op, c.b, got)
		}
	}
}

func TestPolicyCounterTimer(t *testing.T) {
	p := newTPM(t, Options{})
	h := newPolicy(t, p, tpm2.AlgSHA256, false)
	q := func(operand string, offset uint16, op tpm2.EO) request {
		return on(tpm2.CCPolicyCounterTimer, h, func(w *tpm2.Writer) { w.Sized([]byte(operand)); w.U16(offset); w.U16(uint16(op)) })
	}
	q(be32(1), 16, tpm2.EOEq).ok(t, p) // resetCount
	q(be32(2), 16, tpm2.EOUnsignedGE).refused(t, p, "resetCount", tpm2.RCPolicy)
	q("\x01", 24, tpm2.EOEq).ok(t, p) // safe
	q("", 25, tpm2.EOEq).ok(t, p)
	q("", 26, tpm2.EOEq).refused(t, p, "offset", tpm2.RCValue.Parameter(2))
	q("xx", 24, tpm2.EOEq).refused(t, p, "over the end", tpm2.RCRange)
}

func TestPolicyPasswordAndAuthValue(t *testing.T) {
	p := newTPM(t, Options{})
	h := newPolicy(t, p, tpm2.AlgSHA256, false)
	on(tpm2.CCPolicyAuthValue, h, nil).ok(t, p)
	on(tpm2.CCPolicyPassword, h, nil).ok(t, p)
	if a := p.state.session(h).policyAssert; a.authValue || !a.password {
		t.Error("the last of the two counts")
	}
	on(tpm2.CCPolicyAuthValue, h, nil).ok(t, p)
	if a := p.state.session(h).policyAssert; !a.authValue || a.password {
		t.Error("the last of the two counts")
	}
}

// secret is PolicySecret on entity with a password.
func secret(entity, session tpm2.Handle, password string, nonce, cpHash, ref string, expiration int32) request {
	return request{cc: tpm2.CCPolicySecret, handles: []tpm2.Handle{entity, session}, auth: []string{password},
		params: func(w *tpm2.Writer) { sized(nonce, cpHash, ref)(w); w.U32(uint32(expiration)) }}
}

func TestPolicySecret(t *testing.T) {
	p := newTPM(t, Options{})
	h := newPolicy(t, p, tpm2.AlgSHA256, false)
	nonce := string(p.state.session(h).nonce)
	secret(tpm2.RHEndorsement, h, "wrong", "", "", "", 0).refused(t, p, "password", tpm2.RCBadAuth.Session(1))
	secret(tpm2.RHEndorsement, h, "", "another nonce", "", "", 0).refused(t, p, "nonce", tpm2.RCNonce.Parameter(1))
	secret(tpm2.RHEndorsement, h, "", "", "short", "", 0).refused(t, p, "cpHash", tpm2.RCSize.Parameter(2))
	r := secret(tpm2.RHEndorsement, h, "", nonce, "", "ref", 0).ok(t, p)
	if len(r.Sized(99)) != 0 {
		t.Error("a timeout without a ticket")
	}
	var tk tpm2.Ticket
	tk.UnmarshalTicket(r, tpm2.STAuthSecret)
	if tk.Hierarchy != tpm2.RHNull || len(tk.HMAC) != 0 || r.Len() != 0 {
		t.Errorf("ticket %+v", tk)
	}
	if want := sha(sha(zero32, be32(0x151), be32(0x4000000B)), "ref"); digestOf(t, p, h) != want {
		t.Error("digest")
	}
	secret(tpm2.RHNull, h, "", "", "", "", 0).refused(t, p, "null", tpm2.RCValue.Handle(1))
	// cpHash binds; another one is refused.
	cp := sha("cp")
	secret(tpm2.RHOwner, h, "", "", cp, "", 0).ok(t, p)
	secret(tpm2.RHOwner, h, "", "", sha("other"), "", 0).refused(t, p, "another cpHash", tpm2.RCCpHash)
	if string(p.state.session(h).policyAssert.cpHash) != cp {
		t.Error("cpHash not kept")
	}
}

func TestPolicyTicket(t *testing.T) {
	p := newTPM(t, Options{})
	h := newPolicy(t, p, tpm2.AlgSHA256, false)
	nonce := string(p.state.session(h).nonce)
	r := secret(tpm2.RHOwner, h, "", nonce, "", "ref", -60).ok(t, p)
	timeout := string(r.Sized(8))
	var tk tpm2.Ticket
	tk.UnmarshalTicket(r, tpm2.STAuthSecret)
	if len(timeout) != 8 || tk.Hierarchy != tpm2.RHOwner || len(tk.HMAC) == 0 || r.Len() != 0 {
		t.Fatalf("timeout %x, ticket %+v", timeout, tk)
	}
	want := digestOf(t, p, h)
	limit := p.state.session(h).policyAssert.timeout
	if limit != p.state.session(h).startTime+60000 {
		t.Errorf("session ends at %d", limit)
	}
	other := newPolicy(t, p, tpm2.AlgSHA256, false)
	q := func(h tpm2.Handle, timeout, cp, ref, name string, tk tpm2.Ticket) request {
		return on(tpm2.CCPolicyTicket, h, func(w *tpm2.Writer) { sized(timeout, cp, ref, name)(w); tk.Marshal(w) })
	}
	name := be32(0x40000001)
	q(other, timeout, "", "ref", name, tk).ok(t, p)
	if digestOf(t, p, other) != want || p.state.session(other).policyAssert.timeout != limit {
		t.Error("the ticket does not do what the authorization did")
	}
	flipped := tk
	flipped.HMAC = append([]byte(nil), tk.HMAC...)
	flipped.HMAC[5] ^= 1
	signed := tk
	signed.Tag = tpm2.STAuthSigned
	q(other, timeout, "", "ref", name, flipped).refused(t, p, "HMAC", tpm2.RCTicket.Parameter(5))
	q(other, timeout, "", "ref", name, signed).refused(t, p, "kind", tpm2.RCTicket.Parameter(5))
	q(other, timeout, "", "rex", name, tk).refused(t, p, "ref", tpm2.RCTicket.Parameter(5))
	q(other, timeout, "", "ref", be32(0x4000000B), tk).refused(t, p, "name", tpm2.RCTicket.Parameter(5))
	q(other, timeout, sha("cp"), "ref", name, tk).refused(t, p, "cpHash", tpm2.RCTicket.Parameter(5))
	q(other, "\x00\x00\x00\x00\x7f\xff\xff\xff", "", "ref", name, tk).refused(t, p, "later", tpm2.RCTicket.Parameter(5))
	q(other, timeout[1:], "", "ref", name, tk).refused(t, p, "timeout size", tpm2.RCSize.Parameter(1))
	q(newPolicy(t, p, tpm2.AlgSHA256, true), timeout, "", "ref", name, tk).refused(t, p, "trial", tpm2.RCAttributes.Handle(1))
	p.clk.time += 61000
	q(other, timeout, "", "ref", name, tk).refused(t, p, "expired", tpm2.RCExpired.Parameter(1))

	// Without nonceTPM the ticket ends with the next TPM Reset.
	h = newPolicy(t, p, tpm2.AlgSHA256, false)
	r = secret(tpm2.RHOwner, h, "", "", "", "", -3600).ok(t, p)
	if to := r.Sized(8); len(to) != 8 || to[0]&0x80 == 0 {
		t.Errorf("timeout %x", to)
	}
	secret(tpm2.RHOwner, h, "", "", "", "", 1).refused(t, p, "in the past", tpm2.RCExpired.Parameter(4))
	// The smallest expiration has no positive twin and must not wrap.
	secret(tpm2.RHOwner, h, "", "", "", "", -0x80000000).ok(t, p)
}

func TestPolicyAuthorizeNV(t *testing.T) {
	p := newTPM(t, Options{})
	define(tpm2.RHOwner, "", nvPublic(testIndex, ownerRW, 34)).ok(t, p)
	h := newPolicy(t, p, tpm2.AlgSHA256, false)
	q := func(h tpm2.Handle) request {
		return request{cc: tpm2.CCPolicyAuthorizeNV, handles: []tpm2.Handle{tpm2.RHOwner, testIndex, h}, auth: noAuth}
	}
	on(tpm2.CCPolicyAuthValue, h, nil).ok(t, p)
	policy := digestOf(t, p, h)
	q(h).refused(t, p, "unwritten", tpm2.RCNVUninitialized)
	write(tpm2.RHOwner, testIndex, "\x00\x0b"+sha("another"), 0).ok(t, p)
	q(h).refused(t, p, "another policy", tpm2.RCValue)
	write(tpm2.RHOwner, testIndex, "\x00\x0c"+policy, 0).ok(t, p)
	q(h).refused(t, p, "short digest", tpm2.RCInsufficient)
	write(tpm2.RHOwner, testIndex, "\x00\x04"+policy, 0).ok(t, p)
	q(h).refused(t, p, "another hash", tpm2.RCHash)
	write(tpm2.RHOwner, testIndex, "\x00\x10"+policy, 0).ok(t, p)
	q(h).refused(t, p, "no hash", tpm2.RCHash)
	write(tpm2.RHOwner, testIndex, "\x00\x0b"+policy, 0).ok(t, p)
	q(h).ok(t, p)
	if want := sha(zero32, be32(0x192), string(p.state.nv(testIndex).name())); digestOf(t, p, h) != want {
		t.Error("digest")
	}
	q(newPolicy(t, p, tpm2.AlgSHA256, true)).ok(t, p)
}

// PIN indices count uses (Part 1, 37.2.8).
func TestPIN(t *testing.T) {
	p := newTPM(t, Options{})
	a := tpm2.NVOwnerWrite | tpm2.NVOwnerRead | tpm2.NVAuthRead | tpm2.NVNoDA
	define(tpm2.RHOwner, "pin", nvPublic(testIndex, a.WithType(tpm2.NTPinPass), 8)).ok(t, p)
	write(tpm2.RHOwner, testIndex, be32(0)+be32(2), 0).ok(t, p)
	h := newPolicy(t, p, tpm2.AlgSHA256, false)
	for range 2 {
		r := secret(testIndex, h, "pin", "", "", "", -60).ok(t, p)
		if len(r.Sized(8)) != 0 {
			t.Error("a ticket from a PIN Pass index")
		}
	}
	secret(testIndex, h, "pin", "", "", "", 0).refused(t, p, "used up", tpm2.RCAuthUnavailable)
	if got := string(read(tpm2.RHOwner, testIndex, 8, 0).ok(t, p).Sized(8)); got != be32(2)+be32(2) {
		t.Errorf("count %x", got)
	}
	request{cc: tpm2.CCStartAuthSession, handles: []tpm2.Handle{tpm2.RHNull, testIndex}, params: func(w *tpm2.Writer) {
		w.Sized(make([]byte, 16))
		w.Sized(nil)
		w.U8(uint8(tpm2.SEHMAC))
		w.Alg(tpm2.AlgNull)
		w.Alg(tpm2.AlgSHA256)
	}}.refused(t, p, "bound to a PIN index", tpm2.RCHandle.Handle(2))
	define(tpm2.RHOwner, "pin", nvPublic(otherIndex, a.WithType(tpm2.NTPinFail), 8)).ok(t, p)
	write(tpm2.RHOwner, otherIndex, be32(0)+be32(3), 0).ok(t, p)
	count := func() string { return string(read(tpm2.RHOwner, otherIndex, 4, 0).ok(t, p).Sized(4)) }
	bad := secret(otherIndex, h, "nip", "", "", "", 0)
	for range 2 {
		if rc, _ := bad.do(t, p); rc == 0 {
			t.Fatal("wrong PIN accepted")
		}
	}
	if count() != be32(2) {
		t.Errorf("%x failures counted, want 2", count())
	}
	secret(otherIndex, h, "pin", "", "", "", 0).ok(t, p)
	if count() != be32(0) {
		t.Errorf("%x failures after a success", count())
	}
	for range 3 {
		bad.do(t, p)
	}
	secret(otherIndex, h, "pin", "", "", "", 0).refused(t, p, "used up", tpm2.RCAuthUnavailable)
}

func TestPolicyCapability(t *testing.T) {
	p := newTPM(t, Options{})
	h := newPolicy(t, p, tpm2.AlgSHA256, false)
	q := func(operand string, offset uint16, op tpm2.EO, c tpm2.Cap, property uint32) request {
		return on(tpm2.CCPolicyCapability, h, func(w *tpm2.Writer) {
			w.Sized([]byte(operand))
			w.U16(offset)
			w.U16(uint16(op))
			w.U32(uint32(c))
			w.U32(property)
		})
	}
	family := uint32(tpm2.PTFamilyIndicator)
	q("2.0\x00", 4, tpm2.EOEq, tpm2.CapTPMProperties, family).ok(t, p)
	want := sha(zero32, be32(0x19B), sha("2.0\x00", "\x00\x04", "\x00\x00", be32(6), be32(family)))
	if got := digestOf(t, p, h); got != want {
		t.Errorf("digest %x, want %x", got, want)
	}
	q("1.2\x00", 4, tpm2.EOEq, tpm2.CapTPMProperties, family).refused(t, p, "not equal", tpm2.RCPolicy)
	q("x", 9, tpm2.EOEq, tpm2.CapTPMProperties, family).refused(t, p, "offset", tpm2.RCValue.Parameter(2))
	q("xx", 7, tpm2.EOEq, tpm2.CapTPMProperties, family).refused(t, p, "over the end", tpm2.RCSize.Parameter(1))
	q("", 0, 12, tpm2.CapTPMProperties, family).refused(t, p, "operation", tpm2.RCValue.Parameter(3))
	q("", 0, tpm2.EOEq, tpm2.CapPCRs, 0).refused(t, p, "PCRs", tpm2.RCValue.Parameter(4))
	q("", 0, tpm2.EOEq, 0x55, 0).refused(t, p, "capability", tpm2.RCValue.Parameter(4))
	q("", 0, tpm2.EOEq, tpm2.CapHandles, 0x55000000).refused(t, p, "handle type", tpm2.RCHandle.Parameter(5))
	// A property that is not there: only "not equal" holds.
	q("\x00", 0, tpm2.EOEq, tpm2.CapAlgs, 0x0026).refused(t, p, "no Camellia", tpm2.RCPolicy)
	q("\x00", 0, tpm2.EONeq, tpm2.CapAlgs, 0x0026).ok(t, p)
	// One value of each list.
	q("\x00\xa1", 0, tpm2.EOEq, tpm2.CapAlgs, 0xA1).ok(t, p)
	q(be32(0x40000007), 0, tpm2.EOEq, tpm2.CapHandles, 0x40000007).ok(t, p)
	q("\x01\x82", 2, tpm2.EOEq, tpm2.CapCommands, 0x182).ok(t, p)
	q(be32(0x12D), 0, tpm2.EOEq, tpm2.CapPPCommands, 0x12D).ok(t, p)
	q(be32(0x140), 0, tpm2.EOEq, tpm2.CapAuditCommands, 0x140).ok(t, p)
	q(be32(0), 0, tpm2.EOEq, tpm2.CapPCRProperties, 0).ok(t, p)
	q("\x00\x04", 0, tpm2.EOEq, tpm2.CapECCCurves, 4).ok(t, p)
	q("", 0, tpm2.EONeq, tpm2.CapAuthPolicies, 0x40000001).ok(t, p)
}
