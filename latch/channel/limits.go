// SPDX-License-Identifier: Apache-2.0

package channel

import "time"

// Limits of a server; a zero field takes the default.
type Limits struct {
	Clients      int // connections at once; default 256
	PerSecond    int // announcements per second and client; default 20,000
	Burst        int // announcements above the rate; default PerSecond / 4
	Outstanding  int // announcements of one client that have no answer yet; default 8,192
	Queue        int // bytes that may wait for a client that does not read; default 8 MiB, at least one endorsement
	HelloTimeout time.Duration
}

func (l Limits) withDefaults() Limits {
	def := func(v *int, d int) {
		if *v <= 0 {
			*v = d
		}
	}
	def(&l.Clients, 256)
	def(&l.PerSecond, 20000)
	def(&l.Burst, max(l.PerSecond/4, 1))
	def(&l.Outstanding, 8192)
	def(&l.Queue, 8<<20)
	l.Queue = max(l.Queue, MaxFrameFromAgent+MaxFrameFromGate)
	if l.HelloTimeout <= 0 {
		l.HelloTimeout = 5 * time.Second
	}
	return l
}

// bucket is a token bucket: rate tokens per second, at most burst kept.
type bucket struct {
	rate, burst float64
	tokens      float64
	last        time.Time
}

func newBucket(rate, burst int, now time.Time) bucket {
	return bucket{float64(rate), float64(burst), float64(burst), now}
}

// take takes up to n tokens and returns how many.
func (b *bucket) take(n int, now time.Time) int {
	if d := now.Sub(b.last).Seconds(); d > 0 {
		b.tokens = min(b.burst, b.tokens+d*b.rate)
		b.last = now
	}
	got := min(n, int(b.tokens))
	b.tokens -= float64(got)
	return got
}
