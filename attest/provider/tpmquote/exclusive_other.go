// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package tpmquote

import (
	"fmt"
	"runtime"
)

// CheckExclusive cannot tell on this operating system, and so refuses.
func CheckExclusive(spec string) error {
	return fmt.Errorf("report device %s: whether others can open it cannot be told on %s", spec, runtime.GOOS)
}
