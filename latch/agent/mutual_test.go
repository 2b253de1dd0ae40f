// SPDX-License-Identifier: Apache-2.0

//go:build linux

package agent

import (
	"net/netip"
	"testing"
	"time"

	"holdfast/latch/appraisal"
	"holdfast/latch/binder"
	"holdfast/latch/channel"
	"holdfast/latch/flow"
)

// shutDoors counts what the agent does to doors.
type shutDoors struct{ released, forgotten, reset []uint64 }

func (d *shutDoors) Release(c []uint64) error { d.released = append(d.released, c...); return nil }
func (d *shutDoors) Forget(c uint64)          { d.forgotten = append(d.forgotten, c) }
func (d *shutDoors) Reset(c uint64, _, _ netip.AddrPort, _ int) {
	d.reset = append(d.reset, c)
}

// quiet is a gate that nothing is sent to.
type quiet struct{}

func (quiet) Deliver(*channel.Report, []channel.Session) error { return nil }
func (quiet) Refuse([]channel.Refused) error                   { return nil }

// mutualAgent is an agent whose loop does not run, with one service that wants
// evidence of clients.
func mutualAgent(t *testing.T) (*Agent, *shutDoors) {
	t.Helper()
	open, _ := processor(t, 0)
	doors := new(shutDoors)
	a, err := New(newScript(), Options{Services: []Service{{Name: "shop", Address: testAddr, Clients: new(appraisal.Rules)}}, Version: "1", Open: open, Doors: doors})
	if err != nil {
		t.Fatal(err)
	}
	return a, doors
}

// TestProofAfterTheAnnouncement: a mutual session that was observed before it
// was announced is an announced one from then on. When the time of parked
// observations is over its connection is not reset, and it is not counted twice.
func TestProofAfterTheAnnouncement(t *testing.T) {
	for _, first := range []string{"observation", "announcement"} {
		a, doors := mutualAgent(t)
		now := time.Now()
		e := hello(1, known(nginx))
		x := ann(1)
		x.Grade = uint8(binder.Mutual)
		if first == "observation" {
			a.observed(&e, now)
			a.announced(quiet{}, []channel.Announcement{x})
		} else {
			a.announced(quiet{}, []channel.Announcement{x})
			a.observed(&e, now)
		}
		k := proofKey{quiet{}, x.CH}
		s := a.mutual.waiting[k]
		if s == nil {
			t.Fatalf("%s first: the session does not wait for its client's evidence", first)
		}
		delete(a.mutual.waiting, k) // the evidence came: it goes on
		a.mu.Lock()
		a.match.expire(now.Add(a.o.Park+time.Second), &a.answers, a.shutOut)
		a.mu.Unlock()
		if len(doors.reset) != 0 {
			t.Errorf("%s first: the announced session was reset as one that nobody announced", first)
		}
		if a.match.ns != 0 || a.match.nw != 0 {
			t.Errorf("%s first: %d observations and %d announcements parked, expected none", first, a.match.ns, a.match.nw)
		}
		if a.match.live[e.Cookie] != s {
			t.Errorf("%s first: the session is no longer looked after: its end would not be noticed", first)
		}
	}
}

// TestNoProof: one whose client's evidence does not come in time is refused and reset once.
func TestNoProof(t *testing.T) {
	a, doors := mutualAgent(t)
	now := time.Now()
	e := hello(1, known(nginx))
	x := ann(1)
	x.Grade = uint8(binder.Mutual)
	a.observed(&e, now)
	a.announced(quiet{}, []channel.Announcement{x})
	a.mu.Lock()
	late := time.Now().Add(a.o.Park)
	a.match.expire(late, &a.answers, a.shutOut)
	a.expireProofs(late)
	a.answers.tally(&a.stats, &a.o)
	a.mu.Unlock()
	if len(doors.reset) != 1 || doors.reset[0] != e.Cookie {
		t.Errorf("reset %v, expected the session's socket once", doors.reset)
	}
	if a.stats.Refused[string(flow.NoClientProof)] != 1 || a.match.ns != 0 {
		t.Errorf("refused %v, %d parked", a.stats.Refused, a.match.ns)
	}
}
