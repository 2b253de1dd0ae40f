// SPDX-License-Identifier: Apache-2.0

//go:build linux && amd64

package kvm

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ioctl passes a number. A signal (Go's runtime sends some at any time) ends
// KVM_RUN, which is its purpose there; everything else is tried again.
func ioctl(fd int, request, arg uintptr) (int, error) {
	for {
		r, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, arg)
		switch {
		case e == 0:
			return int(r), nil
		case e != unix.EINTR || request == runVCPU:
			return 0, e
		}
	}
}

// ioctlBytes passes a structure.
func ioctlBytes(fd int, request uintptr, b []byte) (int, error) {
	for {
		r, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(unsafe.Pointer(&b[0])))
		switch {
		case e == 0:
			return int(r), nil
		case e != unix.EINTR:
			return 0, e
		}
	}
}

// ioctlFilter passes a structure with pointers to bitmaps of 8 bytes at the
// offsets given.
func ioctlFilter(fd int, request uintptr, b []byte, bitmaps map[int]*uint64) (int, error) {
	for at, m := range bitmaps {
		le.PutUint64(b[at:], uint64(uintptr(unsafe.Pointer(m))))
	}
	// The map keeps the bitmaps alive; the heap does not move.
	n, err := ioctlBytes(fd, request, b)
	for _, m := range bitmaps {
		_ = *m
	}
	return n, err
}

func address(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(&b[0]))) }

// words is the memory b as numbers; b is a mapping, so it is aligned.
func words(b []byte) []uint64 {
	return unsafe.Slice((*uint64)(unsafe.Pointer(&b[0])), len(b)/8)
}

// mapAt puts a mapping of a file, or of nothing (fd -1), over a part of the
// mapping b.
func mapAt(b []byte, prot, flags, fd int, offset int64) error {
	got, err := unix.MmapPtr(fd, offset, unsafe.Pointer(&b[0]), uintptr(len(b)), prot, flags|unix.MAP_FIXED)
	if err == nil && got != unsafe.Pointer(&b[0]) {
		err = fmt.Errorf("mapped at %p instead of %p", got, &b[0])
	}
	return err
}
