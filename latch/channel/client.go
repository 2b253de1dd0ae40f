// SPDX-License-Identifier: Apache-2.0

package channel

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

// Options of a gate's connection. The zero value is good.
type Options struct {
	Software     string        // name and version of the gate, for the agent's log
	Capabilities []string      // for later versions; the agent ignores what it does not know
	Have         []Hash        // endorsements that the gate has already (at most MaxHave); the agent does not send them
	MaxQueue     int           // bytes of announcements that may wait for the agent; default 256 KiB
	Timeout      time.Duration // for connecting and the Hellos; default 5 s
	// Dial connects; nil: net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Kind tells what an Event holds.
type Kind uint8

// Kinds of Event.
const (
	KindEndorsement Kind = iota + 1
	KindReport
	KindSession
	KindRefused
	KindManifest
)

// Event is one message of the agent. Endorsement and Report own their memory;
// Session.Path and Session.Claims are valid until the next Recv.
type Event struct {
	Kind        Kind
	Endorsement *Endorsement
	Report      *Report
	Session     Session
	Refused     Refused
	Manifest    *Manifest // owns its memory
}

// GoodbyeError is what Recv returns when the agent ended the connection with a reason.
type GoodbyeError struct{ Code, Text string }

func (e *GoodbyeError) Error() string {
	return fmt.Sprintf("channel: the agent closed the connection: %s (%s)", e.Text, e.Code)
}

// Client is a gate's connection to one agent. Announce, Want and Close may be
// called from any goroutine, Recv from one.
type Client struct {
	conn     net.Conn
	q        *queue
	fr       frameReader
	path     []Hash
	report   uint64 // id of the latest report
	reported bool
	software string
	services []string
	version  uint64
}

// Dial connects to an agent and exchanges the Hellos. network is "tcp" or "unix".
func Dial(ctx context.Context, network, addr string, o Options) (*Client, error) {
	if o.Timeout <= 0 {
		o.Timeout = 5 * time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	dial := o.Dial
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	c, err := dial(ctx, network, addr)
	if err != nil {
		return nil, fmt.Errorf("channel: no connection to the agent at %s: %w", addr, err)
	}
	stop := context.AfterFunc(ctx, func() { c.SetDeadline(time.Unix(1, 0)) })
	cl, err := newClient(c, o)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("channel: agent at %s: %w", addr, err)
	}
	go cl.q.writer()
	return cl, nil
}

func newClient(c net.Conn, o Options) (*Client, error) {
	if len(o.Have) > MaxHave || len(o.Capabilities) > MaxCapabilities || len(o.Software) > MaxName {
		return nil, fmt.Errorf("options: %d endorsements, %d capabilities, %d bytes of software name; at most %d, %d, %d", len(o.Have), len(o.Capabilities), len(o.Software), MaxHave, MaxCapabilities, MaxName)
	}
	if o.MaxQueue <= 0 {
		o.MaxQueue = 256 << 10
	}
	cl := &Client{conn: c, q: newQueue(c, o.MaxQueue), fr: frameReader{r: c, max: MaxFrameFromAgent}}
	h := gateHello{VersionLow, VersionHigh, o.Software, o.Capabilities, o.Have}
	if _, err := c.Write(frame(nil, h.append)); err != nil {
		return nil, err
	}
	for {
		f, err := cl.fr.next()
		if err != nil {
			return nil, err
		}
		if f == nil {
			if err := cl.fr.fill(); err != nil {
				return nil, fmt.Errorf("no Hello came: %w", err)
			}
			continue
		}
		m, err := decodeAgent(f, &cl.path)
		switch {
		case err != nil:
			return nil, err
		case m.goodbye != nil:
			return nil, &GoodbyeError{m.goodbye.code, m.goodbye.text}
		case m.hello == nil:
			return nil, fmt.Errorf("message of type %d before the Hello", m.kind)
		case m.hello.version < VersionLow || m.hello.version > VersionHigh:
			return nil, fmt.Errorf("it chose version %d, we offered %d to %d", m.hello.version, VersionLow, VersionHigh)
		}
		cl.version, cl.software, cl.services = m.hello.version, m.hello.software, m.hello.services
		return cl, nil
	}
}

// Services are the service names that the agent protects.
func (c *Client) Services() []string { return c.services }

// Software is the agent's name and version.
func (c *Client) Software() string { return c.software }

// Version is the version of the channel in use.
func (c *Client) Version() int { return int(c.version) }

// ErrBatch is returned for a batch that is too large to be one message.
var ErrBatch = errors.New("channel: batch too large")

// Announce sends a batch of at most MaxBatch announcements in one system call
// and does not wait for the agent. When MaxQueue bytes already wait the
// connection is closed and an error returned.
func (c *Client) Announce(batch []Announcement) error {
	if len(batch) == 0 {
		return nil
	}
	if len(batch) > MaxBatch {
		return fmt.Errorf("%w: %d announcements, at most %d", ErrBatch, len(batch), MaxBatch)
	}
	return c.q.send(func(b []byte) []byte {
		return frame(b, func(b []byte) []byte { return appendAnnounce(b, batch) })
	})
}

// Want asks for endorsements by hash, at most MaxNeeds at a time. The agent
// pushes what a report needs by itself; Want is for a gate that lost one.
func (c *Client) Want(want []Hash) error {
	if len(want) > MaxNeeds {
		return fmt.Errorf("%w: %d endorsements wanted, at most %d", ErrBatch, len(want), MaxNeeds)
	}
	return c.q.send(func(b []byte) []byte {
		return frame(b, func(b []byte) []byte { return appendWant(b, want) })
	})
}

// Recv blocks until at least one event is there and appends to dst all that
// are, in order: endorsements before the reports that need them, reports
// before their sessions. After an error the connection is of no more use.
func (c *Client) Recv(dst []Event) ([]Event, error) {
	c.path = c.path[:0]
	n := len(dst)
	for {
		f, err := c.fr.next()
		if err == nil && f == nil {
			if len(dst) > n {
				return dst, nil
			}
			if err = c.fr.fill(); err == nil {
				continue
			}
		}
		if err == nil {
			dst, err = c.event(dst, f)
		}
		if err != nil {
			c.q.close(err)
			return dst, err
		}
	}
}

func (c *Client) event(dst []Event, f []byte) ([]Event, error) {
	m, err := decodeAgent(f, &c.path)
	if err != nil {
		return dst, err
	}
	switch m.kind {
	case typeEndorsement:
		return append(dst, Event{Kind: KindEndorsement, Endorsement: m.endorsement}), nil
	case typeReport:
		if c.reported && m.report.ID <= c.report {
			return dst, fmt.Errorf("channel: report %d after report %d, expected a rising id", m.report.ID, c.report)
		}
		c.report, c.reported = m.report.ID, true
		return append(dst, Event{Kind: KindReport, Report: m.report}), nil
	case typeSession:
		if !c.reported || m.session.Report != c.report {
			return dst, fmt.Errorf("channel: session refers to report %d, expected the latest one", m.session.Report)
		}
		return append(dst, Event{Kind: KindSession, Session: m.session}), nil
	case typeRefused:
		return append(dst, Event{Kind: KindRefused, Refused: m.refused}), nil
	case typeManifest:
		return append(dst, Event{Kind: KindManifest, Manifest: m.manifest}), nil
	case typeGoodbye:
		return dst, &GoodbyeError{m.goodbye.code, m.goodbye.text}
	}
	return dst, fmt.Errorf("channel: message of type %d after the Hello", m.kind)
}

// Done is closed when the connection has ended or failed; Err says why.
func (c *Client) Done() <-chan struct{} { return c.q.done }

// Err is the error that ended the connection, nil before.
func (c *Client) Err() error { return c.q.reason() }

// Close ends the connection; a blocked Recv returns.
func (c *Client) Close() error {
	c.q.close(net.ErrClosed)
	return nil
}
