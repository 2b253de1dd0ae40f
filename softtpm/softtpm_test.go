// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"testing"

	"holdfast/tpm2"
)

// newTPM returns a started TPM with an in-memory store.
func newTPM(t testing.TB, o Options) *TPM {
	t.Helper()
	p, err := New(NewMemoryStore(), o)
	if err != nil {
		t.Fatal(err)
	}
	mustRun(t, p, "8001 0000000C 00000144 0000")
	return p
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// rcOf returns the response code after checking the header.
func rcOf(t testing.TB, rsp []byte) tpm2.RC {
	t.Helper()
	if len(rsp) < tpm2.HeaderSize || int(binary.BigEndian.Uint32(rsp[2:])) != len(rsp) {
		t.Fatalf("malformed response %x", rsp)
	}
	rc := tpm2.RC(binary.BigEndian.Uint32(rsp[6:]))
	if rc != 0 && len(rsp) != tpm2.HeaderSize {
		t.Fatalf("error response with a body: %x", rsp)
	}
	return rc
}

// run sends a command in hex and returns response code and the bytes after the header.
func run(t testing.TB, p *TPM, cmd string) (tpm2.RC, []byte) {
	t.Helper()
	b := unhex(t, cmd)
	rsp := p.Execute(0, b)
	rc := rcOf(t, rsp)
	recordBytes(b, rc)
	return rc, rsp[tpm2.HeaderSize:]
}

func mustRun(t testing.TB, p *TPM, cmd string) []byte {
	t.Helper()
	rc, b := run(t, p, cmd)
	if rc != 0 {
		t.Fatalf("command %s: %v", cmd, rc)
	}
	return b
}

func TestHeaderErrors(t *testing.T) {
	p, err := New(NewMemoryStore(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, cmd string
		want      tpm2.RC
	}{
		{"empty", "", tpm2.RCInsufficient},
		{"short", "8001 0000000A 0000", tpm2.RCInsufficient},
		{"tag", "8003 0000000A 00000144", tpm2.RCBadTag},
		{"size", "8001 0000000B 00000144", tpm2.RCCommandSize},
		{"code", "8001 0000000A 00000101", tpm2.RCCommandCode},
		{"before Startup", "8001 0000000C 0000017B 0020", tpm2.RCInitialize},
		{"Startup with sessions", "8002 0000000C 00000144 0000", tpm2.RCAuthContext},
		{"Startup parameter short", "8001 0000000B 00000144 00", tpm2.RCInsufficient.Parameter(1)},
		{"Startup parameter long", "8001 0000000D 00000144 000000", tpm2.RCSize},
		{"Startup type", "8001 0000000C 00000144 0002", tpm2.RCValue.Parameter(1)},
		{"Startup state without shutdown", "8001 0000000C 00000144 0001", tpm2.RCValue.Parameter(1)},
	} {
		if rc, _ := run(t, p, c.cmd); rc != c.want {
			t.Errorf("%s: %v, want %v", c.name, rc, c.want)
		}
	}
	if got := p.Execute(0, unhex(t, "8003 0000000A 00000144")); !bytes.Equal(got, unhex(t, "00C4 0000000A 0000001E")) {
		t.Errorf("bad tag: %x", got)
	}
	mustRun(t, p, "8001 0000000C 00000144 0000")
	if rc, _ := run(t, p, "8001 0000000C 00000144 0000"); rc != tpm2.RCInitialize {
		t.Errorf("second Startup: %v", rc)
	}
}

func TestGetRandom(t *testing.T) {
	p := newTPM(t, Options{})
	a := mustRun(t, p, "8001 0000000C 0000017B 0020")
	b := mustRun(t, p, "8001 0000000C 0000017B 0020")
	if len(a) != 34 || a[1] != 32 || bytes.Equal(a, b) {
		t.Errorf("%x %x", a, b)
	}
	if c := mustRun(t, p, "8001 0000000C 0000017B FFFF"); len(c) != 2+tpm2.MaxDigest {
		t.Errorf("%d bytes, want the size of the largest digest", len(c)-2)
	}
}

var getRandom32 = []byte{0x80, 1, 0, 0, 0, 12, 0, 0, 1, 0x7B, 0, 32}

func TestGetRandomDoesNotAllocate(t *testing.T) {
	p := newTPM(t, Options{})
	dst := make([]byte, 0, 64)
	if n := testing.AllocsPerRun(200, func() { p.AppendExecute(dst, 0, getRandom32) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkGetRandom32(b *testing.B) {
	p := newTPM(b, Options{})
	dst := make([]byte, 0, 64)
	b.ReportAllocs()
	for b.Loop() {
		p.AppendExecute(dst, 0, getRandom32)
	}
}

// TestShutdownState: Resume, Restart and Reset change what Part 1, 12.2.3 says.
func TestShutdownState(t *testing.T) {
	p := newTPM(t, Options{})
	start := func(su string) tpm2.RC { rc, _ := run(t, p, "8001 0000000C 00000144 "+su); return rc }
	counts := func() [2]uint32 { return [2]uint32{p.state.perm.resetCount, p.state.reset.restartCount} }
	if counts() != [2]uint32{1, 0} {
		t.Fatalf("first start: %v", counts())
	}
	null := p.state.reset.nullSeed
	mustRun(t, p, "8001 0000000C 00000145 0001")
	p.Init()
	if start("0001") != 0 || counts() != [2]uint32{1, 1} || !bytes.Equal(null, p.state.reset.nullSeed) {
		t.Errorf("Resume: %v", counts())
	}
	mustRun(t, p, "8001 0000000C 00000145 0001")
	p.Init()
	if start("0000") != 0 || counts() != [2]uint32{1, 2} || !bytes.Equal(null, p.state.reset.nullSeed) {
		t.Errorf("Restart: %v", counts())
	}
	mustRun(t, p, "8001 0000000C 00000145 0000")
	p.Init()
	if start("0000") != 0 || counts() != [2]uint32{2, 0} || bytes.Equal(null, p.state.reset.nullSeed) {
		t.Errorf("Reset: %v", counts())
	}
	p.Init()
	if start("0001") != tpm2.RCValue.Parameter(1) {
		t.Error("Resume without Shutdown accepted")
	}
}

// failingStore fails Save when told.
type failingStore struct {
	Store
	fail bool
}

func (s *failingStore) Save(b []byte) error {
	if s.fail {
		return bytes.ErrTooLarge
	}
	return s.Store.Save(b)
}

func TestSaveFails(t *testing.T) {
	s := &failingStore{Store: NewMemoryStore()}
	p, err := New(s, Options{})
	if err != nil {
		t.Fatal(err)
	}
	s.fail = true
	before, _ := p.PermanentState()
	if rc, _ := run(t, p, "8001 0000000C 00000144 0000"); rc != tpm2.RCNVUnavailable {
		t.Errorf("%v", rc)
	}
	if after, _ := p.PermanentState(); !bytes.Equal(before, after) || p.Started() {
		t.Error("a command that could not be saved changed the state")
	}
	s.fail = false
	mustRun(t, p, "8001 0000000C 00000144 0000")
}

// TestStateRoundTrip: another TPM goes on where the state was taken.
func TestStateRoundTrip(t *testing.T) {
	p := newTPM(t, Options{})
	perm, _ := p.PermanentState()
	vol, err := p.VolatileState()
	if err != nil {
		t.Fatal(err)
	}
	q, err := New(NewMemoryStore(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := q.SetState(perm, vol); err != nil {
		t.Fatal(err)
	}
	if !q.Started() || !bytes.Equal(q.state.reset.nullProof, p.state.reset.nullProof) || !bytes.Equal(q.state.perm.epSeed, p.state.perm.epSeed) {
		t.Error("state differs")
	}
	cold, err := New(NewMemoryStore(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	coldVol, err := cold.VolatileState()
	if err != nil {
		t.Fatalf("state before Startup: %v", err)
	}
	if err := cold.SetState(nil, coldVol); err != nil || cold.Started() {
		t.Errorf("state before Startup: %v", err)
	}
	for n := range perm {
		if q.SetState(perm[:n], nil) == nil {
			t.Fatalf("state cut to %d bytes accepted", n)
		}
	}
	if !q.Started() {
		t.Error("a refused state changed the TPM")
	}
}
