// SPDX-License-Identifier: Apache-2.0

package channel

import (
	"encoding/binary"
	"errors"
	"net"
	"sync"
	"syscall"
	"time"
)

// writeTimeout bounds how long a peer may leave written bytes unread.
const writeTimeout = 10 * time.Second

// errSlow ends a connection whose peer does not read as fast as it is sent to.
var errSlow = errors.New("channel: the peer reads too slowly, more bytes wait than the limit allows; connection closed")

// queue sends frames without ever blocking the caller. Bytes go to the socket
// at once when it takes them (one system call for a whole batch of frames, no
// other goroutine woken); what it does not take is kept, up to max bytes, for
// a writer goroutine.
type queue struct {
	conn net.Conn
	raw  syscall.RawConn // nil: always through the writer
	max  int

	mu      sync.Mutex
	buf     []byte // frames not yet written
	spare   []byte
	writing bool          // the writer owns the socket
	taken   int           // bytes the writer is writing
	leaving time.Duration // not 0: err is set, the writer writes what is left, each time for at most so long
	err     error
	wake    chan struct{}
	done    chan struct{} // closed with err set
}

func newQueue(c net.Conn, max int) *queue {
	q := &queue{conn: c, max: max, wake: make(chan struct{}, 1), done: make(chan struct{})}
	if sc, ok := c.(syscall.Conn); ok {
		q.raw, _ = sc.SyscallConn()
	}
	return q
}

// send calls add to append frames to the buffer and writes what it can. When
// the bound is passed the connection is closed and errSlow returned.
func (q *queue) send(add func(b []byte) []byte) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err != nil {
		return q.err
	}
	q.buf = add(q.buf)
	if len(q.buf)+q.taken > q.max {
		q.failLocked(errSlow)
		return q.err
	}
	if q.writing || len(q.buf) == 0 {
		return nil
	}
	n, err := q.try()
	if err != nil {
		q.failLocked(err)
		return q.err
	}
	if n == len(q.buf) {
		q.buf = q.buf[:0]
		if cap(q.buf) > 1<<20 {
			q.buf = nil // one large endorsement is no reason to keep its memory
		}
		return nil
	}
	q.buf = q.buf[:copy(q.buf, q.buf[n:])]
	q.writing = true
	q.wake <- struct{}{} // has room: the writer takes one per change of writing to true
	return nil
}

// try writes what the socket takes now.
func (q *queue) try() (int, error) {
	if c, ok := q.conn.(interface{ TryWrite([]byte) (int, error) }); ok {
		return c.TryWrite(q.buf)
	}
	return tryWrite(q.raw, q.buf)
}

func (q *queue) failLocked(err error) {
	q.leaving, q.buf = 0, nil
	q.endLocked(err)
	q.conn.Close()
}

// endLocked makes later sends return err; the connection stays open.
func (q *queue) endLocked(err error) {
	if q.err == nil {
		q.err = err
		if q.leaving == 0 {
			q.buf, q.spare = nil, nil
		}
		close(q.wake)
		close(q.done)
	}
}

// last sends a last message, without waiting, and says to the peer that no more
// comes. What the socket does not take at once the writer has linger to write.
// Reading goes on as long, since closing with unread bytes would make TCP throw
// the message away.
func (q *queue) last(add func(b []byte) []byte, linger time.Duration) {
	q.mu.Lock()
	conn := q.conn
	q.mu.Unlock()
	conn.SetReadDeadline(time.Now().Add(linger))
	q.send(add)
	q.mu.Lock()
	mine := q.err != nil || !q.writing
	if !mine {
		q.leaving = linger
		conn.SetWriteDeadline(time.Now().Add(linger))
	}
	q.endLocked(net.ErrClosed)
	q.mu.Unlock()
	if mine {
		closeWrite(conn)
	}
}

func closeWrite(c net.Conn) {
	if cw, ok := c.(interface{ CloseWrite() error }); ok {
		cw.CloseWrite()
	}
}

// close ends the queue; err is what later sends return.
func (q *queue) close(err error) {
	q.mu.Lock()
	q.failLocked(err)
	q.mu.Unlock()
}

// writer writes what send left over; it returns when the queue is closed.
func (q *queue) writer() {
	for range q.wake {
		for {
			q.mu.Lock()
			if q.err != nil && q.leaving == 0 || len(q.buf) == 0 {
				q.writing = false
				last, conn := q.leaving > 0, q.conn
				q.mu.Unlock()
				if last {
					closeWrite(conn)
				}
				break
			}
			limit := writeTimeout
			if q.leaving > 0 {
				limit = q.leaving
			}
			b, conn := q.buf, q.conn
			q.buf, q.spare, q.taken = q.spare[:0], nil, len(b)
			q.mu.Unlock()
			conn.SetWriteDeadline(time.Now().Add(limit))
			_, err := conn.Write(b)
			conn.SetWriteDeadline(time.Time{}) // tryWrite would fail on one that has passed
			q.mu.Lock()
			q.taken = 0
			if cap(b) <= 1<<20 {
				q.spare = b[:0]
			}
			if err != nil {
				if ne := net.Error(nil); errors.As(err, &ne) && ne.Timeout() {
					err = errSlow
				}
				q.failLocked(err)
			}
			q.mu.Unlock()
		}
	}
}

// frame appends the message that add encodes, preceded by its length.
func frame(b []byte, add func([]byte) []byte) []byte {
	at := len(b)
	b = add(append(b, 0, 0, 0, 0))
	binary.BigEndian.PutUint32(b[at:], uint32(len(b)-at-4))
	return b
}

// reason is the error that ended the queue, or nil.
func (q *queue) reason() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.err
}
