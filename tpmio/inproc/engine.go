// SPDX-License-Identifier: Apache-2.0

// Package inproc runs a TPM inside this process. Open gives a TPM whose state
// is in a folder, Memory one that is gone afterwards; both are ready for
// commands. NewEngine is for the servers, which leave TPM2_Startup to their
// clients.
//
// Whoever holds a TPM of this package may use every locality: it is the
// owner's own process.
package inproc

import (
	"fmt"
	"sync"

	"holdfast/softtpm"
	"holdfast/tpm2"
	"holdfast/tss"
)

// Engine is a softtpm engine whose buffer size can change while it is off, as
// platform.Machine wants it. Its methods are safe for concurrent use.
type Engine struct {
	mu    sync.RWMutex
	tpm   *softtpm.TPM
	store softtpm.Store
	opt   softtpm.Options
}

// NewEngine loads the TPM in store, or makes a new one if it is empty.
func NewEngine(store softtpm.Store, o softtpm.Options) (*Engine, error) {
	t, err := softtpm.New(store, o)
	if err != nil {
		return nil, err
	}
	return &Engine{tpm: t, store: store, opt: o}, nil
}

func (e *Engine) get() *softtpm.TPM {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.tpm
}

// Execute runs one command.
func (e *Engine) Execute(locality uint8, command []byte) []byte {
	return e.get().Execute(locality, command)
}

// Init is _TPM_Init.
func (e *Engine) Init() { e.get().Init() }

// HashStart begins an H-CRTM or D-RTM sequence.
func (e *Engine) HashStart() { e.get().HashStart() }

// HashData adds to it.
func (e *Engine) HashData(data []byte) { e.get().HashData(data) }

// HashEnd completes it.
func (e *Engine) HashEnd() { e.get().HashEnd() }

// PermanentState returns what the store holds.
func (e *Engine) PermanentState() ([]byte, error) { return e.get().PermanentState() }

// VolatileState returns the rest of the state.
func (e *Engine) VolatileState() ([]byte, error) { return e.get().VolatileState() }

// SetState replaces the state.
func (e *Engine) SetState(permanent, volatile []byte) error {
	return e.get().SetState(permanent, volatile)
}

// Buffer sizes of the engine in bytes.
const (
	smallBuffer = 4096
	largeBuffer = 8192
)

// SetBufferSize sets the size of the command and response buffers, by loading
// the TPM anew: 4096 for what fits into it, else 8192.
func (e *Engine) SetBufferSize(want uint32) (now, least, most uint32, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	size := e.opt.CommandSize
	if size == 0 {
		size = largeBuffer
	}
	if want != 0 {
		n := largeBuffer
		if want <= smallBuffer {
			n = smallBuffer
		}
		if n != size {
			o := e.opt
			o.CommandSize = n
			t, err := softtpm.New(e.store, o)
			if err != nil {
				return 0, 0, 0, fmt.Errorf("loading the TPM anew: %w", err)
			}
			_ = e.tpm.Close()
			e.tpm, e.opt, size = t, o, n
		}
	}
	return uint32(size), smallBuffer, largeBuffer, nil
}

// FixedProperties returns the TPM_PT_FIXED properties by their number. They
// come from a TPM like this one that is made for the purpose, since this one
// may not have been started.
func (e *Engine) FixedProperties() (map[uint32]uint32, error) {
	e.mu.RLock()
	o := e.opt
	e.mu.RUnlock()
	m, err := Memory(o)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	p, err := tss.New(m).Properties(tpm2.PTFixed, 256)
	if err != nil {
		return nil, err
	}
	out := map[uint32]uint32{}
	for k, v := range p {
		out[uint32(k)] = v
	}
	return out, nil
}

// Close erases the TPM's secrets from memory. It is not TPM2_Shutdown.
func (e *Engine) Close() error { return e.get().Close() }
