// SPDX-License-Identifier: Apache-2.0

package windivert

import (
	"context"
	"log/slog"
	"time"
)

// Child is a gate that the guard has started.
type Child interface {
	Wait() error // its end; nil: it ended in order
	End()        // asks it to end in order
	Kill()
}

// Pauses of Keep between starts.
var (
	firstPause = time.Second
	mostPause  = 30 * time.Second
	endWait    = 20 * time.Second
)

// Keep starts the gate, and starts it again whenever it dies, until it ends in
// order or ctx does: then it asks the gate to end. The caller holds a handle to
// the filter meanwhile, so that nothing passes while no gate lives.
func Keep(ctx context.Context, start func() (Child, error)) error {
	pause := firstPause
	for {
		began := time.Now()
		c, err := start()
		if err == nil {
			done := make(chan error, 1)
			go func() { done <- c.Wait() }()
			select {
			case err = <-done:
			case <-ctx.Done():
				c.End()
				select {
				case err = <-done:
				case <-time.After(endWait):
					c.Kill()
					err = <-done
				}
				return err
			}
			if err == nil {
				return nil
			}
		}
		if time.Since(began) > mostPause {
			pause = firstPause
		}
		slog.Error("the gate has died; nothing passes until it runs again", "error", err, "again in", pause.String())
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
		pause = min(2*pause, mostPause)
	}
}
