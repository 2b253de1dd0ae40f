// SPDX-License-Identifier: Apache-2.0

package tlshello

import (
	"bytes"
	"testing"
)

// seedMessages returns the handshake messages of all recordings.
func seedMessages(t testing.TB) (c, s [][]byte) {
	for _, tc := range transcripts {
		chunks, _, _ := transcript(t, tc.name)
		for _, k := range chunks {
			for b := k.data; len(b) >= 5; {
				n := min(5+int(b[3])<<8+int(b[4]), len(b))
				if b[0] == recordHandshake && k.client {
					c = append(c, b[5:n])
				} else if b[0] == recordHandshake {
					s = append(s, b[5:n])
				}
				b = b[n:]
			}
		}
	}
	return c, s
}

func FuzzClientHello(f *testing.F) {
	c, _ := seedMessages(f)
	for _, m := range c {
		f.Add(m)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := ParseClientHello(b)
		if err != nil {
			if m != nil || CodeOf(err) == "" {
				t.Fatalf("an error and a result: %v", err)
			}
			return
		}
		if out := m.marshal(); !bytes.Equal(out, b) {
			t.Fatalf("%x\nencodes as\n%x", b, out)
		}
		var again ClientHello
		again.ServerName = []byte("x") // reuse must not leave anything behind
		again.PSKModes, again.EarlyData = []byte{9}, true
		if err := again.Parse(b); err != nil || !bytes.Equal(again.marshal(), m.marshal()) || again.EarlyData != m.EarlyData || len(again.PSKModes) != len(m.PSKModes) {
			t.Fatalf("a reused struct differs: %v", err)
		}
	})
}

func FuzzServerHello(f *testing.F) {
	_, s := seedMessages(f)
	for _, m := range s {
		f.Add(m)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := ParseServerHello(b)
		if err != nil {
			if m != nil || CodeOf(err) == "" {
				t.Fatalf("an error and a result: %v", err)
			}
			return
		}
		if out := m.marshal(); !bytes.Equal(out, b) {
			t.Fatalf("%x\nencodes as\n%x", b, out)
		}
		if !m.Retry && len(m.Share) == 0 {
			t.Fatal("a ServerHello without a share")
		}
	})
}

// FuzzExchange cuts two streams by the bytes of cuts and demands that the
// outcome does not depend on it.
func FuzzExchange(f *testing.F) {
	for _, tc := range transcripts {
		_, c, s := transcript(f, tc.name)
		f.Add(c, s, []byte{1, 200, 3, 70})
	}
	f.Fuzz(func(t *testing.T, c, s, cuts []byte) {
		if len(c) > 1<<15 || len(s) > 1<<15 {
			return
		}
		run := func(cuts []byte) (*Exchange, error) {
			x := new(Exchange)
			nc, ns := 0, 0
			for i := 0; nc < len(c) || ns < len(s); i++ {
				step := 1 << 15
				if i < len(cuts) {
					step = int(cuts[i])
				}
				if i%2 == 0 {
					nc = min(nc+step, len(c))
					x.Client(c[:nc])
				} else {
					ns = min(ns+step, len(s))
					x.Server(s[:ns])
				}
			}
			return x, x.err
		}
		a, errA := run(nil)
		b, errB := run(cuts)
		sumA, okA := a.Transcript()
		sumB, okB := b.Transcript()
		if (errA == nil) != (errB == nil) || okA != okB || sumA != sumB {
			t.Fatalf("whole: %v %v, cut: %v %v", errA, okA, errB, okB)
		}
		ch, sh := a.Hello()
		if (ch == nil) != (sh == nil) || okA != (sh != nil) {
			t.Fatal("half a result")
		}
		if sh == nil {
			return
		}
		if sh.Retry || !ch.Offers13() || ch.EarlyData || !bytes.HasSuffix(s[:a.ServerEnd()], sh.Raw[max(0, len(sh.Raw)-int(cutRecord(s, a.ServerEnd()))):]) {
			t.Fatalf("complete with %+v", sh)
		}
	})
}

// cutRecord returns the payload length of the record of s that ends at end.
func cutRecord(s []byte, end int) int {
	for at := 0; at+5 <= end; {
		n := int(s[at+3])<<8 | int(s[at+4])
		if at += 5 + n; at == end {
			return n
		}
	}
	return 0
}

// FuzzAssembler compares with a model that keeps every byte in a map.
func FuzzAssembler(f *testing.F) {
	f.Add([]byte{0, 3, 3, 3, 2, 4, 9, 1}, uint32(0xfffffffe))
	f.Add([]byte{5, 5, 0, 5, 0, 10, 200, 9}, uint32(0))
	f.Fuzz(func(t *testing.T, ops []byte, base uint32) {
		const limit = 64
		stream := make([]byte, 400)
		for i := range stream {
			stream[i] = byte(i * 7)
		}
		var a Assembler
		a.Reset(base, limit)
		model := map[int]byte{}
		unseen := map[int]bool{}
		differs := false
		segs := uint32(0)
		for ; len(ops) >= 4 && !differs; ops = ops[4:] {
			off, n, cut, flip := int(int8(ops[0])), int(ops[1]%100), int(ops[2]%8), ops[3]
			b := make([]byte, n)
			for i := range b {
				if off+i >= 0 {
					b[i] = stream[off+i]
				}
			}
			if flip > 200 && n > 0 {
				b[int(flip)%n] ^= 1
			}
			cut = min(cut, n)
			have := b[:n-cut]
			for i := range b {
				p := off + i
				if p < 0 || p >= limit {
					continue
				}
				if i >= len(have) {
					unseen[p] = true
					continue
				}
				if old, ok := model[p]; ok && old != b[i] {
					differs = true
				}
				model[p] = b[i]
			}
			if n > 0 {
				segs++
			}
			err := a.Add(base+uint32(off), have, n)
			if (err != nil) != differs || err != nil && CodeOf(err) != Overlap {
				t.Fatalf("error %v, the model says differing %v", err, differs)
			}
		}
		if differs {
			if a.Add(base, stream[:1], 1) == nil {
				t.Fatal("the refusal does not stick")
			}
			return
		}
		var want []byte
		for {
			b, ok := model[len(want)]
			if !ok {
				break
			}
			want = append(want, b)
		}
		if !bytes.Equal(a.Bytes(), want) || a.Segments() != segs {
			t.Fatalf("have %d bytes, %d segments; want %d, %d", len(a.Bytes()), a.Segments(), len(want), segs)
		}
		for end := 0; end <= limit; end++ {
			ok := end <= len(want)
			for p := 0; p < end; p++ {
				ok = ok && !unseen[p]
			}
			if a.Examined(end) != ok {
				t.Fatalf("Examined(%d) = %v", end, a.Examined(end))
			}
		}
		if a.Seq(3) != base+3 {
			t.Fatal("Seq")
		}
	})
}
