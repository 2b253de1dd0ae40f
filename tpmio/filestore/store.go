// SPDX-License-Identifier: Apache-2.0

// Package filestore keeps the permanent state of a TPM in one file. Call Open
// with a folder, hand the Store to the engine, Close at the end.
//
// Promises: when Save returns nil the state is on stable storage; a crash or
// kill at any moment leaves the state of the last Save that returned, or that
// of the one in flight, never a mixture and never none. A file that is
// truncated, changed, foreign or written by a newer version is refused and
// left untouched. One process at a time. The folder must belong to the user
// (or root) and not be writable by others, since whoever can replace the file
// can roll the TPM back. Rolling back by the owner of the machine is not
// detected: a file has no counter that its owner could not restore.
package filestore

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// Names inside the state folder.
const (
	stateName = "tpm.state"
	tempName  = "tpm.state.new" // never read; a leftover is removed at Open
	lockName  = "lock"
)

// ErrClosed is returned by Load and Save after Close.
var ErrClosed = errors.New("filestore: the store is closed")

// Options of Open; the zero value is a plain (not encrypted) state file.
type Options struct {
	// Key, if not nil, encrypts the file: 32 bytes for AES-256-GCM.
	Key []byte
}

// Store is a state folder that this process has locked. Its methods are safe
// for concurrent use.
type Store struct {
	mu     sync.Mutex
	dir    string
	files  layer
	lock   *os.File
	key    []byte
	closed bool
}

// Open locks the folder dir, creating it with mode 0700 if it does not exist.
// It does not read the state, but it does refuse a folder that others may
// write to and one that another process uses.
func Open(dir string, o Options) (*Store, error) {
	if o.Key != nil && len(o.Key) != keySize {
		return nil, fmt.Errorf("filestore: the key has %d bytes, expected %d", len(o.Key), keySize)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("filestore: cannot make the state folder: %w", err)
	}
	files, err := openFolder(dir)
	if err != nil {
		return nil, err
	}
	lock, err := files.lock(lockName)
	if err != nil {
		files.close()
		return nil, err
	}
	s := &Store{dir: dir, files: files, lock: lock, key: append([]byte(nil), o.Key...)}
	if o.Key == nil {
		s.key = nil
	}
	// What a killed process left behind was never acknowledged.
	if err := files.remove(tempName); err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.Close()
		return nil, fmt.Errorf("filestore: cannot remove the unfinished file %s in %s: %w", tempName, dir, err)
	}
	return s, nil
}

// Dir returns the folder.
func (s *Store) Dir() string { return s.dir }

// Load returns the stored state, or nil, nil if nothing was stored yet.
func (s *Store) Load() ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrClosed
	}
	f, err := s.files.open(stateName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("filestore: cannot open %s in %s: %w", stateName, s.dir, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("filestore: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("filestore: %s in %s is not a regular file", stateName, s.dir)
	}
	if why := othersReach(info, filepath.Join(s.dir, stateName)); why != "" {
		return nil, fmt.Errorf("filestore: others can reach the TPM's secrets: %s in %s %s; check who read it first", stateName, s.dir, why)
	}
	file, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("filestore: cannot read %s in %s: %w", stateName, s.dir, err)
	}
	state, err := decode(file, s.key)
	if err != nil {
		return nil, fmt.Errorf("filestore: %s in %s: %w. The file was left as it is; restore a copy of it, or move it away to begin with a new TPM (the keys of the old one are then lost)",
			stateName, s.dir, err)
	}
	return state, nil
}

// Save replaces the stored state. When it returns nil, the new state survives
// a loss of power. When it returns an error, the old state or the new one is
// stored, and a later Save may succeed.
func (s *Store) Save(state []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	file, err := encode(state, s.key)
	if err != nil {
		return fmt.Errorf("filestore: %w", err)
	}
	if s.key == nil {
		defer clear(file)
	}
	if err := s.replace(file); err != nil {
		return fmt.Errorf("filestore: cannot store the state in %s: %w", s.dir, err)
	}
	return nil
}

// replace writes a new file beside the old one, makes it durable, and only
// then puts it in the old one's place.
func (s *Store) replace(file []byte) error {
	f, err := s.files.create(tempName)
	if errors.Is(err, fs.ErrExist) {
		// Left by a Save of ours that failed.
		if err = s.files.remove(tempName); err == nil {
			f, err = s.files.create(tempName)
		}
	}
	if err != nil {
		return err
	}
	_, err = f.Write(file)
	if err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		_ = s.files.remove(tempName) // the next Save tries again if this fails
		return err
	}
	if err := s.files.rename(tempName, stateName); err != nil {
		return err
	}
	return s.files.syncDir()
}

// Close gives the folder up. It stores nothing.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	clear(s.key)
	err := s.lock.Close() // the kernel drops the lock with the descriptor
	return errors.Join(err, s.files.close())
}

// checkFolder refuses a folder in which someone else could replace the file.
func checkFolder(dir string, info fs.FileInfo) error {
	if !info.IsDir() {
		return fmt.Errorf("filestore: %s is not a folder", dir)
	}
	return othersReplace(dir, info)
}
