// SPDX-License-Identifier: Apache-2.0

package cgroupskb

import (
	"slices"
	"testing"
	"time"

	"holdfast/latch/hold"
)

// TestWakes: a record wakes who has asked for it, once, and nobody else; one
// that was there before is told at once instead. The programs' word decides, so
// a wake-up that is lost here would be a session that waits for a timer.
func TestWakes(t *testing.T) {
	t.Parallel()
	l := newLab(t, Options{}, never)
	l.gate.stop()
	h := l.hold
	t.Cleanup(func() {
		if err := h.Detach(); err != nil {
			t.Error(err)
		}
	})
	addr := server4 + ":443"
	l.tlsServer(l.server, addr, nil)
	client := func() { l.helper("get", "https://"+addr+"/") }
	empty := func() {
		t.Helper()
		for h.Again() || !h.out.Empty() || !h.in.Empty() {
			if err := h.Drain(func(*hold.Record) {}); err != nil {
				t.Fatal(err)
			}
		}
	}
	// both waits, by looking, until a hello and its answer are in the rings.
	both := func() {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); h.out.Empty() || h.in.Empty(); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("no hello, or no answer to it, came to the rings")
			}
		}
	}
	tokens := func(d time.Duration) []int32 {
		t.Helper()
		got, err := h.wait.p.Wait(nil, max(d, 0), false)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	// wakes waits for a ring; another may wake before it.
	wakes := func(what string, want int32) {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); ; {
			if slices.Contains(tokens(time.Until(end)), want) {
				return
			}
			if time.Now().After(end) {
				t.Errorf("%s came, and its ring woke nobody", what)
				return
			}
		}
	}
	empty()

	// Nobody asked.
	h.Disarm()
	h.words.Uint32(wordIn).Store(0)
	tokens(0) // what the lab's gate left
	client()
	both()
	if got := tokens(50 * time.Millisecond); len(got) != 0 {
		t.Errorf("nobody asked, and rings %v woke", got)
	}
	// They are there already.
	if !h.Arm() {
		t.Error("Arm does not say that there is a hello already: who sleeps now sleeps over it")
	}
	h.Disarm()
	h.WantInbound()
	begin := time.Now()
	if tokens(20 * time.Second); time.Since(begin) > 10*time.Second {
		t.Error("WantInbound did not wake for an answer that was there already")
	}
	empty()
	h.words.Uint32(wordIn).Store(0)
	h.Disarm()

	// A hello wakes, by Wait as the gate calls it.
	if h.Arm() {
		t.Fatal("Arm says that there is a hello in an empty ring")
	}
	client()
	wakes("a hello", tokenOut)
	if w := h.words.Uint32(wordOut).Load(); w != 0 {
		t.Errorf("the word is %d after the wake-up: every further record would wake", w)
	}
	both()
	if got := tokens(50 * time.Millisecond); len(got) != 0 {
		t.Errorf("asked once, and rings %v woke again", got)
	}
	empty()

	// An answer wakes.
	h.WantInbound()
	client()
	wakes("an answer", tokenIn)

	// Wait is all of it.
	empty()
	client()
	begin = time.Now()
	if err := h.Wait(begin.Add(30 * time.Second)); err != nil || time.Since(begin) > 15*time.Second || h.out.Empty() {
		t.Errorf("Wait returned after %v with %v; a hello there: %v", time.Since(begin), err, !h.out.Empty())
	}
}
