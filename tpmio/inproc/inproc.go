// SPDX-License-Identifier: Apache-2.0

package inproc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"

	"holdfast/softtpm"
	"holdfast/tpm2"
	"holdfast/tpmio/filestore"
)

// TPM is a TPM in this process that is ready for commands. Send makes it a
// tss.Transport and go-tpm's transport.TPM. It is safe for concurrent use.
type TPM struct {
	engine   *Engine
	store    *filestore.Store // nil in memory
	locality atomic.Uint32
	closed   atomic.Bool
}

// Open opens the TPM whose state is in the folder dir, or makes one there. If
// it was last shut down in order, it goes on with its PCRs and saved contexts
// as they were (Startup(STATE)); else it starts anew (Startup(CLEAR)).
func Open(dir string, o softtpm.Options) (*TPM, error) {
	store, err := filestore.Open(dir, filestore.Options{})
	if err != nil {
		return nil, err
	}
	t, err := start(store, o)
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	t.store = store
	return t, nil
}

// OpenReset is Open with a TPM Reset (TPM Library Part 1, 12.2.3), whatever came
// before: PCRs are at their start values, resetCount is higher than ever.
func OpenReset(dir string, o softtpm.Options) (*TPM, error) {
	t, err := Open(dir, o)
	if err != nil {
		return nil, err
	}
	err = suCommand(t.engine, tpm2.CCShutdown, tpm2.SUClear)
	if err == nil {
		t.engine.Init()
		err = Startup(t.engine, false)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("inproc: reset: %w", err), t.Close())
	}
	return t, nil
}

// Memory makes a new TPM that ends with the process.
func Memory(o softtpm.Options) (*TPM, error) { return start(softtpm.NewMemoryStore(), o) }

func start(store softtpm.Store, o softtpm.Options) (*TPM, error) {
	e, err := NewEngine(store, o)
	if err != nil {
		return nil, err
	}
	if err := Startup(e, true); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return &TPM{engine: e}, nil
}

// executor is an engine or a machine around one.
type executor interface {
	Execute(locality uint8, command []byte) []byte
}

// suCommand runs TPM2_Startup or TPM2_Shutdown.
func suCommand(e executor, cc tpm2.CC, su tpm2.SU) error {
	var w tpm2.Writer
	tpm2.Header{Tag: tpm2.STNoSessions, Size: tpm2.HeaderSize + 2, Code: uint32(cc)}.Marshal(&w)
	w.U16(uint16(su))
	r := e.Execute(0, w.Bytes())
	if len(r) < tpm2.HeaderSize {
		return fmt.Errorf("%v: a response of %d bytes", cc, len(r))
	}
	if rc := tpm2.RC(binary.BigEndian.Uint32(r[6:])); rc != tpm2.RCSuccess {
		return fmt.Errorf("%v: %w", cc, rc)
	}
	return nil
}

// Startup runs TPM2_Startup on an engine just initialized. With state it goes
// on where Shutdown(STATE) left off, if there was one.
func Startup(e executor, state bool) error {
	if state {
		err := suCommand(e, tpm2.CCStartup, tpm2.SUState)
		if err == nil || !errors.Is(err, tpm2.RCValue) {
			return err
		}
	}
	return suCommand(e, tpm2.CCStartup, tpm2.SUClear)
}

// Shutdown runs TPM2_Shutdown(STATE): the end of a session in order. A TPM
// that was not started needs none.
func Shutdown(e executor) error {
	err := suCommand(e, tpm2.CCShutdown, tpm2.SUState)
	if errors.Is(err, tpm2.RCInitialize) {
		return nil
	}
	return err
}

// ErrClosed is returned by Send after Close.
var ErrClosed = errors.New("inproc: the TPM is closed")

// Send runs a command at the locality of SetLocality.
func (t *TPM) Send(command []byte) ([]byte, error) {
	if t.closed.Load() {
		return nil, ErrClosed
	}
	return t.engine.Execute(uint8(t.locality.Load()), command), nil
}

// SetLocality sets the locality of the commands that follow, at first 0.
func (t *TPM) SetLocality(l uint8) { t.locality.Store(uint32(l)) }

// Engine returns the engine.
func (t *TPM) Engine() *Engine { return t.engine }

// Close shuts the TPM down in order and erases its secrets from memory.
func (t *TPM) Close() error {
	if t.closed.Swap(true) {
		return ErrClosed
	}
	err := errors.Join(Shutdown(t.engine), t.engine.Close())
	if t.store != nil {
		err = errors.Join(err, t.store.Close())
	}
	return err
}
