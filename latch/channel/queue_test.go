// SPDX-License-Identifier: Apache-2.0

package channel

import (
	"errors"
	"io"
	"net"
	"testing"
	"time"
)

// TestLastBehindWriter: a last message that comes while the writer still writes
// goes out behind what was there before.
func TestLastBehindWriter(t *testing.T) {
	here, there := net.Pipe() // takes nothing until it is read
	defer there.Close()
	q := newQueue(here, 1000)
	ended := make(chan struct{})
	go func() { q.writer(); close(ended) }()
	put := func(s string) func([]byte) []byte { return func(b []byte) []byte { return append(b, s...) } }
	if err := q.send(put("first ")); err != nil {
		t.Fatal(err)
	}
	q.last(put("last"), 20*time.Second)
	if err := q.send(put("more")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("after the last one: %v, expected %v", err, net.ErrClosed)
	}
	there.SetReadDeadline(time.Now().Add(20 * time.Second))
	b := make([]byte, len("first last"))
	if n, err := io.ReadFull(there, b); err != nil || string(b) != "first last" {
		t.Errorf("%q arrived, %v", b[:n], err)
	}
	<-ended
}

// TestLastToSlowPeer: who reads nothing does not keep the writer for longer than
// linger.
func TestLastToSlowPeer(t *testing.T) {
	here, there := net.Pipe()
	defer there.Close()
	q := newQueue(here, 1000)
	ended := make(chan struct{})
	go func() { q.writer(); close(ended) }()
	q.send(func(b []byte) []byte { return append(b, "first"...) })
	q.last(func(b []byte) []byte { return append(b, "last"...) }, 10*time.Millisecond)
	select {
	case <-ended:
	case <-time.After(writeTimeout + 10*time.Second):
		t.Fatal("the writer still writes")
	}
	if !errors.Is(q.reason(), net.ErrClosed) {
		t.Error(q.reason())
	}
}
