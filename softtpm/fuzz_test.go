// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	gotpm "github.com/google/go-tpm/tpm2"

	"holdfast/softtpm/internal/tpmcrypto"
	"holdfast/tpm2"
)

// A stream is commands one after another, each preceded by its length in two
// bytes; length 0xFFFF is _TPM_Init instead of a command.

// replayTPM returns a TPM whose random numbers and clock are always the same,
// so that recorded traffic with HMAC sessions runs again.
func replayTPM(t testing.TB) *TPM {
	t.Helper()
	now := time.Unix(1, 0)
	p, err := newWith(NewMemoryStore(), Options{Now: func() time.Time { return now }}, tpmcrypto.NewDRBG(tpmcrypto.SHA256, []byte("replay")))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// recorder runs commands and keeps them as a stream.
type recorder struct {
	p      *TPM
	stream []byte
}

func (r *recorder) Send(cmd []byte) ([]byte, error) {
	r.stream = append(binary.BigEndian.AppendUint16(r.stream, uint16(len(cmd))), cmd...)
	return r.p.Execute(0, cmd), nil
}

func (r *recorder) raw(t testing.TB, cmds ...string) {
	for _, c := range cmds {
		r.Send(unhex(t, c))
	}
}

// send runs a request of the tests.
func (r *recorder) send(q request) {
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
	r.Send(w.Bytes())
}

// recordings returns streams of real traffic: go-tpm's with sessions, policies
// and parameter encryption, and our own of the post-quantum commands.
func recordings(t testing.TB) [][]byte {
	const startup = "8001 0000000C 00000144 0000"
	var out [][]byte
	record := func(f func(r *recorder)) {
		r := &recorder{p: replayTPM(t)}
		r.raw(t, startup)
		f(r)
		out = append(out, r.stream)
	}
	record(func(r *recorder) { // seal and unseal with sessions
		rsp, err := gotpm.CreatePrimary{PrimaryHandle: gotpm.TPMRHOwner, InPublic: gotpm.New2B(gotpm.ECCSRKTemplate)}.Execute(r)
		if err != nil {
			t.Fatal(err)
		}
		pub, err := rsp.OutPublic.Contents()
		if err != nil {
			t.Fatal(err)
		}
		auth := []byte("pw")
		created, err := gotpm.Create{
			ParentHandle: gotpm.AuthHandle{Handle: rsp.ObjectHandle, Name: rsp.Name,
				Auth: gotpm.HMAC(gotpm.TPMAlgSHA256, 16, gotpm.AESEncryption(128, gotpm.EncryptIn), gotpm.Salted(rsp.ObjectHandle, *pub))},
			InSensitive: gotpm.TPM2BSensitiveCreate{Sensitive: &gotpm.TPMSSensitiveCreate{UserAuth: gotpm.TPM2BAuth{Buffer: auth},
				Data: gotpm.NewTPMUSensitiveCreate(&gotpm.TPM2BSensitiveData{Buffer: []byte("secret")})}},
			InPublic: gotpm.New2B(gotpm.TPMTPublic{Type: gotpm.TPMAlgKeyedHash, NameAlg: gotpm.TPMAlgSHA256,
				ObjectAttributes: gotpm.TPMAObject{FixedTPM: true, FixedParent: true, UserWithAuth: true}}),
		}.Execute(r)
		if err != nil {
			t.Fatal(err)
		}
		loaded, err := gotpm.Load{ParentHandle: gotpm.NamedHandle{Handle: rsp.ObjectHandle, Name: rsp.Name}, InPrivate: created.OutPrivate, InPublic: created.OutPublic}.Execute(r)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []gotpm.Session{gotpm.PasswordAuth(auth), gotpm.PasswordAuth([]byte("bad")),
			gotpm.HMAC(gotpm.TPMAlgSHA256, 16, gotpm.Auth(auth), gotpm.AESEncryption(128, gotpm.EncryptOut), gotpm.Bound(loaded.ObjectHandle, loaded.Name, auth))} {
			gotpm.Unseal{ItemHandle: gotpm.AuthHandle{Handle: loaded.ObjectHandle, Name: loaded.Name, Auth: s}}.Execute(r)
		}
		gotpm.FlushContext{FlushHandle: loaded.ObjectHandle}.Execute(r)
	})
	record(func(r *recorder) { // policy session
		sess, done, err := gotpm.PolicySession(r, gotpm.TPMAlgSHA256, 16)
		if err != nil {
			t.Fatal(err)
		}
		gotpm.PolicyPCR{PolicySession: sess.Handle(), Pcrs: gotpm.TPMLPCRSelection{PCRSelections: []gotpm.TPMSPCRSelection{{Hash: gotpm.TPMAlgSHA256,
			PCRSelect: gotpm.PCClientCompatible.PCRs(0, 16)}}}}.Execute(r)
		gotpm.PolicySecret{AuthHandle: gotpm.TPMRHEndorsement, PolicySession: sess.Handle(), NonceTPM: sess.NonceTPM()}.Execute(r)
		gotpm.PolicyGetDigest{PolicySession: sess.Handle()}.Execute(r)
		done()
	})
	record(func(r *recorder) { // NV
		r.raw(t,
			"8002 0000002D 0000012A 40000001 00000009 40000009 0000 00 0000 0000 000E 01500001 000B 00020002 0000 0010",
			"8002 00000025 00000137 40000001 01500001 00000009 40000009 0000 00 0000 0002 ABCD 0000",
			"8002 00000023 0000014E 40000001 01500001 00000009 40000009 0000 00 0000 0010 0000",
			"8001 0000000E 00000169 01500001",
			"8002 0000001F 00000122 40000001 01500001 00000009 40000009 0000 00 0000")
	})
	record(func(r *recorder) { // PCRs, capabilities, clock, shutdown, second start
		r.raw(t, "8002 00000041 00000182 00000010 00000009 40000009 0000 00 0000 00000001 000B 0101010101010101010101010101010101010101010101010101010101010101",
			"8001 00000014 0000017E 00000001 000B 03 000001", "8001 00000016 0000017A 00000006 00000100 0000007F", "8001 0000000A 00000181",
			"8001 0000000C 00000145 0001")
		r.stream = append(r.stream, 0xFF, 0xFF)
		r.p.Init()
		r.raw(t, "8001 0000000C 00000144 0001", "8001 0000000C 0000017B 0020")
	})
	record(func(r *recorder) { // post-quantum
		r.send(request{cc: tpm2.CCCreatePrimary, handles: []tpm2.Handle{tpm2.RHOwner}, auth: noAuth, params: writeCreate("", "", mldsaTemplate(tpm2.MLDSA44, attrsAK, false))})
		r.send(request{cc: tpm2.CCCreatePrimary, handles: []tpm2.Handle{tpm2.RHOwner}, auth: noAuth, params: writeCreate("", "", mlkemTemplate(tpm2.MLKEM512, true))})
		r.send(request{cc: tpm2.CCQuote, handles: []tpm2.Handle{0x80000000}, auth: noAuth, params: func(w *tpm2.Writer) {
			w.Sized([]byte("n"))
			w.Alg(tpm2.AlgNull)
			tpm2.MarshalPCRSelections(w, []tpm2.PCRSelection{tpm2.SelectPCRs(tpm2.AlgSHA256, 0)})
		}})
		r.send(request{cc: tpm2.CCEncapsulate, handles: []tpm2.Handle{0x80000001}})
		r.send(request{cc: tpm2.CCSignSequenceStart, handles: []tpm2.Handle{0x80000000}, params: sized("", "ctx")})
		r.send(request{cc: tpm2.CCSequenceUpdate, handles: []tpm2.Handle{0x80000002}, auth: noAuth, params: sized("data")})
		r.send(request{cc: tpm2.CCSignSequenceComplete, handles: []tpm2.Handle{0x80000002, 0x80000000}, auth: []string{"", ""}, params: sized("more")})
		r.send(request{cc: tpm2.CCContextSave, handles: []tpm2.Handle{0x80000000}})
		r.send(request{cc: tpm2.CCEvictControl, handles: []tpm2.Handle{tpm2.RHOwner, 0x80000001}, auth: noAuth, params: func(w *tpm2.Writer) { w.Handle(0x81000001) }})
		r.send(request{cc: tpm2.CCReadPublic, handles: []tpm2.Handle{0x81000001}})
		r.send(request{cc: tpm2.CCMakeCredential, handles: []tpm2.Handle{0x81000001}, params: sized("secret", "name")})
	})
	return out
}

// snapshot encodes everything that a failed command must leave as it was.
func snapshot(p *TPM) []byte {
	s := p.state
	// A failed authorization moves these counters, and nothing else.
	s.perm.failedTries, s.perm.lockoutBlocked = 0, false
	s.volatile.healTimer, s.volatile.lockoutTimer = 0, 0
	var w tpm2.Writer
	s.perm.encode(&w)
	time := p.clk.time
	codec{w: &w}.volatile(&s, &time)
	return w.Bytes()
}

// runStream feeds a stream to a new TPM and checks after each command what
// must hold for any input.
func runStream(t *testing.T, stream []byte) {
	p := replayTPM(t)
	before := snapshot(p)
	for n := 0; len(stream) >= 2 && n < 64; n++ {
		size := int(binary.BigEndian.Uint16(stream))
		stream = stream[2:]
		if size == 0xFFFF {
			p.Init()
			before = snapshot(p)
			continue
		}
		cmd := stream[:min(size, len(stream))]
		stream = stream[len(cmd):]
		keep := bytes.Clone(cmd)
		rsp := p.Execute(0, cmd)
		if !bytes.Equal(keep, cmd) {
			t.Fatalf("the caller's command was changed")
		}
		rc := rcOf(t, rsp)
		if p.failed {
			t.Fatalf("command %x: the engine panicked", cmd)
		}
		if len(rsp) > p.opt.CommandSize {
			t.Fatalf("response of %d bytes", len(rsp))
		}
		after := snapshot(p)
		if rc != 0 && !bytes.Equal(before, after) && p.c.fail != failPIN {
			t.Fatalf("command %x: %v, yet the state changed", cmd, rc)
		}
		if len(after) > 1<<20 {
			t.Fatalf("state of %d bytes", len(after))
		}
		before = after
	}
	// What is in the Store makes a TPM again.
	perm, err := p.PermanentState()
	if err != nil {
		t.Fatal(err)
	}
	var q permanent
	if err := q.decode(perm); err != nil {
		t.Fatalf("permanent state does not decode: %v", err)
	}
	vol, err := p.VolatileState()
	if err != nil {
		t.Fatal(err)
	}
	r := replayTPM(t)
	if err := r.SetState(perm, vol); err != nil {
		t.Fatalf("state does not come back: %v", err)
	}
	vol2, _ := r.VolatileState()
	if perm2, _ := r.PermanentState(); !bytes.Equal(perm, perm2) || !bytes.Equal(vol, vol2) {
		t.Fatal("state differs after a round trip")
	}
}

func FuzzExecute(f *testing.F) {
	for _, s := range recordings(f) {
		f.Add(s)
	}
	f.Fuzz(runStream)
}

// TestRecordings: the seeds of the fuzzer run, and most of their commands succeed.
func TestRecordings(t *testing.T) {
	for i, s := range recordings(t) {
		runStream(t, s)
		p := replayTPM(t)
		good, all := 0, 0
		for rest := s; len(rest) >= 2; {
			n := int(binary.BigEndian.Uint16(rest))
			rest = rest[2:]
			if n == 0xFFFF {
				p.Init()
				continue
			}
			if all++; rcOf(t, p.Execute(0, rest[:n])) == 0 {
				good++
			} else {
				t.Logf("stream %d: command %x: %v", i, rest[:min(n, 14)], rcOf(t, p.Execute(0, rest[:n])))
			}
			rest = rest[n:]
		}
		if all-good > 1 {
			t.Errorf("stream %d: only %d of %d commands succeed", i, good, all)
		}
	}
}
