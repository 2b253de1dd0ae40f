// SPDX-License-Identifier: Apache-2.0

//go:build unix

package filelock

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// NoFollow is the flag for os.OpenFile that refuses a symbolic link.
const NoFollow = unix.O_NOFOLLOW

// Lock waits for the lock.
func Lock(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_EX) }

// TryLock takes the lock or returns ErrHeld.
func TryLock(f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return ErrHeld
	}
	return err
}
