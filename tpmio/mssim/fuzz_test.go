// SPDX-License-Identifier: Apache-2.0

package mssim

import (
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"

	"holdfast/tpmio/listen"
	"holdfast/tpmio/platform"
)

// power is a TPM that says at which localities it was used.
type power struct{ highest uint8 }

func (p *power) Execute(l uint8, c []byte) []byte {
	p.highest = max(p.highest, l)
	return append([]byte{l}, c...)
}
func (p *power) Init() {}

// FuzzPorts: whatever comes over either port, the handler ends, no command
// reaches the TPM at a locality that is not allowed, and no answer is longer
// than the bytes that came and the sizes of the protocol let it be.
func FuzzPorts(f *testing.F) {
	u32 := func(v ...uint32) (b []byte) {
		for _, x := range v {
			b = binary.BigEndian.AppendUint32(b, x)
		}
		return b
	}
	command := append(append(u32(sendCommand), 0), append(u32(12), "\x80\x01\x00\x00\x00\x0c\x00\x00\x01\x44\x00\x00"...)...)
	f.Add(true, command)
	f.Add(true, append(u32(remoteHandshake, 1), append(append(u32(sendCommand), 3), u32(0)...)...))
	f.Add(true, append(append(u32(sendCommand), 0), u32(1<<31)...))
	f.Add(false, u32(signalPowerOn, signalNVOn, getSizes, actGetSignaled, 0x40000110, sessionEnd))
	f.Add(false, u32(signalPowerOff, signalReset, stop))
	f.Fuzz(func(t *testing.T, commands bool, in []byte) {
		p := &power{}
		s, err := NewServer(platform.New(p), Options{MaxLocality: 1, Limits: listen.Limits{Request: 5 * time.Second, Response: 5 * time.Second}})
		if err != nil {
			t.Fatal(err)
		}
		a, b := net.Pipe()
		done, sent := make(chan struct{}), make(chan int64, 1)
		s.conns.Handle(b, func(c *listen.Conn) {
			defer close(done)
			if commands {
				s.run(c, s.commandRequest)
			} else {
				s.run(c, s.platformRequest)
			}
		})
		go func() { n, _ := io.Copy(io.Discard, a); sent <- n }()
		a.Write(in)
		a.Close()
		select {
		case <-done:
		case <-time.After(30 * time.Second):
			t.Fatal("the handler hangs")
		}
		s.Close()
		if p.highest > 1 {
			t.Fatalf("a command came in at locality %d, at most 1 is allowed", p.highest)
		}
		if n := <-sent; n > int64(64*len(in)+64) {
			t.Fatalf("%d bytes were answered to %d", n, len(in))
		}
	})
}
