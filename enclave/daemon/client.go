// SPDX-License-Identifier: Apache-2.0

//go:build linux && amd64

package daemon

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"holdfast/attest/evidence"
	"holdfast/attest/provider/tpmquote"
	"holdfast/attest/trust"
	"holdfast/enclave/epc"
	"holdfast/enclave/sgx"
	"holdfast/enclave/urts"
)

// ErrDaemonGone says that the connection to the monitor ended: it was stopped
// or killed. Enclaves are gone with it; what they sealed can be read again
// after it started anew.
var ErrDaemonGone = errors.New("enclave daemon: the monitor is gone; start it again, load the enclave again")

// Client is one connection to the daemon. One request at a time goes over it;
// for calls side by side attach further clients.
type Client struct {
	mu sync.Mutex
	c  *net.UnixConn
}

// Dial connects to the daemon's socket.
func Dial(ctx context.Context, socket string) (*Client, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, fmt.Errorf("enclave daemon: %w (is `holdfast enclave monitor` running?)", err)
	}
	return &Client{c: c.(*net.UnixConn)}, nil
}

// Close ends the connection, and with it the enclave that was loaded over it.
func (c *Client) Close() error { return c.c.Close() }

// gone tells a lost connection from other errors.
func gone(err error) error {
	var lost *net.OpError
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &lost) {
		return fmt.Errorf("%w (%v)", ErrDaemonGone, err)
	}
	return err
}

// ask sends a request and reads one answer; the caller holds mu.
func (c *Client) ask(k kind, payload []byte, files ...*os.File) (frame, error) {
	if err := writeFrame(c.c, k, payload, files...); err != nil {
		return frame{}, gone(err)
	}
	f, err := readFrame(c.c)
	if err != nil {
		return frame{}, gone(err)
	}
	return f, nil
}

// result asks for a msgResult.
func (c *Client) result(k kind, payload []byte) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f, err := c.ask(k, payload)
	if err != nil {
		return nil, err
	}
	defer f.close()
	return f.payload, f.want(msgResult, -1)
}

func (c *Client) resultJSON(k kind, payload []byte, v any) error {
	b, err := c.result(k, payload)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, v)
}

// LoadOptions say how an enclave is loaded.
type LoadOptions struct {
	Debug, Dynamic, Bare bool
	SharedSize           int      // bytes; 0 means 4 MiB
	Sig                  *os.File // SIGSTRUCT of a .sgxs
}

// Enclave is an enclave in the daemon, seen by the application.
type Enclave struct {
	ID        uint64
	MREnclave [32]byte
	// Memory is shared with the enclave, at urts.MemoryAddr as it sees it.
	Memory *urts.Memory

	c     *Client
	token [16]byte
}

// Load loads the image in a file. The enclave ends with the connection.
func (c *Client) Load(img *os.File, o LoadOptions) (*Enclave, error) {
	var flags uint32
	for bit, on := range map[uint32]bool{flagDebug: o.Debug, flagDynamic: o.Dynamic, flagBare: o.Bare} {
		if on {
			flags |= bit
		}
	}
	p := binary.LittleEndian.AppendUint32(nil, flags)
	p = binary.LittleEndian.AppendUint32(p, uint32(o.SharedSize))
	var files []*os.File
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	for _, f := range []*os.File{img, o.Sig} {
		if f == nil {
			continue
		}
		m, err := inMemory(f)
		if err != nil {
			return nil, err
		}
		files = append(files, m)
	}
	return c.enclave(msgLoad, p, files...)
}

// inMemory copies a file into memory: the daemon takes nothing else, so that no
// file system can make it wait.
func inMemory(f *os.File) (*os.File, error) {
	fd, err := unix.MemfdCreate("enclave-image", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("enclave daemon: memory for the image: %w", err)
	}
	m := os.NewFile(uintptr(fd), "enclave-image")
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = errors.New("expected a regular file")
	}
	if err == nil {
		_, err = io.Copy(m, io.NewSectionReader(f, 0, maxImage+1))
	}
	if err != nil {
		m.Close()
		return nil, fmt.Errorf("enclave daemon: %s: %w", f.Name(), err)
	}
	return m, nil
}

// Kill ends an enclave of this user; root ends any.
func (c *Client) Kill(id uint64) error {
	_, err := c.result(msgKill, u64s(id))
	return err
}

// Attach makes another connection for the enclave, for a thread of its own.
func (e *Enclave) Attach(c *Client) (*Enclave, error) {
	return c.enclave(msgAttach, append(u64s(e.ID), e.token[:]...))
}

func (c *Client) enclave(k kind, payload []byte, files ...*os.File) (*Enclave, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f, err := c.ask(k, payload, files...)
	if err != nil {
		return nil, err
	}
	defer f.close()
	if err := f.want(msgLoaded, 80); err != nil {
		return nil, err
	}
	b := f.payload
	e := &Enclave{ID: binary.LittleEndian.Uint64(b), c: c}
	copy(e.token[:], b[8:])
	copy(e.MREnclave[:], b[24:])
	addr, size, free := binary.LittleEndian.Uint64(b[56:]), binary.LittleEndian.Uint64(b[64:]), binary.LittleEndian.Uint64(b[72:])
	if len(f.files) != 1 || addr != urts.MemoryAddr {
		return nil, fmt.Errorf("%w: %d descriptors, shared memory at %#x", errFrame, len(f.files), addr)
	}
	if e.Memory, err = urts.OpenMemory(f.files[0], size, free); err != nil {
		return nil, err
	}
	f.files = nil // the memory's now
	return e, nil
}

// OCallFunc serves an OCALL of the enclave; it may make ECALLs by the Enclave
// that it is given. See urts.OCallFunc.
type OCallFunc func(e *Nested, index int, ms uint64) uint32

// Nested is an enclave during an OCALL.
type Nested struct {
	e      *Enclave
	ocalls OCallFunc
}

// Memory is that of the enclave.
func (n *Nested) Memory() *urts.Memory { return n.e.Memory }

// ECall makes an ECALL from inside an OCALL.
func (n *Nested) ECall(index int, ms uint64) error { return n.e.call(index, ms, n.ocalls) }

// ECall calls function index; ms is an address in the shared memory. OCALLs
// are served by ocalls, nil refuses them. Errors are those of urts: a
// urts.StatusError, urts.ErrCrashed, epc.ErrGone; or ErrDaemonGone.
func (e *Enclave) ECall(index int, ms uint64, ocalls OCallFunc) error {
	e.c.mu.Lock()
	defer e.c.mu.Unlock()
	return e.call(index, ms, ocalls)
}

func (e *Enclave) call(index int, ms uint64, ocalls OCallFunc) error {
	if index < 0 {
		return fmt.Errorf("enclave daemon: ECALL %d: an index is not negative", index)
	}
	f, err := e.c.ask(msgECall, u64s(uint64(index), ms))
	for {
		if err != nil {
			return err
		}
		if f.kind != msgOCall {
			break
		}
		if err := f.want(msgOCall, 16); err != nil {
			return err
		}
		status := uint32(statusOCall)
		if ocalls != nil {
			status = ocalls(&Nested{e, ocalls}, int(binary.LittleEndian.Uint64(f.payload)), binary.LittleEndian.Uint64(f.payload[8:]))
		}
		f, err = e.c.ask(msgORet, binary.LittleEndian.AppendUint32(nil, status))
	}
	return ended(&f)
}

// Enter is one EENTER of a bare enclave; see urts.Enclave.Enter.
func (e *Enclave) Enter(in [6]uint64) (out [6]uint64, err error) {
	e.c.mu.Lock()
	defer e.c.mu.Unlock()
	f, err := e.c.ask(msgEnter, u64s(in[:]...))
	if err != nil {
		return out, err
	}
	if f.kind != msgResult {
		return out, ended(&f)
	}
	if err := f.want(msgResult, 48); err != nil {
		return out, err
	}
	for i := range out {
		out[i] = binary.LittleEndian.Uint64(f.payload[8*i:])
	}
	return out, nil
}

// ended says how an ECALL ended.
func ended(f *frame) error {
	if err := f.want(msgDone, -1); err != nil {
		return err
	}
	if len(f.payload) < 8 {
		return fmt.Errorf("%w: an end of an ECALL with %d bytes", errFrame, len(f.payload))
	}
	switch binary.LittleEndian.Uint32(f.payload) {
	case outcomeDone:
		return nil
	case outcomeStatus:
		return urts.StatusError(binary.LittleEndian.Uint32(f.payload[4:]))
	case outcomeCrashed:
		return urts.ErrCrashed
	case outcomeGone:
		return epc.ErrGone
	}
	return &RefusedError{string(f.payload[8:])}
}

// Target is for whom an enclave makes a REPORT that Quote takes.
func (c *Client) Target() (*sgx.TargetInfo, error) {
	b, err := c.result(msgTarget, nil)
	if err != nil {
		return nil, err
	}
	return sgx.ParseTargetInfo(b)
}

// Quote turns a REPORT made for Target into evidence.
func (c *Client) Quote(report []byte) (*evidence.Bundle, error) {
	b, err := c.result(msgQuote, report)
	if err != nil {
		return nil, err
	}
	return evidence.ParseFile(b)
}

// List lists enclaves.
func (c *Client) List() (*Listing, error) {
	l := &Listing{}
	return l, c.resultJSON(msgPS, nil, l)
}

// Enrol proves that the monitor's attestation key is in one TPM with its
// endorsement key, and returns the record to pin.
func (c *Client) Enrol(environment, machine string) (trust.AK, error) {
	var id Identity
	if err := c.resultJSON(msgIdentity, nil, &id); err != nil {
		return trust.AK{}, err
	}
	v, challenge, err := tpmquote.NewChallenge(id.Identity)
	if err != nil {
		return trust.AK{}, err
	}
	b, err := json.Marshal(challenge)
	if err != nil {
		return trust.AK{}, err
	}
	var answer []byte
	if err := c.resultJSON(msgAnswer, b, &answer); err != nil {
		return trust.AK{}, err
	}
	ak, err := v.Complete(answer, environment, machine, time.Now())
	if err != nil {
		return trust.AK{}, err
	}
	ak.EnclaveLevel = id.Level
	_, err = trust.New([]trust.AK{ak}, nil)
	return ak, err
}
