// SPDX-License-Identifier: Apache-2.0

package filestore

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"holdfast/internal/filelock"
)

// A layer is the few file operations that a Store needs, all on names inside
// the folder. Tests put one beneath it that fails at a chosen step.
type layer interface {
	open(name string) (*os.File, error)        // for reading; no symbolic link
	create(name string) (writer, error)        // new, mode 0600; fs.ErrExist if it is there
	rename(from, to string) error              // atomic
	remove(name string) error                  //
	syncDir() error                            // makes rename durable
	lock(name string) (held *os.File, _ error) // until held is closed
	close() error
}

type writer interface {
	io.WriteCloser
	Sync() error
}

// folder is the layer over a real folder. It holds the folder open, so that
// nobody can exchange it under the name.
type folder struct {
	dir  string
	root *os.Root
	self *os.File
}

func openFolder(dir string) (*folder, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("filestore: cannot open the state folder: %w", err)
	}
	self, err := root.Open(".")
	if err != nil {
		root.Close()
		return nil, fmt.Errorf("filestore: cannot open the state folder: %w", err)
	}
	f := &folder{dir: dir, root: root, self: self}
	info, err := self.Stat()
	if err == nil {
		err = checkFolder(dir, info)
	}
	if err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}

func (f *folder) create(name string) (writer, error) {
	return f.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}

func (f *folder) remove(name string) error { return f.root.Remove(name) }
func (f *folder) close() error             { return errors.Join(f.self.Close(), f.root.Close()) }

func (f *folder) lock(name string) (*os.File, error) {
	l, err := f.root.OpenFile(name, os.O_RDWR|os.O_CREATE|filelock.NoFollow, 0o600)
	if err != nil {
		return nil, fmt.Errorf("filestore: cannot open the lock file in %s: %w", f.dir, err)
	}
	if err := filelock.TryLock(l); err != nil {
		defer l.Close()
		if errors.Is(err, filelock.ErrHeld) {
			holder, _ := io.ReadAll(io.LimitReader(l, 20))
			return nil, fmt.Errorf("filestore: the state folder %s is in use by another process (%s): %w", f.dir, pidText(holder), fs.ErrPermission)
		}
		return nil, fmt.Errorf("filestore: cannot lock the state folder %s: %w", f.dir, err)
	}
	// For the message above only; a failure here harms nothing.
	if err := l.Truncate(0); err == nil {
		_, _ = l.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	return l, nil
}

func pidText(b []byte) string {
	if n, err := strconv.Atoi(strings.TrimSpace(string(b))); err == nil {
		return "pid " + strconv.Itoa(n)
	}
	return "pid unknown"
}
