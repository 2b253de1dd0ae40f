// SPDX-License-Identifier: Apache-2.0

package channel

import (
	"errors"
	"fmt"
	"time"
)

// MaxOwnEndorsement bounds an endorsement that a gate sends, in bytes: a frame
// from a gate is short, since agents serve many.
const MaxOwnEndorsement = MaxFrameFromGate - 1024

// OwnHandler is a Handler that takes the clients' own evidence, for mutual
// sessions. An agent whose handler has no such method refuses the messages.
type OwnHandler interface {
	// Own takes a message: an Endorsement, a Report, or a Session that places an
	// announced ClientHello in a report's tree. The event is the handler's. It
	// is called like Announced.
	Own(c *Conn, e *Event)
}

// own hands the client's evidence on. Every message costs one token of the
// client's rate, so that a flood of reports is bounded like one of
// announcements.
func (c *Conn) own(e *Event) error {
	h, ok := c.s.handler.(OwnHandler)
	if !ok || c.version < 2 {
		return fmt.Errorf("channel: evidence of the client itself, which version %d of this agent's channel does not take", c.version)
	}
	if e.Kind == KindReport && len(e.Report.Body) > MaxReportBody/2 {
		return fmt.Errorf("channel: report of %d bytes from a client, expected at most %d", len(e.Report.Body), MaxReportBody/2)
	}
	if c.bucket.take(1, time.Now()) == 0 {
		c.penalty = 100 * time.Microsecond
		return nil // its session will miss the evidence and be refused
	}
	h.Own(c, e)
	return nil
}

// ErrNoMutual is returned by Prove when the agent speaks version 1 only.
var ErrNoMutual = errors.New("channel: the agent does not take evidence of clients; it is too old for mutual sessions")

// Prove sends the client's own evidence: endorsements, a report over a group,
// and where the announced sessions stand in its tree. Session.Report is set to
// r.ID. It does not wait for the agent; the arguments are the caller's again
// when it returns.
func (c *Client) Prove(es []Endorsement, r *Report, sessions []Session) error {
	if c.version < 2 {
		return ErrNoMutual
	}
	if err := r.check(); err != nil {
		return err
	}
	for i := range es {
		if len(es[i].Body) > MaxOwnEndorsement {
			return fmt.Errorf("channel: endorsement %q of %d bytes, expected at most %d from a client", es[i].Type, len(es[i].Body), MaxOwnEndorsement)
		}
	}
	return c.q.send(func(b []byte) []byte {
		for i := range es {
			b = frame(b, func(b []byte) []byte { return es[i].appendAs(b, typeOwnEndorse) })
		}
		b = frame(b, func(b []byte) []byte { return r.appendAs(b, typeOwnReport) })
		for i := range sessions {
			sessions[i].Report = r.ID
			b = frame(b, func(b []byte) []byte { return sessions[i].appendAs(b, typeOwnSession) })
		}
		return b
	})
}
