// SPDX-License-Identifier: Apache-2.0

package filelock

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// NoFollow is nothing here: only administrators can make symbolic links.
const NoFollow = 0

// offsetHigh puts the locked byte far behind the content, since a lock here
// also keeps others from reading what it covers.
const offsetHigh = 0x40000000

// Lock waits for the lock.
func Lock(f *os.File) error { return lock(f, windows.LOCKFILE_EXCLUSIVE_LOCK) }

// TryLock takes the lock or returns ErrHeld.
func TryLock(f *os.File) error {
	err := lock(f, windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY)
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
		return ErrHeld
	}
	return err
}

func lock(f *os.File, flags uint32) error {
	return windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, &windows.Overlapped{OffsetHigh: offsetHigh})
}
