// SPDX-License-Identifier: Apache-2.0

package rot

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Sizes of the messages in octets.
const (
	Message1Size = 4 + polySize + 20 + 32 + 32
	Message2Size = 4 + polySize + 2*signalSize + 16 + 32 + 32
	Message3Size = 4 + 16 + 16

	signalSize = N / 8
)

// ErrMessage is matched by the error for a message that does not have its form.
var ErrMessage = errors.New("rot: malformed message")

// message1 goes from receiver to sender: sid u32 LE ‖ p0 ‖ r_sid 20 octets ‖
// hS0 ‖ hS1.
type message1 struct {
	sid uint32
	p0  poly
	rid [20]byte
	hS  [2][32]byte
}

func (m *message1) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, m.sid)
	b = m.p0.append(b)
	b = append(b, m.rid[:]...)
	b = append(b, m.hS[0][:]...)
	return append(b, m.hS[1][:]...)
}

func (m *message1) decode(p *Params, b []byte) error {
	if len(b) != Message1Size {
		return fmt.Errorf("%w 1: %d octets, want %d", ErrMessage, len(b), Message1Size)
	}
	m.sid = binary.LittleEndian.Uint32(b)
	if !m.p0.decode(p, b[4:4+polySize]) {
		return fmt.Errorf("%w 1: a coefficient is not below %d", ErrMessage, p.q)
	}
	b = b[4+polySize:]
	copy(m.rid[:], b)
	copy(m.hS[0][:], b[20:])
	copy(m.hS[1][:], b[52:])
	if binary.LittleEndian.Uint32(m.rid[:]) != m.sid {
		return fmt.Errorf("%w 1: r_sid does not begin with the session id", ErrMessage)
	}
	return nil
}

// message2 goes from sender to receiver: sid ‖ pS ‖ w0 ‖ w1 (512 bits each,
// lowest bit first) ‖ u 16 octets ‖ hma0 ‖ hma1.
type message2 struct {
	sid uint32
	pS  poly
	w   [2]poly // coefficients 0 or 1
	u   [16]byte
	hma [2][32]byte
}

func (m *message2) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, m.sid)
	b = m.pS.append(b)
	for i := range m.w {
		var packed [signalSize]byte
		for j, c := range m.w[i] {
			packed[j/8] |= byte(c) << (j % 8)
		}
		b = append(b, packed[:]...)
	}
	b = append(b, m.u[:]...)
	b = append(b, m.hma[0][:]...)
	return append(b, m.hma[1][:]...)
}

func (m *message2) decode(p *Params, b []byte) error {
	if len(b) != Message2Size {
		return fmt.Errorf("%w 2: %d octets, want %d", ErrMessage, len(b), Message2Size)
	}
	m.sid = binary.LittleEndian.Uint32(b)
	if !m.pS.decode(p, b[4:4+polySize]) {
		return fmt.Errorf("%w 2: a coefficient is not below %d", ErrMessage, p.q)
	}
	b = b[4+polySize:]
	for i := range m.w {
		for j := range m.w[i] {
			m.w[i][j] = uint16(b[j/8] >> (j % 8) & 1)
		}
		b = b[signalSize:]
	}
	copy(m.u[:], b)
	copy(m.hma[0][:], b[16:])
	copy(m.hma[1][:], b[48:])
	return nil
}

// message3 goes from receiver to sender: sid ‖ S0 ‖ S1, 16 octets each.
type message3 struct {
	sid uint32
	s   [2][16]byte
}

func (m *message3) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, m.sid)
	b = append(b, m.s[0][:]...)
	return append(b, m.s[1][:]...)
}

func (m *message3) decode(b []byte) error {
	if len(b) != Message3Size {
		return fmt.Errorf("%w 3: %d octets, want %d", ErrMessage, len(b), Message3Size)
	}
	m.sid = binary.LittleEndian.Uint32(b)
	copy(m.s[0][:], b[4:])
	copy(m.s[1][:], b[20:])
	return nil
}
