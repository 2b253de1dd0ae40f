// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package csvguest

import (
	"fmt"
	"runtime"
)

func openDevice(string) (device, error) {
	return nil, fmt.Errorf("no CSV machine runs %s", runtime.GOOS)
}
