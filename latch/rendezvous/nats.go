// SPDX-License-Identifier: Apache-2.0

package rendezvous

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// NATSOptions say how to reach a NATS server.
type NATSOptions struct {
	Address string // HOST:PORT
	Name    string // of this end, as the server shows it
	// Keep reconnects for ever, also when the first try fails; messages that are
	// published meanwhile are dropped. Without it a lost connection ends the bus.
	Keep    bool
	Timeout time.Duration // of one try to connect; default 2 s
	Access  NATSAccess
	// Dial connects; nil: net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// NATSAccess says how an end proves to a NATS server who it is.
type NATSAccess struct {
	Credentials string `yaml:"credentials"` // file with a user's JWT and key (nsc's .creds); empty: none
	TLS         bool   `yaml:"tls"`         // with the system's roots
	CA          string `yaml:"ca"`          // file with the roots to trust instead
}

// pingEvery bounds how long a dead server goes unnoticed: two missed answers.
const pingEvery = time.Second

type natsBus struct {
	c    *nats.Conn
	done chan struct{}
	once sync.Once
}

// NATS connects to a NATS server (core NATS, no streams).
func NATS(ctx context.Context, o NATSOptions) (Bus, error) {
	if o.Timeout <= 0 {
		o.Timeout = 2 * time.Second
	}
	b := &natsBus{done: make(chan struct{})}
	opts := []nats.Option{
		nats.Name(o.Name), nats.Timeout(o.Timeout), nats.NoEcho(), nats.PingInterval(pingEvery), nats.MaxPingsOutstanding(2),
		nats.DontRandomize(), nats.SetCustomDialer(&dialer{ctx, o.Dial}),
		nats.ClosedHandler(func(*nats.Conn) { b.end() }),
		nats.ErrorHandler(func(_ *nats.Conn, s *nats.Subscription, err error) {
			if errors.Is(err, nats.ErrSlowConsumer) {
				slog.Warn("messages of the rendezvous were lost: this end reads too slowly", "subject", s.Subject)
				return
			}
			slog.Warn("rendezvous", "error", err)
		}),
	}
	if o.Keep {
		opts = append(opts, nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.ReconnectWait(200*time.Millisecond), nats.ReconnectJitter(100*time.Millisecond, 100*time.Millisecond),
			nats.ReconnectBufSize(-1), // evidence that comes late helps nobody
			nats.DisconnectErrHandler(func(_ *nats.Conn, err error) { slog.Warn("the rendezvous is lost", "address", o.Address, "error", err) }),
			nats.ReconnectHandler(func(*nats.Conn) { slog.Info("the rendezvous is back", "address", o.Address) }))
	} else {
		opts = append(opts, nats.NoReconnect())
	}
	if f := o.Access.Credentials; f != "" {
		if _, err := os.Stat(f); err != nil {
			return nil, fmt.Errorf("rendezvous: credentials: %w", err)
		}
		opts = append(opts, nats.UserCredentials(f))
	}
	scheme := "nats://"
	if o.Access.TLS {
		scheme = "tls://"
		if o.Access.CA != "" {
			opts = append(opts, nats.RootCAs(o.Access.CA))
		}
	}
	c, err := nats.Connect(scheme+o.Address, opts...)
	if err != nil {
		return nil, fmt.Errorf("rendezvous: no connection to the NATS server at %s: %w", o.Address, err)
	}
	b.c = c
	return b, nil
}

// dialer lets the caller's context end a try to connect.
type dialer struct {
	ctx context.Context
	how func(ctx context.Context, network, address string) (net.Conn, error) // nil: net.Dialer
}

func (d *dialer) Dial(network, address string) (net.Conn, error) {
	how := d.how
	if how == nil {
		how = new(net.Dialer).DialContext
	}
	ctx, cancel := context.WithTimeout(d.ctx, 2*time.Second)
	defer cancel()
	return how(ctx, network, address)
}

func (b *natsBus) end() { b.once.Do(func() { close(b.done) }) }

func (b *natsBus) Publish(subject string, data []byte) error { return b.c.Publish(subject, data) }

func (b *natsBus) Subscribe(subject string, fn func(string, []byte)) error {
	s, err := b.c.Subscribe(subject, func(m *nats.Msg) { fn(m.Subject, m.Data) })
	if err != nil {
		return fmt.Errorf("rendezvous: subscribe to %s: %w", subject, err)
	}
	if err := s.SetPendingLimits(1<<16, 32<<20); err != nil {
		return fmt.Errorf("rendezvous: %w", err)
	}
	return nil
}

func (b *natsBus) Done() <-chan struct{} { return b.done }

func (b *natsBus) Close() error {
	b.c.Close()
	b.end()
	return nil
}
