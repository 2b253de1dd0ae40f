// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package channel

import "syscall"

// tryWrite writes nothing: the writer goroutine does all.
func tryWrite(syscall.RawConn, []byte) (int, error) { return 0, nil }
