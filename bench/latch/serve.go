// SPDX-License-Identifier: Apache-2.0

package latch

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"

	"holdfast/bench/latch/baseline"
)

// Sizes of requests and replies in bytes. A request begins with two numbers of
// 8 bytes, big-endian: its own size and that of the wanted reply.
const (
	smallSize = 1024
	headSize  = 16
	bufSize   = 64 << 10
)

// Serve is the server under load in one of the designs of package baseline,
// one goroutine a connection. It prints READY to w and serves until ctx ends.
func Serve(ctx context.Context, k *baseline.Kit, design, address string, w io.Writer) error {
	d, err := baseline.Find(design)
	if err != nil {
		return err
	}
	s, err := d.Server(k)
	if err != nil {
		return err
	}
	var lc net.ListenConfig
	lc.SetMultipathTCP(false) // the latch refuses MPTCP; the others run without it too
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	fmt.Fprintln(w, "READY")
	for {
		c, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		go serveOne(c, s)
	}
}

const (
	exchangeTime = 60 * time.Second // of one request and reply
	idleTime     = 10 * time.Minute // until the client closes
)

func serveOne(c net.Conn, s baseline.Server) {
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(exchangeTime))
	stream, err := s.Accept(c)
	if err != nil {
		return
	}
	if !answer(stream) {
		return
	}
	_ = c.SetDeadline(time.Now().Add(idleTime))
	_, _ = stream.Read(make([]byte, 1)) // the client closes first
}

// answer reads a request and replies.
func answer(stream io.ReadWriter) bool {
	buf := make([]byte, smallSize)
	if _, err := io.ReadFull(stream, buf); err != nil {
		return false
	}
	left := int64(binary.BigEndian.Uint64(buf)) - smallSize
	reply := int64(binary.BigEndian.Uint64(buf[8:]))
	if left > 0 || reply > smallSize {
		buf = make([]byte, bufSize)
	}
	for left > 0 {
		n, err := stream.Read(buf[:min(left, int64(len(buf)))])
		if left -= int64(n); err != nil && left > 0 {
			return false
		}
	}
	for reply > 0 {
		n := min(reply, int64(len(buf)))
		if _, err := stream.Write(buf[:n]); err != nil {
			return false
		}
		reply -= n
	}
	return true
}
