// SPDX-License-Identifier: Apache-2.0

package swtpm

import (
	"encoding/binary"
	"fmt"

	"holdfast/tpmio/listen"
	"holdfast/tpmio/platform"
)

// runData serves a data channel: commands framed by the size in their header.
func (s *Server) runData(c *listen.Conn, sc *scope) {
	for {
		err := s.dataRequest(c, sc)
		if err == nil {
			err = c.EndRequest()
		}
		if err != nil {
			s.ended(c, "data", err)
			return
		}
	}
}

func (s *Server) dataRequest(c *listen.Conn, sc *scope) error {
	b, err := c.Peek(platform.HeaderSize)
	if err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(b[2:])
	if n < platform.HeaderSize || n > platform.MaxFrame {
		// Where the next command begins is unknown: answer, and end.
		_, err := c.Write(platform.ErrorResponse(platform.RCCommandSize))
		return fmt.Errorf("a command of %d bytes, expected %d to %d (%w)", n, platform.HeaderSize, platform.MaxFrame, err)
	}
	command, err := c.Peek(int(n))
	if err != nil {
		return err
	}
	c.Served()
	response := s.execute(sc, command)
	c.Discard(int(n))
	_, err = c.Write(response)
	clear(response)
	return err
}

func (s *Server) execute(sc *scope, command []byte) []byte {
	if sc != &s.shared && len(command) == platform.HeaderSize+1 && binary.BigEndian.Uint32(command[6:]) == setLocalityCommand {
		l := command[platform.HeaderSize]
		if l > sc.max {
			return platform.ErrorResponse(platform.RCLocality)
		}
		sc.locality.Store(uint32(l))
		return platform.ErrorResponse(0)
	}
	response, err := s.machine.Execute(uint8(sc.locality.Load()), command)
	if err != nil {
		// No power. swtpm answers so as well.
		return platform.ErrorResponse(platform.RCFailure)
	}
	return response
}
