// SPDX-License-Identifier: Apache-2.0

package bpfring

import (
	"bytes"
	"encoding/binary"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// fake is memory in the layout of a ring, whose kernel side the test plays. The
// kernel maps the data twice; here the second copy is written by hand.
type fake struct {
	*Ring
	file []byte
	size int
}

func newFake(t *testing.T, size int) *fake {
	t.Helper()
	fd, err := unix.MemfdCreate("ring", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	page := os.Getpagesize()
	if err := unix.Ftruncate(fd, int64(2*page+2*size)); err != nil {
		t.Fatal(err)
	}
	r, err := Open(fd, size)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	m, err := unix.Mmap(fd, 0, 2*page+2*size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Munmap(m) })
	return &fake{r, m, size}
}

// put reserves a record and returns where its length word is.
func (f *fake) put(data []byte, flags uint32) uint64 {
	page := os.Getpagesize()
	pos := f.prod.Load()
	at := int(pos & f.mask)
	rec := make([]byte, header+(len(data)+7)&^7)
	binary.NativeEndian.PutUint32(rec, uint32(len(data))|flags)
	copy(rec[header:], data)
	for i, b := range rec {
		for _, base := range []int{0, f.size} {
			if o := at + i - f.size + base; o >= 0 && o < 2*f.size {
				f.file[2*page+o] = b
			}
			if o := at + i + base; o < 2*f.size {
				f.file[2*page+o] = b
			}
		}
	}
	binary.NativeEndian.PutUint64(f.file[page:], pos+uint64(len(rec)))
	return pos
}

func (f *fake) drain(to uint64) (got []string, whole bool) {
	whole = f.Drain(to, func(b []byte) { got = append(got, string(b)) })
	return got, whole
}

// TestDrain: records come in order, also across the end of the ring; discarded
// ones are passed over; one that is still written stops the reading and comes later.
func TestDrain(t *testing.T) {
	f := newFake(t, 4096)
	if !f.Empty() {
		t.Fatal("a new ring is not empty")
	}
	for round := range 100 { // about 25 times around
		a, b := bytes.Repeat([]byte{byte(round)}, 300+round), []byte("second")
		f.put(a, 0)
		f.put([]byte("not this"), discard)
		late := f.put(b, busy)
		end := f.End()
		f.put([]byte("third"), 0)
		if got, whole := f.drain(f.End()); whole || len(got) != 1 || got[0] != string(a) {
			t.Fatalf("round %d: %d records, whole %v, expected the one before the one that is still written", round, len(got), whole)
		}
		at := 2*os.Getpagesize() + int(late&f.mask)
		for _, o := range []int{at, at + f.size} {
			if o < len(f.file)-4 {
				binary.NativeEndian.PutUint32(f.file[o:], uint32(len(b)))
			}
		}
		if got, whole := f.drain(end); !whole || len(got) != 1 || got[0] != "second" {
			t.Fatalf("round %d: %q, whole %v, expected the second alone: the third lies behind the position asked for", round, got, whole)
		}
		if f.Empty() {
			t.Fatalf("round %d: empty, and the third record waits", round)
		}
		if got, whole := f.drain(f.End()); !whole || len(got) != 1 || got[0] != "third" || !f.Empty() {
			t.Fatalf("round %d: %q, whole %v, empty %v", round, got, whole, f.Empty())
		}
	}
}

func TestWords(t *testing.T) {
	fd, err := unix.MemfdCreate("words", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Ftruncate(fd, int64(os.Getpagesize())); err != nil {
		t.Fatal(err)
	}
	w, err := OpenWords(fd)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	w.Uint32(4).Store(0x01020304)
	w.Uint64(8).Add(7)
	b := make([]byte, 16)
	if _, err := unix.Pread(fd, b, 0); err != nil {
		t.Fatal(err)
	}
	if e := binary.NativeEndian; e.Uint32(b[4:]) != 0x01020304 || e.Uint64(b[8:]) != 7 {
		t.Fatalf("memory behind the words: %x", b)
	}
}
