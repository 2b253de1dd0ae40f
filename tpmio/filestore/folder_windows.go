// SPDX-License-Identifier: Apache-2.0

package filestore

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/windows"
)

// open refuses links: only administrators can make them here, so one in this
// place is a mistake.
func (f *folder) open(name string) (*os.File, error) {
	info, err := f.root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fmt.Errorf("mode %v, expected a regular file", info.Mode())}
	}
	return f.root.Open(name)
}

// rename replaces the file and returns when the change is on the disk: folders
// cannot be synced here, and MOVEFILE_WRITE_THROUGH says just that.
func (f *folder) rename(from, to string) error {
	a, err := windows.UTF16PtrFromString(filepath.Join(f.dir, from))
	if err != nil {
		return err
	}
	b, err := windows.UTF16PtrFromString(filepath.Join(f.dir, to))
	if err != nil {
		return err
	}
	if err := windows.MoveFileEx(a, b, windows.MOVEFILE_REPLACE_EXISTING|windows.MOVEFILE_WRITE_THROUGH); err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return nil
}

// syncDir has nothing left to do; see rename.
func (f *folder) syncDir() error { return nil }

// othersReach says who else can read the file, or "". Mode bits mean nothing here.
func othersReach(_ fs.FileInfo, path string) string {
	who, err := strangerIn(path, windows.GENERIC_READ|windows.FILE_READ_DATA)
	switch {
	case err != nil:
		return "has an access list that cannot be read: " + err.Error()
	case who != "":
		return "can be read by " + who + "; remove that entry from its access list (icacls)"
	}
	return ""
}

// othersReplace refuses a folder in which someone else could replace files.
func othersReplace(dir string, _ fs.FileInfo) error {
	who, err := strangerIn(dir, windows.GENERIC_WRITE|windows.FILE_WRITE_DATA|windows.FILE_APPEND_DATA|windows.DELETE|0x40) // 0x40: FILE_DELETE_CHILD
	if err != nil {
		return fmt.Errorf("filestore: the access list of the state folder %s cannot be read: %w", dir, err)
	}
	if who != "" {
		return fmt.Errorf("filestore: %s can write to the state folder %s and so replace the TPM's state; remove that entry from its access list (icacls)", who, dir)
	}
	return nil
}
