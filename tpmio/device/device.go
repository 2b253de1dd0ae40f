// SPDX-License-Identifier: Apache-2.0

// Package device reaches a TPM through a character device of the kernel, such
// as /dev/tpmrm0 (with the kernel's resource manager) or /dev/tpm0. Call Open.
package device

import (
	"encoding/binary"
	"fmt"
	"os"
	"sync"

	"holdfast/tpmio/platform"
)

// Device is an open TPM device. It is safe for concurrent use.
type Device struct {
	mu     sync.Mutex
	f      *os.File
	buf    []byte
	broken error
}

// Open opens the device at path. Only a character device is accepted.
func Open(path string) (*Device, error) {
	f, err := openFile(path)
	if err != nil {
		return nil, fmt.Errorf("device: %w", err)
	}
	info, err := f.Stat()
	if err == nil && info.Mode()&os.ModeCharDevice == 0 {
		err = fmt.Errorf("%s is not a character device", path)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("device: %w", err)
	}
	return &Device{f: f, buf: make([]byte, platform.MaxFrame)}, nil
}

// Exclusive tells whether nobody but the owner of the file and its group can
// open the device. Whoever can open it can use every key whose authorization
// he knows or that needs none.
func (d *Device) Exclusive() (bool, error) {
	info, err := d.f.Stat()
	if err != nil {
		return false, err
	}
	return info.Mode().Perm()&0o006 == 0, nil
}

// Send sends a command and returns the response.
func (d *Device) Send(command []byte) ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.broken != nil {
		return nil, d.broken
	}
	r, err := d.send(command)
	if err != nil {
		d.broken = fmt.Errorf("device: %s: %w", d.f.Name(), err)
		return nil, d.broken
	}
	return r, nil
}

func (d *Device) send(command []byte) ([]byte, error) {
	if n, err := d.f.Write(command); err != nil {
		return nil, err
	} else if n != len(command) {
		return nil, fmt.Errorf("the driver took %d of %d bytes of the command", n, len(command))
	}
	n, err := d.f.Read(d.buf) // one read gives the whole response
	if err != nil {
		return nil, err
	}
	r := append([]byte(nil), d.buf[:n]...)
	clear(d.buf[:n])
	if n < platform.HeaderSize || int(binary.BigEndian.Uint32(r[2:])) != n {
		return nil, fmt.Errorf("a response of %d bytes whose header does not say so", n)
	}
	return r, nil
}

// Close closes the device.
func (d *Device) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.broken = os.ErrClosed
	return d.f.Close()
}
