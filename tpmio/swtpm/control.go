// SPDX-License-Identifier: Apache-2.0

package swtpm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"

	"holdfast/tpmio/listen"
	"holdfast/tpmio/platform"
)

// control is one connection of the control channel.
type control struct {
	*Server
	c     *listen.Conn
	scope *scope // the shared one, or that of a passed descriptor
}

// runControl serves a control connection.
func (s *Server) runControl(c *listen.Conn) {
	if _, ok := c.Conn.(*net.UnixConn); ok {
		c.AcceptFiles()
	}
	k := &control{Server: s, c: c, scope: &s.shared}
	for {
		err := k.request()
		if err == nil {
			err = c.EndRequest()
		}
		if err != nil {
			s.ended(c, "control", err)
			return
		}
	}
}

// take consumes the code and n bytes of arguments and returns the latter.
func (k *control) take(n int) ([]byte, error) {
	b, err := k.c.Peek(4 + n)
	if err != nil {
		return nil, err
	}
	a := append([]byte(nil), b[4:]...)
	k.c.Discard(4 + n)
	return a, nil
}

// takeByte is take for the requests whose argument is one byte. QEMU sends it
// in a structure of four; since nobody sends the next request before the
// answer, up to three bytes behind it are that padding.
func (k *control) takeByte() (uint8, error) {
	a, err := k.take(1)
	if err != nil {
		return 0, err
	}
	if n := k.c.Buffered(); n > 0 && n <= 3 {
		k.c.Discard(n)
	}
	return a[0], nil
}

// answer sends a result and what belongs to it.
func (k *control) answer(result uint32, more ...uint32) error {
	a := binary.BigEndian.AppendUint32(nil, result)
	for _, v := range more {
		a = binary.BigEndian.AppendUint32(a, v)
	}
	_, err := k.c.Write(a)
	return err
}

// result translates an error of the machine.
func (k *control) result(what string, err error) uint32 {
	switch {
	case err == nil:
		return resultOK
	case errors.Is(err, platform.ErrOff), errors.Is(err, platform.ErrRunning), errors.Is(err, platform.ErrUnsupported):
		k.log.Debug("swtpm: control request refused", "request", what, "error", err)
		return resultBadOrdinal
	}
	k.log.Error("swtpm: control request failed", "request", what, "error", err)
	return resultFail
}

// request serves one request.
func (k *control) request() error {
	b, err := k.c.Peek(4)
	if err != nil {
		return err
	}
	code := binary.BigEndian.Uint32(b)
	switch code {
	case cmdGetCapability:
		k.c.Discard(4)
		return k.answer(0, k.capabilities()) // a u64
	case cmdInit:
		return k.initialize()
	case cmdStop:
		k.c.Discard(4)
		k.machine.PowerOff()
		return k.answer(resultOK)
	case cmdShutdown:
		k.c.Discard(4)
		k.machine.PowerOff()
		err := k.answer(resultOK)
		if k.options.OnShutdown != nil {
			k.options.OnShutdown()
		}
		return err
	case cmdSetLocality:
		return k.setLocality()
	case cmdGetEstablished:
		k.c.Discard(4)
		bit, err := k.machine.Established()
		a := binary.BigEndian.AppendUint32(nil, k.result("GET_TPMESTABLISHED", err))
		if bit {
			a = append(a, 1, 0, 0, 0)
		} else {
			a = append(a, 0, 0, 0, 0) // one byte, and the padding of the C structure
		}
		_, err = k.c.Write(a)
		return err
	case cmdResetEstablished:
		return k.resetEstablished()
	case cmdHashStart, cmdHashData, cmdHashEnd:
		return k.hash(code)
	case cmdCancel:
		// Commands run to their end; there is nothing to cancel, and no error.
		k.c.Discard(4)
		return k.answer(resultOK)
	case cmdStoreVolatile:
		k.c.Discard(4)
		return k.answer(k.result("STORE_VOLATILE", k.machine.StoreVolatile()))
	case cmdGetStateBlob:
		return k.getBlob()
	case cmdSetStateBlob:
		return k.setBlob()
	case cmdGetConfig:
		k.c.Discard(4)
		return k.answer(resultOK, 0)
	case cmdSetDataFD:
		return k.setDataFD()
	case cmdSetBufferSize:
		return k.setBufferSize()
	case cmdGetInfo:
		return k.getInfo()
	case cmdLockStorage:
		if _, err := k.take(4); err != nil {
			return err
		}
		return k.answer(resultOK) // the store is locked while the process lives
	}
	// The arguments of an unknown request cannot be skipped.
	return errors.Join(fmt.Errorf("unknown control request %#x", code), k.answer(resultBadOrdinal))
}

// capabilities lists what the engine behind us can do.
func (k *control) capabilities() uint32 {
	v := uint32(capInit | capShutdown | capGetEstablished | capSetLocality | capCancel | capResetEstablished |
		capStop | capGetConfig | capLockStorage)
	has := k.machine.Has()
	if has.Hash {
		v |= capHashing
	}
	if has.State {
		v |= capStoreVolatile | capGetStateBlob | capSetStateBlob
	}
	if has.Describe {
		v |= capGetInfo
	}
	if has.Buffer {
		v |= capSetBufferSize
	}
	if _, ok := k.c.Conn.(*net.UnixConn); ok {
		v |= capSetDataFD
	}
	return v
}

// initialize serves INIT: a power cycle. A volatile state that waits is used
// up by it, with the flag that says so and without.
func (k *control) initialize() error {
	if _, err := k.take(4); err != nil {
		return err
	}
	return k.answer(k.result("INIT", k.machine.Reset()))
}

func (k *control) setLocality() error {
	l, err := k.takeByte()
	if err != nil {
		return err
	}
	if l > k.scope.max {
		k.log.Debug("swtpm: locality refused", "locality", l, "highest", k.scope.max)
		return k.answer(resultBadLocality)
	}
	k.scope.locality.Store(uint32(l))
	return k.answer(resultOK)
}

func (k *control) resetEstablished() error {
	l, err := k.takeByte()
	if err != nil {
		return err
	}
	// The bit can be reset from localities 3 and 4 only (PC Client PTP, TPM_ACCESS/TPM_STS).
	if l > k.scope.max || l < 3 {
		return k.answer(resultBadLocality)
	}
	return k.answer(k.result("RESET_TPMESTABLISHED", k.machine.ResetEstablished()))
}

// hash serves the hash sequence, which acts at locality 4.
func (k *control) hash(code uint32) error {
	allowed := k.scope.max >= platform.MaxLocality
	switch code {
	case cmdHashStart:
		k.c.Discard(4)
		if !allowed {
			return k.answer(resultBadLocality)
		}
		return k.answer(k.result("HASH_START", k.machine.HashStart()))
	case cmdHashEnd:
		k.c.Discard(4)
		if !allowed {
			return k.answer(resultBadLocality)
		}
		return k.answer(k.result("HASH_END", k.machine.HashEnd()))
	}
	b, err := k.c.Peek(8)
	if err != nil {
		return err
	}
	left := binary.BigEndian.Uint32(b[4:])
	k.c.Discard(8)
	if !allowed {
		return errors.Join(errors.New("HASH_DATA refused: it needs a passed descriptor"), k.answer(resultBadLocality))
	}
	// In pieces: the data may be a whole firmware volume.
	var result error
	for left > 0 {
		n := min(int(left), 4096)
		data, err := k.c.Peek(n)
		if err != nil {
			return err
		}
		if result == nil {
			result = k.machine.HashData(data)
		}
		k.c.Discard(n)
		left -= uint32(n)
	}
	return k.answer(k.result("HASH_DATA", result))
}

// setDataFD serves a data channel whose other end the client keeps.
func (k *control) setDataFD() error {
	k.c.Discard(4)
	fds := k.c.TakeFiles()
	if len(fds) != 1 {
		for _, fd := range fds {
			os.NewFile(uintptr(fd), "passed").Close()
		}
		return k.answer(resultBadParameter)
	}
	f := os.NewFile(uintptr(fds[0]), "passed data channel")
	nc, err := net.FileConn(f) // checks that it is a socket, and duplicates it
	f.Close()
	if err != nil {
		k.log.Warn("swtpm: the passed descriptor is not a socket", "error", err)
		return k.answer(resultBadParameter)
	}
	own := &scope{max: platform.MaxLocality}
	if !k.conns.Handle(nc, func(c *listen.Conn) { k.runData(c, own) }) {
		return k.answer(resultFail)
	}
	k.scope = own
	return k.answer(resultOK)
}

func (k *control) setBufferSize() error {
	a, err := k.take(4)
	if err != nil {
		return err
	}
	now, least, most, err := k.machine.SetBufferSize(binary.BigEndian.Uint32(a))
	return k.answer(k.result("SET_BUFFERSIZE", err), now, least, most)
}
