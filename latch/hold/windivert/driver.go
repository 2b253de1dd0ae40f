// SPDX-License-Identifier: Apache-2.0

package windivert

import (
	"errors"
	"fmt"
	"os/exec"
)

// Driver opens handles. System (on Windows) is the real one.
type Driver interface {
	// Open is WinDivertOpen. Its errors of the driver are an Errno.
	Open(filter string, l Layer, priority int16, flags uint64) (Handle, error)
}

// Lender is a Driver whose handles a child process can have too.
type Lender interface {
	Driver
	// Lend has the command inherit the handle and returns its name there. Call it
	// once for a command, before its start.
	Lend(c *exec.Cmd, h Handle) (name string, err error)
	// Borrow makes a Handle of one that this process was lent. The filter lives
	// until every process that has it has closed it or ended.
	Borrow(name string) (Handle, error)
}

// Handle is an open filter. Its methods may be called by several goroutines.
type Handle interface {
	// Recv waits for a packet and returns its length in buf. ErrnoNoData says that
	// the handle was shut down and nothing is queued any more.
	Recv(buf []byte) (int, Address, error)
	// Send injects a packet. Of the address Outbound, Impostor, the checksums and
	// (inbound) the interface count.
	Send(packet []byte, a *Address) error
	Set(p Param, value uint64) error
	Get(p Param) (uint64, error)
	// ShutdownRecv has the driver let pass what comes from now on. What is queued
	// can still be received.
	ShutdownRecv() error
	// Close closes this handle. With the last one to the filter the driver lets
	// what is queued, and all that comes, pass.
	Close() error
}

// Param is WINDIVERT_PARAM.
type Param uint32

// Parameters.
const (
	QueueLength  Param = 0 // packets, 32 to 16384
	QueueTime    Param = 1 // milliseconds, 100 to 16000
	QueueSize    Param = 2 // bytes, 65535 to 33554432
	VersionMajor Param = 3
	VersionMinor Param = 4
)

const (
	priorityLowest = -30000     // WINDIVERT_PRIORITY_LOWEST
	maxPacket      = 40 + 65535 // WINDIVERT_MTU_MAX

	queueLength = 16384
	queueTime   = 2000
	queueSize   = 32 << 20
)

// Filter is what is diverted: all that leaves, since fragments and protocols
// that nobody thought of must not pass either, and the TCP that comes; of both
// not the bare acknowledgements, which carry nothing.
const Filter = "!loopback and (outbound or tcp) and " +
	"!(tcp and !fragment and tcp.PayloadLength == 0 and !tcp.Syn and !tcp.Fin and !tcp.Rst and !tcp.Urg)"

// Errno is an error number of Windows.
type Errno uint32

// Error numbers of the documentation, sections 5.4, 5.5 and 5.7.
const (
	ErrnoFileNotFound     Errno = 2
	ErrnoAccessDenied     Errno = 5
	ErrnoInvalidParameter Errno = 87
	ErrnoBufferTooSmall   Errno = 122
	ErrnoNoData           Errno = 232
	ErrnoBadSignature     Errno = 577
	ErrnoOtherVersion     Errno = 654
	ErrnoAborted          Errno = 995
	ErrnoNotInstalled     Errno = 1060
	ErrnoHostUnreachable  Errno = 1232
	ErrnoBlocked          Errno = 1275
	ErrnoNotRegistered    Errno = 1753
)

func (e Errno) Error() string {
	if t, ok := errnoText[e]; ok {
		return fmt.Sprintf("%s (Windows error %d)", t, uint32(e))
	}
	return fmt.Sprintf("Windows error %d", uint32(e))
}

var errnoText = map[Errno]string{
	ErrnoFileNotFound:     "the driver is missing: expected WinDivert64.sys in the folder of WinDivert.dll; copy both from one WinDivert 2.2 package",
	ErrnoAccessDenied:     "access denied: start this as administrator",
	ErrnoInvalidParameter: "the driver does not accept the filter: expected WinDivert 2.2; is an older WinDivert.dll in the folder?",
	ErrnoBufferTooSmall:   "the packet is larger than expected",
	ErrnoNoData:           "the handle was shut down and its queue is empty",
	ErrnoBadSignature:     "Windows does not accept the driver's signature: use the signed WinDivert64.sys of the project's own package",
	ErrnoOtherVersion:     "another version of the WinDivert driver is loaded: end the program that uses it, then `sc stop WinDivert` or restart",
	ErrnoAborted:          "the handle was closed",
	ErrnoNotInstalled:     "the driver is not installed",
	ErrnoHostUnreachable:  "a packet went in circles between this and another filter driver and was dropped",
	ErrnoBlocked:          "the driver was blocked: security software or memory integrity (core isolation) refuses it, or this virtual machine takes no drivers",
	ErrnoNotRegistered:    "the Base Filtering Engine service does not run: `sc start BFE`",
}

// ErrNoDLL says that WinDivert.dll is not there.
var ErrNoDLL = errors.New("WinDivert.dll was not found beside holdfast.exe: copy WinDivert.dll and WinDivert64.sys of WinDivert 2.2 (64 bit) into the folder of holdfast.exe")

// OpenHandle opens the filter, checks the driver's version and gives its queue
// the most room. From its return on what leaves the machine waits for Recv.
func OpenHandle(d Driver) (_ Handle, err error) {
	h, err := d.Open(Filter, LayerNetwork, priorityLowest, 0)
	if err != nil {
		return nil, fmt.Errorf("WinDivert: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("WinDivert: %w", err), Discard(h))
		}
	}()
	major, err := h.Get(VersionMajor)
	if err != nil {
		return nil, err
	}
	minor, err := h.Get(VersionMinor)
	if err != nil {
		return nil, err
	}
	if major != 2 || minor < 2 {
		return nil, fmt.Errorf("the loaded driver has version %d.%d, expected 2.2 or a later 2: end the program that uses it, or restart", major, minor)
	}
	for _, s := range []struct {
		p Param
		v uint64
	}{{QueueLength, queueLength}, {QueueTime, queueTime}, {QueueSize, queueSize}} {
		if err := h.Set(s.p, s.v); err != nil {
			return nil, err
		}
	}
	return h, nil
}

// Discard opens the machine: it drops what is queued, which the driver would let
// go on otherwise, and closes the handle.
func Discard(h Handle) error {
	err := h.ShutdownRecv()
	if err == nil {
		buf := make([]byte, maxPacket)
		for {
			_, _, e := h.Recv(buf)
			if e != nil && !errors.Is(e, ErrnoBufferTooSmall) && !errors.Is(e, errAddress) {
				if !errors.Is(e, ErrnoNoData) {
					err = e
				}
				break
			}
		}
	}
	return errors.Join(err, h.Close())
}

// errAddress marks a packet with an address that cannot be read.
var errAddress = errors.New("the packet's address cannot be read")
