// SPDX-License-Identifier: Apache-2.0

package swtpm

import (
	"time"

	"holdfast/internal/hot"
)

// Hot takes the connection out of Go's network poller: the caller's loop waits
// for short commands, of up to d, without waking other threads. Call it
// before the first Send; after an error the client is closed.
func (c *Client) Hot(d time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	h, err := hot.Detach(c.conn)
	if err != nil {
		c.broken = err
		return err
	}
	h.SetHot(d)
	c.conn = h
	return nil
}
