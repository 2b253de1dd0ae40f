// SPDX-License-Identifier: Apache-2.0

package filestore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

var errCrash = errors.New("crash")

// crashing is a file layer in memory with a power switch: operation number
// `at` and all later ones do not happen. It models what a file system may do
// at its worst: file content not synced is lost or torn, renames not followed
// by a sync of the folder may or may not have happened.
type crashing struct {
	at, n   int
	names   map[string]*memFile
	pending []func() // renames and creations that only a sync makes durable
}

type memFile struct {
	c      *crashing
	data   []byte
	synced []byte
}

func newCrashing(at int) *crashing {
	return &crashing{at: at, names: map[string]*memFile{}}
}

func (c *crashing) step() error {
	c.n++
	if c.at > 0 && c.n >= c.at {
		return errCrash
	}
	return nil
}

func (m *memFile) Write(b []byte) (int, error) {
	half := len(b) / 2
	if err := m.c.step(); err != nil {
		m.data = append(m.data, b[:half]...) // torn
		return half, err
	}
	m.data = append(m.data, b...)
	return len(b), nil
}

func (m *memFile) Sync() error {
	if err := m.c.step(); err != nil {
		return err
	}
	m.synced = append([]byte(nil), m.data...)
	return nil
}

func (m *memFile) Close() error { return m.c.step() }

func (c *crashing) open(string) (*os.File, error) { return nil, fs.ErrNotExist }
func (c *crashing) create(name string) (writer, error) {
	if err := c.step(); err != nil {
		return nil, err
	}
	if c.names[name] != nil {
		return nil, fs.ErrExist
	}
	m := &memFile{c: c}
	c.names[name] = m
	return m, nil
}

func (c *crashing) rename(from, to string) error {
	if err := c.step(); err != nil {
		return err
	}
	m := c.names[from]
	if m == nil {
		return fs.ErrNotExist
	}
	old := c.names[to]
	c.names[to] = m
	delete(c.names, from)
	c.pending = append(c.pending, func() {
		// Undone by the crash: the folder was not synced.
		if old == nil {
			delete(c.names, to)
		} else {
			c.names[to] = old
		}
	})
	return nil
}

func (c *crashing) remove(name string) error {
	if err := c.step(); err != nil {
		return err
	}
	delete(c.names, name)
	return nil
}

func (c *crashing) syncDir() error {
	if err := c.step(); err != nil {
		return err
	}
	c.pending = nil
	return nil
}

func (c *crashing) lock(string) (*os.File, error) { return os.Open(os.DevNull) }
func (c *crashing) close() error                  { return nil }

// after returns what is found after the crash: with or without the renames
// that were not made durable, and only synced content.
func (c *crashing) after(undo bool) ([]byte, bool) {
	if undo {
		for i := len(c.pending) - 1; i >= 0; i-- {
			c.pending[i]()
		}
	}
	m := c.names[stateName]
	if m == nil {
		return nil, false
	}
	return m.synced, true
}

// TestCrashAtEveryStep loses power before each file operation of a run of
// Saves. What is found afterwards must be the last acknowledged state or the
// one in flight.
func TestCrashAtEveryStep(t *testing.T) {
	const saves = 4
	state := func(i int) []byte { return []byte(fmt.Sprintf("state %d", i)) }
	total := 0
	for at := 1; ; at++ {
		finished := false
		for _, undo := range []bool{false, true} {
			c := newCrashing(at)
			s := &Store{files: c}
			acked := 0
			for i := 1; i <= saves; i++ {
				if err := s.Save(state(i)); err != nil {
					if !errors.Is(err, errCrash) {
						t.Fatalf("step %d: %v", at, err)
					}
					break
				}
				acked = i
			}
			finished = acked == saves
			file, found := c.after(undo)
			if !found {
				if acked > 0 {
					t.Fatalf("power lost before step %d: state %d was acknowledged, nothing is left", at, acked)
				}
				continue
			}
			got, err := decode(file, nil)
			if err != nil {
				t.Fatalf("power lost before step %d (undo %v): %v", at, undo, err)
			}
			if string(got) != string(state(acked)) && string(got) != string(state(acked+1)) {
				t.Fatalf("power lost before step %d: found %q, acknowledged was %q", at, got, state(acked))
			}
		}
		total++
		if finished {
			break
		}
	}
	if total < saves*5 {
		t.Fatalf("only %d steps tried; the layer is not in use", total)
	}
}

// TestErrorThenSuccess: after a Save that failed at any one step (disk full,
// say) the next one works.
func TestErrorThenSuccess(t *testing.T) {
	for at := 1; at <= 6; at++ {
		c := newCrashing(at)
		s := &Store{files: c}
		if err := s.Save([]byte("first")); err == nil {
			t.Fatalf("step %d: no error", at)
		}
		c.at = 0
		if err := s.Save([]byte("second")); err != nil {
			t.Fatalf("step %d: second Save: %v", at, err)
		}
		file, _ := c.after(true)
		if got, err := decode(file, nil); err != nil || string(got) != "second" {
			t.Fatalf("step %d: %q, %v", at, got, err)
		}
	}
}

func TestLeftoverIsRemoved(t *testing.T) {
	dir := t.TempDir()
	os.Chmod(dir, 0o700)
	os.WriteFile(filepath.Join(dir, tempName), []byte("torn"), 0o600)
	s := mustOpen(t, dir, Options{})
	if _, err := os.Stat(filepath.Join(dir, tempName)); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("leftover: %v", err)
	}
	if err := s.Save([]byte("x")); err != nil {
		t.Fatal(err)
	}
}
