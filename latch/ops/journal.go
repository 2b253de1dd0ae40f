// SPDX-License-Identifier: Apache-2.0

package ops

import (
	"net/netip"
	"sync"
	"time"

	"holdfast/latch/audit"
)

// Session is a released connection.
type Session struct {
	At          time.Time      `json:"released"`
	Service     string         `json:"service"`
	Environment string         `json:"environment"`
	Simulated   bool           `json:"simulated,omitempty"`
	PQ          bool           `json:"pq"`
	Local       netip.AddrPort `json:"local"`
	Remote      netip.AddrPort `json:"remote"`
	HeldMicros  int64          `json:"held_us"`
}

// Pair is the ends of a connection, IPv4 as IPv4.
type Pair struct{ Local, Remote netip.AddrPort }

// NewPair makes a Pair.
func NewPair(local, remote netip.AddrPort) Pair {
	plain := func(a netip.AddrPort) netip.AddrPort { return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()) }
	return Pair{plain(local), plain(remote)}
}

// Journal remembers the latest decisions for `latch status`: 16,384 released
// connections (2 MB) and 128 refusals. The zero Journal is ready.
type Journal struct {
	mu       sync.Mutex
	sessions []Session
	next     int // where the oldest is, once the ring is full
	refusals []audit.Event
	nextR    int
}

const (
	keepSessions = 16384
	keepRefusals = 128
)

// Released remembers a released connection.
func (j *Journal) Released(s *Session) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.sessions) < keepSessions {
		j.sessions = append(j.sessions, *s)
		return
	}
	j.sessions[j.next] = *s
	j.next = (j.next + 1) % keepSessions
}

// Refused remembers a refusal.
func (j *Journal) Refused(e *audit.Event) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.refusals) < keepRefusals {
		j.refusals = append(j.refusals, *e)
		return
	}
	j.refusals[j.nextR] = *e
	j.nextR = (j.nextR + 1) % keepRefusals
}

// Live returns the remembered connections for which there says that they are
// established, oldest first. Of two with the same ends the later one counts.
func (j *Journal) Live(there func(Pair) bool) (out []Session) {
	j.mu.Lock()
	all := append(append([]Session(nil), j.sessions[j.next:]...), j.sessions[:j.next]...)
	j.mu.Unlock()
	last := make(map[Pair]int, len(all))
	for i, s := range all {
		last[NewPair(s.Local, s.Remote)] = i
	}
	for i, s := range all {
		if p := NewPair(s.Local, s.Remote); last[p] == i && there(p) {
			out = append(out, s)
		}
	}
	return out
}

// Refusals returns the latest refusals, oldest first.
func (j *Journal) Refusals() []audit.Event {
	j.mu.Lock()
	defer j.mu.Unlock()
	return append(append([]audit.Event(nil), j.refusals[j.nextR:]...), j.refusals[:j.nextR]...)
}
