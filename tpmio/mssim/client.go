// SPDX-License-Identifier: Apache-2.0

package mssim

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"

	"holdfast/tpmio/platform"
)

// Client is a connection to the command port of a simulator. It is safe for
// concurrent use; commands go one at a time.
type Client struct {
	mu       sync.Mutex
	conn     net.Conn
	addr     string
	locality uint8
	out      []byte
	broken   error
}

// Dial connects to the simulator whose command port is at addr (HOST:PORT) and
// turns its power on, which does nothing to a TPM that is on. Commands go out
// with locality 0.
func Dial(ctx context.Context, addr string) (*Client, error) {
	if err := Signal(ctx, addr, signalPowerOn, signalNVOn); err != nil {
		return nil, err
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("mssim: %w", err)
	}
	return &Client{conn: conn, addr: addr}, nil
}

// PowerCycle turns the TPM off and on again: a TPM reset.
func PowerCycle(ctx context.Context, addr string) error {
	return Signal(ctx, addr, signalPowerOff, signalPowerOn, signalNVOn)
}

// Signal sends signals to the platform port that belongs to the command port
// at addr, over a connection of its own.
func Signal(ctx context.Context, addr string, codes ...uint32) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("mssim: address %q: expected HOST:PORT", addr)
	}
	p, err := strconv.ParseUint(port, 10, 16)
	if err != nil || p == 0 || p == 65535 {
		return fmt.Errorf("mssim: address %q: expected a port from 1 to 65534", addr)
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(int(p)+1)))
	if err != nil {
		return fmt.Errorf("mssim: platform port, one above %s: %w", port, err)
	}
	defer conn.Close()
	if t, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(t)
	}
	for _, code := range codes {
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], code)
		if _, err := conn.Write(b[:]); err != nil {
			return fmt.Errorf("mssim: platform port: %w", err)
		}
		if _, err := io.ReadFull(conn, b[:]); err != nil {
			return fmt.Errorf("mssim: platform port, signal %d: %w", code, err)
		}
		if v := binary.BigEndian.Uint32(b[:]); v != statusOK {
			return fmt.Errorf("mssim: signal %d: the simulator answered status %d", code, v)
		}
	}
	_, _ = conn.Write(binary.BigEndian.AppendUint32(nil, sessionEnd))
	return nil
}

// SetLocality sets the locality of the commands that follow.
func (c *Client) SetLocality(l uint8) {
	c.mu.Lock()
	c.locality = l
	c.mu.Unlock()
}

// Send sends a command and returns the response. After an error the state of
// the connection is unknown, and all later calls fail with the same error.
func (c *Client) Send(command []byte) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken != nil {
		return nil, c.broken
	}
	r, err := c.send(command)
	if err != nil {
		c.broken = fmt.Errorf("mssim: %s: %w", c.addr, err)
		return nil, c.broken
	}
	return r, nil
}

func (c *Client) send(command []byte) ([]byte, error) {
	c.out = binary.BigEndian.AppendUint32(c.out[:0], sendCommand)
	c.out = append(c.out, c.locality)
	c.out = binary.BigEndian.AppendUint32(c.out, uint32(len(command)))
	c.out = append(c.out, command...)
	_, err := c.conn.Write(c.out)
	clear(c.out)
	if err != nil {
		return nil, err
	}
	var n [4]byte
	if _, err := io.ReadFull(c.conn, n[:]); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(n[:])
	if size > platform.MaxFrame {
		return nil, fmt.Errorf("a response of %d bytes, expected at most %d", size, platform.MaxFrame)
	}
	b := make([]byte, size+4)
	if _, err := io.ReadFull(c.conn, b); err != nil {
		return nil, err
	}
	if v := binary.BigEndian.Uint32(b[size:]); v != statusOK {
		return nil, fmt.Errorf("the simulator answered status %d", v)
	}
	if size == 0 {
		return nil, errors.New("an empty response: the TPM has no power")
	}
	return b[:size:size], nil
}

// Close ends the session.
func (c *Client) Close() error {
	if !c.mu.TryLock() { // Send holds it while it waits for a response: it must return
		c.conn.Close()
		c.mu.Lock()
	}
	defer c.mu.Unlock()
	if c.broken == nil {
		_, _ = c.conn.Write(binary.BigEndian.AppendUint32(nil, sessionEnd))
	}
	c.broken = fmt.Errorf("mssim: %s: %w", c.addr, net.ErrClosed)
	return c.conn.Close()
}
