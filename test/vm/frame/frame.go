// SPDX-License-Identifier: Apache-2.0

// Package frame is what the two ends of a test machine's serial line say to
// each other: a stream of frames, each one byte kind, four bytes length
// (big-endian) and the payload. A [Reader] skips what stands before [Hello],
// since firmware and kernel may touch the line first.
package frame

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"sync"
)

// Hello begins the guest's side, once for each boot.
const Hello = "\x00holdfast-vm 1\n"

// Kinds of frames. The guest sends all but Input and Close.
const (
	Ready  = 'r' // modules are loaded, the command starts
	Stdout = 'o' // bytes of the command's standard output
	Stderr = 'e' // bytes of its standard error
	Exit   = 'x' // the command ended; payload: exit code in decimal
	Fault  = 'f' // the guest could not run the command; payload: why
	Input  = 'i' // bytes for the command's standard input
	Close  = 'c' // its standard input ends
)

// Max is the largest payload.
const Max = 16 << 10

// A Writer sends frames; it is safe for concurrent use.
type Writer struct {
	mu sync.Mutex
	w  io.Writer
}

// NewWriter returns a Writer to w.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// Hello sends the mark that begins the guest's side.
func (w *Writer) Hello() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, err := io.WriteString(w.w, Hello)
	return err
}

// Send sends payload in as many frames of one kind as it needs, at least one.
func (w *Writer) Send(kind byte, payload []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		part := payload[:min(len(payload), Max)]
		b := binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(part)))
		if _, err := w.w.Write(append(b, part...)); err != nil {
			return err
		}
		if payload = payload[len(part):]; len(payload) == 0 {
			return nil
		}
	}
}

// A Reader receives frames.
type Reader struct{ r *bufio.Reader }

// NewReader returns a Reader from r. With hello it first skips all bytes up to
// the mark.
func NewReader(r io.Reader, hello bool) (*Reader, error) {
	f := &Reader{bufio.NewReader(r)}
	if !hello {
		return f, nil
	}
	return f, f.skip()
}

func (f *Reader) skip() error {
	var last []byte
	for {
		c, err := f.r.ReadByte()
		if err != nil {
			return err
		}
		if last = append(last, c); len(last) > len(Hello) {
			last = last[1:]
		}
		if bytes.Equal(last, []byte(Hello)) {
			return nil
		}
	}
}

// Next returns the next frame. A reader that reads a guest's side resumes
// after the guest was reset: it meets the new mark, or garbage and the mark.
func (f *Reader) Next() (kind byte, payload []byte, err error) {
	for {
		head, err := f.r.Peek(5)
		if err != nil {
			if err == io.EOF && len(head) > 0 {
				err = io.ErrUnexpectedEOF
			}
			return 0, nil, err
		}
		kind, n := head[0], binary.BigEndian.Uint32(head[1:]) // head does not outlive the next read
		if !known(kind) || n > Max {
			if err := f.skip(); err != nil {
				return 0, nil, err
			}
			continue
		}
		_, _ = f.r.Discard(5)
		payload = make([]byte, n)
		if _, err := io.ReadFull(f.r, payload); err != nil {
			return 0, nil, fmt.Errorf("frame of %d bytes: %w", n, io.ErrUnexpectedEOF)
		}
		return kind, payload, nil
	}
}

// known says whether kind is one of the kinds above.
func known(kind byte) bool { return bytes.IndexByte([]byte("roexfic"), kind) >= 0 }
