// SPDX-License-Identifier: Apache-2.0

// Package vtpmproxy gives a TPM to the kernel: a /dev/tpmN whose commands the
// kernel hands to us (module tpm_vtpm_proxy, device /dev/vtpmx). Call New and
// serve Conn as a swtpm data connection of its own.
package vtpmproxy

import (
	"errors"
	"fmt"
	"net"
	"os"
	"time"
)

// controlDevice is where devices are made.
const controlDevice = "/dev/vtpmx"

// ErrUnsupported says that this kernel has no TPM proxy.
var ErrUnsupported = errors.New("this kernel offers no vTPM proxy: " + controlDevice + " is not there (load the module tpm_vtpm_proxy)")

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
func (d *Device) Conn() net.Conn { return conn{d} }

type conn struct{ d *Device }

func (c conn) Read(p []byte) (int, error)         { return c.d.file.Read(p) }
func (c conn) Write(p []byte) (int, error)        { return c.d.file.Write(p) }
func (c conn) Close() error                       { return c.d.file.Close() }
func (c conn) LocalAddr() net.Addr                { return addr(c.d.Path) }
func (c conn) RemoteAddr() net.Addr               { return addr(c.d.Path) }
func (c conn) SetDeadline(t time.Time) error      { return ignore(c.d.file.SetDeadline(t)) }
func (c conn) SetReadDeadline(t time.Time) error  { return ignore(c.d.file.SetReadDeadline(t)) }
func (c conn) SetWriteDeadline(t time.Time) error { return ignore(c.d.file.SetWriteDeadline(t)) }

// ignore: a descriptor that the runtime cannot poll has no deadlines, which is
// no loss here, since the kernel is the only peer and sends whole commands.
func ignore(err error) error {
	if errors.Is(err, os.ErrNoDeadline) {
		return nil
	}
	return err
}

type addr string

func (addr) Network() string  { return "vtpm" }
func (a addr) String() string { return string(a) }
