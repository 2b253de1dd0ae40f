// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"fmt"
	mrand "math/rand/v2"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// inFlight is how many attempts at genuine servers a client has under way at
// most: the machine, not the gate, would make more of them late.
const inFlight = 12

// Kinds of attempts.
const (
	kindGenuine  = "genuine"
	kindThief    = "thief"
	kindRelay    = "relay"
	kindNoise    = "noise"
	kindOddHello = "odd-hello"
)

// plan is what one client process does.
type plan struct {
	Source  string // address that its connections come from
	Genuine []target
	Thief   string // host of the adversary
	Live    int
	Rate    float64 // attempts a second at most
	Churn   float64 // sessions closed a second
	Ping    float64 // requests a second over live sessions
	Odd     float64 // share of attempts that are malformed or go to the adversary
	Limit   time.Duration
}

type target struct{ Name, Address string }

// counters is what the client reports once a second, as one line of JSON.
type counters struct {
	Live     int64            `json:"live"`
	Pings    int64            `json:"pings"`
	Lost     int64            `json:"lost"`  // live sessions that broke
	Tried    map[string]int64 `json:"tried"` // by kind
	OK       map[string]int64 `json:"ok"`
	SlowMs   int64            `json:"slowest_ms"`     // attempt since the last report
	LastFail string           `json:"last,omitempty"` // error of a genuine attempt since the last report
}

// slow is an attempt that took longer than Limit: one line of JSON.
type slow struct {
	Kind     string    `json:"slow"`
	From, To time.Time `json:",omitzero"`
	Err      string
}

type client struct {
	plan
	mu   sync.Mutex
	c    counters
	live []*tls.Conn
	slot chan struct{}
	out  sync.Mutex
	seq  atomic.Int64
}

// keep runs the plan until ctx ends.
func (p plan) keep(ctx context.Context) error {
	c := &client{plan: p, slot: make(chan struct{}, inFlight)}
	c.c.Tried, c.c.OK = map[string]int64{}, map[string]int64{}
	var wg sync.WaitGroup
	every := func(perSecond float64, do func()) {
		wg.Go(func() {
			t := time.NewTicker(time.Duration(float64(time.Second) / perSecond))
			defer t.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-t.C:
					do()
				}
			}
		})
	}
	every(p.Rate, func() {
		c.mu.Lock()
		full := len(c.live)+len(c.slot) >= p.Live
		c.mu.Unlock()
		if full {
			return
		}
		if mrand.Float64() < c.Odd {
			go c.attempt(ctx, []string{kindThief, kindRelay, kindNoise, kindOddHello}[mrand.IntN(4)])
			return
		}
		select {
		case c.slot <- struct{}{}:
			go func() {
				defer func() { <-c.slot }()
				c.attempt(ctx, kindGenuine)
			}()
		default:
		}
	})
	every(p.Churn, func() {
		if s := c.take(); s != nil {
			s.Close()
		}
	})
	every(p.Ping, func() { c.ping(ctx) })
	every(1, func() { c.report() })
	wg.Wait()
	c.report()
	return nil
}

// attempt makes one connection of some kind. Its time counts from when TCP is
// connected, as the gate's deadline does from the hello, which is next.
func (c *client) attempt(ctx context.Context, kind string) {
	var from time.Time
	s, err := c.connect(ctx, kind, &from)
	if from.IsZero() {
		from = time.Now()
	}
	took := time.Since(from)
	if ctx.Err() != nil {
		if s != nil {
			s.Close()
		}
		return
	}
	c.mu.Lock()
	c.c.Tried[kind]++
	c.c.SlowMs = max(c.c.SlowMs, took.Milliseconds())
	if err == nil {
		c.c.OK[kind]++
		c.live = append(c.live, s)
	} else if kind == kindGenuine {
		c.c.LastFail = err.Error()
	}
	c.mu.Unlock()
	if took > c.Limit {
		text := ""
		if err != nil {
			text = err.Error()
		}
		c.print(slow{kind, from, time.Now(), text})
	}
}

// connect returns a session over which a request was answered.
func (c *client) connect(ctx context.Context, kind string, connected *time.Time) (*tls.Conn, error) {
	to := c.Genuine[mrand.IntN(len(c.Genuine))]
	switch kind {
	case kindThief:
		to.Address = net.JoinHostPort(c.Thief, portThief)
	case kindRelay:
		to.Address = net.JoinHostPort(c.Thief, portRelay)
	case kindNoise:
		to.Address = net.JoinHostPort(c.Thief, portNoise)
	case kindOddHello:
		to.Address = net.JoinHostPort(c.Thief, portSink)
	}
	// Far beyond the gate's deadline: it is the gate that must end this.
	d := net.Dialer{Timeout: time.Minute, LocalAddr: &net.TCPAddr{IP: net.ParseIP(c.Source)}}
	d.SetMultipathTCP(false)
	raw, err := d.DialContext(ctx, "tcp", to.Address)
	if err != nil {
		return nil, err
	}
	*connected = time.Now()
	stop := context.AfterFunc(ctx, func() { raw.Close() })
	defer stop()
	raw.SetDeadline(time.Now().Add(time.Minute))
	if kind == kindOddHello {
		defer raw.Close()
		return nil, sendOdd(raw)
	}
	s := tls.Client(raw, &tls.Config{ServerName: to.Name, InsecureSkipVerify: true})
	if err := c.ask(s); err != nil {
		raw.Close()
		return nil, err
	}
	raw.SetDeadline(time.Time{})
	return s, nil
}

// ask sends a line that nobody else sends and expects it back.
func (c *client) ask(s *tls.Conn) error {
	line := "secret " + strconv.FormatInt(c.seq.Add(1), 10) + "\n"
	if _, err := s.Write([]byte(line)); err != nil {
		return err
	}
	b := make([]byte, 64)
	n := 0
	for n < len(line) {
		m, err := s.Read(b[n:])
		if err != nil {
			return err
		}
		n += m
	}
	if string(b[:n]) != line {
		return errWrongAnswer
	}
	return nil
}

// sendOdd sends first bytes that the gate must not take for an attestable hello,
// and waits for the end.
func sendOdd(c net.Conn) error {
	b := make([]byte, 11+mrand.IntN(600))
	rand.Read(b)
	switch mrand.IntN(4) {
	case 0: // no TLS at all
		b[0] = 'G'
	case 1: // a record whose message is nonsense
		copy(b, []byte{22, 3, 1, byte((len(b) - 5) >> 8), byte(len(b) - 5), 1})
	case 2: // a record of the wrong kind
		copy(b, []byte{23, 3, 3, 0, 200})
	case 3: // a hello that never becomes whole
		copy(b, []byte{22, 3, 1, 8, 0, 1, 0, 7, 252, 3, 3})
	}
	if _, err := c.Write(b); err != nil {
		return err
	}
	_, err := c.Read(b)
	return err
}

// take removes a live session at random.
func (c *client) take() *tls.Conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.live) == 0 {
		return nil
	}
	i := mrand.IntN(len(c.live))
	s := c.live[i]
	last := len(c.live) - 1
	c.live[i], c.live[last] = c.live[last], nil
	c.live = c.live[:last]
	return s
}

// ping asks over a live session.
func (c *client) ping(ctx context.Context) {
	s := c.take()
	if s == nil {
		return
	}
	s.SetDeadline(time.Now().Add(10 * time.Second))
	err := c.ask(s)
	if err == nil {
		err = s.SetDeadline(time.Time{})
	}
	if ctx.Err() != nil {
		s.Close()
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.c.Pings++
	if err != nil {
		c.c.Lost++
		s.Close()
		return
	}
	c.live = append(c.live, s)
}

func (c *client) report() {
	c.mu.Lock()
	c.c.Live = int64(len(c.live))
	b, _ := json.Marshal(&c.c)
	c.c.SlowMs, c.c.LastFail = 0, ""
	c.mu.Unlock()
	c.out.Lock()
	defer c.out.Unlock()
	fmt.Fprintf(os.Stdout, "%s\n", b)
}

func (c *client) print(v any) {
	b, _ := json.Marshal(v)
	c.out.Lock()
	defer c.out.Unlock()
	fmt.Fprintf(os.Stdout, "%s\n", b)
}
