// SPDX-License-Identifier: Apache-2.0

package windivert

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

// System is the real driver, through WinDivert.dll in the folder of the running
// program (and nowhere else: a library from the search path could be anybody's).
type System struct{}

type library struct {
	open, recv, send, shutdown, close, set, get *windows.LazyProc
}

func load() (*library, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	path := filepath.Join(filepath.Dir(exe), "WinDivert.dll")
	if _, err := os.Stat(path); err != nil {
		return nil, ErrNoDLL
	}
	d := windows.NewLazyDLL(path)
	if err := d.Load(); err != nil {
		return nil, fmt.Errorf("%s could not be loaded (is it the one for this processor?): %w", path, err)
	}
	l := &library{d.NewProc("WinDivertOpen"), d.NewProc("WinDivertRecv"), d.NewProc("WinDivertSend"), d.NewProc("WinDivertShutdown"),
		d.NewProc("WinDivertClose"), d.NewProc("WinDivertSetParam"), d.NewProc("WinDivertGetParam")}
	for _, p := range []*windows.LazyProc{l.open, l.recv, l.send, l.shutdown, l.close, l.set, l.get} {
		if err := p.Find(); err != nil {
			return nil, fmt.Errorf("%s: %w; expected WinDivert 2.2", path, err)
		}
	}
	return l, nil
}

func number(err error) error {
	var e syscall.Errno
	if errors.As(err, &e) && e != 0 {
		return Errno(e)
	}
	return fmt.Errorf("WinDivert failed without a reason: %w", err)
}

type systemHandle struct {
	l *library
	h windows.Handle
}

// Open implements Driver.
func (System) Open(filter string, layer Layer, priority int16, flags uint64) (Handle, error) {
	l, err := load()
	if err != nil {
		return nil, err
	}
	f, err := windows.BytePtrFromString(filter)
	if err != nil {
		return nil, err
	}
	h, _, err := l.open.Call(uintptr(unsafe.Pointer(f)), uintptr(layer), uintptr(priority), uintptr(flags))
	if windows.Handle(h) == windows.InvalidHandle {
		return nil, number(err)
	}
	return &systemHandle{l, windows.Handle(h)}, nil
}

// Lend implements Lender: the handle has the same number in the child.
func (System) Lend(c *exec.Cmd, h Handle) (string, error) {
	s, ok := h.(*systemHandle)
	if !ok {
		return "", errors.New("not a handle of the system's driver")
	}
	if err := windows.SetHandleInformation(s.h, windows.HANDLE_FLAG_INHERIT, windows.HANDLE_FLAG_INHERIT); err != nil {
		return "", err
	}
	if c.SysProcAttr == nil {
		c.SysProcAttr = &syscall.SysProcAttr{}
	}
	c.SysProcAttr.AdditionalInheritedHandles = append(c.SysProcAttr.AdditionalInheritedHandles, syscall.Handle(s.h))
	return strconv.FormatUint(uint64(s.h), 16), nil
}

// Borrow implements Lender.
func (System) Borrow(name string) (Handle, error) {
	h, err := strconv.ParseUint(name, 16, strconv.IntSize)
	if err != nil {
		return nil, fmt.Errorf("windivert: handle %q, expected a number: only the guard of `latch gate` starts this", name)
	}
	l, err := load()
	if err != nil {
		return nil, err
	}
	s := &systemHandle{l, windows.Handle(h)}
	if _, err := s.Get(VersionMajor); err != nil {
		return nil, fmt.Errorf("windivert: %s is no handle of WinDivert in this process: %w", name, err)
	}
	return s, nil
}

func (s *systemHandle) Recv(buf []byte) (int, Address, error) {
	var n uint32
	var raw [AddressSize]byte
	ok, _, err := s.l.recv.Call(uintptr(s.h), uintptr(unsafe.Pointer(unsafe.SliceData(buf))), uintptr(len(buf)), uintptr(unsafe.Pointer(&n)), uintptr(unsafe.Pointer(&raw)))
	if ok == 0 {
		return 0, Address{}, number(err)
	}
	a, err := DecodeAddress(&raw)
	if err != nil {
		return 0, a, fmt.Errorf("%w: %w", errAddress, err)
	}
	return min(int(n), len(buf)), a, nil
}

func (s *systemHandle) Send(packet []byte, a *Address) error {
	raw := a.Encode()
	if ok, _, err := s.l.send.Call(uintptr(s.h), uintptr(unsafe.Pointer(unsafe.SliceData(packet))), uintptr(len(packet)), 0, uintptr(unsafe.Pointer(&raw))); ok == 0 {
		return number(err)
	}
	return nil
}

func (s *systemHandle) Set(p Param, v uint64) error {
	if ok, _, err := s.l.set.Call(uintptr(s.h), uintptr(p), uintptr(v)); ok == 0 {
		return number(err)
	}
	return nil
}

func (s *systemHandle) Get(p Param) (uint64, error) {
	var v uint64
	if ok, _, err := s.l.get.Call(uintptr(s.h), uintptr(p), uintptr(unsafe.Pointer(&v))); ok == 0 {
		return 0, number(err)
	}
	return v, nil
}

func (s *systemHandle) ShutdownRecv() error {
	const recv = 1 // WINDIVERT_SHUTDOWN_RECV
	if ok, _, err := s.l.shutdown.Call(uintptr(s.h), recv); ok == 0 {
		return number(err)
	}
	return nil
}

func (s *systemHandle) Close() error {
	if ok, _, err := s.l.close.Call(uintptr(s.h)); ok == 0 {
		return number(err)
	}
	return nil
}
