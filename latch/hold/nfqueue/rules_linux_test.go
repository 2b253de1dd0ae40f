// SPDX-License-Identifier: Apache-2.0

package nfqueue

import (
	"os"
	"runtime"
	"testing"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// inNetNS runs the test's function on a thread in a network namespace of its own.
func inNetNS(t *testing.T, fn func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("SKIP[root]: needs root: network namespaces and netfilter")
	}
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			done <- err
			return
		}
		fn()
		done <- nil
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// TestRulesStay: what is installed is what is read back, whole; a table that is
// missing, asleep, or has lost a rule is not.
func TestRulesStay(t *testing.T) {
	inNetNS(t, func() {
		for _, noOwner := range []bool{false, true} {
			o := Options{Devices: []string{"eth0", "docker0"}, noOwner: noOwner}
			if err := o.check(); err != nil {
				t.Error(err)
				return
			}
			h := &Hold{o: o}
			var err error
			if h.rules, err = newRules(&o, 0); err != nil {
				t.Error(err)
				return
			}
			if h.own, err = netlink.Dial(unix.NETLINK_NETFILTER, nil); err != nil {
				t.Error(err)
				return
			}
			have, err := h.put()
			if err != nil {
				t.Errorf("owner %v: %v; %v", h.owner, err, have)
				return
			}
			t.Logf("owner %v, compatible target %v, %d chains", h.owner, h.rules.compat, len(have)-2)
			for name, change := range map[string]func(*transaction){
				"table gone":   func(tr *transaction) { tr.delTable(h.rules.table()) },
				"table asleep": func(tr *transaction) { tr.newTable(h.rules.table(), tableDormant) },
				"rule added":   func(tr *transaction) { tr.newRule(h.rules.table(), "forward", rule(setMark(1))) },
			} {
				want, err := h.put()
				if err != nil {
					t.Error(err)
					return
				}
				var tr transaction
				change(&tr)
				if err := tr.commit(h.own); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				if have, err := snapshot(&h.rules); err != nil || same(have, want) || h.rules.whole(have, h.owner) {
					t.Errorf("%s: not noticed (%v)", name, err)
				}
			}
			h.own.Close()
		}
	})
}
