// SPDX-License-Identifier: Apache-2.0

//go:build linux

package agent

import (
	"net/netip"
	"time"

	"holdfast/latch/flow"
)

// Decision is what the agent decided about one session.
type Decision struct {
	At       time.Time
	Attested bool // else refused for Reason
	Reason   flow.Reason
	Detail   string
	Service  string // of attested sessions: the server name that the client asked for
	Local    netip.AddrPort
	Remote   netip.AddrPort
}

// Reopen has the security processor and the files of its key opened again
// before the next report. Sessions that wait for that report are not harmed; if
// opening fails they are refused and it is tried again, as after any failure.
func (a *Agent) Reopen() { a.rep.again.Store(true) }

// told tells the watcher of an attested session.
func (a *Agent) told(s *session) {
	if a.o.Watch != nil {
		a.o.Watch(&Decision{At: time.Now(), Attested: true, Service: s.event.ServerName, Local: s.event.Local, Remote: s.event.Remote})
	}
}

// refusal tells the watcher of a refusal.
func (o *Options) refusal(code flow.Reason, text string) {
	if o.Watch != nil {
		o.Watch(&Decision{At: time.Now(), Reason: code, Detail: text})
	}
}
