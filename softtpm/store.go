// SPDX-License-Identifier: Apache-2.0

package softtpm

import "sync"

// Store keeps the permanent state of one TPM. The engine calls Save before it
// answers a command that changed that state and answers TPM_RC_NV_UNAVAILABLE,
// with everything as before, if Save fails.
type Store interface {
	// Load returns the last saved state; nil, nil if there is none yet.
	Load() ([]byte, error)
	// Save replaces the state. It must be durable when Save returns nil, and
	// the old state must still be there when it returns an error. The slice
	// is the engine's: an implementation that keeps it must copy it.
	Save(state []byte) error
}

// NewMemoryStore returns a Store that lives as long as the process.
func NewMemoryStore() Store { return &memoryStore{} }

type memoryStore struct {
	mu sync.Mutex
	b  []byte
}

func (m *memoryStore) Load() ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.b == nil {
		return nil, nil
	}
	return append([]byte(nil), m.b...), nil
}

func (m *memoryStore) Save(state []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.b = append(m.b[:0], state...)
	return nil
}
