// SPDX-License-Identifier: Apache-2.0

package cgroupskb

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Folders tells when folders of the cgroup hierarchy may have become other ones:
// something was made or removed in one of the folders above them. So a cgroup
// that a service manager makes again is seen within a wake-up, and no time
// goes into looking. Make it with Hold.Folders.
type Folders struct {
	c    chan struct{}
	f    *os.File // inotify
	fd   int      // of f; only run uses it, which Close waits for
	done chan struct{}
	dirs []string
}

// Folders watches what Follow and RefreshNarrow look at. An error, such as no
// inotify instance left for this user, means that they must be called now and then.
func (h *Hold) Folders() (*Folders, error) {
	return watchFolders(append([]string{h.dir}, h.narrow.ExemptGroups...))
}

func watchFolders(dirs []string) (*Folders, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("watch the folders of control groups: inotify: %w", err)
	}
	w := &Folders{c: make(chan struct{}, 1), f: os.NewFile(uintptr(fd), "inotify"), fd: fd, done: make(chan struct{}), dirs: dirs}
	if err := w.add(); err != nil {
		w.f.Close()
		return nil, err
	}
	w.c <- struct{}{} // what changed before the watch
	go w.run()
	return w, nil
}

// C has room for one signal, and gets it at the start and after each change: look
// at all folders then.
func (w *Folders) C() <-chan struct{} { return w.c }

// Close ends the watch. C is not closed.
func (w *Folders) Close() {
	w.f.Close()
	<-w.done
}

// add watches every folder above the watched ones that exists. A watch that is
// there already stays as it is.
func (w *Folders) add() error {
	for _, d := range w.dirs {
		for d = filepath.Dir(filepath.Clean(d)); ; d = filepath.Dir(d) {
			_, err := unix.InotifyAddWatch(w.fd, d, unix.IN_CREATE|unix.IN_DELETE|unix.IN_MOVED_TO|unix.IN_MOVED_FROM|unix.IN_DELETE_SELF|unix.IN_ONLYDIR)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("watch %s: %w", d, err)
			}
			if d == filepath.Dir(d) {
				break
			}
		}
	}
	return nil
}

// run signals after each batch of events, after new folders above were added:
// what was made in them before that is found by who looks after the signal.
func (w *Folders) run() {
	defer close(w.done)
	b := make([]byte, 4096)
	for {
		if _, err := w.f.Read(b); err != nil {
			return // closed
		}
		w.add() // a folder that cannot be watched is found at the next slow look
		select {
		case w.c <- struct{}{}:
		default:
		}
	}
}
