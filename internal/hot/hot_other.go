// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package hot

import "time"

// Sleep is time.Sleep.
func Sleep(d time.Duration) { time.Sleep(d) }

// OneProcessor does nothing.
func OneProcessor() {}

// Cool does nothing.
func Cool() {}
