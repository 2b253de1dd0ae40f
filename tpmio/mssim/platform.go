// SPDX-License-Identifier: Apache-2.0

package mssim

import (
	"encoding/binary"

	"holdfast/tpmio/listen"
)

// platformRequest serves one request of the platform port.
func (s *Server) platformRequest(c *listen.Conn, code uint32) error {
	switch code {
	case signalPowerOn:
		c.Discard(4)
		return s.signal(c, s.machine.PowerOn())
	case signalPowerOff:
		c.Discard(4)
		s.machine.PowerOff()
		return status(c, statusOK)
	case signalReset:
		c.Discard(4)
		return s.signal(c, s.machine.ResetIfOn())
	case signalRestart:
		c.Discard(4)
		return s.signal(c, s.machine.ResetIfOn())
	case signalNVOn, signalNVOff, signalPresenceOn, signalPresenceOff,
		signalCancelOn, signalCancelOff, signalKeyCacheOn, signalKeyCacheOff:
		// NV is always there, no command asks for physical presence, and
		// commands run to their end: acknowledged without effect.
		c.Discard(4)
		return status(c, statusOK)
	case getSizes:
		c.Discard(4)
		sizes := s.sizes()
		a := binary.BigEndian.AppendUint32(nil, uint32(len(sizes)))
		a = append(a, sizes...)
		_, err := c.Write(binary.BigEndian.AppendUint32(a, statusOK))
		return err
	case actGetSignaled:
		if _, err := c.Peek(8); err != nil {
			return err
		}
		c.Discard(8)
		// No authenticated countdown timer is implemented, so none has fired.
		_, err := c.Write(make([]byte, 8))
		return err
	case sessionEnd, stop:
		return errEnd
	}
	return refuse(c, "unknown request %d on the platform port", code)
}

// signal answers for a power signal.
func (s *Server) signal(c *listen.Conn, err error) error {
	if err != nil {
		s.log.Error("mssim: power signal failed", "error", err)
		return status(c, statusFailed)
	}
	return status(c, statusOK)
}
