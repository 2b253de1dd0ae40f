// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"holdfast/tpm2"
)

// RSA, elliptic curves, MACs, attached components, countdown timers and
// SetCapability: good input and each error.

// TestRSACommands: RSA_Encrypt and RSA_Decrypt in each scheme (Part 3, 14.2 and 14.3).
func TestRSACommands(t *testing.T) {
	p := newTPM(t, Options{Objects: 16})
	k := createPrimaryKey(t, p, tpm2.RHOwner, rsaTemplate(attrsDecrypt, tpm2.NoScheme))
	oaep := tpm2.Scheme{Alg: tpm2.AlgOAEP, Hash: tpm2.AlgSHA256}
	fixed := createPrimaryKey(t, p, tpm2.RHOwner, rsaTemplate(attrsDecrypt, oaep))
	sk := createPrimaryKey(t, p, tpm2.RHOwner, rsaTemplate(attrsSign, tpm2.NoScheme))
	srk := createPrimaryKey(t, p, tpm2.RHOwner, rsaTemplate(attrsParent, tpm2.NoScheme))
	ecc := createPrimaryKey(t, p, tpm2.RHOwner, eccTemplate(attrsDecrypt, tpm2.NoScheme))
	crypt := func(cc tpm2.CC, h tpm2.Handle, data []byte, s tpm2.Scheme, label string) request {
		q := request{cc: cc, handles: []tpm2.Handle{h}, params: func(w *tpm2.Writer) { w.Sized(data); s.Marshal(w); w.Sized([]byte(label)) }}
		if cc == tpm2.CCRSADecrypt {
			q.auth = noAuth
		}
		return q
	}
	rsaes := tpm2.Scheme{Alg: tpm2.AlgRSAES}
	for _, c := range []struct {
		h     tpm2.Handle
		s     tpm2.Scheme
		label string
		msg   []byte
	}{{k.h, oaep, "", []byte("secret")}, {k.h, oaep, "label\x00", []byte("secret")}, {k.h, rsaes, "", []byte("secret")}, {fixed.h, tpm2.NoScheme, "", []byte("secret")}, {k.h, tpm2.NoScheme, "", append(make([]byte, 127), 7)}} {
		ct := bytes.Clone(crypt(tpm2.CCRSAEncrypt, c.h, c.msg, c.s, c.label).ok(t, p).Sized(512))
		if got := crypt(tpm2.CCRSADecrypt, c.h, ct, c.s, c.label).ok(t, p).Sized(512); !bytes.Equal(got, c.msg) {
			t.Errorf("%v: %x", c.s, got)
		}
		if c.s.Alg == tpm2.AlgOAEP {
			crypt(tpm2.CCRSADecrypt, c.h, ct, c.s, "other\x00").refused(t, p, "another label", tpm2.RCValue.Parameter(1))
		}
	}
	ct := make([]byte, 128)
	for _, cc := range []tpm2.CC{tpm2.CCRSAEncrypt, tpm2.CCRSADecrypt} {
		crypt(cc, ecc.h, ct, oaep, "").refused(t, p, "ECC key", tpm2.RCKey.Handle(1))
		crypt(cc, sk.h, ct, oaep, "").refused(t, p, "signing key", tpm2.RCAttributes.Handle(1))
		crypt(cc, fixed.h, ct, rsaes, "").refused(t, p, "another scheme", tpm2.RCScheme.Parameter(2))
		crypt(cc, k.h, ct, oaep, "label").refused(t, p, "label without zero", tpm2.RCValue.Parameter(3))
	}
	crypt(tpm2.CCRSADecrypt, srk.h, ct, oaep, "").refused(t, p, "storage key", tpm2.RCAttributes.Handle(1))
	crypt(tpm2.CCRSADecrypt, k.h, ct[:127], oaep, "").refused(t, p, "short", tpm2.RCSize.Parameter(1))
	crypt(tpm2.CCRSAEncrypt, k.h, ct, oaep, "").refused(t, p, "too long", tpm2.RCValue.Parameter(1))
}

// TestECErrors: ECDH_ZGen, ECC_Encrypt, ECC_Decrypt, Commit, credentials.
func TestECErrors(t *testing.T) {
	p := newTPM(t, Options{Objects: 20})
	k := createPrimaryKey(t, p, tpm2.RHOwner, eccTemplate(attrsDecrypt, tpm2.NoScheme))
	rsa := createPrimaryKey(t, p, tpm2.RHOwner, rsaTemplate(attrsDecrypt, tpm2.NoScheme))
	srk := createPrimaryKey(t, p, tpm2.RHOwner, eccTemplate(attrsParent, tpm2.NoScheme))
	mqv := createPrimaryKey(t, p, tpm2.RHOwner, eccTemplate(attrsDecrypt, tpm2.Scheme{Alg: tpm2.AlgECDH, Hash: tpm2.AlgSHA256}))
	p.state.object(mqv.h).pub.Parms.Scheme.Alg = tpm2.AlgECMQV // of which this TPM makes no key
	zgen := func(h tpm2.Handle, pt tpm2.Point) request {
		return request{cc: tpm2.CCECDHZGen, handles: []tpm2.Handle{h}, auth: noAuth, params: point(pt)}
	}
	r := request{cc: tpm2.CCECDHKeyGen, handles: []tpm2.Handle{k.h}}.ok(t, p)
	z, q := readPoint(r), readPoint(r)
	if got := readPoint(zgen(k.h, q).ok(t, p)); !bytes.Equal(got.X, z.X) || !bytes.Equal(got.Y, z.Y) {
		t.Errorf("Z %x, want %x", got, z)
	}
	zgen(rsa.h, q).refused(t, p, "RSA key", tpm2.RCKey.Handle(1))
	zgen(srk.h, q).refused(t, p, "storage key", tpm2.RCAttributes.Handle(1))
	zgen(mqv.h, q).refused(t, p, "another scheme", tpm2.RCScheme.Handle(1))
	zgen(k.h, tpm2.Point{X: q.Y, Y: q.X}).refused(t, p, "not on the curve", tpm2.RCECCPoint.Parameter(1))

	kdf2 := tpm2.Scheme{Alg: tpm2.AlgKDF2, Hash: tpm2.AlgSHA256}
	request{cc: tpm2.CCECCEncrypt, handles: []tpm2.Handle{rsa.h}, params: func(w *tpm2.Writer) { w.Sized([]byte("x")); kdf2.Marshal(w) }}.refused(t, p, "RSA key", tpm2.RCKey.Handle(1))
	request{cc: tpm2.CCECCDecrypt, handles: []tpm2.Handle{rsa.h}, auth: noAuth, params: func(w *tpm2.Writer) { point(q)(w); sized("x", "y")(w); kdf2.Marshal(w) }}.refused(t, p, "RSA key", tpm2.RCKey.Handle(1))
	request{cc: tpm2.CCCommit, handles: []tpm2.Handle{rsa.h}, auth: noAuth, params: func(w *tpm2.Writer) { point(tpm2.Point{})(w); sized("", "")(w) }}.refused(t, p, "RSA key", tpm2.RCKey.Handle(1))
	request{cc: tpm2.CCDecapsulate, handles: []tpm2.Handle{rsa.h}, auth: noAuth, params: sized("x")}.refused(t, p, "RSA key", tpm2.RCKey.Handle(1))

	make := func(h tpm2.Handle, cred string) request {
		return request{cc: tpm2.CCMakeCredential, handles: []tpm2.Handle{h}, params: sized(cred, string(k.name))}
	}
	make(k.h, "cred").refused(t, p, "no storage key", tpm2.RCType.Handle(1))
	bad := eccTemplate(attrsParent, tpm2.NoScheme)
	bad.NameAlg = tpm2.AlgSHA512
	small := rsaTemplate(attrsParent, tpm2.NoScheme)
	small.NameAlg = tpm2.AlgSHA512
	tight := createPrimaryKey(t, p, tpm2.RHOwner, small) // 1024 bits have no room for 64 octets in OAEP with SHA-512
	make(tight.h, "cred").refused(t, p, "a seed that does not fit", tpm2.RCKey.Handle(1))
	r = make(srk.h, "cred").ok(t, p)
	blob, secret := bytes.Clone(r.Sized(512)), bytes.Clone(r.Sized(512))
	activate := func(key tpm2.Handle, blob, secret []byte) request {
		return request{cc: tpm2.CCActivateCredential, handles: []tpm2.Handle{k.h, key}, auth: []string{"", ""}, params: sized(string(blob), string(secret))}
	}
	if got := activate(srk.h, blob, secret).ok(t, p).Sized(64); string(got) != "cred" {
		t.Errorf("credential %q", got)
	}
	activate(k.h, blob, secret).refused(t, p, "no storage key", tpm2.RCType.Handle(2))
	off := bytes.Clone(secret)
	off[len(off)-1] ^= 1
	activate(srk.h, blob, off).refused(t, p, "not on the curve", tpm2.RCECCPoint.Parameter(2))
	activate(srk.h, blob, secret[:1]).refused(t, p, "one octet", tpm2.RCInsufficient.Parameter(2))

	pd := tpm2.NewPolicyDigest(tpm2.AlgSHA256)
	pd.CommandCode(tpm2.CCDuplicate)
	h := addKey(t, p, movable(0))
	s := newPolicy(t, p, tpm2.AlgSHA256, false)
	on(tpm2.CCPolicyCommandCode, s, u32(uint32(tpm2.CCDuplicate))).ok(t, p)
	if rc, _ := underPolicy(t, p, tpm2.CCDuplicate, s, 1, []tpm2.Handle{h, tight.h}, func(w *tpm2.Writer) { w.Sized(nil); tpm2.NoSym.Marshal(w) }); rc != tpm2.RCKey.Handle(2) {
		t.Errorf("a new parent whose key is too small: %v", rc)
	}
	decrypting := addKey(t, p, hmacKeyObject("x", tpm2.NoScheme, tpm2.ObjectDecrypt))
	request{cc: tpm2.CCUnseal, handles: []tpm2.Handle{decrypting}, auth: noAuth}.refused(t, p, "a key", tpm2.RCAttributes.Handle(1))
}

// TestCMAC: MAC and MAC_Start with a symmetric key, RFC 4493's example, whole
// and in pieces (Part 3, 15.6 and 17.3).
func TestCMAC(t *testing.T) {
	p := newTPM(t, Options{Objects: 16})
	key := unhex(t, "2b7e151628aed2a6abf7158809cf4f3c")
	msg := unhex(t, "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e5130c81c46a35ce411")
	want := unhex(t, "dfa66747de9ae63030ca32611497c827")
	load := func(a tpm2.ObjectAttributes, mode tpm2.Alg) tpm2.Handle {
		pub := symTemplate(tpm2.ObjectUserWithAuth|a, mode)
		s := tpm2.Sensitive{Type: tpm2.AlgSymCipher, Seed: make([]byte, 32), Value: key}
		pub.Unique = tpm2.AlgSHA256.Sum(s.Seed, s.Value)
		rc, h := externalRequest(&s, pub, tpm2.RHNull).handle(t, p)
		if rc != 0 {
			t.Fatal(rc)
		}
		return h
	}
	cm, open, cfb := load(tpm2.ObjectSignEncrypt, tpm2.AlgCMAC), load(tpm2.ObjectSignEncrypt, tpm2.AlgNull), load(tpm2.ObjectSignEncrypt, tpm2.AlgCFB)
	dec := load(tpm2.ObjectDecrypt, tpm2.AlgNull)
	hk := addKey(t, p, hmacKeyObject("key", tpm2.NoScheme, tpm2.ObjectSignEncrypt))
	ecc := createPrimaryKey(t, p, tpm2.RHOwner, eccTemplate(attrsSign, ecdsa256))
	restricted := hmacKeyObject("key", tpm2.Scheme{Alg: tpm2.AlgHMAC, Hash: tpm2.AlgSHA256}, tpm2.ObjectSignEncrypt|tpm2.ObjectRestricted)
	rk := addKey(t, p, restricted)
	mac := func(h tpm2.Handle, alg tpm2.Alg) request {
		return request{cc: tpm2.CCHMAC, handles: []tpm2.Handle{h}, auth: noAuth, params: func(w *tpm2.Writer) { w.Sized(msg); w.Alg(alg) }}
	}
	start := func(h tpm2.Handle, alg tpm2.Alg) request {
		return request{cc: tpm2.CCHMACStart, handles: []tpm2.Handle{h}, auth: noAuth, params: func(w *tpm2.Writer) { w.Sized([]byte("pw")); w.Alg(alg) }}
	}
	for _, c := range []struct {
		h   tpm2.Handle
		alg tpm2.Alg
	}{{cm, tpm2.AlgNull}, {cm, tpm2.AlgCMAC}, {open, tpm2.AlgCMAC}} {
		if got := mac(c.h, c.alg).ok(t, p).Sized(64); !bytes.Equal(got, want) {
			t.Errorf("CMAC %x, want %x", got, want)
		}
		seq := startSeq(t, p, start(c.h, c.alg))
		// The sequence survives its context.
		saved := bytes.Clone(request{cc: tpm2.CCContextSave, handles: []tpm2.Handle{seq}}.ok(t, p).Rest())
		p.state.volatile.objects[seq-tpm2.HandleTransientFirst] = nil
		rc, seq := request{cc: tpm2.CCContextLoad, params: func(w *tpm2.Writer) { w.Raw(saved) }}.handle(t, p)
		if rc != 0 {
			t.Fatal(rc)
		}
		seqRequest(tpm2.CCSequenceUpdate, seq, "pw", sized(string(msg[:5]))).ok(t, p)
		seqRequest(tpm2.CCSequenceUpdate, seq, "pw", sized(string(msg[5:33]))).ok(t, p)
		r := seqRequest(tpm2.CCSequenceComplete, seq, "pw", func(w *tpm2.Writer) { w.Sized(msg[33:]); w.Handle(tpm2.RHNull) }).ok(t, p)
		if got := r.Sized(64); !bytes.Equal(got, want) {
			t.Errorf("CMAC in pieces %x, want %x", got, want)
		}
	}
	for _, f := range []func(tpm2.Handle, tpm2.Alg) request{mac, start} {
		f(ecc.h, tpm2.AlgSHA256).refused(t, p, "ECC key", tpm2.RCType.Handle(1))
		f(rk, tpm2.AlgNull).refused(t, p, "restricted", tpm2.RCAttributes.Handle(1))
		f(dec, tpm2.AlgCMAC).refused(t, p, "key that decrypts", tpm2.RCKey.Handle(1))
		f(cfb, tpm2.AlgCMAC).refused(t, p, "key with another mode", tpm2.RCValue.Parameter(2))
		f(open, tpm2.AlgNull).refused(t, p, "no mode", tpm2.RCValue.Parameter(2))
		f(open, tpm2.AlgSHA256).refused(t, p, "hash for a cipher key", tpm2.RCScheme.Parameter(2))
		f(hk, tpm2.AlgCMAC).refused(t, p, "CMAC for an HMAC key", tpm2.RCScheme.Parameter(2))
		f(cfb, tpm2.AlgNull).refused(t, p, "a mode that makes no MAC", tpm2.RCScheme.Parameter(2))
		f(hk, tpm2.AlgCFB).refused(t, p, "a mode that authenticates nothing", tpm2.RCSymmetric.Parameter(2))
	}
	free := fill(t, p)
	start(cm, tpm2.AlgNull).refused(t, p, "no slot", tpm2.RCObjectMemory)
	free()
}

// drive is an attached component for the test.
type drive struct {
	got []byte
}

func (d *drive) Values() []tpm2.ACOutput {
	return []tpm2.ACOutput{{Type: tpm2.ATPV1, Data: 0x01020304}, {Type: tpm2.ATVend + 1, Data: 5}}
}

func (d *drive) Receive(pub *tpm2.Public, s *tpm2.Sensitive, data []byte) tpm2.ACOutput {
	d.got = append(slices.Clone(s.Value), data...)
	return tpm2.ACOutput{Type: tpm2.ATError, Data: tpm2.AENone}
}

// TestAttachedComponent: Part 3, 32.
func TestAttachedComponent(t *testing.T) {
	d := &drive{}
	p := newTPM(t, Options{Components: []Component{d}})
	ac := tpm2.HandleACFirst
	get := func(h tpm2.Handle, from, count uint32) request {
		return request{cc: tpm2.CCACGetCapability, handles: []tpm2.Handle{h}, params: func(w *tpm2.Writer) { w.U32(from); w.U32(count) }}
	}
	if got := get(ac, 0, 1).ok(t, p).Rest(); !bytes.Equal(got, unhex(t, "01 00000001 00000002 01020304")) {
		t.Errorf("values %x", got)
	}
	if got := get(ac, 3, 9).ok(t, p).Rest(); !bytes.Equal(got, unhex(t, "00 00000001 80000001 00000005")) {
		t.Errorf("values %x", got)
	}
	get(ac+1, 0, 1).refused(t, p, "no such component", tpm2.RCValue.Handle(1))

	sel := func(s tpm2.Handle, name, auth, ac []byte, include bool) request {
		return request{cc: tpm2.CCPolicyACSendSelect, handles: []tpm2.Handle{s}, params: func(w *tpm2.Writer) { w.Sized(name); w.Sized(auth); w.Sized(ac); w.Bool(include) }}
	}
	owner, acName := tpm2.HandleName(tpm2.RHOwner), tpm2.HandleName(ac)
	pd := tpm2.NewPolicyDigest(tpm2.AlgSHA256)
	pd.ACSendSelect(nil, owner, acName, false)
	key := func(a tpm2.ObjectAttributes) (tpm2.Handle, []byte) {
		o := hmacKeyObject("the drive's key", tpm2.NoScheme, tpm2.ObjectSignEncrypt|a)
		o.pub.AuthPolicy = pd.Sum()
		h := addKey(t, p, o)
		return h, o.name
	}
	send := func(h, by tpm2.Handle, name []byte) tpm2.RC {
		s := newPolicy(t, p, tpm2.AlgSHA256, false)
		sel(s, name, tpm2.HandleName(by), acName, false).ok(t, p)
		rc, r := underPolicy(t, p, tpm2.CCACSend, s, 2, []tpm2.Handle{h, by, ac}, sized("+data"))
		if rc == 0 && !bytes.Equal(r.Rest(), unhex(t, "00000001 00000000")) {
			t.Error("outcome")
		}
		return rc
	}
	h, name := key(0)
	if rc := send(h, tpm2.RHOwner, name); rc != 0 || string(d.got) != "the drive's key+data" {
		t.Errorf("AC_Send: %v, %q", rc, d.got)
	}
	if rc := send(h, tpm2.RHOwner, []byte("another name")); rc != tpm2.RCPolicyFail.Session(1) {
		t.Errorf("selected for another object: %v", rc)
	}
	f, fname := key(tpm2.ObjectFixedParent)
	if rc := send(f, tpm2.RHOwner, fname); rc != tpm2.RCAttributes.Handle(1) {
		t.Errorf("fixedParent: %v", rc)
	}
	// An NV index that stands for the component decides who may send.
	define(tpm2.RHOwner, "", nvPublic(testIndex, tpm2.NVAuthRead|tpm2.NVAuthWrite, 8)).ok(t, p)
	nvKey := func(by tpm2.Handle) tpm2.RC {
		s := newPolicy(t, p, tpm2.AlgSHA256, false)
		sel(s, name, p.state.name(by), acName, false).ok(t, p)
		p.state.volatile.sessions[sessionSlot(s)].policyAssert.digest = pd.Sum() // the key's policy names the owner
		rc, _ := underPolicy(t, p, tpm2.CCACSend, s, 2, []tpm2.Handle{h, by, ac}, sized(""))
		return rc
	}
	if rc := nvKey(testIndex); rc != tpm2.RCHandle.Handle(2) {
		t.Errorf("an index, and no alias: %v", rc)
	}
	define(tpm2.RHOwner, "", nvPublic(tpm2.HandleNVACFirst, tpm2.NVAuthRead|tpm2.NVAuthWrite|tpm2.NVWriteStClear, 8)).ok(t, p)
	if rc := nvKey(tpm2.HandleNVACFirst); rc != 0 {
		t.Errorf("by the alias: %v", rc)
	}
	if rc := send(h, tpm2.RHOwner, name); rc != tpm2.RCNVAuthorization {
		t.Errorf("by the owner, past the alias: %v", rc)
	}
	write(tpm2.HandleNVACFirst, tpm2.HandleNVACFirst, "12345678", 0).ok(t, p)
	onNV(tpm2.CCNVWriteLock, tpm2.HandleNVACFirst, tpm2.HandleNVACFirst, nil).ok(t, p)
	if rc := nvKey(tpm2.HandleNVACFirst); rc != tpm2.RCNVLocked {
		t.Errorf("locked alias: %v", rc)
	}
	s := newPolicy(t, p, tpm2.AlgSHA256, false)
	sel(s, name, owner, acName, true).ok(t, p)
	want := tpm2.NewPolicyDigest(tpm2.AlgSHA256)
	want.ACSendSelect(name, owner, acName, true)
	if digestOf(t, p, s) != string(want.Sum()) {
		t.Error("policyDigest with the object")
	}
	sel(s, name, owner, acName, true).refused(t, p, "twice", tpm2.RCCpHash)
	s = newPolicy(t, p, tpm2.AlgSHA256, false)
	on(tpm2.CCPolicyCommandCode, s, u32(uint32(tpm2.CCSign))).ok(t, p)
	sel(s, name, owner, acName, true).refused(t, p, "a command is selected", tpm2.RCCommandCode)
}

// TestACT: authenticated countdown timers (Part 3, 33; Part 1, 40).
func TestACT(t *testing.T) {
	now := time.Unix(1000, 0)
	var told []bool
	store := NewMemoryStore()
	o := Options{Now: func() time.Time { return now }, OnACT: func(timer int, on bool) {
		if timer == 1 {
			told = append(told, on)
		}
	}}
	p := must[*TPM](t)(New(store, o))
	mustRun(t, p, "8001 0000000C 00000144 0000")
	act := tpm2.RHACT0 + 1
	set := func(seconds uint32) request {
		return request{cc: tpm2.CCACTSetTimeout, handles: []tpm2.Handle{act}, auth: noAuth, params: u32(seconds)}
	}
	state := func() (timeout, attributes uint32) {
		r := request{cc: tpm2.CCGetCapability, params: func(w *tpm2.Writer) { w.U32(uint32(tpm2.CapACT)); w.U32(uint32(act)); w.U32(1) }}.ok(t, p)
		r.Bool()
		var d tpm2.CapabilityData
		d.Unmarshal(r)
		if len(d.ACTs) != 1 || d.ACTs[0].Handle != act {
			t.Fatalf("%+v", d)
		}
		return d.ACTs[0].Timeout, d.ACTs[0].Attributes
	}
	expect := func(what string, timeout, attributes uint32) {
		t.Helper()
		if a, b := state(); a != timeout || b != attributes {
			t.Errorf("%s: timeout %d attributes %d, want %d and %d", what, a, b, timeout, attributes)
		}
	}
	expect("at first", 0, 0)
	set(0xFFFFFFFF).refused(t, p, "stop a signal that is not", tpm2.RCValue.Parameter(1))
	set(10).ok(t, p)
	now = now.Add(4 * time.Second)
	expect("after 4 of 10 seconds", 6, 0)
	now = now.Add(7 * time.Second)
	if !p.ACTSignaled(1) || p.ACTSignaled(0) || p.ACTSignaled(-1) || p.ACTSignaled(numACTs) {
		t.Error("signals")
	}
	expect("expired", 0, tpm2.ACTSignaled)
	set(0).ok(t, p)
	expect("zero to zero", 0, tpm2.ACTSignaled)
	set(0xFFFFFFFF).ok(t, p)
	expect("stopped", 0, 0)
	set(5).ok(t, p)
	set(0).ok(t, p)
	expect("from counting to zero", 0, tpm2.ACTSignaled)
	set(100).ok(t, p)
	expect("started again", 100, 0)
	if !slices.Equal(told, []bool{true, false, true, false}) {
		t.Errorf("OnACT was told %v", told)
	}
	shutdown := func(su uint16) { request{cc: tpm2.CCShutdown, params: func(w *tpm2.Writer) { w.U16(su) }}.ok(t, p) }
	restart := func(su uint16) tpm2.RC {
		p.Init()
		rc, _ := request{cc: tpm2.CCStartup, params: func(w *tpm2.Writer) { w.U16(su) }}.do(t, p)
		return rc
	}
	shutdown(1)
	if rc := restart(1); rc != 0 {
		t.Fatal(rc)
	}
	expect("after Resume", 100, 0)
	shutdown(1)
	if rc := restart(1); rc != 0 {
		t.Fatal(rc)
	}
	expect("after Resume with nothing set: half", 50, 0)
	set(1).ok(t, p)
	now = now.Add(2 * time.Second)
	shutdown(1)
	if rc := restart(1); rc != 0 {
		t.Fatal(rc)
	}
	expect("a signal over Resume", 0, tpm2.ACTSignaled|tpm2.ACTPreserveSignaled)
	shutdown(1)
	set(3).ok(t, p)
	expect("set again", 3, 0)
	if rc := restart(1); rc != tpm2.RCValue.Parameter(1) {
		t.Errorf("Resume after a timer was set behind Shutdown: %v", rc)
	}
	if rc := restart(0); rc != 0 {
		t.Fatal(rc)
	}
	expect("after Reset", 0, 0)

	// Its own policy, which works while the platform is disabled.
	pd := tpm2.NewPolicyDigest(tpm2.AlgSHA256)
	pd.CommandCode(tpm2.CCACTSetTimeout)
	request{cc: tpm2.CCSetPrimaryPolicy, handles: []tpm2.Handle{act}, auth: noAuth, params: func(w *tpm2.Writer) { w.Sized(pd.Sum()); w.Alg(tpm2.AlgSHA256) }}.ok(t, p)
	request{cc: tpm2.CCHierarchyControl, handles: []tpm2.Handle{tpm2.RHPlatform}, auth: noAuth, params: func(w *tpm2.Writer) { w.Handle(tpm2.RHPlatform); w.Bool(false) }}.ok(t, p)
	set(7).refused(t, p, "platformAuth of a disabled platform", tpm2.RCAuthUnavailable)
	s := newPolicy(t, p, tpm2.AlgSHA256, false)
	on(tpm2.CCPolicyCommandCode, s, u32(uint32(tpm2.CCACTSetTimeout))).ok(t, p)
	if rc, _ := underPolicy(t, p, tpm2.CCACTSetTimeout, s, 1, []tpm2.Handle{act}, u32(7)); rc != 0 {
		t.Errorf("by policy: %v", rc)
	}
	expect("by policy", 7, 0)
	request{cc: tpm2.CCACTSetTimeout, handles: []tpm2.Handle{tpm2.RHACT0 + numACTs}, auth: noAuth, params: u32(1)}.refused(t, p, "a timer that is not there", tpm2.RCValue.Handle(1))
	request{cc: tpm2.CCGetCapability, params: func(w *tpm2.Writer) { w.U32(uint32(tpm2.CapACT)); w.U32(0); w.U32(1) }}.refused(t, p, "no handle of a timer", tpm2.RCValue.Parameter(2))
}

// TestSetCapability: Part 3, 30.4 and Part 2, 6.12.1.
func TestSetCapability(t *testing.T) {
	store := NewMemoryStore()
	p := must[*TPM](t)(New(store, Options{}))
	mustRun(t, p, "8001 0000000C 00000144 0000")
	set := func(by tpm2.Handle, c tpm2.Cap, data string) request {
		return request{cc: tpm2.CCSetCapability, handles: []tpm2.Handle{by}, auth: noAuth, params: func(w *tpm2.Writer) {
			m := w.Begin()
			(&tpm2.SetCapabilityData{Cap: c, Data: []byte(data)}).Marshal(w)
			w.End(m)
		}}
	}
	set(tpm2.RHOwner, tpm2.CapBufferSize, be32(4096)).refused(t, p, "not the platform", tpm2.RCAuthType)
	set(tpm2.RHPlatform, tpm2.CapBufferSize, be32(4097)).refused(t, p, "no such size", tpm2.RCRange.Parameter(1))
	set(tpm2.RHPlatform, tpm2.CapBufferSize, "abc").refused(t, p, "short", tpm2.RCInsufficient.Parameter(1))
	set(tpm2.RHPlatform, tpm2.CapBufferSize, be32(4096)+"x").refused(t, p, "long", tpm2.RCSize.Parameter(1))
	set(tpm2.RHPlatform, tpm2.CapTPMProperties, be32(1)).refused(t, p, "not settable", tpm2.RCValue.Parameter(1))
	set(tpm2.RHPlatform, tpm2.CapAuthPlatform|2, be32(1)).refused(t, p, "unknown", tpm2.RCValue.Parameter(1))
	for auth, by := range map[tpm2.Cap]tpm2.Handle{tpm2.CapAuthOwner: tpm2.RHPlatform, tpm2.CapAuthPlatOrOwner: tpm2.RHEndorsement, tpm2.CapAuthEndorsement: tpm2.RHOwner, tpm2.CapAuthLockout: tpm2.RHPlatform} {
		set(by, auth|1, "").refused(t, p, "another hierarchy", tpm2.RCAuthType)
	}
	for auth, by := range map[tpm2.Cap]tpm2.Handle{tpm2.CapAuthNone: tpm2.RHNull, tpm2.CapAuthOwner: tpm2.RHOwner, tpm2.CapAuthPlatOrOwner: tpm2.RHOwner, tpm2.CapAuthEndorsement: tpm2.RHEndorsement, tpm2.CapAuthLockout: tpm2.RHLockout} {
		set(by, auth|1, "").refused(t, p, "right hierarchy, unknown", tpm2.RCValue.Parameter(1))
	}
	set(tpm2.RHPlatform, tpm2.CapBufferSize, be32(4096)).ok(t, p)
	get := request{cc: tpm2.CCGetCapability, params: func(w *tpm2.Writer) { w.U32(uint32(tpm2.CapBufferSize)); w.U32(0); w.U32(1) }}
	if got := get.ok(t, p).Rest(); !bytes.Equal(got, unhex(t, "00 81800001 00001000")) {
		t.Errorf("capability %x", got)
	}
	q := must[*TPM](t)(New(store, Options{}))
	if q.commandSize() != 4096 {
		t.Error("the size did not outlive the TPM")
	}
}

// TestStateOfVersion1: a state of before the countdown timers is read.
func TestStateOfVersion1(t *testing.T) {
	p := newTPM(t, Options{})
	request{cc: tpm2.CCShutdown, params: func(w *tpm2.Writer) { w.U16(1) }}.ok(t, p)
	b := must[[]byte](t)(p.PermanentState())
	// Version 2 added the buffer size behind algorithmSet, and the timers at the
	// end of the saved stateClear, which only the saved PCRs follow.
	var w tpm2.Writer
	(codec{w: &w}).pcrs(&p.state.volatile.pcr)
	tail := len(w.Bytes()) + 1
	w.Reset(nil)
	for i := range p.state.clear.acts {
		(codec{w: &w}).act(&p.state.clear.acts[i])
	}
	acts := len(w.Bytes())
	w.Reset(nil)
	w.U32(uint32(len(p.state.perm.nv)))
	w.U32(uint32(len(p.state.perm.persistent)))
	saved := len(b) - tail - acts
	var r tpm2.Writer
	(codec{w: &r}).reset(p.state.perm.savedReset)
	(codec{w: &r}).clear(p.state.perm.savedClear)
	size := len(b) - tail - len(r.Bytes()) - 2 - 8 - 4
	old := slices.Concat(b[:size], b[size+4:saved], b[saved+acts:])
	old[5] = 1
	store := NewMemoryStore()
	if err := store.Save(old); err != nil {
		t.Fatal(err)
	}
	q, err := New(store, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if rc, _ := run(t, q, "8001 0000000C 00000144 0001"); rc != 0 {
		t.Errorf("Resume: %v", rc)
	}
	old[5] = 3
	if err := store.Save(old); err != nil {
		t.Fatal(err)
	}
	if _, err := New(store, Options{}); err == nil {
		t.Error("a state of version 3 was taken")
	}
}
