// SPDX-License-Identifier: Apache-2.0

package swtpm

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"

	"holdfast/tpmio/platform"
)

// Client is a connection to a data channel. It is safe for concurrent use;
// commands go one at a time.
type Client struct {
	mu     sync.Mutex
	conn   net.Conn
	addr   string
	broken error
	buf    []byte
}

// Dial connects to the data channel at addr: HOST:PORT or unix:PATH.
func Dial(ctx context.Context, addr string) (*Client, error) {
	conn, err := connect(ctx, addr)
	if err != nil {
		return nil, err
	}
	return NewClient(conn, addr), nil
}

// NewClient is a client over a connection that is there already; name is for
// error messages.
func NewClient(conn net.Conn, name string) *Client { return &Client{conn: conn, addr: name} }

func connect(ctx context.Context, addr string) (net.Conn, error) {
	network, target := "tcp", addr
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		network, target = "unix", path
	} else if _, _, err := net.SplitHostPort(addr); err != nil {
		return nil, fmt.Errorf("swtpm: address %q: expected HOST:PORT or unix:PATH", addr)
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, target)
	if err != nil {
		return nil, fmt.Errorf("swtpm: %w", err)
	}
	return conn, nil
}

// Send sends a command and returns the response. After an error the state of
// the connection is unknown, and all later calls fail with the same error.
func (c *Client) Send(command []byte) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken != nil {
		return nil, c.broken
	}
	if len(command) < platform.HeaderSize || int(binary.BigEndian.Uint32(command[2:])) != len(command) {
		// It would leave the stream out of step for the commands that follow.
		return nil, fmt.Errorf("swtpm: %s: a command of %d bytes whose header does not say so", c.addr, len(command))
	}
	r, err := c.send(command)
	if err != nil {
		c.broken = fmt.Errorf("swtpm: %s: %w", c.addr, err)
		return nil, c.broken
	}
	return r, nil
}

func (c *Client) send(command []byte) ([]byte, error) {
	if _, err := c.conn.Write(command); err != nil {
		return nil, err
	}
	if c.buf == nil {
		c.buf = make([]byte, 4096)
	}
	// Most responses come in one piece: one read.
	n, err := io.ReadAtLeast(c.conn, c.buf, platform.HeaderSize)
	if err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(c.buf[2:])
	if size < platform.HeaderSize || size > platform.MaxFrame {
		return nil, fmt.Errorf("a response of %d bytes, expected %d to %d", size, platform.HeaderSize, platform.MaxFrame)
	}
	if n > int(size) {
		return nil, fmt.Errorf("%d bytes behind a response of %d", n-int(size), size)
	}
	r := make([]byte, size)
	copy(r, c.buf[:n])
	clear(c.buf[:n])
	if _, err := io.ReadFull(c.conn, r[n:]); err != nil {
		return nil, err
	}
	return r, nil
}

// Close closes the connection. A Send that waits for its response returns.
func (c *Client) Close() error {
	err := c.conn.Close() // first: Send holds the lock while it waits
	c.mu.Lock()
	defer c.mu.Unlock()
	c.broken = fmt.Errorf("swtpm: %s: %w", c.addr, net.ErrClosed)
	return err
}

// Control is a connection to a control channel. It is safe for concurrent use.
type Control struct {
	mu   sync.Mutex
	conn net.Conn
}

// DialControl connects to the control channel at addr: HOST:PORT or unix:PATH.
func DialControl(ctx context.Context, addr string) (*Control, error) {
	conn, err := connect(ctx, addr)
	if err != nil {
		return nil, err
	}
	return &Control{conn: conn}, nil
}

// Close closes the connection.
func (c *Control) Close() error { return c.conn.Close() }

// ResultError is a result other than 0 of a control request.
type ResultError struct {
	Request string
	Result  uint32
}

func (e *ResultError) Error() string {
	return fmt.Sprintf("swtpm: control request %s: result %#x", e.Request, e.Result)
}

// call sends a request and reads n bytes of answer behind the result. Only the
// result comes with an error of some servers; then the rest is not waited for.
func (c *Control) call(name string, code uint32, args []byte, n int) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.locked(name, code, args, n)
}

func (c *Control) locked(name string, code uint32, args []byte, n int) ([]byte, error) {
	out := binary.BigEndian.AppendUint32(nil, code)
	if _, err := c.conn.Write(append(out, args...)); err != nil {
		return nil, fmt.Errorf("swtpm: control request %s: %w", name, err)
	}
	a := make([]byte, 4+n)
	got, err := io.ReadAtLeast(c.conn, a, 4)
	if err != nil {
		return nil, fmt.Errorf("swtpm: control request %s: %w", name, err)
	}
	if r := binary.BigEndian.Uint32(a); r != 0 {
		return nil, &ResultError{name, r}
	}
	if _, err := io.ReadFull(c.conn, a[got:]); err != nil {
		return nil, fmt.Errorf("swtpm: control request %s: %w", name, err)
	}
	return a[4:], nil
}

// Init is a power cycle. With deleteVolatile, a stored volatile state is
// deleted after use.
func (c *Control) Init(deleteVolatile bool) error {
	flags := make([]byte, 4)
	if deleteVolatile {
		flags[3] = 1
	}
	_, err := c.call("INIT", cmdInit, flags, 0)
	return err
}

// Stop turns the TPM off.
func (c *Control) Stop() error {
	_, err := c.call("STOP", cmdStop, nil, 0)
	return err
}

// Shutdown asks the server's process to end.
func (c *Control) Shutdown() error {
	_, err := c.call("SHUTDOWN", cmdShutdown, nil, 0)
	return err
}

// SetLocality sets the locality of the data channel.
func (c *Control) SetLocality(l uint8) error {
	_, err := c.call("SET_LOCALITY", cmdSetLocality, []byte{l}, 0)
	return err
}

// Hash runs a whole hash sequence over data.
func (c *Control) Hash(data []byte) error {
	if _, err := c.call("HASH_START", cmdHashStart, nil, 0); err != nil {
		return err
	}
	for len(data) > 0 {
		n := min(len(data), 4000)
		args := binary.BigEndian.AppendUint32(nil, uint32(n))
		if _, err := c.call("HASH_DATA", cmdHashData, append(args, data[:n]...), 0); err != nil {
			return err
		}
		data = data[n:]
	}
	_, err := c.call("HASH_END", cmdHashEnd, nil, 0)
	return err
}

// SetBufferSize sets the size of the TPM's buffers in bytes, 0 only asks; it
// returns the size in use, the smallest and the largest.
func (c *Control) SetBufferSize(want uint32) (now, least, most uint32, err error) {
	a, err := c.call("SET_BUFFERSIZE", cmdSetBufferSize, binary.BigEndian.AppendUint32(nil, want), 12)
	if err != nil {
		return 0, 0, 0, err
	}
	return binary.BigEndian.Uint32(a), binary.BigEndian.Uint32(a[4:]), binary.BigEndian.Uint32(a[8:]), nil
}

// State fetches a part of the TPM's state.
func (c *Control) State(p platform.Part) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	args := make([]byte, 12)
	binary.BigEndian.PutUint32(args[4:], uint32(p))
	head, err := c.locked("GET_STATEBLOB", cmdGetStateBlob, args, 12)
	if err != nil {
		return nil, err
	}
	total, n := binary.BigEndian.Uint32(head[4:]), binary.BigEndian.Uint32(head[8:])
	if total != n || n > maxBlob {
		return nil, fmt.Errorf("swtpm: GET_STATEBLOB: %d of %d bytes were announced, expected all and at most %d", n, total, maxBlob)
	}
	blob := make([]byte, n)
	if _, err := io.ReadFull(c.conn, blob); err != nil {
		return nil, fmt.Errorf("swtpm: GET_STATEBLOB: %w", err)
	}
	return blob, nil
}

// SetState sets a part of the state of a stopped TPM.
func (c *Control) SetState(p platform.Part, state []byte) error {
	if len(state) > maxBlob {
		return errors.New("swtpm: SET_STATEBLOB: the state is too long")
	}
	args := make([]byte, 12, 12+len(state))
	binary.BigEndian.PutUint32(args[4:], uint32(p))
	binary.BigEndian.PutUint32(args[8:], uint32(len(state)))
	_, err := c.call("SET_STATEBLOB", cmdSetStateBlob, append(args, state...), 0)
	return err
}
