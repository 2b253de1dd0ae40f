// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"bytes"
	"strings"
	"testing"

	"holdfast/tpm2"
)

func by(cc tpm2.CC, h tpm2.Handle, params func(w *tpm2.Writer)) request {
	return request{cc: cc, handles: []tpm2.Handle{h}, auth: noAuth, params: params}
}

func flagParam(h tpm2.Handle, on bool) func(w *tpm2.Writer) {
	return func(w *tpm2.Writer) { w.Handle(h); w.Bool(on) }
}

func TestHierarchyControl(t *testing.T) {
	p := newTPM(t, Options{})
	ctl := func(auth, enable tpm2.Handle, on bool) request {
		return by(tpm2.CCHierarchyControl, auth, flagParam(enable, on))
	}
	key := addKey(t, p, hmacKeyObject("k", tpm2.Scheme{Alg: tpm2.AlgNull}, tpm2.ObjectSignEncrypt))
	ctl(tpm2.RHOwner, tpm2.RHEndorsement, false).refused(t, p, "owner, endorsement", tpm2.RCAuthType)
	ctl(tpm2.RHOwner, tpm2.RHPlatform, false).refused(t, p, "owner, platform", tpm2.RCAuthType)
	ctl(tpm2.RHEndorsement, tpm2.RHPlatformNV, false).refused(t, p, "endorsement, platform NV", tpm2.RCAuthType)
	ctl(tpm2.RHPlatform, tpm2.RHLockout, false).refused(t, p, "lockout", tpm2.RCValue.Parameter(1))
	ctl(tpm2.RHLockout, tpm2.RHOwner, false).refused(t, p, "by lockout", tpm2.RCValue.Handle(1))
	by(tpm2.CCHierarchyControl, tpm2.RHPlatform, func(w *tpm2.Writer) { w.Handle(tpm2.RHOwner); w.U8(2) }).refused(t, p, "state", tpm2.RCValue.Parameter(2))
	ctl(tpm2.RHOwner, tpm2.RHOwner, false).ok(t, p)
	if p.state.object(key) != nil {
		t.Error("an object of a disabled hierarchy is loaded")
	}
	ctl(tpm2.RHOwner, tpm2.RHOwner, true).refused(t, p, "owner switches itself on", tpm2.RCHierarchy.Handle(1))
	ctl(tpm2.RHPlatform, tpm2.RHOwner, true).ok(t, p)
	ctl(tpm2.RHEndorsement, tpm2.RHEndorsement, false).ok(t, p)
	ctl(tpm2.RHPlatform, tpm2.RHEndorsement, true).ok(t, p)
	ctl(tpm2.RHPlatform, tpm2.RHPlatformNV, false).ok(t, p)
	ctl(tpm2.RHPlatform, tpm2.RHPlatform, false).ok(t, p)
	ctl(tpm2.RHPlatform, tpm2.RHPlatform, true).refused(t, p, "platform off", tpm2.RCHierarchy.Handle(1))
	if p.state.volatile.phEnable || p.state.clear.phEnableNV || !p.state.clear.ehEnable || !p.state.clear.shEnable {
		t.Error("flags")
	}
}

func TestHierarchyAuthAndPolicy(t *testing.T) {
	p := newTPM(t, Options{})
	for _, h := range []tpm2.Handle{tpm2.RHOwner, tpm2.RHEndorsement, tpm2.RHPlatform, tpm2.RHLockout} {
		by(tpm2.CCHierarchyChangeAuth, h, sized("secret\x00")).ok(t, p)
		bad := by(tpm2.CCHierarchyChangeAuth, h, sized("")).with("wrong")
		if rc, _ := bad.do(t, p); rc == 0 {
			t.Errorf("%v: wrong password accepted", h)
		}
		p.state.perm.lockoutBlocked = false
		by(tpm2.CCSetPrimaryPolicy, h, func(w *tpm2.Writer) { w.Sized(make([]byte, 31)); w.Alg(tpm2.AlgSHA256) }).with("secret").refused(t, p, "size", tpm2.RCSize.Parameter(1))
		by(tpm2.CCSetPrimaryPolicy, h, func(w *tpm2.Writer) { w.Sized([]byte(zero32)); w.Alg(tpm2.AlgSHA256) }).with("secret").ok(t, p)
		if got := p.state.policy(h); got.Alg != tpm2.AlgSHA256 || string(got.Digest) != zero32 {
			t.Errorf("%v: policy %v", h, got)
		}
		by(tpm2.CCSetPrimaryPolicy, h, func(w *tpm2.Writer) { w.Sized(nil); w.Alg(tpm2.AlgNull) }).with("secret").ok(t, p)
		by(tpm2.CCHierarchyChangeAuth, h, sized("")).with("secret").ok(t, p)
	}
	by(tpm2.CCHierarchyChangeAuth, tpm2.RHOwner, sized(strings.Repeat("x", 65))).refused(t, p, "long", tpm2.RCSize.Parameter(1))
	by(tpm2.CCHierarchyChangeAuth, tpm2.RHNull, sized("x")).refused(t, p, "null", tpm2.RCValue.Handle(1))
}

func TestClear(t *testing.T) {
	p := newTPM(t, Options{})
	owner := addKey(t, p, hmacKeyObject("k", tpm2.Scheme{Alg: tpm2.AlgNull}, tpm2.ObjectSignEncrypt))
	define(tpm2.RHOwner, "", nvPublic(testIndex, ownerRW.WithType(tpm2.NTCounter), 8)).ok(t, p)
	onNV(tpm2.CCNVIncrement, tpm2.RHOwner, testIndex, nil).ok(t, p)
	define(tpm2.RHPlatform, "", nvPublic(otherIndex, tpm2.NVPPRead|tpm2.NVPPWrite|tpm2.NVPlatformCreate, 8)).ok(t, p)
	by(tpm2.CCHierarchyChangeAuth, tpm2.RHOwner, sized("pw")).ok(t, p)
	sp, ep, pp := p.state.perm.spSeed, p.state.perm.epSeed, p.state.perm.ppSeed
	by(tpm2.CCClearControl, tpm2.RHLockout, func(w *tpm2.Writer) { w.U8(1) }).ok(t, p)
	by(tpm2.CCClear, tpm2.RHLockout, nil).refused(t, p, "disabled", tpm2.RCDisabled)
	by(tpm2.CCClearControl, tpm2.RHLockout, func(w *tpm2.Writer) { w.U8(0) }).refused(t, p, "lockout allows", tpm2.RCAuthFail)
	by(tpm2.CCClearControl, tpm2.RHPlatform, func(w *tpm2.Writer) { w.U8(0) }).ok(t, p)
	by(tpm2.CCClear, tpm2.RHOwner, nil).refused(t, p, "owner", tpm2.RCValue.Handle(1))
	by(tpm2.CCClear, tpm2.RHLockout, nil).ok(t, p)
	if bytes.Equal(sp, p.state.perm.spSeed) || !bytes.Equal(ep, p.state.perm.epSeed) || !bytes.Equal(pp, p.state.perm.ppSeed) {
		t.Error("seeds: the storage seed alone changes")
	}
	if p.state.object(owner) != nil || p.state.nv(testIndex) != nil || p.state.nv(otherIndex) == nil || len(p.state.perm.ownerAuth) != 0 {
		t.Error("the owner's objects, indices and secrets end, the platform's stay")
	}
	if p.state.perm.maxNVCounter == 0 {
		t.Error("a cleared counter was forgotten")
	}
}

func TestChangeSeeds(t *testing.T) {
	p := newTPM(t, Options{})
	ep, pp := p.state.perm.epSeed, p.state.perm.ppSeed
	k := hmacKeyObject("k", tpm2.Scheme{Alg: tpm2.AlgNull}, tpm2.ObjectSignEncrypt)
	k.hierarchy = tpm2.RHEndorsement
	key := addKey(t, p, k)
	by(tpm2.CCChangeEPS, tpm2.RHOwner, nil).refused(t, p, "owner", tpm2.RCValue.Handle(1))
	by(tpm2.CCChangeEPS, tpm2.RHPlatform, nil).ok(t, p)
	if bytes.Equal(ep, p.state.perm.epSeed) || !p.state.perm.epsMade || p.state.object(key) != nil {
		t.Error("ChangeEPS")
	}
	by(tpm2.CCChangePPS, tpm2.RHEndorsement, nil).refused(t, p, "endorsement", tpm2.RCValue.Handle(1))
	by(tpm2.CCChangePPS, tpm2.RHPlatform, nil).ok(t, p)
	if bytes.Equal(pp, p.state.perm.ppSeed) {
		t.Error("ChangePPS")
	}
}

func TestReadOnlyControl(t *testing.T) {
	p := newTPM(t, Options{})
	set := func(v uint8) request {
		return by(tpm2.CCReadOnlyControl, tpm2.RHPlatform, func(w *tpm2.Writer) { w.U8(v) })
	}
	set(2).refused(t, p, "state", tpm2.RCValue.Parameter(1))
	set(1).ok(t, p)
	by(tpm2.CCClear, tpm2.RHPlatform, nil).refused(t, p, "read-only", tpm2.RCReadOnly)
	set(0).ok(t, p)
	by(tpm2.CCClear, tpm2.RHPlatform, nil).ok(t, p)
}

func TestDictionaryAttack(t *testing.T) {
	p := newTPM(t, Options{})
	params := func(a, b, c uint32) request {
		return by(tpm2.CCDictionaryAttackParameters, tpm2.RHLockout, func(w *tpm2.Writer) { w.U32(a); w.U32(b); w.U32(c) })
	}
	params(2, 3600, 3600).ok(t, p)
	define(tpm2.RHOwner, "pw", nvPublic(testIndex, authRW, 4)).ok(t, p)
	bad := write(testIndex, testIndex, "1234", 0).with("guess")
	for range 2 {
		if rc, _ := bad.do(t, p); rc != tpm2.RCAuthFail.Session(1) {
			t.Errorf("guess: %v", rc)
		}
	}
	write(testIndex, testIndex, "1234", 0).with("pw").refused(t, p, "locked out", tpm2.RCLockout)
	// Other parameters do not give the tries back.
	params(3, 3600, 3600).ok(t, p)
	params(2, 3600, 3600).ok(t, p)
	write(testIndex, testIndex, "1234", 0).with("pw").refused(t, p, "still locked out", tpm2.RCLockout)
	by(tpm2.CCDictionaryAttackLockReset, tpm2.RHOwner, nil).refused(t, p, "owner", tpm2.RCValue.Handle(1))
	by(tpm2.CCDictionaryAttackLockReset, tpm2.RHLockout, nil).ok(t, p)
	write(testIndex, testIndex, "1234", 0).with("pw").ok(t, p)
	if p.state.perm.failedTries != 0 {
		t.Error("tries remain")
	}
	params(0, 0, 0).with("x").do(t, p)
	params(5, 6, 7).refused(t, p, "lockout is locked out", tpm2.RCLockout)
}

func codes(l ...tpm2.CC) func(w *tpm2.Writer) {
	return func(w *tpm2.Writer) {
		w.U32(uint32(len(l)))
		for _, c := range l {
			w.U32(uint32(c))
		}
	}
}

func TestAuditStatus(t *testing.T) {
	p := newTPM(t, Options{})
	set := func(alg tpm2.Alg, on, off []tpm2.CC) request {
		return by(tpm2.CCSetCommandCodeAuditStatus, tpm2.RHOwner, func(w *tpm2.Writer) { w.Alg(alg); codes(on...)(w); codes(off...)(w) })
	}
	set(tpm2.AlgNull, []tpm2.CC{tpm2.CCGetRandom, tpm2.CCShutdown, 0x7FFF}, []tpm2.CC{tpm2.CCSetCommandCodeAuditStatus}).ok(t, p)
	a := p.state.perm.audited
	if !a[tpm2.CCGetRandom] || a[tpm2.CCShutdown] || a[0x7FFF] || !a[tpm2.CCSetCommandCodeAuditStatus] {
		t.Errorf("audited %v", a)
	}
	before := p.state.reset.auditDigest
	mustRun(t, p, "8001 0000000C 0000017B 0008")
	if bytes.Equal(before, p.state.reset.auditDigest) {
		t.Error("an audited command left no trace")
	}
	set(tpm2.AlgSHA384, []tpm2.CC{tpm2.CCHash}, nil).refused(t, p, "both", tpm2.RCValue.Parameter(1))
	set(tpm2.AlgSHA384, nil, nil).ok(t, p)
	if p.state.perm.auditHash != tpm2.AlgSHA384 || len(p.state.reset.auditDigest) != 0 {
		t.Error("a new hash begins a new digest")
	}
	set(tpm2.AlgNull, nil, []tpm2.CC{tpm2.CCGetRandom}).ok(t, p)
	if p.state.perm.audited[tpm2.CCGetRandom] {
		t.Error("not cleared")
	}
	by(tpm2.CCSetCommandCodeAuditStatus, tpm2.RHOwner, func(w *tpm2.Writer) { w.Alg(tpm2.AlgNull); w.U32(maxCommandCodes + 1) }).refused(t, p, "list", tpm2.RCSize.Parameter(2))
	by(tpm2.CCSetCommandCodeAuditStatus, tpm2.RHEndorsement, codes()).refused(t, p, "endorsement", tpm2.RCValue.Handle(1))
}

func TestPPCommands(t *testing.T) {
	p := newTPM(t, Options{})
	set := func(on, off []tpm2.CC) request {
		return by(tpm2.CCPPCommands, tpm2.RHPlatform, func(w *tpm2.Writer) { codes(on...)(w); codes(off...)(w) })
	}
	set([]tpm2.CC{tpm2.CCClear}, nil).refused(t, p, "nobody is there", tpm2.RCPP.Session(1))
	p.SetPhysicalPresence(true)
	set([]tpm2.CC{tpm2.CCClear, tpm2.CCGetRandom}, nil).ok(t, p)
	if pp := p.state.perm.ppCommands; !pp[tpm2.CCClear] || pp[tpm2.CCGetRandom] {
		t.Errorf("%v", pp)
	}
	p.SetPhysicalPresence(false)
	by(tpm2.CCClear, tpm2.RHPlatform, nil).refused(t, p, "needs presence", tpm2.RCPP.Session(1))
	by(tpm2.CCClear, tpm2.RHLockout, nil).ok(t, p)
	p.SetPhysicalPresence(true)
	set(nil, []tpm2.CC{tpm2.CCClear}).ok(t, p)
	p.SetPhysicalPresence(false)
	by(tpm2.CCClear, tpm2.RHPlatform, nil).ok(t, p)
}

func TestSmallManagement(t *testing.T) {
	p := newTPM(t, Options{})
	by(tpm2.CCSetAlgorithmSet, tpm2.RHPlatform, u32(7)).ok(t, p)
	if p.state.perm.algorithmSet != 7 {
		t.Error("algorithm set")
	}
	by(tpm2.CCSetAlgorithmSet, tpm2.RHOwner, u32(7)).refused(t, p, "owner", tpm2.RCValue.Handle(1))
	rate := func(v uint8) request {
		return by(tpm2.CCClockRateAdjust, tpm2.RHOwner, func(w *tpm2.Writer) { w.U8(v) })
	}
	rate(4).refused(t, p, "rate", tpm2.RCValue.Parameter(1))
	rate(0xFC).refused(t, p, "rate", tpm2.RCValue.Parameter(1))
	rate(3).ok(t, p)
	rate(0xFF).ok(t, p)
	if p.clk.rate != 2 {
		t.Errorf("rate %d", p.clk.rate)
	}
	for range 50 {
		rate(0xFD).ok(t, p)
	}
	if p.clk.rate != -maxClockRate {
		t.Errorf("rate %d has no bound", p.clk.rate)
	}
}

func symKeyObject(mode tpm2.Alg, a tpm2.ObjectAttributes) *object {
	return &object{
		pub: tpm2.Public{Type: tpm2.AlgSymCipher, NameAlg: tpm2.AlgSHA256, Attributes: a | tpm2.ObjectUserWithAuth | tpm2.ObjectNoDA,
			Parms: tpm2.Parms{Symmetric: tpm2.SymDef{Alg: tpm2.AlgAES, KeyBits: 128, Mode: mode}}, Unique: make([]byte, 32)},
		sens: tpm2.Sensitive{Type: tpm2.AlgSymCipher, Value: []byte("\x2b\x7e\x15\x16\x28\xae\xd2\xa6\xab\xf7\x15\x88\x09\xcf\x4f\x3c")},
	}
}

// Values of `openssl enc -aes-128-cfb`.
func TestEncryptDecrypt(t *testing.T) {
	p := newTPM(t, Options{})
	both := tpm2.ObjectSignEncrypt | tpm2.ObjectDecrypt
	cfb := addKey(t, p, symKeyObject(tpm2.AlgCFB, both))
	open := addKey(t, p, symKeyObject(tpm2.AlgNull, both))
	decrypter := addKey(t, p, symKeyObject(tpm2.AlgCFB, tpm2.ObjectDecrypt))
	parent := addKey(t, p, symKeyObject(tpm2.AlgCFB, tpm2.ObjectDecrypt|tpm2.ObjectRestricted))
	mac := addKey(t, p, hmacKeyObject("k", tpm2.Scheme{Alg: tpm2.AlgNull}, tpm2.ObjectSignEncrypt))
	iv := strings.Repeat("\xff", 15) + "\xfe"
	plain := strings.Repeat("A", 37)
	cipher := string(unhex(t, "90f655f7bab4beb069dbaf6b0d0face28fa9a0f206137898fe432c0bb2c9bbbbfd69fa2796"))
	one := func(h tpm2.Handle, decrypt uint8, mode tpm2.Alg, iv, data string) request {
		return by(tpm2.CCEncryptDecrypt, h, func(w *tpm2.Writer) { w.U8(decrypt); w.Alg(mode); sized(iv, data)(w) })
	}
	two := func(h tpm2.Handle, decrypt uint8, mode tpm2.Alg, iv, data string) request {
		return by(tpm2.CCEncryptDecrypt2, h, func(w *tpm2.Writer) { w.Sized([]byte(data)); w.U8(decrypt); w.Alg(mode); w.Sized([]byte(iv)) })
	}
	for _, q := range []func(tpm2.Handle, uint8, tpm2.Alg, string, string) request{one, two} {
		if got := q(cfb, 0, tpm2.AlgNull, iv, plain).ok(t, p).Sized(99); string(got) != cipher {
			t.Errorf("%x", got)
		}
		if got := q(decrypter, 1, tpm2.AlgCFB, iv, cipher).ok(t, p).Sized(99); string(got) != plain {
			t.Errorf("%x", got)
		}
		q(decrypter, 0, tpm2.AlgCFB, iv, plain).refused(t, p, "decryption key encrypts", tpm2.RCAttributes.Handle(1))
		q(parent, 1, tpm2.AlgCFB, iv, plain).refused(t, p, "restricted", tpm2.RCAttributes.Handle(1))
		q(mac, 0, tpm2.AlgCFB, iv, plain).refused(t, p, "HMAC key", tpm2.RCKey.Handle(1))
	}
	// In two pieces with ivOut.
	r := one(open, 0, tpm2.AlgCFB, iv, plain[:32]).ok(t, p)
	first, next := r.Sized(99), r.Sized(16)
	if got := one(open, 0, tpm2.AlgCFB, string(next), plain[32:]).ok(t, p).Sized(99); string(first)+string(got) != cipher {
		t.Errorf("in pieces %x %x", first, got)
	}
	one(open, 0, tpm2.AlgNull, iv, plain).refused(t, p, "no mode", tpm2.RCMode.Parameter(2))
	one(cfb, 0, tpm2.AlgCBC, iv, plain).refused(t, p, "other mode", tpm2.RCMode.Parameter(2))
	one(open, 0, tpm2.AlgSHA256, iv, plain).refused(t, p, "no cipher mode", tpm2.RCMode.Parameter(2))
	one(cfb, 0, tpm2.AlgCFB, iv[1:], plain).refused(t, p, "IV", tpm2.RCSize.Parameter(3))
	one(open, 0, tpm2.AlgECB, iv, plain[:32]).refused(t, p, "IV for ECB", tpm2.RCSize.Parameter(3))
	one(open, 0, tpm2.AlgCBC, iv, plain).refused(t, p, "part of a block", tpm2.RCSize.Parameter(4))
	two(open, 0, tpm2.AlgNull, iv, plain).refused(t, p, "no mode", tpm2.RCMode.Parameter(3))
	two(cfb, 0, tpm2.AlgCFB, iv[1:], plain).refused(t, p, "IV", tpm2.RCSize.Parameter(4))
	two(open, 0, tpm2.AlgCBC, iv, plain).refused(t, p, "part of a block", tpm2.RCSize.Parameter(1))
}
