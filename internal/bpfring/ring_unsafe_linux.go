// SPDX-License-Identifier: Apache-2.0

package bpfring

import (
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Ring is a mapped BPF_MAP_TYPE_RINGBUF (layout: kernel/bpf/ringbuf.c): one page
// with the consumer's position, one with the producer's, then the data, mapped
// twice so that no record wraps. One reader at a time.
type Ring struct {
	consumer, producer []byte
	cons, prod         *atomic.Uint64
	data               []byte // 2 x size
	mask               uint64
}

// Bits of a record's length word.
const (
	busy    = 1 << 31
	discard = 1 << 30
	header  = 8
)

// Open maps the ring of size bytes (a power of two, as the map was made) behind a descriptor,
// which may be closed afterwards.
func Open(fd, size int) (*Ring, error) {
	page := os.Getpagesize()
	c, err := unix.Mmap(fd, 0, page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map the ring's consumer page: %w", err)
	}
	p, err := unix.Mmap(fd, int64(page), page+2*size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		unix.Munmap(c)
		return nil, fmt.Errorf("map the ring's data: %w", err)
	}
	return &Ring{
		consumer: c, producer: p, data: p[page:], mask: uint64(size - 1),
		cons: (*atomic.Uint64)(unsafe.Pointer(&c[0])),
		prod: (*atomic.Uint64)(unsafe.Pointer(&p[0])),
	}, nil
}

// Close unmaps the ring. It must not be used any more.
func (r *Ring) Close() {
	unix.Munmap(r.consumer)
	unix.Munmap(r.producer)
}

// End is the position up to which records are reserved.
func (r *Ring) End() uint64 { return r.prod.Load() }

// Empty says that no record waits, not even one that is still being written.
func (r *Ring) Empty() bool { return r.cons.Load() == r.prod.Load() }

// Drain calls fn for the records up to position to, which are valid during the
// call. It returns false when it met one that a program on another processor is
// still writing: that one and those behind it stay.
func (r *Ring) Drain(to uint64, fn func([]byte)) bool {
	pos := r.cons.Load()
	for int64(to-pos) > 0 {
		at := pos & r.mask
		word := (*atomic.Uint32)(unsafe.Pointer(&r.data[at])).Load()
		if word&busy != 0 {
			return false
		}
		n := uint64(word &^ (busy | discard))
		if word&discard == 0 {
			fn(r.data[at+header:][:n:n])
		}
		pos += (n + header + 7) &^ 7
		r.cons.Store(pos)
	}
	return true
}

// Words is a mapped BPF_MAP_TYPE_ARRAY of one page at most, with BPF_F_MMAPABLE.
type Words struct{ mem []byte }

// OpenWords maps the array behind a descriptor, which may be closed afterwards.
func OpenWords(fd int) (*Words, error) {
	m, err := unix.Mmap(fd, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map the words that are shared with the eBPF programs: %w", err)
	}
	return &Words{m}, nil
}

// Uint32 is the word at a byte offset, a multiple of 4 within the page.
func (w *Words) Uint32(at int) *atomic.Uint32 { return (*atomic.Uint32)(unsafe.Pointer(&w.mem[at])) }

// Uint64 is the word at a byte offset, a multiple of 8 within the page.
func (w *Words) Uint64(at int) *atomic.Uint64 { return (*atomic.Uint64)(unsafe.Pointer(&w.mem[at])) }

// Close unmaps the array. Its words must not be used any more.
func (w *Words) Close() { unix.Munmap(w.mem) }
