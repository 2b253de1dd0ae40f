// SPDX-License-Identifier: Apache-2.0

//go:build linux

package daemon

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// A frame is: u32 size of the payload, u16 type, u16 number of descriptors, all
// little-endian; then the payload. Descriptors come with the first byte.
//
// One connection is one line of work: a request has one answer before the next
// request. ECALL is the exception: while it runs the daemon may send OCALL any
// number of times, which is answered with ORET, after nested ECALLs perhaps, and
// FAULT, which is answered with GRANT.
// Other threads of an application open a connection each and ATTACH.
type kind uint16

// Requests and what answers them.
const (
	msgLoad     kind = 1  // {u32 flags, u32 shared size}, image [, SIGSTRUCT] as descriptors -> msgLoaded
	msgAttach   kind = 2  // {u64 id, 16 token} -> msgLoaded
	msgECall    kind = 3  // {u64 index, u64 ms} -> msgDone
	msgORet     kind = 4  // {u32 sgx_status_t}
	msgQuote    kind = 5  // REPORT, 432 bytes -> msgBundle
	msgTarget   kind = 6  // {} -> TARGETINFO, 512 bytes
	msgPS       kind = 7  // {} -> JSON
	msgIdentity kind = 8  // {} -> JSON; the monitor's user and root only
	msgAnswer   kind = 9  // JSON -> JSON; likewise
	msgEnter    kind = 10 // {6 u64: RDI RSI RDX R8 R9 R10} -> msgResult with the same at EEXIT, or msgDone with why not

	// For applications whose enclave reaches their own memory (flagApp).
	msgGrant  kind = 11 // {u64 address, u64 size, u64 offset in the file, u32 writable} -> msgResult; or the answer to msgFault, where size 0 refuses
	msgRevoke kind = 12 // {u64 address, u64 size} any number of times -> msgResult, when no thread of the enclave can reach them any more
	msgSelf   kind = 13 // {} -> msgResult {512 TARGETINFO of the enclave, u64 start of ELRANGE, u64 its size, u32 a thread keeps its TCS}
	msgCall   kind = 14 // {i64 index or command, u64 ms, u64 lowest address of the untrusted stack, u64 its size} -> msgDone

	msgKill kind = 15 // {u64 id}: end an enclave of this user; root ends any -> msgResult

	msgLoaded kind = 0x101 // {u64 id, 16 token, 32 MRENCLAVE, u64 address, u64 size, u64 free from here}, shared memory as descriptor
	msgDone   kind = 0x102 // {u32 outcome, u32 status, text}
	msgOCall  kind = 0x103 // {u64 index, u64 ms}
	msgResult kind = 0x104 // as the request says
	msgFault  kind = 0x105 // {u64 address}: the enclave touched memory of the application; answered by msgGrant
	msgError  kind = 0x1ff // text: the request was refused; the connection goes on
)

// Flags of msgLoad.
const (
	flagDebug   = 1 << 0
	flagDynamic = 1 << 1
	flagBare    = 1 << 2
	flagApp     = 1 << 3 // the last descriptor is the application's memory, a memfd; a refusal is a msgDone with its sgx_status_t
)

// Outcomes of an ECALL in msgDone.
const (
	outcomeDone    = 0 // status is 0
	outcomeStatus  = 1 // the trusted runtime returned status
	outcomeCrashed = 2
	outcomeGone    = 3 // process or enclave is gone
	outcomeOther   = 4
)

const (
	headSize   = 8
	maxPayload = 1 << 20
	maxFiles   = 3
)

// frame is one message.
type frame struct {
	kind    kind
	payload []byte
	files   []*os.File
}

func (f *frame) close() {
	for _, x := range f.files {
		x.Close()
	}
	f.files = nil
}

// writeFrame sends a message; files stay the caller's.
func writeFrame(c *net.UnixConn, k kind, payload []byte, files ...*os.File) error {
	if len(payload) > maxPayload {
		return fmt.Errorf("a message of %d bytes, at most %d go", len(payload), maxPayload)
	}
	b := make([]byte, headSize, headSize+len(payload))
	binary.LittleEndian.PutUint32(b, uint32(len(payload)))
	binary.LittleEndian.PutUint16(b[4:], uint16(k))
	binary.LittleEndian.PutUint16(b[6:], uint16(len(files)))
	b = append(b, payload...)
	var oob []byte
	if len(files) > 0 {
		fds := make([]int, len(files))
		for i, f := range files {
			fds[i] = int(f.Fd())
		}
		oob = unix.UnixRights(fds...)
	}
	n, _, err := c.WriteMsgUnix(b, oob, nil)
	if err == nil && n < len(b) {
		_, err = c.Write(b[n:])
	}
	return err
}

var errFrame = errors.New("malformed message")

// readFrame receives a message. On an error no descriptor stays open.
func readFrame(c *net.UnixConn) (f frame, err error) {
	defer func() {
		if err != nil {
			f.close()
			f = frame{}
		}
	}()
	var head [headSize]byte
	oob := make([]byte, unix.CmsgSpace(4*maxFiles))
	for got := 0; got < headSize; {
		n, on, flags, _, err := c.ReadMsgUnix(head[got:], oob)
		if err != nil {
			return f, err
		}
		if err := f.take(oob[:on]); err != nil {
			return f, err
		}
		if flags&unix.MSG_CTRUNC != 0 {
			return f, fmt.Errorf("%w: more than %d descriptors", errFrame, maxFiles)
		}
		if n == 0 {
			if got == 0 {
				return f, io.EOF
			}
			return f, io.ErrUnexpectedEOF
		}
		got += n
	}
	size, files := binary.LittleEndian.Uint32(head[:]), binary.LittleEndian.Uint16(head[6:])
	f.kind = kind(binary.LittleEndian.Uint16(head[4:]))
	if size > maxPayload || int(files) != len(f.files) {
		return f, fmt.Errorf("%w: %d bytes and %d descriptors, %d came; at most %d bytes go", errFrame, size, files, len(f.files), maxPayload)
	}
	f.payload = make([]byte, size)
	_, err = io.ReadFull(c, f.payload)
	return f, err
}

// take keeps the descriptors in a control message.
func (f *frame) take(oob []byte) error {
	if len(oob) == 0 {
		return nil
	}
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return fmt.Errorf("%w: %v", errFrame, err)
	}
	for i := range msgs {
		fds, err := unix.ParseUnixRights(&msgs[i])
		if err != nil {
			return fmt.Errorf("%w: %v", errFrame, err)
		}
		for _, fd := range fds {
			unix.CloseOnExec(fd)
			f.files = append(f.files, os.NewFile(uintptr(fd), "passed"))
		}
	}
	return nil
}

// want checks the shape of a message.
func (f *frame) want(k kind, size int) error {
	if f.kind == msgError {
		return &RefusedError{string(f.payload)}
	}
	if f.kind != k || size >= 0 && len(f.payload) != size {
		return fmt.Errorf("%w: expected type %#x with %d bytes, got %#x with %d", errFrame, k, size, f.kind, len(f.payload))
	}
	return nil
}

// RefusedError is what the daemon said when it refused a request.
type RefusedError struct{ Reason string }

func (e *RefusedError) Error() string { return "enclave daemon: " + e.Reason }

func u64s(v ...uint64) []byte {
	b := make([]byte, 0, 8*len(v))
	for _, x := range v {
		b = binary.LittleEndian.AppendUint64(b, x)
	}
	return b
}
