// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ring reads a BPF_MAP_TYPE_RINGBUF in place (layout: kernel/bpf/ringbuf.c):
// one page with the consumer's position, one with the producer's, then the data,
// mapped twice so that no record wraps. One reader at a time.
type ring struct {
	consumer, producer []byte
	cons, prod         *atomic.Uint64
	data               []byte
	mask               uint64
}

// Bits of a record's length word.
const (
	ringBusy    = 1 << 31
	ringDiscard = 1 << 30
	ringHeader  = 8
)

func openRing(fd, size int) (*ring, error) {
	page := os.Getpagesize()
	c, err := unix.Mmap(fd, 0, page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("observe: map the ring's consumer page: %w", err)
	}
	p, err := unix.Mmap(fd, int64(page), page+2*size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		unix.Munmap(c)
		return nil, fmt.Errorf("observe: map the ring's data: %w", err)
	}
	return &ring{
		consumer: c, producer: p, data: p[page:], mask: uint64(size - 1),
		cons: (*atomic.Uint64)(unsafe.Pointer(&c[0])),
		prod: (*atomic.Uint64)(unsafe.Pointer(&p[0])),
	}, nil
}

func (r *ring) close() {
	unix.Munmap(r.consumer)
	unix.Munmap(r.producer)
}

// used is how many bytes wait.
func (r *ring) used() uint64 { return r.prod.Load() - r.cons.Load() }

func (r *ring) empty() bool { return r.cons.Load() == r.prod.Load() }

// drain calls fn for the records that are there; they are valid during the
// call. It stops at one that a program on another CPU still writes.
func (r *ring) drain(fn func([]byte)) {
	pos, end := r.cons.Load(), r.prod.Load()
	for pos != end {
		at := pos & r.mask
		word := (*atomic.Uint32)(unsafe.Pointer(&r.data[at])).Load()
		if word&ringBusy != 0 {
			return
		}
		n := uint64(word &^ (ringBusy | ringDiscard))
		if word&ringDiscard == 0 {
			fn(r.data[at+ringHeader:][:n:n])
		}
		pos += (n + ringHeader + 7) &^ 7
		r.cons.Store(pos)
	}
}

// control is struct ctl of bpf/observe.bpf.c, shared with the programs.
type control struct {
	mem       []byte
	armed     *atomic.Uint32
	full      *atomic.Uint32
	lost      *atomic.Uint64
	watchLost *atomic.Uint64
}

func openControl(fd int) (*control, error) {
	m, err := unix.Mmap(fd, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("observe: map the control words: %w", err)
	}
	return &control{
		mem:       m,
		armed:     (*atomic.Uint32)(unsafe.Pointer(&m[0])),
		full:      (*atomic.Uint32)(unsafe.Pointer(&m[4])),
		lost:      (*atomic.Uint64)(unsafe.Pointer(&m[8])),
		watchLost: (*atomic.Uint64)(unsafe.Pointer(&m[16])),
	}, nil
}

func (c *control) close() { unix.Munmap(c.mem) }
