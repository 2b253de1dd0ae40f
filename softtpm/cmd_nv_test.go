// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"holdfast/tpm2"
)

const (
	ownerRW    = tpm2.NVOwnerWrite | tpm2.NVOwnerRead
	authRW     = tpm2.NVAuthWrite | tpm2.NVAuthRead
	testIndex  = tpm2.Handle(0x01000010)
	otherIndex = tpm2.Handle(0x01000011)
)

func nvPublic(h tpm2.Handle, a tpm2.NVAttributes, size uint16) tpm2.NVPublic {
	return tpm2.NVPublic{Index: h, NameAlg: tpm2.AlgSHA256, Attributes: a, DataSize: size}
}

func define(by tpm2.Handle, auth string, pub tpm2.NVPublic) request {
	return request{cc: tpm2.CCNVDefineSpace, handles: []tpm2.Handle{by}, auth: noAuth, params: func(w *tpm2.Writer) {
		w.Sized([]byte(auth))
		m := w.Begin()
		pub.Marshal(w)
		w.End(m)
	}}
}

// onNV is a command on an index by the entity by.
func onNV(cc tpm2.CC, by, index tpm2.Handle, params func(w *tpm2.Writer)) request {
	return request{cc: cc, handles: []tpm2.Handle{by, index}, auth: noAuth, params: params}
}

func write(by, index tpm2.Handle, data string, offset uint16) request {
	return onNV(tpm2.CCNVWrite, by, index, func(w *tpm2.Writer) { w.Sized([]byte(data)); w.U16(offset) })
}

func read(by, index tpm2.Handle, size, offset uint16) request {
	return onNV(tpm2.CCNVRead, by, index, func(w *tpm2.Writer) { w.U16(size); w.U16(offset) })
}

func (q request) with(password string) request {
	q.auth = []string{password}
	return q
}

func attributesOf(t testing.TB, p *TPM, h tpm2.Handle) tpm2.NVAttributes {
	t.Helper()
	r := request{cc: tpm2.CCNVReadPublic, handles: []tpm2.Handle{h}}.ok(t, p)
	var pub tpm2.NVPublic
	in := r.Nested(1024)
	pub.Unmarshal(&in)
	r.Done(&in)
	name := r.Sized(tpm2.MaxName)
	r.End()
	if want, err := pub.Name(); r.Err() != nil || err != nil || !bytes.Equal(want, name) {
		t.Fatalf("NV_ReadPublic: %v %v, name %x", r.Err(), err, name)
	}
	return pub.Attributes
}

func TestNVOrdinary(t *testing.T) {
	p := newTPM(t, Options{})
	define(tpm2.RHOwner, "", nvPublic(testIndex, ownerRW, 32)).ok(t, p)
	define(tpm2.RHOwner, "", nvPublic(testIndex, ownerRW, 32)).refused(t, p, "twice", tpm2.RCNVDefined)
	read(tpm2.RHOwner, testIndex, 8, 0).refused(t, p, "unwritten", tpm2.RCNVUninitialized)
	write(tpm2.RHOwner, testIndex, "abcd", 4).ok(t, p)
	if got := read(tpm2.RHOwner, testIndex, 10, 0).ok(t, p).Sized(99); string(got) != "\x00\x00\x00\x00abcd\x00\x00" {
		t.Errorf("%q", got)
	}
	if !attributesOf(t, p, testIndex).Has(tpm2.NVWritten) {
		t.Error("TPMA_NV_WRITTEN is clear")
	}
	write(tpm2.RHOwner, testIndex, "", 32).ok(t, p)
	if got := read(tpm2.RHOwner, testIndex, 0, 32).ok(t, p).Sized(99); len(got) != 0 {
		t.Errorf("%q", got)
	}
	write(tpm2.RHOwner, testIndex, "x", 32).refused(t, p, "over the end", tpm2.RCNVRange)
	write(tpm2.RHOwner, testIndex, "x", 33).refused(t, p, "offset", tpm2.RCValue.Parameter(2))
	write(tpm2.RHOwner, testIndex, strings.Repeat("x", nvBufferMax+1), 0).refused(t, p, "buffer", tpm2.RCSize.Parameter(1))
	read(tpm2.RHOwner, testIndex, 1, 32).refused(t, p, "over the end", tpm2.RCNVRange)
	read(tpm2.RHOwner, testIndex, 0, 33).refused(t, p, "offset", tpm2.RCValue.Parameter(2))
	read(tpm2.RHOwner, testIndex, nvBufferMax+1, 0).refused(t, p, "size", tpm2.RCValue.Parameter(1))
	read(tpm2.RHPlatform, testIndex, 1, 0).refused(t, p, "platform", tpm2.RCNVAuthorization)
	write(tpm2.RHPlatform, testIndex, "x", 0).refused(t, p, "platform", tpm2.RCNVAuthorization)
	read(testIndex, testIndex, 1, 0).refused(t, p, "no AUTHREAD", tpm2.RCAuthUnavailable)
	read(tpm2.RHOwner, otherIndex, 1, 0).refused(t, p, "no index", tpm2.RCHandle.Handle(2))
	read(tpm2.RHEndorsement, testIndex, 1, 0).refused(t, p, "endorsement", tpm2.RCValue.Handle(1))
	for _, cc := range []tpm2.CC{tpm2.CCNVIncrement, tpm2.CCNVExtend, tpm2.CCNVSetBits} {
		f := sized("xxxxxx")
		if cc == tpm2.CCNVIncrement {
			f = nil
		}
		onNV(cc, tpm2.RHOwner, testIndex, f).refused(t, p, "type", tpm2.RCAttributes.Handle(2))
	}
	onNV(tpm2.CCNVUndefineSpace, tpm2.RHOwner, testIndex, nil).ok(t, p)
	read(tpm2.RHOwner, testIndex, 1, 0).refused(t, p, "undefined", tpm2.RCHandle.Handle(2))
}

// What the Store holds survives the machine.
func TestNVIsDurable(t *testing.T) {
	s := NewMemoryStore()
	p, err := New(s, Options{})
	if err != nil {
		t.Fatal(err)
	}
	mustRun(t, p, "8001 0000000C 00000144 0000")
	define(tpm2.RHOwner, "", nvPublic(testIndex, ownerRW, 8)).ok(t, p)
	write(tpm2.RHOwner, testIndex, "12345678", 0).ok(t, p)
	q, err := New(s, Options{})
	if err != nil {
		t.Fatal(err)
	}
	mustRun(t, q, "8001 0000000C 00000144 0000")
	if got := read(tpm2.RHOwner, testIndex, 8, 0).ok(t, q).Sized(8); string(got) != "12345678" {
		t.Errorf("%q", got)
	}
}

func TestNVAuth(t *testing.T) {
	p := newTPM(t, Options{})
	define(tpm2.RHOwner, "secret\x00\x00", nvPublic(testIndex, authRW|tpm2.NVNoDA, 4)).ok(t, p)
	define(tpm2.RHOwner, "", nvPublic(otherIndex, authRW|tpm2.NVNoDA, 4)).ok(t, p)
	write(testIndex, testIndex, "1234", 0).with("wrong").refused(t, p, "password", tpm2.RCBadAuth.Session(1))
	write(testIndex, testIndex, "1234", 0).with("secret").ok(t, p)
	write(otherIndex, testIndex, "1234", 0).refused(t, p, "another index authorizes", tpm2.RCNVAuthorization)
	read(otherIndex, testIndex, 4, 0).refused(t, p, "another index authorizes", tpm2.RCNVAuthorization)
	write(tpm2.RHOwner, testIndex, "1234", 0).refused(t, p, "owner", tpm2.RCNVAuthorization)
	if got := read(testIndex, testIndex, 4, 0).with("secret").ok(t, p).Sized(4); string(got) != "1234" {
		t.Errorf("%q", got)
	}
	request{cc: tpm2.CCNVChangeAuth, handles: []tpm2.Handle{testIndex}, auth: []string{"secret"}, params: sized("new")}.refused(t, p, "needs a policy", tpm2.RCAuthType)
	define(tpm2.RHOwner, strings.Repeat("x", 33), nvPublic(0x01000012, authRW, 4)).refused(t, p, "auth longer than nameAlg", tpm2.RCSize.Parameter(1))
}

func TestNVTypes(t *testing.T) {
	p := newTPM(t, Options{})
	counter := nvPublic(testIndex, ownerRW.WithType(tpm2.NTCounter), 8)
	inc := onNV(tpm2.CCNVIncrement, tpm2.RHOwner, testIndex, nil)
	value := func(h tpm2.Handle) uint64 {
		t.Helper()
		return binary.BigEndian.Uint64(read(tpm2.RHOwner, h, 8, 0).ok(t, p).Sized(8))
	}
	define(tpm2.RHOwner, "", counter).ok(t, p)
	inc.ok(t, p)
	first := value(testIndex)
	inc.ok(t, p)
	if got := value(testIndex); got != first+1 {
		t.Errorf("counter went from %d to %d", first, got)
	}
	write(tpm2.RHOwner, testIndex, "12345678", 0).refused(t, p, "write a counter", tpm2.RCAttributes)
	onNV(tpm2.CCNVUndefineSpace, tpm2.RHOwner, testIndex, nil).ok(t, p)
	define(tpm2.RHOwner, "", counter).ok(t, p)
	inc.ok(t, p)
	if got := value(testIndex); got <= first+1 {
		t.Errorf("a new counter begins at %d, not above %d", got, first+1)
	}
	onNV(tpm2.CCNVUndefineSpace, tpm2.RHOwner, testIndex, nil).ok(t, p)

	define(tpm2.RHOwner, "", nvPublic(testIndex, ownerRW.WithType(tpm2.NTBits), 8)).ok(t, p)
	for _, b := range []uint64{1, 1 << 63} {
		onNV(tpm2.CCNVSetBits, tpm2.RHOwner, testIndex, func(w *tpm2.Writer) { w.U64(b) }).ok(t, p)
	}
	if got := value(testIndex); got != 1|1<<63 {
		t.Errorf("bits %x", got)
	}
	inc.refused(t, p, "increment bits", tpm2.RCAttributes.Handle(2))

	define(tpm2.RHOwner, "", nvPublic(otherIndex, ownerRW.WithType(tpm2.NTExtend), 32)).ok(t, p)
	want := make([]byte, 32)
	for _, d := range []string{"one", "two"} {
		onNV(tpm2.CCNVExtend, tpm2.RHOwner, otherIndex, sized(d)).ok(t, p)
		h := sha256.Sum256(append(want, d...))
		want = h[:]
	}
	if got := read(tpm2.RHOwner, otherIndex, 32, 0).ok(t, p).Sized(32); !bytes.Equal(got, want) {
		t.Errorf("extended to %x, want %x", got, want)
	}
	write(tpm2.RHOwner, otherIndex, "x", 0).refused(t, p, "write an extend index", tpm2.RCAttributes)
}

func TestNVLocks(t *testing.T) {
	p := newTPM(t, Options{})
	lock := onNV(tpm2.CCNVWriteLock, tpm2.RHOwner, testIndex, nil)
	rlock := onNV(tpm2.CCNVReadLock, tpm2.RHOwner, testIndex, nil)
	define(tpm2.RHOwner, "", nvPublic(testIndex, ownerRW, 4)).ok(t, p)
	lock.refused(t, p, "not lockable", tpm2.RCAttributes.Handle(2))
	rlock.refused(t, p, "not lockable", tpm2.RCAttributes.Handle(2))
	onNV(tpm2.CCNVUndefineSpace, tpm2.RHOwner, testIndex, nil).ok(t, p)

	define(tpm2.RHOwner, "", nvPublic(testIndex, ownerRW|tpm2.NVWriteStClear|tpm2.NVReadStClear|tpm2.NVGlobalLock, 4)).ok(t, p)
	write(tpm2.RHOwner, testIndex, "1234", 0).ok(t, p)
	lock.ok(t, p)
	lock.ok(t, p) // again is no error
	write(tpm2.RHOwner, testIndex, "4321", 0).refused(t, p, "locked", tpm2.RCNVLocked)
	read(tpm2.RHOwner, testIndex, 4, 0).ok(t, p)
	rlock.ok(t, p)
	rlock.ok(t, p)
	read(tpm2.RHOwner, testIndex, 4, 0).refused(t, p, "locked", tpm2.RCNVLocked)
	onNV(tpm2.CCNVReadLock, tpm2.RHPlatform, testIndex, nil).ok(t, p) // locked already: success, as in Part 3's actions
	mustRun(t, p, "8001 0000000C 00000145 0000")
	p.Init()
	mustRun(t, p, "8001 0000000C 00000144 0000")
	write(tpm2.RHOwner, testIndex, "4321", 0).ok(t, p)
	read(tpm2.RHOwner, testIndex, 4, 0).ok(t, p)
	request{cc: tpm2.CCNVGlobalWriteLock, handles: []tpm2.Handle{tpm2.RHOwner}, auth: noAuth}.ok(t, p)
	write(tpm2.RHOwner, testIndex, "4321", 0).refused(t, p, "globally locked", tpm2.RCNVLocked)
	if a := attributesOf(t, p, testIndex); !a.Has(tpm2.NVWriteLocked) {
		t.Errorf("attributes %x", a)
	}
}

func TestNVWriteAll(t *testing.T) {
	p := newTPM(t, Options{})
	define(tpm2.RHOwner, "", nvPublic(testIndex, ownerRW|tpm2.NVWriteAll, 4)).ok(t, p)
	write(tpm2.RHOwner, testIndex, "123", 0).refused(t, p, "part", tpm2.RCNVRange)
	write(tpm2.RHOwner, testIndex, "1234", 0).ok(t, p)
}

// Every error of Part 3, 31.3.1.
func TestNVDefineErrors(t *testing.T) {
	p := newTPM(t, Options{})
	policy := nvPublic(testIndex, ownerRW, 4)
	policy.AuthPolicy = make([]byte, 20)
	sm3 := nvPublic(testIndex, ownerRW, 4)
	sm3.NameAlg = tpm2.AlgSHAKE256_256
	attr := func(a tpm2.NVAttributes, size uint16) tpm2.NVPublic { return nvPublic(testIndex, a, size) }
	for name, c := range map[string]struct {
		pub  tpm2.NVPublic
		want tpm2.RC
	}{
		"handle type":        {nvPublic(0x81000001, ownerRW, 4), tpm2.RCValue.Parameter(2)},
		"hash":               {sm3, tpm2.RCHash.Parameter(2)},
		"policy size":        {policy, tpm2.RCSize.Parameter(2)},
		"type":               {attr(ownerRW.WithType(3), 8), tpm2.RCAttributes.Parameter(2)},
		"reserved bit":       {attr(ownerRW|1<<20, 8), tpm2.RCReservedBits.Parameter(2)},
		"size":               {attr(ownerRW, maxNVIndexSize+1), tpm2.RCSize.Parameter(2)},
		"counter size":       {attr(ownerRW.WithType(tpm2.NTCounter), 4), tpm2.RCSize.Parameter(2)},
		"bits size":          {attr(ownerRW.WithType(tpm2.NTBits), 9), tpm2.RCSize.Parameter(2)},
		"extend size":        {attr(ownerRW.WithType(tpm2.NTExtend), 20), tpm2.RCSize.Parameter(2)},
		"PIN size":           {attr(ownerRW.WithType(tpm2.NTPinPass), 4), tpm2.RCSize.Parameter(2)},
		"counter, stclear":   {attr(ownerRW.WithType(tpm2.NTCounter)|tpm2.NVClearStClear, 8), tpm2.RCAttributes.Parameter(2)},
		"PIN fail with DA":   {attr(ownerRW.WithType(tpm2.NTPinFail), 8), tpm2.RCAttributes.Parameter(2)},
		"PIN fail authwrite": {attr((ownerRW | tpm2.NVAuthWrite | tpm2.NVNoDA).WithType(tpm2.NTPinFail), 8), tpm2.RCAttributes.Parameter(2)},
		"PIN pass authwrite": {attr((ownerRW | tpm2.NVAuthWrite).WithType(tpm2.NTPinPass), 8), tpm2.RCAttributes.Parameter(2)},
		"PIN pass global":    {attr((ownerRW | tpm2.NVGlobalLock).WithType(tpm2.NTPinPass), 8), tpm2.RCAttributes.Parameter(2)},
		"written":            {attr(ownerRW|tpm2.NVWritten, 4), tpm2.RCAttributes.Parameter(2)},
		"write-locked":       {attr(ownerRW|tpm2.NVWriteLocked, 4), tpm2.RCAttributes.Parameter(2)},
		"read-locked":        {attr(ownerRW|tpm2.NVReadLocked, 4), tpm2.RCAttributes.Parameter(2)},
		"nobody reads":       {attr(tpm2.NVOwnerWrite, 4), tpm2.RCAttributes.Parameter(2)},
		"nobody writes":      {attr(tpm2.NVOwnerRead, 4), tpm2.RCAttributes.Parameter(2)},
		"stclear and define": {attr(ownerRW|tpm2.NVClearStClear|tpm2.NVWriteDefine, 4), tpm2.RCAttributes.Parameter(2)},
		"owner, policy del.": {attr(ownerRW|tpm2.NVPolicyDelete, 4), tpm2.RCAttributes.Parameter(2)},
		"writeall too large": {attr(ownerRW|tpm2.NVWriteAll, nvBufferMax+1), tpm2.RCSize.Parameter(2)},
		"platform by owner":  {attr(ownerRW|tpm2.NVPlatformCreate, 4), tpm2.RCAttributes.Handle(1)},
	} {
		define(tpm2.RHOwner, "", c.pub).refused(t, p, name, c.want)
	}
	define(tpm2.RHPlatform, "", attr(ownerRW, 4)).refused(t, p, "owner's by platform", tpm2.RCAttributes.Handle(1))
	define(tpm2.RHEndorsement, "", attr(ownerRW, 4)).refused(t, p, "endorsement", tpm2.RCValue.Handle(1))
	empty := request{cc: tpm2.CCNVDefineSpace, handles: []tpm2.Handle{tpm2.RHOwner}, auth: noAuth, params: sized("", "")}
	empty.refused(t, p, "empty public area", tpm2.RCSize.Parameter(2))
	p.state.clear.phEnableNV = false
	define(tpm2.RHPlatform, "", attr(ownerRW|tpm2.NVPlatformCreate, 4)).refused(t, p, "phEnableNV", tpm2.RCHierarchy.Handle(1))
}

func TestNVSpace(t *testing.T) {
	p := newTPM(t, Options{NVIndices: 16, NVBytes: 2048})
	for i := range tpm2.Handle(15) {
		define(tpm2.RHOwner, "", nvPublic(testIndex+i, ownerRW, 64)).ok(t, p)
	}
	define(tpm2.RHOwner, "", nvPublic(0x01800000, ownerRW, 2048)).refused(t, p, "bytes", tpm2.RCNVSpace)
	define(tpm2.RHOwner, "", nvPublic(0x01800000, ownerRW, 64)).ok(t, p)
	define(tpm2.RHOwner, "", nvPublic(0x01800001, ownerRW, 1)).refused(t, p, "indices", tpm2.RCNVSpace)
}

func TestNVPlatform(t *testing.T) {
	p := newTPM(t, Options{})
	a := tpm2.NVPPRead | tpm2.NVPPWrite | tpm2.NVPlatformCreate
	define(tpm2.RHPlatform, "", nvPublic(testIndex, a, 4)).ok(t, p)
	write(tpm2.RHPlatform, testIndex, "1234", 0).ok(t, p)
	onNV(tpm2.CCNVUndefineSpace, tpm2.RHOwner, testIndex, nil).refused(t, p, "owner deletes platform's", tpm2.RCNVAuthorization)
	onNV(tpm2.CCNVUndefineSpace, tpm2.RHPlatform, testIndex, nil).ok(t, p)
	define(tpm2.RHPlatform, "", nvPublic(testIndex, a|tpm2.NVPolicyDelete, 4)).ok(t, p)
	onNV(tpm2.CCNVUndefineSpace, tpm2.RHPlatform, testIndex, nil).refused(t, p, "policy delete", tpm2.RCAttributes.Handle(2))
}

// PolicyCommandCode(NV_UndefineSpaceSpecial) deletes; NV_ChangeAuth changes.
func TestNVByPolicy(t *testing.T) {
	p := newTPM(t, Options{})
	session := func(cc tpm2.CC) tpm2.Handle {
		h := newPolicy(t, p, tpm2.AlgSHA256, false)
		request{cc: tpm2.CCPolicyCommandCode, handles: []tpm2.Handle{h}, params: func(w *tpm2.Writer) { w.U32(uint32(cc)) }}.ok(t, p)
		return h
	}
	run := func(cc tpm2.CC, s tpm2.Handle, handles []tpm2.Handle, params func(w *tpm2.Writer)) tpm2.RC {
		var w tpm2.Writer
		tpm2.Header{Tag: tpm2.STSessions, Code: uint32(cc)}.Marshal(&w)
		for _, h := range handles {
			w.Handle(h)
		}
		at := w.Len()
		w.U32(0)
		(&tpm2.AuthCommand{Handle: s}).Marshal(&w)
		if len(handles) == 2 {
			(&tpm2.AuthCommand{Handle: tpm2.RSPW}).Marshal(&w)
		}
		w.PutU32(at, uint32(w.Len()-at-4))
		if params != nil {
			params(&w)
		}
		w.PutU32(2, uint32(w.Len()))
		return rcOf(t, p.Execute(0, w.Bytes()))
	}
	pd := tpm2.NewPolicyDigest(tpm2.AlgSHA256)
	pd.CommandCode(tpm2.CCNVUndefineSpaceSpecial)
	pub := nvPublic(testIndex, tpm2.NVPPRead|tpm2.NVPPWrite|tpm2.NVPlatformCreate|tpm2.NVPolicyDelete, 4)
	pub.AuthPolicy = pd.Sum()
	define(tpm2.RHPlatform, "", pub).ok(t, p)
	both := []tpm2.Handle{testIndex, tpm2.RHPlatform}
	if rc := run(tpm2.CCNVUndefineSpaceSpecial, session(tpm2.CCNVChangeAuth), both, nil); rc != tpm2.RCPolicyFail.Session(1) {
		t.Errorf("another policy: %v", rc)
	}
	if rc := run(tpm2.CCNVUndefineSpaceSpecial, session(tpm2.CCNVUndefineSpaceSpecial), both, nil); rc != 0 {
		t.Errorf("%v", rc)
	}
	if p.state.nv(testIndex) != nil {
		t.Error("still there")
	}
	pd = tpm2.NewPolicyDigest(tpm2.AlgSHA256)
	pd.CommandCode(tpm2.CCNVChangeAuth)
	pub = nvPublic(testIndex, authRW|tpm2.NVNoDA, 4)
	pub.AuthPolicy = pd.Sum()
	define(tpm2.RHOwner, "old", pub).ok(t, p)
	one := []tpm2.Handle{testIndex}
	if rc := run(tpm2.CCNVChangeAuth, session(tpm2.CCNVChangeAuth), one, sized(strings.Repeat("x", 33))); rc != tpm2.RCSize.Parameter(1) {
		t.Errorf("long: %v", rc)
	}
	if rc := run(tpm2.CCNVChangeAuth, session(tpm2.CCNVChangeAuth), one, sized("new\x00")); rc != 0 {
		t.Errorf("%v", rc)
	}
	write(testIndex, testIndex, "1234", 0).with("old").refused(t, p, "old value", tpm2.RCBadAuth.Session(1))
	write(testIndex, testIndex, "1234", 0).with("new").ok(t, p)
}

func TestNVReadOnlyMode(t *testing.T) {
	p := newTPM(t, Options{})
	define(tpm2.RHOwner, "", nvPublic(testIndex, ownerRW, 4)).ok(t, p)
	define(tpm2.RHOwner, "", nvPublic(otherIndex, ownerRW|tpm2.NVOrderly|tpm2.NVClearStClear, 4)).ok(t, p)
	p.state.clear.readOnly = true
	write(tpm2.RHOwner, testIndex, "1234", 0).refused(t, p, "read-only", tpm2.RCReadOnly)
	write(tpm2.RHOwner, otherIndex, "1234", 0).ok(t, p)
	define(tpm2.RHOwner, "", nvPublic(0x01000012, ownerRW, 4)).refused(t, p, "read-only", tpm2.RCReadOnly)
	onNV(tpm2.CCNVIncrement, tpm2.RHOwner, testIndex, nil).refused(t, p, "read-only", tpm2.RCReadOnly)
}

func TestNVDefineSpace2(t *testing.T) {
	p := newTPM(t, Options{})
	pub := nvPublic(testIndex, ownerRW, 4)
	q := func(ht tpm2.HT) request {
		return request{cc: tpm2.CCNVDefineSpace2, handles: []tpm2.Handle{tpm2.RHOwner}, auth: noAuth, params: func(w *tpm2.Writer) {
			w.Sized(nil)
			m := w.Begin()
			w.U8(uint8(ht))
			pub.Marshal(w)
			w.End(m)
		}}
	}
	q(tpm2.HTExternalNV).refused(t, p, "external NV", tpm2.RCHandle.Parameter(2))
	q(tpm2.HTNVIndex).ok(t, p)
	r := request{cc: tpm2.CCNVReadPublic2, handles: []tpm2.Handle{testIndex}}.ok(t, p)
	in := r.Nested(999)
	if ht := tpm2.HT(in.U8()); ht != tpm2.HTNVIndex {
		t.Errorf("handle type %x", ht)
	}
	var got tpm2.NVPublic
	got.Unmarshal(&in)
	r.Done(&in)
	if fmt.Sprint(got) != fmt.Sprint(pub) && got.Index != pub.Index {
		t.Errorf("%v", got)
	}
	name, _ := pub.Name()
	if !bytes.Equal(r.Sized(99), name) || r.Len() != 0 {
		t.Error("name")
	}
}
