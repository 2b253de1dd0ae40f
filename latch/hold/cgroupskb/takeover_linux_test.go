// SPDX-License-Identifier: Apache-2.0

package cgroupskb

import (
	"strings"
	"testing"
	"time"
)

// What a dead gate held ends as soon as the next gate is there, and not when
// its program loses patience (10 s here); what it had released goes on.
func TestTakeover(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		decide decider
		held   bool
	}{{"held", never, true}, {"released", releaseAfter(0), false}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, Options{}, c.decide)
			s := l.fakeServer(at, !c.held)
			if l.hold.Inherited() {
				t.Error("the first hold says that it took one over")
			}
			p := l.helper("raw", at, "200")
			for end := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
				l.gate.mu.Lock()
				seen, opened := len(l.gate.conns), l.gate.opened
				l.gate.mu.Unlock()
				if c.held && seen > 0 || opened > 0 {
					break
				}
				if time.Now().After(end) {
					t.Fatalf("%d connections seen, %d opened after 10 s", seen, opened)
				}
			}
			l.gate.stop()
			l.hold.Close()
			h, err := Attach(Options{Cgroup: l.cgroup})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := h.Detach(); err != nil {
					t.Error(err)
				}
			}()
			if !h.Inherited() {
				t.Error("the second hold does not know that it took one over")
			}
			start := time.Now()
			if err := h.ResetHeld(); err != nil {
				t.Fatal(err)
			}
			if c.held {
				out, err := wait(t, p, 12*time.Second)
				if err == nil || !strings.Contains(out, "ECONNABORTED") || time.Since(start) > 3*time.Second {
					t.Errorf("after %v: %v %s; expected ECONNABORTED at once", time.Since(start), err, out)
				}
				s.leaked(t)
				return
			}
			time.Sleep(200 * time.Millisecond)
			if p.ProcessState != nil {
				t.Error("the released connection ended")
			}
			p.Process.Kill()
			if out, _ := wait(t, p, 3*time.Second); strings.Contains(out, "error") {
				t.Errorf("the released connection ended: %s", out)
			}
		})
	}
}
