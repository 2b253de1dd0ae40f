// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"sync"
	"time"
)

// A served session of the genuine server, as it stands in its file: three
// integers of 64 bits, the last the final byte of the client's address and its
// port behind it.
type served struct{ Accepted, Request, Client int64 }

// genuine serves sessions until ctx ends and notes for each when it was
// accepted and when its first request came.
func genuine(ctx context.Context, address string, cert tls.Certificate, file string) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer f.Close()
	out := bufio.NewWriterSize(f, 24*64)
	var mu sync.Mutex
	var lc net.ListenConfig
	lc.SetMultipathTCP(false)
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	config := &tls.Config{Certificates: []tls.Certificate{cert}, SessionTicketsDisabled: true}
	fmt.Println("ready")
	for {
		c, err := l.Accept()
		if ctx.Err() != nil {
			mu.Lock()
			defer mu.Unlock()
			return out.Flush()
		}
		if err != nil {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		at := time.Now().UnixNano()
		go func() {
			defer c.Close()
			s := tls.Server(c, config)
			hctx, cancel := context.WithTimeout(ctx, 20*time.Second)
			err := s.HandshakeContext(hctx)
			cancel()
			if err != nil {
				return
			}
			serveLines(s, func() {
				who := c.RemoteAddr().(*net.TCPAddr)
				mu.Lock()
				defer mu.Unlock()
				binary.Write(out, binary.LittleEndian, served{at, time.Now().UnixNano(), int64(who.IP.To4()[3])<<16 | int64(who.Port)})
			})
		}()
	}
}

// readServed reads what genuine wrote.
func readServed(file string) ([]served, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	list := make([]served, st.Size()/24)
	return list, binary.Read(bufio.NewReader(f), binary.LittleEndian, list)
}
