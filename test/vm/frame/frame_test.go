// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/iotest"
)

func TestFrames(t *testing.T) {
	var line bytes.Buffer
	line.WriteString("SeaBIOS \x00holdfast-v and more")
	w := NewWriter(&line)
	big := bytes.Repeat([]byte("0123456789abcdef"), Max/8)
	w.Hello()
	w.Send(Stdout, []byte("one"))
	w.Send(Stderr, nil)
	w.Send(Stdout, big)
	line.WriteString("\xff\xff firmware again") // a reset in between
	w.Hello()
	w.Send(Exit, []byte("7"))
	r, err := NewReader(iotest.OneByteReader(&line), true)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct {
		kind byte
		data []byte
	}{{Stdout, []byte("one")}, {Stderr, nil}, {Stdout, big[:Max]}, {Stdout, big[Max:]}, {Exit, []byte("7")}} {
		kind, data, err := r.Next()
		if err != nil || kind != want.kind || !bytes.Equal(data, want.data) {
			t.Fatalf("got %q, %d bytes, %v; want %q, %d bytes", kind, len(data), err, want.kind, len(want.data))
		}
	}
	if _, _, err := r.Next(); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
}

func FuzzReader(f *testing.F) {
	var line bytes.Buffer
	w := NewWriter(&line)
	w.Hello()
	w.Send(Stdout, []byte("abc"))
	w.Send(Exit, []byte("0"))
	f.Add(line.Bytes())
	f.Add([]byte(Hello + "o\x00\x00\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := NewReader(bytes.NewReader(b), true)
		if err != nil {
			return
		}
		for {
			kind, data, err := r.Next()
			if err != nil {
				if data != nil {
					t.Fatal("an error and a payload")
				}
				return
			}
			// What was read, sent again, is in the input.
			var again bytes.Buffer
			NewWriter(&again).Send(kind, data)
			if !bytes.Contains(b, again.Bytes()) {
				t.Fatalf("%q %x is not in %x", kind, data, b)
			}
		}
	})
}
