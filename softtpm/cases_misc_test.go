// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"bytes"
	"testing"

	"holdfast/tpm2"
)

// Errors of the commands about NV, hierarchies, clock, capabilities, sessions
// and contexts, one by one.

// TestNVErrorsOfEach: authorization and locks for each command that writes
// (Part 3, 31.7 to 31.15).
func TestNVErrorsOfEach(t *testing.T) {
	p := newTPM(t, Options{})
	rw := tpm2.NVAuthRead | tpm2.NVAuthWrite | tpm2.NVWriteStClear | tpm2.NVReadStClear
	for i, c := range []struct {
		cc     tpm2.CC
		kind   tpm2.NVAttributes
		params func(w *tpm2.Writer)
	}{
		{tpm2.CCNVIncrement, tpm2.NVAttributes(tpm2.NTCounter) << 4, nil},
		{tpm2.CCNVSetBits, tpm2.NVAttributes(tpm2.NTBits) << 4, func(w *tpm2.Writer) { w.U64(5) }},
		{tpm2.CCNVExtend, tpm2.NVAttributes(tpm2.NTExtend) << 4, sized("data")},
	} {
		h := testIndex + 0x100 + tpm2.Handle(i)
		size := uint16(8)
		if c.cc == tpm2.CCNVExtend {
			size = 32
		}
		define(tpm2.RHOwner, "", nvPublic(h, rw|c.kind, size)).ok(t, p)
		onNV(c.cc, tpm2.RHOwner, h, c.params).refused(t, p, "owner", tpm2.RCNVAuthorization)
		onNV(c.cc, h, h, c.params).ok(t, p)
		onNV(tpm2.CCNVWriteLock, tpm2.RHOwner, h, nil).refused(t, p, "owner", tpm2.RCNVAuthorization)
		onNV(tpm2.CCNVReadLock, tpm2.RHOwner, h, nil).refused(t, p, "owner", tpm2.RCNVAuthorization)
		onNV(tpm2.CCNVWriteLock, h, h, nil).ok(t, p)
		onNV(c.cc, h, h, c.params).refused(t, p, "locked", tpm2.RCNVLocked)
		onNV(tpm2.CCNVReadLock, h, h, nil).ok(t, p)
		s := newPolicy(t, p, tpm2.AlgSHA256, false)
		q := request{cc: tpm2.CCPolicyNV, handles: []tpm2.Handle{h, h, s}, auth: noAuth, params: func(w *tpm2.Writer) { w.Sized(nil); w.U16(0); w.U16(0) }}
		q.refused(t, p, "read locked", tpm2.RCNVLocked)
	}
}

// TestNVByPolicyOnly: NV_ChangeAuth and NV_UndefineSpaceSpecial need a policy
// that names them.
func TestNVByPolicyOnly(t *testing.T) {
	p := newTPM(t, Options{})
	for _, c := range []struct {
		cc      tpm2.CC
		by      tpm2.Handle
		a       tpm2.NVAttributes
		handles func(h tpm2.Handle) []tpm2.Handle
		auths   int
	}{
		{tpm2.CCNVChangeAuth, tpm2.RHOwner, tpm2.NVAuthRead | tpm2.NVAuthWrite, func(h tpm2.Handle) []tpm2.Handle { return []tpm2.Handle{h} }, 1},
		{tpm2.CCNVUndefineSpaceSpecial, tpm2.RHPlatform, tpm2.NVPPRead | tpm2.NVPPWrite | tpm2.NVPlatformCreate | tpm2.NVPolicyDelete, func(h tpm2.Handle) []tpm2.Handle { return []tpm2.Handle{h, tpm2.RHPlatform} }, 2},
	} {
		pd := tpm2.NewPolicyDigest(tpm2.AlgSHA256)
		pd.CommandCode(c.cc)
		pub := nvPublic(testIndex, c.a, 8)
		pub.AuthPolicy = pd.Sum()
		define(c.by, "", pub).ok(t, p)
		session := func() tpm2.Handle {
			s := newPolicy(t, p, tpm2.AlgSHA256, false)
			on(tpm2.CCPolicyCommandCode, s, u32(uint32(c.cc))).ok(t, p)
			return s
		}
		var params func(w *tpm2.Writer)
		if c.cc == tpm2.CCNVChangeAuth {
			params = sized("new")
			if rc, _ := underPolicy(t, p, c.cc, session(), c.auths, c.handles(testIndex), sized(string(make([]byte, 33))[:32]+"x")); rc != tpm2.RCSize.Parameter(1) {
				t.Errorf("long authValue: %v", rc)
			}
		}
		q := request{cc: c.cc, handles: c.handles(testIndex), auth: []string{"", ""}[:c.auths], params: params}
		q.refused(t, p, "by password", tpm2.RCAuthType)
		if rc, _ := underPolicy(t, p, c.cc, session(), c.auths, c.handles(testIndex), params); rc != 0 {
			t.Errorf("%v: %v", c.cc, rc)
		}
		switch x := p.state.nv(testIndex); {
		case c.cc == tpm2.CCNVChangeAuth && string(x.auth) != "new":
			t.Errorf("authValue %q", x.auth)
		case c.cc == tpm2.CCNVUndefineSpaceSpecial && x != nil:
			t.Error("the index is still there")
		}
		if c.cc == tpm2.CCNVChangeAuth {
			p.state.perm.nv = nil
		}
	}
	pd := tpm2.NewPolicyDigest(tpm2.AlgSHA256)
	pd.CommandCode(tpm2.CCNVUndefineSpaceSpecial)
	pub := nvPublic(testIndex, tpm2.NVPPRead|tpm2.NVPPWrite|tpm2.NVPlatformCreate, 8)
	pub.AuthPolicy = pd.Sum()
	define(tpm2.RHPlatform, "", pub).ok(t, p)
	s := newPolicy(t, p, tpm2.AlgSHA256, false)
	on(tpm2.CCPolicyCommandCode, s, u32(uint32(tpm2.CCNVUndefineSpaceSpecial))).ok(t, p)
	if rc, _ := underPolicy(t, p, tpm2.CCNVUndefineSpaceSpecial, s, 2, []tpm2.Handle{testIndex, tpm2.RHPlatform}, nil); rc != tpm2.RCAttributes.Handle(1) {
		t.Errorf("an index that is not so: %v", rc)
	}
}

// TestNVDefineSpace2Errors: the same as NV_DefineSpace's.
func TestNVDefineSpace2Errors(t *testing.T) {
	p := newTPM(t, Options{NVIndices: 16})
	define2 := func(by tpm2.Handle, pub tpm2.NVPublic) request {
		return request{cc: tpm2.CCNVDefineSpace2, handles: []tpm2.Handle{by}, auth: noAuth, params: func(w *tpm2.Writer) {
			w.Sized(nil)
			m := w.Begin()
			w.U8(uint8(tpm2.HTNVIndex))
			pub.Marshal(w)
			w.End(m)
		}}
	}
	rw := tpm2.NVOwnerRead | tpm2.NVOwnerWrite
	define2(tpm2.RHOwner, nvPublic(testIndex, rw, 8)).ok(t, p)
	define2(tpm2.RHOwner, nvPublic(testIndex, rw, 8)).refused(t, p, "there already", tpm2.RCNVDefined)
	define2(tpm2.RHOwner, nvPublic(otherIndex, 0, 8)).refused(t, p, "no way to read or write", tpm2.RCAttributes.Parameter(2))
	define2(tpm2.RHOwner, nvPublic(otherIndex, rw|tpm2.NVAttributes(tpm2.NTCounter)<<4, 7)).refused(t, p, "counter of 7 octets", tpm2.RCSize.Parameter(2))
	for i := tpm2.Handle(1); i < 16; i++ {
		define2(tpm2.RHOwner, nvPublic(testIndex+0x1000+i, rw, 8)).ok(t, p)
	}
	define2(tpm2.RHOwner, nvPublic(testIndex+0x2000, rw, 8)).refused(t, p, "too many", tpm2.RCNVSpace)
	p.state.clear.phEnableNV = false
	define2(tpm2.RHPlatform, nvPublic(testIndex+0x2001, tpm2.NVPPRead|tpm2.NVPPWrite|tpm2.NVPlatformCreate, 8)).refused(t, p, "platform NV disabled", tpm2.RCHierarchy.Handle(1))
}

// TestSelfTests and random numbers, clock and capabilities (Part 3, 10, 16, 29, 30).
func TestSmallCommands(t *testing.T) {
	p := newTPM(t, Options{})
	request{cc: tpm2.CCSelfTest, params: func(w *tpm2.Writer) { w.Bool(true) }}.ok(t, p)
	request{cc: tpm2.CCSelfTest, params: func(w *tpm2.Writer) { w.U8(2) }}.refused(t, p, "neither yes nor no", tpm2.RCValue.Parameter(1))
	algs := func(l ...tpm2.Alg) request {
		return request{cc: tpm2.CCIncrementalSelfTest, params: func(w *tpm2.Writer) {
			w.U32(uint32(len(l)))
			for _, a := range l {
				w.Alg(a)
			}
		}}
	}
	if got := algs(tpm2.AlgMLDSA, tpm2.AlgAES).ok(t, p).U32(); got != 0 {
		t.Errorf("%d algorithms left to test", got)
	}
	algs(tpm2.AlgAES, tpm2.AlgTDES).refused(t, p, "an algorithm that is not there", tpm2.RCValue.Parameter(1))
	r := request{cc: tpm2.CCGetTestResult}.ok(t, p)
	if d, rc := r.Sized(64), r.U32(); len(d) != 0 || rc != 0 {
		t.Errorf("test result %x %x", d, rc)
	}
	request{cc: tpm2.CCStirRandom, params: sized("some bytes")}.ok(t, p)
	request{cc: tpm2.CCStirRandom, params: func(w *tpm2.Writer) { w.Sized(make([]byte, 129)) }}.refused(t, p, "too many", tpm2.RCSize.Parameter(1))
	var info tpm2.TimeInfo
	info.Unmarshal(request{cc: tpm2.CCReadClock}.ok(t, p))
	if info.ClockInfo.ResetCount != 1 {
		t.Errorf("%+v", info)
	}
	capability := func(c tpm2.Cap, property uint32) request {
		return request{cc: tpm2.CCGetCapability, params: func(w *tpm2.Writer) { w.U32(uint32(c)); w.U32(property); w.U32(64) }}
	}
	capability(tpm2.CapTPMProperties, uint32(tpm2.PTFixed)).ok(t, p)
	capability(0x55, 0).refused(t, p, "unknown", tpm2.RCValue.Parameter(1))
	capability(tpm2.CapHandles, 0x55000000).refused(t, p, "no type of handles", tpm2.RCHandle.Parameter(2))
	request{cc: tpm2.CCTestParms, params: func(w *tpm2.Writer) {
		pub := eccTemplate(attrsSign, ecdsa256)
		w.Alg(tpm2.AlgECC)
		pub.Parms.Marshal(w, tpm2.AlgECC)
	}}.ok(t, p)
	for name, c := range map[string]struct {
		parms string
		want  tpm2.RC
	}{
		"type": {"0099", tpm2.RCType}, "curve": {"0023 0010 0010 0011 0010", tpm2.RCCurve},
		"ML-KEM set": {"00A0 0010 0009", tpm2.RCParms}, "ML-DSA set": {"00A1 0000 00", tpm2.RCParms},
		"AES bits": {"0025 0006 0081 0043", tpm2.RCValue}, "mode": {"0025 0006 0080 0099", tpm2.RCMode}, "cipher": {"0025 0026 0080 0043", tpm2.RCSymmetric},
	} {
		request{cc: tpm2.CCTestParms, params: func(w *tpm2.Writer) { w.Raw(unhex(t, c.parms)) }}.refused(t, p, name, c.want.Parameter(1))
	}
	request{cc: tpm2.CCECCParameters, params: func(w *tpm2.Writer) { w.U16(0x77) }}.refused(t, p, "curve", tpm2.RCCurve.Parameter(1))
	pcr := func(cc tpm2.CC, h tpm2.Handle) request {
		return request{cc: cc, handles: []tpm2.Handle{h}, auth: noAuth, params: sized("auth")}
	}
	pcr(tpm2.CCPCRSetAuthValue, 16).refused(t, p, "a PCR without authValue", tpm2.RCValue)
}

// TestUnavailable: a Store that does not save is TPM_RC_NV_UNAVAILABLE.
func TestUnavailable(t *testing.T) {
	s := &failingStore{Store: NewMemoryStore()}
	p, err := New(s, Options{})
	if err != nil {
		t.Fatal(err)
	}
	mustRun(t, p, "8001 0000000C 00000144 0000")
	s.fail = true
	request{cc: tpm2.CCClockSet, handles: []tpm2.Handle{tpm2.RHOwner}, auth: noAuth, params: func(w *tpm2.Writer) { w.U64(1 << 40) }}.refused(t, p, "no NV", tpm2.RCNVUnavailable)
	request{cc: tpm2.CCPCRAllocate, handles: []tpm2.Handle{tpm2.RHPlatform}, auth: noAuth, params: func(w *tpm2.Writer) {
		tpm2.MarshalPCRSelections(w, []tpm2.PCRSelection{tpm2.SelectPCRs(tpm2.AlgSHA1, 0)})
	}}.refused(t, p, "no NV", tpm2.RCNVUnavailable)
}

// TestSlots: limits of sessions, contexts and persistent objects.
func TestSlots(t *testing.T) {
	p := newTPM(t, Options{Sessions: 3, PersistentObjects: 7, Objects: 3})
	start := request{cc: tpm2.CCStartAuthSession, handles: []tpm2.Handle{tpm2.RHNull, tpm2.RHNull}, params: func(w *tpm2.Writer) {
		w.Sized(make([]byte, 16))
		w.Sized(nil)
		w.U8(0)
		tpm2.NoSym.Marshal(w)
		w.Alg(tpm2.AlgSM3_256)
	}}
	for range 3 {
		start.ok(t, p)
	}
	start.refused(t, p, "no slot", tpm2.RCSessionMemory)
	p.state.volatile.sessions = [maxSessions]*session{}
	for i := range p.state.volatile.savedSessions {
		p.state.volatile.savedSessions[i] = true
	}
	start.refused(t, p, "all numbers taken", tpm2.RCSessionHandles)
	p.state.volatile.savedSessions = [maxSessions]bool{}
	sk := createPrimaryKey(t, p, tpm2.RHOwner, eccTemplate(attrsSign, ecdsa256))
	start.handles = []tpm2.Handle{sk.h, tpm2.RHNull}
	start.refused(t, p, "a signing key for the salt", tpm2.RCAttributes.Handle(1))
	evict := func(h, to tpm2.Handle) request {
		return request{cc: tpm2.CCEvictControl, handles: []tpm2.Handle{tpm2.RHOwner, h}, auth: noAuth, params: func(w *tpm2.Writer) { w.Handle(to) }}
	}
	for i := range tpm2.Handle(7) {
		evict(sk.h, tpm2.HandlePersistentFirst+i).ok(t, p)
	}
	evict(sk.h, tpm2.HandlePersistentFirst+7).refused(t, p, "one too many", tpm2.RCNVSpace)
	null := createPrimaryKey(t, p, tpm2.RHNull, eccTemplate(attrsSign, ecdsa256))
	evict(null.h, tpm2.HandlePersistentFirst+8).refused(t, p, "of the null hierarchy", tpm2.RCAttributes.Handle(2))
	r := request{cc: tpm2.CCContextSave, handles: []tpm2.Handle{sk.h}}.ok(t, p)
	saved := bytes.Clone(r.Rest())
	fill(t, p)
	request{cc: tpm2.CCContextLoad, params: func(w *tpm2.Writer) { w.Raw(saved) }}.refused(t, p, "no slot", tpm2.RCObjectMemory)
	request{cc: tpm2.CCROTMsg1, params: func(w *tpm2.Writer) { w.Sized(nil); w.U16(0); w.U32(1) }}.refused(t, p, "no slot", tpm2.RCObjectMemory)
	request{cc: tpm2.CCReadPublic, handles: []tpm2.Handle{sk.h}}.ok(t, p)
	p.state.volatile.objects[2] = nil
	seq := startSeq(t, p, request{cc: tpm2.CCHashSequenceStart, params: func(w *tpm2.Writer) { w.Sized(nil); w.Alg(tpm2.AlgSM3_256) }})
	request{cc: tpm2.CCReadPublic, handles: []tpm2.Handle{seq}}.refused(t, p, "a sequence", tpm2.RCSequence)
	request{cc: tpm2.CCROTMsg3, handles: []tpm2.Handle{seq}, auth: noAuth, params: sized("x")}.refused(t, p, "a hash sequence", tpm2.RCType.Handle(1))
	request{cc: tpm2.CCROTMsg4, handles: []tpm2.Handle{seq}, auth: noAuth, params: sized("x")}.refused(t, p, "a hash sequence", tpm2.RCType.Handle(1))
}

// TestPolicyCases: what the policy tests leave out.
func TestPolicyCases(t *testing.T) {
	p := newTPM(t, Options{})
	s := newPolicy(t, p, tpm2.AlgSHA256, false)
	key := createPrimaryKey(t, p, tpm2.RHOwner, eccSigner())
	signed := func(cp string, expiration int32, sig tpm2.Signature) request {
		return request{cc: tpm2.CCPolicySigned, handles: []tpm2.Handle{key.h, s}, params: func(w *tpm2.Writer) {
			sized("", cp, "")(w)
			w.U32(uint32(expiration))
			sig.Marshal(w)
		}}
	}
	cp := sha("command")
	signed("", 0, tpm2.Signature{Alg: tpm2.AlgRSASSA, Hash: tpm2.AlgSHA256, Sig: make([]byte, 256)}).refused(t, p, "RSA signature, ECC key", tpm2.RCScheme.Parameter(5))
	signed(cp, 0, signFor(t, p, key.h, be32(0)+cp)).ok(t, p)
	other := sha("another")
	signed(other, 0, signFor(t, p, key.h, be32(0)+other)).refused(t, p, "a second cpHash", tpm2.RCCpHash)
	nonce := string(p.state.session(s).nonce)
	p.state.volatile.sessions[sessionSlot(s)].startTime = 0
	p.clk.time += 100_000
	late := request{cc: tpm2.CCPolicySigned, handles: []tpm2.Handle{key.h, s}, params: func(w *tpm2.Writer) {
		sized(nonce, "", "")(w)
		w.U32(10)
		sig := signFor(t, p, key.h, nonce+be32(10))
		sig.Marshal(w)
	}}
	late.refused(t, p, "10 seconds, 100 later", tpm2.RCExpired.Parameter(4))
}

// TestStartupLocality: only localities 0 and 3 may start the TPM.
func TestStartupLocality(t *testing.T) {
	p, err := New(NewMemoryStore(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	request{cc: tpm2.CCStartup, locality: 2, params: func(w *tpm2.Writer) { w.U16(0) }}.refused(t, p, "locality 2", tpm2.RCLocality)
	request{cc: tpm2.CCStartup, locality: 3, params: func(w *tpm2.Writer) { w.U16(0) }}.ok(t, p)
}
