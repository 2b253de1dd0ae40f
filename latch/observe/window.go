// SPDX-License-Identifier: Apache-2.0

//go:build linux

package observe

import (
	"hash/maphash"
	"time"
)

// window remembers 64-bit keyed digests of byte strings in two generations of
// at most limit each. A digest that collides by chance (2^-46 for a full
// window) refuses a session; nobody can choose one, since the key is secret.
type window struct {
	seed      maphash.Seed
	limit     int
	cur, prev map[uint64]struct{}
	turned    time.Time
}

func newWindow(limit int) window {
	return window{seed: maphash.MakeSeed(), limit: limit, cur: map[uint64]struct{}{}, prev: map[uint64]struct{}{}}
}

func (w *window) has(b []byte) bool {
	k := maphash.Bytes(w.seed, b)
	if _, ok := w.cur[k]; ok {
		return true
	}
	_, ok := w.prev[k]
	return ok
}

// turn makes the current generation the previous one.
func (w *window) turn(now time.Time) {
	w.cur, w.prev = w.prev, w.cur
	clear(w.cur)
	w.turned = now
}

// add returns false when the generation is full and b was not taken.
func (w *window) add(b []byte) bool {
	if len(w.cur) >= w.limit {
		return false
	}
	w.cur[maphash.Bytes(w.seed, b)] = struct{}{}
	return true
}
