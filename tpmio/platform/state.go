// SPDX-License-Identifier: Apache-2.0

package platform

// Which part of a TPM's state a blob holds.
type Part int

// The parts that swtpm's protocol distinguishes. SaveState is a TPM 1.2
// matter and empty here.
const (
	Permanent Part = iota + 1
	Volatile
	SaveState
)

// State returns a copy of one part of the state. The volatile part exists
// only while the TPM has power.
func (m *Machine) State(p Part) ([]byte, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	s, ok := m.engine.(Stater)
	if !ok {
		return nil, ErrUnsupported
	}
	switch p {
	case Permanent:
		return s.PermanentState()
	case Volatile:
		if m.on {
			return s.VolatileState()
		}
		if m.volatile != nil {
			return append([]byte(nil), m.volatile...), nil
		}
		return nil, ErrOff
	case SaveState:
		return nil, nil
	}
	return nil, ErrUnsupported
}

// SetState sets one part of the state of a TPM without power. A volatile
// state takes effect at the next power-on; an empty one is ignored.
func (m *Machine) SetState(p Part, state []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.on {
		return ErrRunning
	}
	s, ok := m.engine.(Stater)
	if !ok {
		return ErrUnsupported
	}
	switch p {
	case Permanent:
		if len(state) == 0 {
			return nil
		}
		return s.SetState(state, nil)
	case Volatile:
		clear(m.volatile)
		m.volatile = nil
		if len(state) > 0 {
			m.volatile = append([]byte(nil), state...)
		}
		return nil
	case SaveState:
		return nil
	}
	return ErrUnsupported
}

// StoreVolatile keeps the volatile state for the next power-on in this
// process, in which the TPM then continues where it is now.
func (m *Machine) StoreVolatile() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.on {
		return ErrOff
	}
	s, ok := m.engine.(Stater)
	if !ok {
		return ErrUnsupported
	}
	v, err := s.VolatileState()
	if err != nil {
		return err
	}
	m.volatile = v
	return nil
}

// SetBufferSize limits the engine's buffers; want 0 only asks. Changing needs
// a TPM without power, since a client must not see the limit move.
func (m *Machine) SetBufferSize(want uint32) (now, least, most uint32, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b, ok := m.engine.(Buffered)
	if !ok {
		return 0, 0, 0, ErrUnsupported
	}
	if want != 0 && m.on {
		return 0, 0, 0, ErrRunning
	}
	return b.SetBufferSize(want)
}
