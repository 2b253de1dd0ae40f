// SPDX-License-Identifier: Apache-2.0

//go:build linux && amd64

package daemon

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"

	"golang.org/x/sys/unix"

	"holdfast/enclave/epc"
	"holdfast/enclave/urts"
)

// What follows serves applications that run on the C library (sdk/urts): their
// enclave reaches memory of theirs that they name piece by piece.

// outOfTCS is SGX_ERROR_OUT_OF_TCS.
const outOfTCS = 0x1003

// loadForApp loads an enclave whose application shares its memory. A refusal is
// an answer with the sgx_status_t that Intel's library would return.
func (c *conn) loadForApp(f *frame, flags, shared uint32) error {
	n := len(f.files) - 1
	if n < 1 {
		return fmt.Errorf("%w: expected an image and the application's memory, %d descriptors came", errFrame, n+1)
	}
	app := f.files[n]
	f.files = f.files[:n]
	err := checkApp(int(app.Fd()))
	if err == nil {
		err = c.loadWith(f, flags, shared, app)
	}
	if err == nil {
		return nil // the enclave closes app
	}
	app.Close()
	if errors.Is(err, errFrame) || errors.Is(err, errPeerGone) {
		return err
	}
	slog.Debug("an enclave was not loaded", "pid", c.cred.Pid, "error", err)
	b := binary.LittleEndian.AppendUint32(nil, outcomeStatus)
	b = binary.LittleEndian.AppendUint32(b, loadStatus(err))
	return writeFrame(c.c, msgDone, append(b, err.Error()...))
}

// checkApp wants memory, not a file of some file system that could make the
// monitor wait.
func checkApp(fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return errors.New("the application's memory: expected a file of memfd_create")
	}
	return nil
}

// call runs one ECALL of such an application; in is the OCALL that it nests in,
// or nil.
func (c *conn) call(f *frame, in *urts.Call) error {
	if err := f.want(msgCall, 32); err != nil {
		return err
	}
	if c.x == nil {
		return errors.New("load or attach to an enclave first")
	}
	le := binary.LittleEndian
	command, ms, stack, size := int64(le.Uint64(f.payload)), le.Uint64(f.payload[8:]), le.Uint64(f.payload[16:]), le.Uint64(f.payload[24:])
	if command > 1<<31 || command < -1<<31 {
		return fmt.Errorf("%w: ECALL index %d", errFrame, command)
	}
	var lost error
	v := urts.Service{
		OCall: func(call *urts.Call, index int, ms uint64) uint32 {
			status, err := c.ocall(call, index, ms)
			if err != nil {
				lost = err
			}
			return status
		},
		Fault: func(addr uint64) (epc.Region, bool) {
			r, err := c.fault(addr)
			if err != nil {
				lost = err
			}
			return r, err == nil && r.Size > 0
		},
	}
	var err error
	switch {
	case in != nil:
		err = in.ECall(int(command), ms, v.OCall)
	case c.held == nil:
		if c.held, err = c.x.e.Hold(); err != nil {
			break
		}
		fallthrough
	default:
		err = c.held.ECall(int(command), ms, stack, size, v)
		if !c.x.e.Bind() {
			c.release()
		}
	}
	if lost != nil {
		return lost
	}
	if errors.Is(err, urts.ErrNoThread) {
		err = urts.StatusError(outOfTCS)
	}
	return writeFrame(c.c, msgDone, doneOf(err))
}

// release gives the thread of the enclave back.
func (c *conn) release() {
	if c.held != nil {
		c.held.Release()
		c.held = nil
	}
}

// fault asks the application for the memory at an address. An empty region is
// its refusal.
func (c *conn) fault(addr uint64) (epc.Region, error) {
	if err := writeFrame(c.c, msgFault, u64s(addr)); err != nil {
		return epc.Region{}, errPeerGone
	}
	select {
	case f := <-c.in:
		defer f.close()
		return region(&f)
	case <-c.gone:
		return epc.Region{}, errPeerGone
	}
}

// region reads msgGrant.
func region(f *frame) (r epc.Region, err error) {
	if err := f.want(msgGrant, 28); err != nil {
		return r, err
	}
	le := binary.LittleEndian
	write := le.Uint32(f.payload[24:])
	if write > 1 {
		return r, fmt.Errorf("%w: expected 0 or 1 for writable, got %d", errFrame, write)
	}
	return epc.Region{Addr: le.Uint64(f.payload), Size: le.Uint64(f.payload[8:]), Offset: le.Uint64(f.payload[16:]), Write: write == 1}, nil
}

func (c *conn) grant(f *frame) error {
	r, err := region(f)
	if err != nil {
		return err
	}
	if c.x == nil {
		return errors.New("load or attach to an enclave first")
	}
	if err := c.x.e.Grant(r); err != nil {
		return err
	}
	return writeFrame(c.c, msgResult, nil)
}

func (c *conn) revoke(f *frame) error {
	if c.x == nil {
		return errors.New("load or attach to an enclave first")
	}
	if len(f.payload)%16 != 0 {
		return fmt.Errorf("%w: ranges in %d bytes", errFrame, len(f.payload))
	}
	for b := f.payload; len(b) > 0; b = b[16:] {
		if err := c.x.e.Revoke(binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])); err != nil {
			return err
		}
	}
	return writeFrame(c.c, msgResult, nil)
}

func (c *conn) self() error {
	if c.x == nil {
		return errors.New("load or attach to an enclave first")
	}
	t, base, size := c.x.e.Self()
	b := append(t.AppendTo(nil), u64s(base, size)...)
	bind := uint32(0)
	if c.x.e.Bind() {
		bind = 1
	}
	return writeFrame(c.c, msgResult, binary.LittleEndian.AppendUint32(b, bind))
}
