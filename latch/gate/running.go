// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"context"
	"time"

	"holdfast/latch/ops"
)

// Running is a gate on a scope of any kind.
type Running interface {
	Ready(ctx context.Context, d time.Duration)
	Stats() Stats
	// Reload is Gate.Reload.
	Reload(c *Config) error
	// Self is the gate itself.
	Self() *Gate
	// Where names what is gated, for people.
	Where() string
	// Live finds the connections that are there now; an error says why it cannot.
	Live() (func(ops.Pair) bool, error)
	// End stops the gate. What was not released stays shut, and so does the
	// scope while it may have clients, unless open is set.
	End(open bool) error
}
