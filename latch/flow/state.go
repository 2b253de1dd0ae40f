// SPDX-License-Identifier: Apache-2.0

package flow

// State is where a connection stands. The model of gate and agent uses the
// same names.
//
//	Hello ──ClientHello──▶ Answer ──ServerHello──▶ Evidence ──judged good──▶ Proved ──Flush──▶ Releasing ──▶ (gone: open)
//	                          │ evidence first                                 ▲                   │
//	                          └── is kept, judged when the ServerHello is there └─────── Retry ─────┘
//	any of these ──alert──▶ Ended            any of these ──fault, refusal, deadline──▶ Refused
type State uint8

// States.
const (
	// Hello: the ClientHello is not complete. Nothing was announced.
	Hello State = iota
	// Answer: the ClientHello was examined and has a policy; it is announced to
	// the agents that are connected. The ServerHello is awaited (after a retry
	// request, also the second ClientHello).
	Answer
	// Evidence: the hellos are complete, the binder is known.
	Evidence
	// Proved: the evidence was judged good; the release is due at the next
	// Flush, or after a pause when the adapter could not carry one out.
	Proved
	// Releasing: a Release was given out; the adapter has not confirmed it.
	Releasing
	// Refused: a Refusal was given out. The entry stays until the deadline, so
	// that late copies do not look like a new connection.
	Refused
	// Ended: one side sent an alert instead of a hello. The connection stays
	// shut, the application learns the reason from TLS. Kept like Refused.
	Ended

	states = int(Ended) + 1
)

func (s State) String() string {
	return [...]string{"Hello", "Answer", "Evidence", "Proved", "Releasing", "Refused", "Ended"}[s]
}

// final reports whether nothing but the deadline is awaited.
func (s State) final() bool { return s == Refused || s == Ended }
