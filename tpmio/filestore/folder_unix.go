// SPDX-License-Identifier: Apache-2.0

//go:build unix

package filestore

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

func (f *folder) open(name string) (*os.File, error) {
	// Not through f.root, which follows links that stay inside the folder.
	// O_NONBLOCK: a FIFO in the place of the file must not hang us.
	fd, err := unix.Openat(int(f.self.Fd()), name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

func (f *folder) rename(from, to string) error { return f.root.Rename(from, to) }
func (f *folder) syncDir() error               { return f.self.Sync() }

// othersReach says how others can read the file, or "".
func othersReach(info fs.FileInfo, _ string) string {
	if p := info.Mode().Perm(); p&0o077 != 0 {
		return fmt.Sprintf("has mode %#o; expected 0600 (chmod)", p)
	}
	return ""
}

// othersReplace refuses a folder in which someone else could replace files.
func othersReplace(dir string, info fs.FileInfo) error {
	if p := info.Mode().Perm(); p&0o022 != 0 {
		return fmt.Errorf("filestore: the state folder %s has mode %#o, so others can replace the TPM's state; expected 0700: chmod 700 %s", dir, p, dir)
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Uid != 0 && int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("filestore: the state folder %s belongs to user %d, expected user %d or root", dir, st.Uid, os.Geteuid())
	}
	return nil
}
