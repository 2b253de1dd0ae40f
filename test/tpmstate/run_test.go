// SPDX-License-Identifier: Apache-2.0

package tpmstate

import (
	"encoding/binary"
	"fmt"
	"testing"

	"holdfast/softtpm"
	"holdfast/tpm2"
	"holdfast/tpmio/inproc"
	"holdfast/tss"
)

// Handles of the run.
const (
	index      = tpm2.Handle(0x01500030)
	counter    = tpm2.Handle(0x01500031)
	second     = tpm2.Handle(0x01500032)
	guarded    = tpm2.Handle(0x01500033) // its password is protected against guessing
	persistent = tpm2.Handle(0x81000010)
)

// later is the Clock that the run sets, in milliseconds.
const later = 1 << 40

func nvPublic(h tpm2.Handle, a tpm2.NVAttributes, kind tpm2.NT) tpm2.NVPublic {
	return tpm2.NVPublic{Index: h, NameAlg: tpm2.AlgSHA256, DataSize: 8, Attributes: (a | tpm2.NVAuthRead | tpm2.NVAuthWrite).WithType(kind)}
}

// number is NVWrite of a number. Index Names change with the first write.
func number(c *tss.TPM, h tpm2.Handle, v uint64) error {
	d, err := c.NVReadPublic(h)
	if err != nil {
		return err
	}
	return c.NVWrite(d.Ref(nil), d.Ref(nil), binary.BigEndian.AppendUint64(nil, v), 0)
}

// prepare makes the state in which every run begins.
func prepare(c *tss.TPM) error {
	for _, p := range []tpm2.NVPublic{
		nvPublic(index, tpm2.NVNoDA, tpm2.NTOrdinary), nvPublic(counter, tpm2.NVNoDA, tpm2.NTCounter), nvPublic(guarded, 0, tpm2.NTOrdinary),
	} {
		if err := c.NVDefine(tss.Owner(nil), []byte(map[bool]string{true: "secret"}[p.Index == guarded]), p); err != nil {
			return err
		}
	}
	return number(c, index, 1)
}

// A step is one command of the run that changes the state. It may need
// commands before it that do not.
type step struct {
	name string
	do   func(c *tss.TPM) error
}

var steps = []step{
	{"NV_Write", func(c *tss.TPM) error { return number(c, index, 2) }},
	{"NV_Increment", func(c *tss.TPM) error {
		d, err := c.NVReadPublic(counter)
		if err != nil {
			return err
		}
		return c.NVIncrement(d.Ref(nil), d.Ref(nil))
	}},
	{"EvictControl, persistent", func(c *tss.TPM) error {
		k, err := c.CreatePrimary(tss.Owner(nil), tss.SRKTemplate(tss.ECCP256), nil)
		if err != nil {
			return err
		}
		return c.EvictControl(tss.Owner(nil), k.Ref(nil), persistent)
	}},
	{"NV_DefineSpace", func(c *tss.TPM) error {
		return c.NVDefine(tss.Owner(nil), nil, nvPublic(second, tpm2.NVNoDA, tpm2.NTOrdinary))
	}},
	{"NV_Write, first", func(c *tss.TPM) error { return number(c, second, 7) }},
	{"a wrong password", func(c *tss.TPM) error {
		d, err := c.NVReadPublic(guarded)
		if err != nil {
			return err
		}
		if err := c.NVWrite(d.Ref([]byte("guess")), d.Ref([]byte("guess")), make([]byte, 8), 0); err == nil {
			return fmt.Errorf("a wrong password was taken")
		}
		return nil
	}},
	{"HierarchyChangeAuth", func(c *tss.TPM) error { return c.HierarchyChangeAuth(tss.Owner(nil), []byte("owner")) }},
	{"ClockSet", func(c *tss.TPM) error { return clockSet(c, "owner", later) }},
	{"EvictControl, gone", func(c *tss.TPM) error {
		k, _, err := c.ReadPublic(persistent)
		if err != nil {
			return err
		}
		return c.EvictControl(tss.Owner([]byte("owner")), k.Ref(nil), persistent)
	}},
	{"NV_UndefineSpace", func(c *tss.TPM) error {
		d, err := c.NVReadPublic(second)
		if err != nil {
			return err
		}
		return c.NVUndefine(tss.Owner([]byte("owner")), d.Ref(nil))
	}},
	{"Clear", func(c *tss.TPM) error { return c.Clear(tss.Lockout(nil)) }},
	{"NV_DefineSpace after Clear", func(c *tss.TPM) error {
		return c.NVDefine(tss.Owner(nil), nil, nvPublic(index, tpm2.NVNoDA, tpm2.NTOrdinary))
	}},
	{"NV_Write after Clear", func(c *tss.TPM) error { return number(c, index, 9) }},
	{"Shutdown(STATE)", func(c *tss.TPM) error { return c.Shutdown(tpm2.SUState) }},
}

// clockSet is TPM2_ClockSet, which the client does not have.
func clockSet(c *tss.TPM, password string, to uint64) error {
	var w tpm2.Writer
	tpm2.Header{Tag: tpm2.STSessions, Code: uint32(tpm2.CCClockSet)}.Marshal(&w)
	w.Handle(tpm2.RHOwner)
	at := w.Len()
	w.U32(0)
	(&tpm2.AuthCommand{Handle: tpm2.RSPW, Attributes: tpm2.SessionContinue, HMAC: []byte(password)}).Marshal(&w)
	w.PutU32(at, uint32(w.Len()-at-4))
	w.U64(to)
	w.PutU32(2, uint32(w.Len()))
	r, err := c.Transport().Send(w.Bytes())
	if err == nil && (len(r) < 10 || binary.BigEndian.Uint32(r[6:]) != 0) {
		err = fmt.Errorf("ClockSet: %x", r)
	}
	return err
}

// view is what a user of the TPM can see of a saved state after the next
// start, without what is random.
func view(t testing.TB, saved []byte, srk string) string {
	t.Helper()
	store := softtpm.NewMemoryStore()
	if err := store.Save(saved); err != nil {
		t.Fatal(err)
	}
	e, err := inproc.NewEngine(store, softtpm.Options{})
	if err != nil {
		t.Fatalf("a saved state makes no TPM: %v", err)
	}
	defer e.Close()
	if err := inproc.Startup(e, false); err != nil {
		t.Fatal(err)
	}
	c := tss.New(transport{e})
	out := ""
	for _, first := range []tpm2.Handle{0x01000000, 0x81000000} {
		l, err := c.Handles(first)
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range l {
			out += fmt.Sprintf("%#x", uint32(h))
			if d, err := c.NVReadPublic(h); err == nil && h != guarded {
				b, err := c.NVRead(d.Ref(nil), d.Ref(nil), 8, 0)
				out += fmt.Sprintf("=%x %v", b, err)
			}
			out += "; "
		}
	}
	p, err := c.Properties(0x200, 32)
	if err != nil {
		t.Fatal(err)
	}
	clock, err := c.ReadClock()
	if err != nil {
		t.Fatal(err)
	}
	// TPM_PT_PERMANENT bits 0 to 2 are the hierarchies' passwords, TPM_PT_LOCKOUT_COUNTER is 0x20E.
	out += fmt.Sprintf("passwords %b, failed tries %d, clock set %v, ", p[0x200]&7, p[0x20E], clock.ClockInfo.Clock >= later)
	if p[0x200]&1 == 0 && srk != "" {
		k, err := c.CreatePrimary(tss.Owner(nil), tss.SRKTemplate(tss.ECCP256), nil)
		if err != nil {
			t.Fatal(err)
		}
		out += fmt.Sprintf("old seed %v", string(k.Name) == srk)
	}
	return out
}

type transport struct{ e *inproc.Engine }

func (t transport) Send(cmd []byte) ([]byte, error) { return t.e.Execute(0, cmd), nil }
