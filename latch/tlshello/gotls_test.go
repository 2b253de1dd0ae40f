// SPDX-License-Identifier: Apache-2.0

package tlshello

import (
	"crypto/tls"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"testing"
	"time"
)

// script is a connection whose peer says what is in it and then nothing.
type script struct {
	net.Conn // nil: anything else panics
	in       []byte
	cuts     *rand.Rand
}

func (s *script) Read(p []byte) (int, error) {
	if len(s.in) == 0 {
		return 0, io.EOF
	}
	n := min(len(p), len(s.in), 1+s.cuts.IntN(700))
	copy(p, s.in[:n])
	s.in = s.in[n:]
	return n, nil
}
func (s *script) Write(p []byte) (int, error)      { return len(p), nil }
func (s *script) Close() error                     { return nil }
func (s *script) SetDeadline(time.Time) error      { return nil }
func (s *script) SetReadDeadline(time.Time) error  { return nil }
func (s *script) SetWriteDeadline(time.Time) error { return nil }
func (s *script) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (s *script) LocalAddr() net.Addr              { return &net.TCPAddr{} }

// goReads gives the stream to a server of crypto/tls and returns what it read
// in the ClientHello; nil when it read none.
func goReads(stream []byte, cuts *rand.Rand) (got *tls.ClientHelloInfo) {
	stop := errors.New("seen")
	tls.Server(&script{in: stream, cuts: cuts}, &tls.Config{GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		got = h
		return nil, stop
	}}).Handshake()
	return got
}

// recordsOf puts a message in records of random size.
func recordsOf(msg []byte, r *rand.Rand) (b []byte) {
	for len(msg) > 0 {
		n := len(msg)
		if r.IntN(2) == 0 {
			n = 1 + r.IntN(n)
		}
		b = append(b, hs(msg[:n])...)
		msg = msg[n:]
	}
	return b
}

// TestAgainstGo: over random record sizes, read sizes and damage, whatever we
// accept crypto/tls reads in the same way.
func TestAgainstGo(t *testing.T) {
	seeds, _ := seedMessages(t)
	seeds = append(seeds, clientHello().msg(), clientHello().set(extALPN, vec(2, vec(1, []byte("h2")))).set(extPreSharedKey, psk).msg())
	r := rand.New(rand.NewPCG(5, 6))
	agreed, damaged := 0, 0
	for i := range 20_000 {
		msg := slices.Clone(seeds[r.IntN(len(seeds))])
		if r.IntN(3) > 0 {
			for range 1 + r.IntN(2) {
				msg[4+r.IntN(len(msg)-4)] = byte(r.Uint32())
			}
			damaged++
		}
		stream := recordsOf(msg, r)
		var a Assembler
		a.Reset(0xfffffff0, 1<<15)
		for off := 0; off < len(stream); {
			n := min(1+r.IntN(900), len(stream)-off)
			if err := a.Add(0xfffffff0+uint32(off), stream[off:off+n], n); err != nil {
				t.Fatal(err)
			}
			off += n
		}
		var x Exchange
		err := x.Client(a.Bytes())
		h := x.First()
		if (h == nil) != (err != nil) {
			t.Fatalf("round %d: %v and %v", i, h, err)
		}
		if h == nil {
			continue
		}
		g := goReads(stream, r)
		if g == nil {
			continue // Go is stricter about something; the server will not answer
		}
		agreed++
		var alpn []string
		for _, p := range h.ALPN {
			alpn = append(alpn, string(p))
		}
		var curves []uint16
		for _, c := range g.SupportedCurves {
			curves = append(curves, uint16(c))
		}
		if !strings.EqualFold(g.ServerName, string(h.ServerName)) || !slices.Equal(g.SupportedProtos, alpn) ||
			!slices.Equal(g.CipherSuites, h.CipherSuites) || !slices.Equal(curves, h.Groups) ||
			!slices.Contains(g.SupportedVersions, 0x0304) {
			t.Fatalf("round %d: Go reads %+v, we %+v", i, g, h)
		}
	}
	if agreed < 5000 || damaged < 5000 {
		t.Fatalf("compared only %d, damaged %d", agreed, damaged)
	}
	t.Logf("compared %d hellos, %d were damaged", agreed, damaged)
}
