// SPDX-License-Identifier: Apache-2.0

package cgroupskb

import (
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ring reads a BPF_MAP_TYPE_RINGBUF in place, without a copy and without an
// allocation (layout: kernel/bpf/ringbuf.c). One reader at a time.
type ring struct {
	ctl, mem []byte // consumer page; producer page and data twice
	cons     *atomic.Uint64
	prod     *atomic.Uint64
	data     []byte // 2 x size: a record never wraps
	mask     uint64
}

const (
	ringBusy    = 1 << 31
	ringDiscard = 1 << 30
	ringHeader  = 8
)

func openRing(fd, size int) (*ring, error) {
	page := os.Getpagesize()
	ctl, err := unix.Mmap(fd, 0, page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map the ring's consumer page: %w", err)
	}
	mem, err := unix.Mmap(fd, int64(page), page+2*size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		unix.Munmap(ctl)
		return nil, fmt.Errorf("map the ring's data: %w", err)
	}
	return &ring{
		ctl: ctl, mem: mem, data: mem[page:], mask: uint64(size - 1),
		cons: (*atomic.Uint64)(unsafe.Pointer(&ctl[0])),
		prod: (*atomic.Uint64)(unsafe.Pointer(&mem[0])),
	}, nil
}

func (r *ring) close() {
	unix.Munmap(r.ctl)
	unix.Munmap(r.mem)
}

// end is the position up to which records are reserved.
func (r *ring) end() uint64 { return r.prod.Load() }

func (r *ring) empty() bool { return r.cons.Load() == r.prod.Load() }

// drain hands over the records up to position to. It returns false when it
// met one that a program on another CPU is still writing.
func (r *ring) drain(to uint64, fn func([]byte)) bool {
	pos := r.cons.Load()
	for int64(to-pos) > 0 {
		at := pos & r.mask
		n := (*atomic.Uint32)(unsafe.Pointer(&r.data[at])).Load()
		if n&ringBusy != 0 {
			return false
		}
		size := n &^ (ringBusy | ringDiscard)
		if n&ringDiscard == 0 {
			fn(r.data[at+ringHeader:][:size:size])
		}
		pos += (uint64(size) + ringHeader + 7) &^ 7
		r.cons.Store(pos)
	}
	return true
}
