// SPDX-License-Identifier: Apache-2.0

package vtpmproxy

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Device is a new TPM device of the kernel.
type Device struct {
	Path string // such as /dev/tpm0
	file *os.File
}

// New makes a TPM 2.0 device. It needs the rights of root.
func New() (*Device, error) {
	ctl, err := os.OpenFile(controlDevice, os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil, ErrUnsupported
	}
	if err != nil {
		return nil, fmt.Errorf("vtpm proxy: %w", err)
	}
	defer ctl.Close()
	number, fd, err := newDevice(ctl.Fd())
	if err != nil {
		return nil, fmt.Errorf("vtpm proxy: %s: %w", controlDevice, err)
	}
	path := fmt.Sprintf("/dev/tpm%d", number)
	return &Device{Path: path, file: os.NewFile(uintptr(fd), path)}, nil
}

// Conn returns the server's end. The kernel gives one command to each read
// and wants the response in one write. Closing it removes the device.
func (d *Device) Conn() net.Conn { return &conn{d: d} }

type conn struct {
	d      *Device
	mu     sync.Mutex // held while the descriptor is in use
	closed atomic.Bool
}

// pollTime is how long Read waits at a time, in milliseconds, and so how long
// Close may have to wait for it.
const pollTime = 100

// Read waits by poll, since the driver's read blocks whatever the mode of the
// descriptor, and could then not be ended.
func (c *conn) Read(p []byte) (int, error) {
	for {
		n, again, err := c.read(p)
		if !again {
			return n, err
		}
	}
}

func (c *conn) read(p []byte) (n int, again bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed.Load() {
		return 0, false, net.ErrClosed
	}
	fd := int(c.d.file.Fd())
	ready := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	switch k, err := unix.Poll(ready, pollTime); {
	case errors.Is(err, unix.EINTR), err == nil && k == 0:
		return 0, true, nil
	case err != nil:
		return 0, false, err
	case ready[0].Revents&unix.POLLIN == 0:
		return 0, false, io.EOF // the kernel's side is gone
	}
	n, err = unix.Read(fd, p)
	if n <= 0 && err == nil {
		err = io.EOF
	}
	return max(n, 0), false, err
}

func (c *conn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed.Load() {
		return 0, net.ErrClosed
	}
	return unix.Write(int(c.d.file.Fd()), p)
}

func (c *conn) Close() error {
	if c.closed.Swap(true) {
		return net.ErrClosed
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.d.file.Close()
}

func (c *conn) LocalAddr() net.Addr  { return addr(c.d.Path) }
func (c *conn) RemoteAddr() net.Addr { return addr(c.d.Path) }

// Deadlines are not needed: the kernel is the only peer and sends whole commands.
func (c *conn) SetDeadline(time.Time) error      { return nil }
func (c *conn) SetReadDeadline(time.Time) error  { return nil }
func (c *conn) SetWriteDeadline(time.Time) error { return nil }

type addr string

func (addr) Network() string  { return "vtpm" }
func (a addr) String() string { return string(a) }
