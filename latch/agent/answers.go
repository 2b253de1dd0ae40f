// SPDX-License-Identifier: Apache-2.0

//go:build linux

package agent

import (
	"holdfast/latch/channel"
	"holdfast/latch/flow"
)

// answers collects refusals per gate, so that each gate gets them in one
// message, and the session answers of a report.
type answers struct {
	refused []addressed
	batch   []channel.Refused
	counted int
}

type addressed struct {
	conn peer
	r    channel.Refused
}

func (a *answers) add(c peer, ch [32]byte, code flow.Reason, text string) {
	if len(text) > channel.MaxText {
		text = text[:channel.MaxText]
	}
	a.refused = append(a.refused, addressed{c, channel.Refused{CH: ch, Code: string(code), Text: text}})
}

func (a *answers) refuse(s *session, code flow.Reason, text string) { a.add(s.conn, s.ch, code, text) }

// tally adds the refusals to the counters, once.
func (a *answers) tally(st *Stats, o *Options) {
	for _, r := range a.refused[a.counted:] {
		st.Refused[r.r.Code]++
		o.refusal(flow.Reason(r.r.Code), r.r.Text)
	}
	a.counted = len(a.refused)
}

// send sends what was collected; without locks held.
func (a *answers) send() {
	for len(a.refused) > 0 {
		c := a.refused[0].conn
		a.batch = a.batch[:0]
		rest := a.refused[:0]
		for _, r := range a.refused {
			if r.conn == c {
				a.batch = append(a.batch, r.r)
			} else {
				rest = append(rest, r)
			}
		}
		a.refused = rest
		c.Refuse(a.batch) // an error means that the gate is gone
	}
	a.counted = 0
}
