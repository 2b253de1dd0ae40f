// SPDX-License-Identifier: Apache-2.0

package channel

import (
	"context"
	"testing"
)

// BenchmarkSession is the cost of one session's announcement and answer, both
// ends, in groups of 32.
func BenchmarkSession(b *testing.B) {
	t := &testing.T{}
	h := &echo{}
	_, addr := startServer(t, h, ServerOptions{Limits: Limits{PerSecond: 1 << 30, Burst: 1 << 30}}, "tcp")
	c, err := Dial(context.Background(), "tcp", addr, Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	batch := make([]Announcement, 32)
	for i := range batch {
		batch[i] = ann(2, byte(i))
	}
	b.ReportAllocs()
	var ev []Event
	for i := 0; i < b.N; i += len(batch) {
		if err := c.Announce(batch); err != nil {
			b.Fatal(err)
		}
		for got := 0; got < len(batch); {
			if ev, err = c.Recv(ev[:0]); err != nil {
				b.Fatal(err)
			}
			for _, e := range ev {
				if e.Kind >= KindSession {
					got++
				}
			}
		}
	}
}
