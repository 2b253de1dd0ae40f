// SPDX-License-Identifier: Apache-2.0

//go:build linux

package latch

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"time"
)

// batchProxyHelper LISTEN TARGET MODE stands between watchers and an agent and
// attacks the manifests (channel message 22), as MODE says:
//
//	drop    none gets through
//	delay   each comes 2.5 s later
//	replay  each comes twice, and the first one again after every other
//	alter   a bit of the last binder is changed
func batchProxyHelper(a []string) error {
	l, err := net.Listen("tcp", a[0])
	if err != nil {
		return err
	}
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer c.Close()
			s, err := net.Dial("tcp", a[1])
			if err != nil {
				return
			}
			defer s.Close()
			go io.Copy(s, c)
			var first []byte
			for {
				var n [4]byte
				if _, err := io.ReadFull(s, n[:]); err != nil {
					return
				}
				f := make([]byte, binary.BigEndian.Uint32(n[:]))
				if _, err := io.ReadFull(s, f); err != nil {
					return
				}
				send := func(f []byte) { c.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(f))), f...)) }
				if f[1] != 22 { // array of 8, type 22 in one byte
					send(f)
					continue
				}
				switch a[2] {
				case "delay":
					time.AfterFunc(2500*time.Millisecond, func() { send(f) })
				case "replay":
					send(f)
					send(f)
					if first != nil {
						send(first)
					} else {
						first = f
					}
				case "alter":
					g := bytes.Clone(f)
					at := bytes.Index(g, []byte("application/")) // the report's type follows the binders
					g[at-5] ^= 1
					send(g)
				}
			}
		}()
	}
}
