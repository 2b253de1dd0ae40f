// SPDX-License-Identifier: Apache-2.0

package cgroupskb

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdfast/test/host"
)

// TestFolders: a cgroup that is removed and made again, alone or with the ones
// above it, is told of each time; what happens beside it in other places is not.
func TestFolders(t *testing.T) {
	host.Need(t, "root", "cgroup2")
	root, err := CgroupRoot()
	if err != nil {
		t.Fatal(err)
	}
	top := filepath.Join(root, "holdfast-folders-"+filepath.Base(t.TempDir()))
	dir := filepath.Join(top, "slice", "service")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, d := range []string{dir, filepath.Join(top, "slice"), top} {
			os.Remove(d)
		}
	})
	w, err := watchFolders([]string{dir})
	if err != nil {
		t.Fatal(err)
	}
	id := func() uint64 {
		n, _ := cgroupID(dir)
		return n
	}
	// settled waits until the folder was looked at after the last signal and has the wanted state.
	settled := func(what string, ok func(uint64) bool) {
		t.Helper()
		for late := time.After(20 * time.Second); ; {
			select {
			case <-w.C():
				if ok(id()) {
					return
				}
			case <-late:
				t.Fatalf("%s: no signal after which the folder is as it should be (it is cgroup %d)", what, id())
			}
		}
	}
	settled("at the start", func(n uint64) bool { return n != 0 }) // what changed before the watch is looked at too
	for round := range 5 {
		before := id()
		if err := os.Remove(dir); err != nil {
			t.Fatal(err)
		}
		settled("removed", func(n uint64) bool { return n == 0 })
		if round%2 == 1 { // with the one above, which must be watched again
			slice := filepath.Join(top, "slice")
			if err := os.Remove(slice); err != nil {
				t.Fatal(err)
			}
			settled("the one above removed", func(uint64) bool { return true })
			if err := os.Mkdir(slice, 0o755); err != nil {
				t.Fatal(err)
			}
			settled("the one above made again", func(uint64) bool { return w.watches(slice) })
		}
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		settled("made again", func(n uint64) bool { return n != 0 && n != before })
	}
	w.Close()
	select { // a last signal may wait; after it there is none
	case <-w.C():
	default:
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	select {
	case <-w.C():
		t.Error("a signal after Close")
	case <-time.After(50 * time.Millisecond):
	}
}

func TestFoldersRefused(t *testing.T) {
	f := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(f, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if w, err := watchFolders([]string{filepath.Join(f, "below", "service")}); err == nil {
		w.Close()
		t.Error("a file taken for a folder")
	}
}

// watches asks the kernel whether a folder is watched: its inode is in the list
// of the descriptor's watches.
func (w *Folders) watches(dir string) bool {
	id, err := cgroupID(dir)
	b, err2 := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", w.fd))
	return err == nil && err2 == nil && strings.Contains(string(b), fmt.Sprintf("ino:%x ", id))
}
