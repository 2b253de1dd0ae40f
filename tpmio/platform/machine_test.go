// SPDX-License-Identifier: Apache-2.0

package platform_test

import (
	"errors"
	"testing"

	"holdfast/tpmio/platform"
)

type engine struct {
	inits     int
	permanent []byte
	volatile  []byte
	hashed    []byte
	bad       error
}

func (e *engine) Execute(l uint8, c []byte) []byte { return append([]byte{l}, c...) }
func (e *engine) Init()                            { e.inits++; e.volatile = nil }
func (e *engine) HashStart()                       { e.hashed = nil }
func (e *engine) HashData(d []byte)                { e.hashed = append(e.hashed, d...) }
func (e *engine) HashEnd()                         {}
func (e *engine) PermanentState() ([]byte, error)  { return e.permanent, nil }
func (e *engine) VolatileState() ([]byte, error)   { return []byte("v"), nil }
func (e *engine) SetState(p, v []byte) error {
	if p != nil {
		e.permanent = append([]byte(nil), p...)
	}
	e.volatile = append([]byte(nil), v...)
	return e.bad
}
func (e *engine) SetBufferSize(w uint32) (a, b, c uint32, err error) { return w, 1, 2, nil }

func TestPower(t *testing.T) {
	e := &engine{}
	m := platform.New(e)
	if err := m.PowerOn(); err != nil || e.inits != 0 {
		t.Fatalf("PowerOn of a TPM that is on: %v, %d resets", err, e.inits)
	}
	if r, err := m.Execute(2, []byte("c")); err != nil || string(r) != "\x02c" {
		t.Fatalf("%q %v", r, err)
	}
	m.PowerOff()
	if _, err := m.Execute(0, nil); !errors.Is(err, platform.ErrOff) {
		t.Fatal(err)
	}
	if err := m.ResetIfOn(); err != nil || e.inits != 0 || m.On() {
		t.Fatal("RESET turned a TPM on")
	}
	if err := m.HashStart(); !errors.Is(err, platform.ErrOff) {
		t.Fatal(err)
	}
	if err := m.PowerOn(); err != nil || e.inits != 1 {
		t.Fatal("PowerOn did not reset")
	}
	if err := m.ResetIfOn(); err != nil || e.inits != 2 {
		t.Fatal("RESET did not reset")
	}
	if err := m.StoreVolatile(); err != nil {
		t.Fatal(err)
	}
	e.bad = errors.New("bad state")
	if err := m.Reset(); err == nil || m.On() {
		t.Fatal("a TPM that failed to load its state is on")
	}
}

func TestState(t *testing.T) {
	e := &engine{permanent: []byte("p")}
	m := platform.New(e)
	if err := m.SetState(platform.Permanent, []byte("q")); !errors.Is(err, platform.ErrRunning) {
		t.Fatalf("state set while running: %v", err)
	}
	if _, _, _, err := m.SetBufferSize(100); !errors.Is(err, platform.ErrRunning) {
		t.Fatal(err)
	}
	if v, err := m.State(platform.Volatile); err != nil || string(v) != "v" {
		t.Fatal(v, err)
	}
	m.PowerOff()
	if _, err := m.State(platform.Volatile); !errors.Is(err, platform.ErrOff) {
		t.Fatal(err)
	}
	if err := errors.Join(m.SetState(platform.Permanent, []byte("q")), m.SetState(platform.Volatile, []byte("w"))); err != nil {
		t.Fatal(err)
	}
	if err := m.Reset(); err != nil || string(e.permanent) != "q" || string(e.volatile) != "w" {
		t.Fatalf("%v %q %q", err, e.permanent, e.volatile)
	}
	if err := m.Reset(); err != nil || len(e.volatile) != 0 {
		t.Fatal("a volatile state was used twice")
	}
}

func TestEstablished(t *testing.T) {
	e := &engine{}
	m := platform.New(e)
	if err := errors.Join(m.HashStart(), m.HashData([]byte("ab")), m.HashEnd()); err != nil || string(e.hashed) != "ab" {
		t.Fatal(err)
	}
	if v, err := m.Established(); !v || err != nil {
		t.Fatal(v, err)
	}
	if err := m.ResetEstablished(); err != nil {
		t.Fatal(err)
	}
	if v, _ := m.Established(); v {
		t.Fatal("still established")
	}
}

type bare struct{}

func (bare) Execute(uint8, []byte) []byte { return nil }
func (bare) Init()                        {}

func TestBareEngine(t *testing.T) {
	m := platform.New(bare{})
	if m.Has() != (platform.Abilities{}) {
		t.Fatal(m.Has())
	}
	if err := m.HashStart(); !errors.Is(err, platform.ErrUnsupported) {
		t.Fatal(err)
	}
	if _, err := m.State(platform.Permanent); !errors.Is(err, platform.ErrUnsupported) {
		t.Fatal(err)
	}
}
