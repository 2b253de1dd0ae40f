// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package listen

// ackNow does nothing: only Linux has the option.
func ackNow(uintptr) {}
