// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package channel

// Loop exists on Linux only; agents run nowhere else.
type Loop struct{}

type looped struct{}

func (c *Conn) loop() (done bool, err error) { return false, nil }
