// SPDX-License-Identifier: Apache-2.0

// Package audit writes the audit log of a gate or agent: one JSON object a
// line for each decision. Open, then Add for each event, Reopen after the file
// was moved away (logrotate), Close at the end.
//
// Add never waits: events queue up to a bound for the one goroutine that
// writes. What does not fit, or cannot be written, is counted, and the count
// itself goes into the log as an event "dropped" as soon as there is room, so
// that a gap shows. The file is opened for appending with mode 0600 and grows
// up to a bound; then events are dropped until Reopen.
//
// A line is in the kernel's hands shortly after Add; it is not synced to disk.
package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// dropped is the event that says how many others are missing.
const dropped = "dropped"

// Event is one line of the log.
type Event struct {
	Time  time.Time `json:"time"`
	Event string    `json:"event"` // released, refused, reload, start, stop, dropped
	ID    string    `json:"id,omitempty"`

	Service     string `json:"service,omitempty"` // server name
	Reason      string `json:"reason,omitempty"`  // see holdfast latch explain
	Detail      string `json:"detail,omitempty"`
	Local       string `json:"local,omitempty"`
	Remote      string `json:"remote,omitempty"`
	HeldMicros  int64  `json:"held_us,omitempty"`
	Environment string `json:"environment,omitempty"`
	Simulated   bool   `json:"simulated,omitempty"`
	PQ          bool   `json:"pq,omitempty"` // the evidence is signed with ML-DSA throughout

	Count uint64 `json:"count,omitempty"` // of dropped: events that are missing before this line
}

// Config is the part of a configuration file.
type Config struct {
	File string `yaml:"file"`
	// Queue is how many events may wait to be written; default 4,096.
	Queue int `yaml:"queue"`
	// MaxBytes is how large the file may get; default 256 MiB.
	MaxBytes int64 `yaml:"max-bytes"`
}

const (
	defaultQueue = 4096
	maxQueue     = 1 << 20
	defaultBytes = 256 << 20
	minBytes     = 4096
	bufferSize   = 32 << 10
)

// Check fills the defaults in and says what is wrong.
func (c *Config) Check() error {
	if c.File == "" {
		if c.Queue != 0 || c.MaxBytes != 0 {
			return errors.New("audit: queue or max-bytes without file")
		}
		return nil
	}
	if c.Queue == 0 {
		c.Queue = defaultQueue
	}
	if c.MaxBytes == 0 {
		c.MaxBytes = defaultBytes
	}
	if c.Queue < 1 || c.Queue > maxQueue {
		return fmt.Errorf("audit.queue: got %d, expected 1 to %d", c.Queue, maxQueue)
	}
	if c.MaxBytes < minBytes {
		return fmt.Errorf("audit.max-bytes: got %d, expected at least %d", c.MaxBytes, minBytes)
	}
	return nil
}

// Log is an open audit log. Its methods are safe for concurrent use; those of
// a nil Log do nothing.
type Log struct {
	c       Config
	queue   chan Event
	reopen  chan chan error
	done    chan struct{}
	closing sync.Once
	gate    sync.RWMutex // held for writing by Close
	closed  bool

	written, missing atomic.Uint64
	unsaid           atomic.Uint64 // missing, and not yet in the log

	// Of the writing goroutine.
	f     *os.File
	buf   []byte
	lines []uint64 // of each line in buf: 0 for an event, or the number that it says is missing
	size  int64    // of the file, with buf
	bad   bool     // the last try to write failed
}

// Open opens the log. A Config without a file gives nil, which is a log that
// takes nothing.
func Open(c Config) (*Log, error) {
	if err := c.Check(); err != nil || c.File == "" {
		return nil, err
	}
	l := &Log{c: c, queue: make(chan Event, c.Queue), reopen: make(chan chan error), done: make(chan struct{})}
	if err := l.open(); err != nil {
		return nil, err
	}
	go l.run()
	return l, nil
}

// Add takes an event. It never waits.
func (l *Log) Add(e *Event) {
	if l == nil {
		return
	}
	l.gate.RLock()
	defer l.gate.RUnlock()
	if l.closed {
		l.lose(1)
		return
	}
	select {
	case l.queue <- *e:
	default:
		l.lose(1)
	}
}

func (l *Log) lose(n uint64) {
	l.missing.Add(n)
	l.unsaid.Add(n)
}

// Reopen closes the file and opens it by its name again, after what was added
// before is written to the old one. After an error the old file stays in use.
func (l *Log) Reopen() error {
	if l == nil {
		return nil
	}
	answer := make(chan error, 1)
	select {
	case l.reopen <- answer:
		return <-answer
	case <-l.done:
		return errors.New("the audit log is closed")
	}
}

// Counts tells how many events were written, and how many are missing.
func (l *Log) Counts() (written, missing uint64) {
	if l == nil {
		return 0, 0
	}
	return l.written.Load(), l.missing.Load()
}

// Close writes what waits and closes the file.
func (l *Log) Close() error {
	if l == nil {
		return nil
	}
	l.closing.Do(func() {
		l.gate.Lock()
		l.closed = true
		close(l.queue)
		l.gate.Unlock()
	})
	<-l.done
	if _, missing := l.Counts(); missing > 0 {
		return fmt.Errorf("audit log %s: %d events are missing", l.c.File, missing)
	}
	return nil
}

func (l *Log) open() error {
	f, err := os.OpenFile(l.c.File, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("audit log: %w", err)
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", l.c.File)
	}
	if err != nil {
		f.Close()
		return fmt.Errorf("audit log: %w", err)
	}
	if l.f != nil {
		l.f.Close()
	}
	l.f, l.size, l.buf, l.lines = f, st.Size(), l.buf[:0], l.lines[:0]
	return nil
}

func (l *Log) run() {
	defer close(l.done)
	defer func() { l.f.Close() }()
	for {
		select {
		case e, ok := <-l.queue:
			if !ok {
				l.said()
				l.flush()
				return
			}
			l.write(&e)
			if len(l.queue) == 0 {
				l.said()
				l.flush()
			}
		case answer := <-l.reopen:
			for n := len(l.queue); n > 0; n-- { // what was added before
				if e, ok := <-l.queue; ok {
					l.write(&e)
				}
			}
			l.flush()
			answer <- l.open()
			l.said()
			l.flush()
		}
	}
}

// said puts the number of missing events into the log.
func (l *Log) said() {
	n := l.unsaid.Load()
	if n == 0 {
		return
	}
	if l.put(&Event{Time: time.Now(), Event: dropped, Count: n}) {
		l.unsaid.Add(-n)
	}
}

func (l *Log) write(e *Event) {
	if l.unsaid.Load() > 0 {
		l.said()
	}
	if l.put(e) {
		l.written.Add(1)
	} else {
		l.lose(1)
	}
}

// missing is what the line says is missing; 0 for an event that happened.
func (e *Event) missing() uint64 {
	if e.Event == dropped {
		return e.Count
	}
	return 0
}

// put puts one line into the buffer.
func (l *Log) put(e *Event) bool {
	b, err := json.Marshal(e)
	if err != nil {
		l.complain(err)
		return false
	}
	if l.size+int64(len(b))+1 > l.c.MaxBytes {
		l.complain(fmt.Errorf("the file has reached %d bytes (audit.max-bytes); move it away and send SIGHUP", l.size))
		return false
	}
	l.buf = append(append(l.buf, b...), '\n')
	l.size += int64(len(b)) + 1
	l.lines = append(l.lines, e.missing())
	if len(l.buf) >= bufferSize {
		l.flush()
	}
	return true
}

// flush hands the buffer to the kernel. Lines that it did not take are counted
// as missing; a torn line is ended, so that the next one is readable.
func (l *Log) flush() {
	if len(l.buf) == 0 {
		return
	}
	n, err := l.f.Write(l.buf)
	if err != nil {
		for _, said := range l.lines[bytes.Count(l.buf[:n], []byte("\n")):] {
			if said > 0 {
				l.unsaid.Add(said)
				continue
			}
			l.written.Add(^uint64(0))
			l.lose(1)
		}
		l.complain(err)
		torn := n > 0 && l.buf[n-1] != '\n'
		l.buf, l.lines = l.buf[:0], l.lines[:0]
		if torn {
			l.buf = append(l.buf, '\n')
		}
		return
	}
	l.buf, l.lines, l.bad = l.buf[:0], l.lines[:0], false
}

// complain says once that events are lost, until writing works again.
func (l *Log) complain(err error) {
	if !l.bad {
		l.bad = true
		slog.Error("events are missing in the audit log", "file", l.c.File, "error", err)
	}
}
