// SPDX-License-Identifier: Apache-2.0

package mssim

import (
	"encoding/binary"
	"fmt"
	"math/bits"

	"holdfast/tpmio/listen"
	"holdfast/tpmio/platform"
)

// commandRequest serves one request of the command port. The code is still in
// the buffer of c.
func (s *Server) commandRequest(c *listen.Conn, code uint32) error {
	switch code {
	case sendCommand:
		return s.sendCommand(c)
	case remoteHandshake:
		b, err := c.Peek(8)
		if err != nil {
			return err
		}
		version := binary.BigEndian.Uint32(b[4:])
		c.Discard(8)
		if version == 0 {
			return fmt.Errorf("handshake with client version 0")
		}
		a := binary.BigEndian.AppendUint32(nil, serverVersion)
		a = binary.BigEndian.AppendUint32(a, handshakeFlags)
		a = binary.BigEndian.AppendUint32(a, statusOK)
		_, err = c.Write(a)
		return err
	case setAlternative:
		if _, err := c.Peek(8); err != nil {
			return err
		}
		c.Discard(8)
		return status(c, statusOK)
	case signalHashStart, signalHashData, signalHashEnd:
		return refuse(c, "hash sequence (locality 4) refused: it needs a passed descriptor or a TPM in process")
	case sessionEnd, stop:
		// STOP ends the simulator of the reference code; here a client ends
		// only its own connection, since others may work with the TPM.
		return errEnd
	}
	return refuse(c, "unknown request %d on the command port", code)
}

// sendCommand serves SEND_COMMAND {u8 locality, u32 length, command}; the
// answer is {u32 length, response, u32 status}, in one write, since clients
// exist that take the response with one read.
func (s *Server) sendCommand(c *listen.Conn) error {
	const head = 4 + 1 + 4
	b, err := c.Peek(head)
	if err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(b[5:])
	if n > platform.MaxFrame {
		err := s.answer(c, platform.ErrorResponse(platform.RCCommandSize))
		return fmt.Errorf("a command of %d bytes, at most %d are read (%w)", n, platform.MaxFrame, err)
	}
	total := head + int(n)
	if b, err = c.Peek(total); err != nil {
		return err
	}
	locality, command := b[4], b[head:]
	c.Served()
	noteLargest(&s.largestCommand, command)
	var response []byte
	switch {
	case locality > s.options.MaxLocality:
		response = platform.ErrorResponse(platform.RCLocality)
	default:
		// Without power the reference simulator answers with no bytes; so do we.
		response, _ = s.machine.Execute(locality, command)
	}
	c.Discard(total)
	noteLargest(&s.largestResponse, response)
	err = s.answer(c, response)
	clear(response)
	return err
}

func (s *Server) answer(c *listen.Conn, response []byte) error {
	a := make([]byte, 0, 4+len(response)+4)
	a = binary.BigEndian.AppendUint32(a, uint32(len(response)))
	a = append(a, response...)
	a = binary.BigEndian.AppendUint32(a, statusOK)
	_, err := c.Write(a)
	clear(a)
	return err
}

// noteLargest keeps size and code of the largest frame: size in the upper half.
func noteLargest(v interface {
	Load() uint64
	CompareAndSwap(old, new uint64) bool
}, frame []byte) {
	if len(frame) < platform.HeaderSize {
		return
	}
	mine := uint64(len(frame))<<32 | uint64(binary.BigEndian.Uint32(frame[6:]))
	for {
		old := v.Load()
		if old>>32 >= mine>>32 || v.CompareAndSwap(old, mine) {
			return
		}
	}
}

// sizes returns what GET_COMMAND_RESPONSE_SIZES answers: four u32 in the byte
// order of the reference simulator's machine for sizes and of the wire for
// codes, that is, little-endian sizes.
func (s *Server) sizes() []byte {
	c, r := s.largestCommand.Swap(0), s.largestResponse.Swap(0)
	a := binary.LittleEndian.AppendUint32(nil, uint32(c>>32))
	a = binary.LittleEndian.AppendUint32(a, bits.ReverseBytes32(uint32(c)))
	a = binary.LittleEndian.AppendUint32(a, uint32(r>>32))
	return binary.LittleEndian.AppendUint32(a, bits.ReverseBytes32(uint32(r)))
}
