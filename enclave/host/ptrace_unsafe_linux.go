// SPDX-License-Identifier: Apache-2.0

//go:build linux && amd64

package host

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	ptraceGetRegSet  = 0x4204
	ptraceSetRegSet  = 0x4205
	ptraceGetSigInfo = 0x4202
	ntX86XState      = 0x202
	maxXState        = 16384
)

// getXState reads the whole XSAVE image of a stopped process.
func getXState(pid int) ([]byte, error) {
	b := make([]byte, maxXState)
	iov := unix.Iovec{Base: &b[0], Len: uint64(len(b))}
	if _, _, e := unix.Syscall6(unix.SYS_PTRACE, ptraceGetRegSet, uintptr(pid), ntX86XState, uintptr(unsafe.Pointer(&iov)), 0, 0); e != 0 {
		return nil, fmt.Errorf("enclave/host: read the XSAVE image: %w", e)
	}
	if iov.Len < 832 {
		return nil, fmt.Errorf("enclave/host: the XSAVE image has %d bytes; the processor must have AVX", iov.Len)
	}
	return b[:iov.Len], nil
}

func setXState(pid int, b []byte) error {
	iov := unix.Iovec{Base: &b[0], Len: uint64(len(b))}
	if _, _, e := unix.Syscall6(unix.SYS_PTRACE, ptraceSetRegSet, uintptr(pid), ntX86XState, uintptr(unsafe.Pointer(&iov)), 0, 0); e != 0 {
		return fmt.Errorf("enclave/host: write the XSAVE image: %w", e)
	}
	return nil
}

type sigInfo struct {
	code int32
	addr uint64
}

func getSigInfo(pid int) (sigInfo, error) {
	var b [128]byte
	if _, _, e := unix.Syscall6(unix.SYS_PTRACE, ptraceGetSigInfo, uintptr(pid), 0, uintptr(unsafe.Pointer(&b[0])), 0, 0); e != 0 {
		return sigInfo{}, fmt.Errorf("enclave/host: PTRACE_GETSIGINFO: %w", e)
	}
	return sigInfo{*(*int32)(unsafe.Pointer(&b[8])), *(*uint64)(unsafe.Pointer(&b[16]))}, nil
}
