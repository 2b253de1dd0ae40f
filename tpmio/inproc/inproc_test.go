// SPDX-License-Identifier: Apache-2.0

package inproc_test

import (
	"bytes"
	"errors"
	"path/filepath"
	"testing"

	"holdfast/softtpm"
	"holdfast/tpm2"
	"holdfast/tpmio/inproc"
	"holdfast/tpmio/platform"
	"holdfast/tss"
)

// The engine has every interface that a machine can use.
var (
	_ platform.Engine    = (*inproc.Engine)(nil)
	_ platform.Hasher    = (*inproc.Engine)(nil)
	_ platform.Stater    = (*inproc.Engine)(nil)
	_ platform.Buffered  = (*inproc.Engine)(nil)
	_ platform.Describer = (*inproc.Engine)(nil)
)

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestOpen: a TPM in a folder goes on where it was closed.
func TestOpen(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	m, err := inproc.Open(dir, softtpm.Options{})
	ok(t, err)
	if _, err := inproc.Open(dir, softtpm.Options{}); err == nil {
		t.Fatal("two TPMs on one state")
	}
	c := tss.New(m)
	k, err := c.CreatePrimary(tss.Owner(nil), tss.SRKTemplate(tss.ECCP256), nil)
	ok(t, err)
	ok(t, c.EvictControl(tss.Owner(nil), k.Ref(nil), 0x81000001))
	ok(t, c.PCRExtend(tss.PCR(4), []tpm2.HA{{Alg: tpm2.AlgSHA256, Digest: make([]byte, 32)}}))
	sel := tpm2.SelectPCRs(tpm2.AlgSHA256, 4)
	before, _, err := c.PCRRead(sel)
	ok(t, err)
	ok(t, m.Close())
	if _, err := m.Send(nil); !errors.Is(err, inproc.ErrClosed) {
		t.Fatal(err)
	}
	m, err = inproc.Open(dir, softtpm.Options{})
	ok(t, err)
	defer m.Close()
	c = tss.New(m)
	again, _, err := c.ReadPublic(0x81000001)
	if err != nil || !bytes.Equal(again.Name, k.Name) {
		t.Fatal(err)
	}
	after, _, err := c.PCRRead(sel)
	if err != nil || !bytes.Equal(before[4], after[4]) || bytes.Equal(after[4], make([]byte, 32)) {
		t.Fatalf("%x, %x, %v", before[4], after[4], err)
	}
}

// TestLocality: in its own process a TPM has all localities; PCR 17 can be
// reset from 4 only, by a hash sequence or not.
func TestLocality(t *testing.T) {
	m, err := inproc.Memory(softtpm.Options{})
	ok(t, err)
	defer m.Close()
	c := tss.New(m)
	if err := c.PCRReset(tss.PCR(20)); !errors.Is(err, tpm2.RCLocality) {
		t.Fatalf("PCR 20 at locality 0: %v", err)
	}
	m.SetLocality(4)
	ok(t, c.PCRReset(tss.PCR(20)))
	m.SetLocality(0)
	e := m.Engine()
	e.HashStart()
	e.HashData([]byte("firmware"))
	e.HashEnd()
	v, _, err := c.PCRRead(tpm2.SelectPCRs(tpm2.AlgSHA256, 17))
	ok(t, err)
	d := tpm2.AlgSHA256.Sum([]byte("firmware"))
	if want := tpm2.AlgSHA256.Sum(make([]byte, 32), d); !bytes.Equal(v[17], want) {
		t.Fatalf("PCR 17 is %x, want %x", v[17], want)
	}
}

// TestMachine: power, state blobs and buffer sizes over the real engine.
func TestMachine(t *testing.T) {
	e, err := inproc.NewEngine(softtpm.NewMemoryStore(), softtpm.Options{})
	ok(t, err)
	defer e.Close()
	m := platform.New(e)
	if p, err := m.FixedProperties(); err != nil || p[uint32(tpm2.PTFamilyIndicator)] != 0x322e3000 {
		t.Fatal(p, err)
	}
	c := tss.New(transport{m})
	ok(t, c.Startup(tpm2.SUClear))
	k, err := c.CreatePrimary(tss.Owner(nil), tss.SRKTemplate(tss.ECCP256), nil)
	ok(t, err)
	s, err := c.StartSession(tss.SessionOptions{SaltKey: k.Handle, SaltPublic: &k.Key.Public, Symmetric: tss.AES128CFB})
	ok(t, err)
	permanent, err := m.State(platform.Permanent)
	ok(t, err)
	volatile, err := m.State(platform.Volatile)
	ok(t, err)

	// Another machine goes on with both, session and object included.
	e2, err := inproc.NewEngine(softtpm.NewMemoryStore(), softtpm.Options{})
	ok(t, err)
	defer e2.Close()
	m2 := platform.New(e2)
	if err := m2.SetState(platform.Permanent, permanent); !errors.Is(err, platform.ErrRunning) {
		t.Fatal(err)
	}
	m2.PowerOff()
	if err := m2.SetState(platform.Permanent, permanent[1:]); err == nil {
		t.Fatal("a damaged blob was taken")
	}
	ok(t, m2.SetState(platform.Permanent, permanent))
	ok(t, m2.SetState(platform.Volatile, volatile))
	ok(t, m2.PowerOn())
	c2 := tss.New(transport{m2})
	again, _, err := c2.ReadPublic(k.Handle)
	if err != nil || !bytes.Equal(again.Name, k.Name) {
		t.Fatal(err)
	}
	if _, err := c2.With(s).GetRandom(16); err != nil {
		t.Fatalf("the session did not move: %v", err)
	}
	// Buffer sizes.
	if _, _, _, err := m.SetBufferSize(4096); !errors.Is(err, platform.ErrRunning) {
		t.Fatal(err)
	}
	m.PowerOff()
	now, least, most, err := m.SetBufferSize(3968)
	if err != nil || now != 4096 || least != 4096 || most != 8192 {
		t.Fatal(now, least, most, err)
	}
	ok(t, m.PowerOn())
	ok(t, c.Startup(tpm2.SUClear))
	p, err := c.Properties(tpm2.PTMaxCommandSize, 1)
	if err != nil || p[tpm2.PTMaxCommandSize] != 4096 {
		t.Fatal(p, err)
	}
	k2, err := c.CreatePrimary(tss.Owner(nil), tss.SRKTemplate(tss.ECCP256), nil)
	if err != nil || !bytes.Equal(k2.Name, k.Name) {
		t.Fatal("another TPM after the buffers changed", err)
	}
}

type transport struct{ m *platform.Machine }

func (t transport) Send(b []byte) ([]byte, error) { return t.m.Execute(0, b) }

// TestOpenReset: whatever the last end was, PCRs are at their start values and
// resetCount is higher.
func TestOpenReset(t *testing.T) {
	dir := t.TempDir()
	var last uint32
	for i := range 3 {
		c, err := inproc.OpenReset(dir, softtpm.Options{})
		if err != nil {
			t.Fatal(err)
		}
		x := tss.New(c)
		v, _, err := x.PCRRead(tpm2.SelectPCRs(tpm2.AlgSHA256, 14))
		if err != nil || !bytes.Equal(v[14], make([]byte, 32)) {
			t.Errorf("start %d: PCR 14 is %x, %v", i, v[14], err)
		}
		info, err := x.ReadClock()
		if err != nil || info.ClockInfo.ResetCount <= last && i > 0 {
			t.Errorf("start %d: resetCount %d after %d, %v", i, info.ClockInfo.ResetCount, last, err)
		}
		last = info.ClockInfo.ResetCount
		if _, err := x.PCREvent(tss.PCR(14), []byte("x")); err != nil {
			t.Fatal(err)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
