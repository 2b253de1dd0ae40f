// SPDX-License-Identifier: Apache-2.0

// Package filelock locks open files against other processes, on every system
// that the project builds for. Lock waits, TryLock does not; the lock ends
// when the file is closed, also by the death of the process. It binds only
// those who ask for it.
package filelock

import "errors"

// ErrHeld is what TryLock returns while another process has the lock.
var ErrHeld = errors.New("another process holds the lock")
