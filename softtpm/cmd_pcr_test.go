// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"strings"
	"testing"

	"holdfast/tpm2"
)

func readPCRs(t testing.TB, p *TPM, sel ...tpm2.PCRSelection) (counter uint32, got []tpm2.PCRSelection, values [][]byte) {
	t.Helper()
	r := request{cc: tpm2.CCPCRRead, params: func(w *tpm2.Writer) { tpm2.MarshalPCRSelections(w, sel) }}.ok(t, p)
	counter, got, values = r.U32(), tpm2.UnmarshalPCRSelections(r), tpm2.UnmarshalDigests(r, 0)
	r.End()
	if r.Err() != nil {
		t.Fatal(r.Err())
	}
	return counter, got, values
}

func extend(pcr tpm2.Handle, l ...tpm2.HA) request {
	return request{cc: tpm2.CCPCRExtend, handles: []tpm2.Handle{pcr}, auth: noAuth, params: func(w *tpm2.Writer) { tpm2.MarshalHAs(w, l) }}
}

func TestPCRExtendAndRead(t *testing.T) {
	p := newTPM(t, Options{})
	d1, d256 := bytes.Repeat([]byte{1}, 20), bytes.Repeat([]byte{2}, 32)
	c0, _, _ := readPCRs(t, p)
	extend(3, tpm2.HA{Alg: tpm2.AlgSHA1, Digest: d1}, tpm2.HA{Alg: tpm2.AlgSHA256, Digest: d256}, tpm2.HA{Alg: tpm2.AlgSHA3_256, Digest: d256}).ok(t, p)
	c1, sel, v := readPCRs(t, p, tpm2.SelectPCRs(tpm2.AlgSHA1, 3), tpm2.SelectPCRs(tpm2.AlgSHA256, 3, 4), tpm2.SelectPCRs(tpm2.AlgSHA3_256, 3))
	want1 := sha1.Sum(append(make([]byte, 20), d1...))
	want256 := sha256.Sum256(append(make([]byte, 32), d256...))
	if len(v) != 3 || !bytes.Equal(v[0], want1[:]) || !bytes.Equal(v[1], want256[:]) || !bytes.Equal(v[2], make([]byte, 32)) {
		t.Errorf("values %x", v)
	}
	if c1 != c0+2 {
		t.Errorf("update counter went from %d to %d, want 2 more (two banks)", c0, c1)
	}
	if len(sel) != 3 || len(sel[2].PCRs()) != 0 {
		t.Errorf("a bank that is not there was selected: %v", sel)
	}
	extend(tpm2.RHNull, tpm2.HA{Alg: tpm2.AlgSHA1, Digest: d1}).ok(t, p)
	if c, _, _ := readPCRs(t, p); c != c1 {
		t.Error("TPM_RH_NULL changed a PCR")
	}
	// At most eight values in one response, and the selection says which.
	_, sel, v = readPCRs(t, p, tpm2.SelectPCRs(tpm2.AlgSHA256, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9), tpm2.SelectPCRs(tpm2.AlgSHA1, 0))
	if len(v) != 8 || len(sel[0].PCRs()) != 8 || len(sel[1].PCRs()) != 0 {
		t.Errorf("%d values, selection %v", len(v), sel)
	}
}

func TestPCRErrors(t *testing.T) {
	p := newTPM(t, Options{})
	ha := tpm2.HA{Alg: tpm2.AlgSHA256, Digest: make([]byte, 32)}
	extend(24, ha).refused(t, p, "no such PCR", tpm2.RCValue.Handle(1))
	extend(17, ha).refused(t, p, "locality", tpm2.RCLocality)
	q := extend(0, ha)
	q.auth = nil
	q.refused(t, p, "no authorization", tpm2.RCAuthMissing)
	q = extend(0, ha)
	q.auth = []string{"wrong"}
	q.refused(t, p, "wrong authorization", tpm2.RCBadAuth.Session(1))
	q = extend(17, ha)
	q.locality = 4
	q.ok(t, p)
	reset := func(pcr tpm2.Handle, locality uint8) request {
		return request{cc: tpm2.CCPCRReset, handles: []tpm2.Handle{pcr}, auth: noAuth, locality: locality}
	}
	reset(0, 0).refused(t, p, "static PCR", tpm2.RCLocality)
	reset(17, 3).refused(t, p, "locality 3", tpm2.RCLocality)
	reset(17, 4).ok(t, p)
	reset(16, 0).ok(t, p)
	reset(tpm2.RHNull, 0).refused(t, p, "null", tpm2.RCValue.Handle(1))
	read := request{cc: tpm2.CCPCRRead, params: func(w *tpm2.Writer) { w.U32(17) }}
	read.refused(t, p, "too many selections", tpm2.RCSize.Parameter(1))
	read.params = func(w *tpm2.Writer) { w.U32(1); w.U16(4); w.U8(2); w.U16(0) }
	read.refused(t, p, "short bitmap", tpm2.RCValue.Parameter(1))
	read.params = func(w *tpm2.Writer) { w.U32(1); w.U16(0x10); w.U8(3); w.U8(0); w.U16(0) }
	read.refused(t, p, "null hash", tpm2.RCHash.Parameter(1))
	read.params = func(w *tpm2.Writer) { w.U32(0); w.U8(0) }
	read.refused(t, p, "surplus", tpm2.RCSize)
	// The profile has no PCR with an authValue or policy of its own.
	request{cc: tpm2.CCPCRSetAuthValue, handles: []tpm2.Handle{16}, auth: noAuth, params: sized("x")}.refused(t, p, "no group", tpm2.RCValue)
	policy := request{cc: tpm2.CCPCRSetAuthPolicy, handles: []tpm2.Handle{tpm2.RHPlatform}, auth: noAuth}
	policy.params = func(w *tpm2.Writer) { w.Sized(make([]byte, 20)); w.Alg(tpm2.AlgSHA256); w.U32(16) }
	policy.refused(t, p, "size", tpm2.RCSize.Parameter(1))
	policy.params = func(w *tpm2.Writer) { w.Sized(make([]byte, 32)); w.Alg(tpm2.AlgSHA256); w.U32(16) }
	policy.refused(t, p, "no group", tpm2.RCValue.Parameter(3))
	policy.handles = []tpm2.Handle{tpm2.RHOwner}
	policy.refused(t, p, "owner", tpm2.RCValue.Handle(1))
}

func TestPCRReset(t *testing.T) {
	p := newTPM(t, Options{})
	ha := tpm2.HA{Alg: tpm2.AlgSHA384, Digest: make([]byte, 48)}
	extend(23, ha).ok(t, p)
	if _, _, v := readPCRs(t, p, tpm2.SelectPCRs(tpm2.AlgSHA384, 23)); bytes.Equal(v[0], make([]byte, 48)) {
		t.Error("not extended")
	}
	request{cc: tpm2.CCPCRReset, handles: []tpm2.Handle{23}, auth: noAuth}.ok(t, p)
	if _, _, v := readPCRs(t, p, tpm2.SelectPCRs(tpm2.AlgSHA384, 23)); !bytes.Equal(v[0], make([]byte, 48)) {
		t.Error("not reset")
	}
	if _, _, v := readPCRs(t, p, tpm2.SelectPCRs(tpm2.AlgSHA256, 17)); !bytes.Equal(v[0], bytes.Repeat([]byte{255}, 32)) {
		t.Errorf("PCR 17 begins as %x", v[0])
	}
}

func TestPCREvent(t *testing.T) {
	p := newTPM(t, Options{})
	q := request{cc: tpm2.CCPCREvent, handles: []tpm2.Handle{5}, auth: noAuth, params: sized("event")}
	l := tpm2.UnmarshalHAs(q.ok(t, p))
	if len(l) != numBanks {
		t.Fatalf("%d digests", len(l))
	}
	d := sha512.Sum512([]byte("event"))
	if l[3].Alg != tpm2.AlgSHA512 || !bytes.Equal(l[3].Digest, d[:]) {
		t.Errorf("digest %v %x", l[3].Alg, l[3].Digest)
	}
	want := sha512.Sum512(append(make([]byte, 64), d[:]...))
	if _, _, v := readPCRs(t, p, tpm2.SelectPCRs(tpm2.AlgSHA512, 5)); !bytes.Equal(v[0], want[:]) {
		t.Errorf("PCR is %x", v[0])
	}
	q.handles = []tpm2.Handle{tpm2.RHNull}
	q.ok(t, p)
	q.handles = []tpm2.Handle{20}
	q.refused(t, p, "locality", tpm2.RCLocality)
	q.params = sized(strings.Repeat("x", maxEvent+1))
	q.refused(t, p, "too long", tpm2.RCSize.Parameter(1))
}

func TestPCRAllocate(t *testing.T) {
	p := newTPM(t, Options{})
	q := func(sel ...tpm2.PCRSelection) request {
		return request{cc: tpm2.CCPCRAllocate, handles: []tpm2.Handle{tpm2.RHPlatform}, auth: noAuth, params: func(w *tpm2.Writer) { tpm2.MarshalPCRSelections(w, sel) }}
	}
	none := func(alg tpm2.Alg) tpm2.PCRSelection { return tpm2.SelectPCRs(alg) }
	q(none(tpm2.AlgSHA1), none(tpm2.AlgSHA256), none(tpm2.AlgSHA384), none(tpm2.AlgSHA512)).refused(t, p, "no PCR at all", tpm2.RCPCR)
	q(tpm2.SelectPCRs(tpm2.AlgSHA1, 0), none(tpm2.AlgSHA256), none(tpm2.AlgSHA384), none(tpm2.AlgSHA512)).refused(t, p, "no PCR 17", tpm2.RCPCR)
	q(none(tpm2.AlgSHA3_256)).refused(t, p, "no such bank", tpm2.RCHash.Parameter(1))
	r := q(none(tpm2.AlgSHA1), tpm2.SelectPCRs(tpm2.AlgSHA384, 0, 1)).ok(t, p)
	if ok, max, needed, available := r.Bool(), r.U32(), r.U32(), r.U32(); !ok || max != 24 || needed != 24*(32+64)+2*48 || available != 24*(20+32+48+64) {
		t.Errorf("%v %d %d %d", ok, max, needed, available)
	}
	all := tpm2.PCRSelection{Hash: tpm2.AlgSHA1, Select: []byte{255, 255, 255}}
	if _, got, _ := readPCRs(t, p, all); len(got[0].PCRs()) != 8 {
		t.Errorf("the allocation changed before the next start: %v", got)
	}
	request{cc: tpm2.CCShutdown, params: func(w *tpm2.Writer) { w.U16(1) }}.refused(t, p, "Shutdown(STATE)", tpm2.RCType.Parameter(1))
	p.Init()
	mustRun(t, p, "8001 0000000C 00000144 0000")
	if _, got, v := readPCRs(t, p, all, tpm2.SelectPCRs(tpm2.AlgSHA384, 0, 1, 2)); len(got[0].PCRs()) != 0 || len(got[1].PCRs()) != 2 || len(v) != 2 {
		t.Errorf("after the start: %v, %d values", got, len(v))
	}
	extend(2, tpm2.HA{Alg: tpm2.AlgSHA384, Digest: make([]byte, 48)}, tpm2.HA{Alg: tpm2.AlgSHA1, Digest: make([]byte, 20)}).ok(t, p)
}
