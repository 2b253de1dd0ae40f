// SPDX-License-Identifier: Apache-2.0

// Package platform is the machine around a TPM: power, locality limits, the
// H-CRTM sequence and the established bit. The servers of tpmio share one
// Machine, so that a client of one protocol sees what a client of another did.
// Start with New.
//
// A Machine knows the engine only through the small interface below. Its
// methods are safe for concurrent use; a command that runs is never cut short
// by a power cycle, which waits for it.
package platform

import (
	"errors"
	"sync"
)

// Engine is what a Machine needs of a TPM engine.
type Engine interface {
	// Execute runs one command and returns the response. It is safe for
	// concurrent use, does not keep command, and gives the response away.
	Execute(locality uint8, command []byte) (response []byte)
	// Init is _TPM_Init: power-on reset.
	Init()
}

// Hasher is an Engine with the H-CRTM interface (Part 1, "Locality and
// dynamic root of trust": _TPM_Hash_Start, _Data, _End).
type Hasher interface {
	HashStart()
	HashData(data []byte)
	HashEnd()
}

// Stater is an Engine whose state can be moved, as swtpm's state blobs are.
type Stater interface {
	PermanentState() ([]byte, error)
	VolatileState() ([]byte, error)
	// SetState replaces the parts that are not nil. With a nil volatile part
	// the engine is then as after Init, else where VolatileState was called.
	// On an error nothing has changed.
	SetState(permanent, volatile []byte) error
}

// Buffered is an Engine whose command and response buffers can be limited.
type Buffered interface {
	// SetBufferSize sets the size in bytes, 0 only asks; it returns the size
	// in use, the smallest and the largest. The engine is then as after Init.
	SetBufferSize(want uint32) (now, least, most uint32, err error)
}

// Describer is an Engine that tells its TPM_PT_FIXED properties by their number
// also before TPM2_Startup.
type Describer interface {
	FixedProperties() (map[uint32]uint32, error)
}

// Reasons for which a Machine does not do what it was asked.
var (
	ErrOff         = errors.New("the TPM has no power")
	ErrUnsupported = errors.New("this TPM engine cannot do that")
	ErrRunning     = errors.New("the TPM must be stopped for that")
)

// MaxLocality is the highest locality of a TPM in a PC.
const MaxLocality = 4

// Machine is one TPM and its surroundings.
type Machine struct {
	mu          sync.RWMutex // held for reading while a command runs
	engine      Engine
	on          bool
	established bool
	volatile    []byte // to be loaded at the next power-on
}

// New returns a machine whose power is on; the engine must have been
// initialized (as after its creation), and expects TPM2_Startup next.
func New(e Engine) *Machine { return &Machine{engine: e, on: true} }

// Abilities tells which of the optional interfaces the engine has.
type Abilities struct{ Hash, State, Buffer, Describe bool }

// Has returns the abilities of the engine.
func (m *Machine) Has() Abilities {
	_, h := m.engine.(Hasher)
	_, s := m.engine.(Stater)
	_, b := m.engine.(Buffered)
	_, d := m.engine.(Describer)
	return Abilities{Hash: h, State: s, Buffer: b, Describe: d}
}

// Execute runs one command, or returns ErrOff.
func (m *Machine) Execute(locality uint8, command []byte) ([]byte, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if !m.on {
		return nil, ErrOff
	}
	return m.engine.Execute(locality, command), nil
}

// FixedProperties returns the engine's TPM_PT_FIXED properties.
func (m *Machine) FixedProperties() (map[uint32]uint32, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	d, ok := m.engine.(Describer)
	if !ok {
		return nil, ErrUnsupported
	}
	return d.FixedProperties()
}

// On tells whether the TPM has power.
func (m *Machine) On() bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.on
}

// PowerOn turns the power on. It does nothing to a TPM that is on, since
// clients of the simulator protocol send it on each connection.
func (m *Machine) PowerOn() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.on {
		return nil
	}
	return m.init()
}

// PowerOff turns the power off: whatever is not permanent is lost.
func (m *Machine) PowerOff() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.on = false
}

// Reset is a power cycle (_TPM_Init), also for a TPM that was off.
func (m *Machine) Reset() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.init()
}

// ResetIfOn is the simulator's RESET: a power cycle for a TPM that is on.
func (m *Machine) ResetIfOn() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.on {
		return nil
	}
	return m.init()
}

func (m *Machine) init() error {
	m.on = false
	m.engine.Init()
	if m.volatile != nil {
		s, ok := m.engine.(Stater)
		if !ok {
			return ErrUnsupported
		}
		err := s.SetState(nil, m.volatile)
		clear(m.volatile)
		m.volatile = nil
		if err != nil {
			return err
		}
	}
	m.on = true
	return nil
}

// hasher returns the engine's hash interface; the caller holds the lock.
func (m *Machine) hasher() (Hasher, error) {
	if !m.on {
		return nil, ErrOff
	}
	h, ok := m.engine.(Hasher)
	if !ok {
		return nil, ErrUnsupported
	}
	return h, nil
}

// HashStart begins an H-CRTM or D-RTM sequence. The caller has checked that
// its client may act at locality 4.
func (m *Machine) HashStart() error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	h, err := m.hasher()
	if err == nil {
		h.HashStart()
	}
	return err
}

// HashData adds data to the sequence.
func (m *Machine) HashData(data []byte) error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	h, err := m.hasher()
	if err == nil {
		h.HashData(data)
	}
	return err
}

// HashEnd completes the sequence and sets the established bit.
func (m *Machine) HashEnd() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	h, err := m.hasher()
	if err == nil {
		h.HashEnd()
		m.established = true
	}
	return err
}

// Established tells whether a hash sequence completed since ResetEstablished.
func (m *Machine) Established() (bool, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if !m.on {
		return false, ErrOff
	}
	return m.established, nil
}

// ResetEstablished clears the established bit.
func (m *Machine) ResetEstablished() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.on {
		return ErrOff
	}
	m.established = false
	return nil
}
