// SPDX-License-Identifier: Apache-2.0

//go:build linux && amd64

package daemon

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"sort"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"holdfast/enclave/daemon/anchor"
	"holdfast/enclave/epc"
	"holdfast/enclave/sgx"
	"holdfast/enclave/sgx/image"
	"holdfast/enclave/urts"
)

// Limits of one daemon.
const (
	maxEnclaves    = 1024
	maxPerUser     = 256
	maxConnections = 4096
	maxImage       = 256 << 20
	maxShared      = 256 << 20
)

// Server serves applications.
type Server struct {
	p    *epc.Platform
	a    *anchor.Anchor
	mode string

	maxExceptions uint64 // see Monitor

	mu       sync.Mutex
	enclaves map[uint64]*entry
	perUser  map[uint32]int
	conns    map[*net.UnixConn]struct{}
	next     uint64
	closed   bool
	wg       sync.WaitGroup
}

// entry is one enclave and who owns it.
type entry struct {
	id      uint64
	token   [16]byte
	uid     uint32
	pid     int32
	e       *urts.Enclave
	info    *sgx.SigStruct
	mr      [32]byte
	debug   bool
	started time.Time
}

// QuotingTarget is for whom an enclave makes the REPORT that is to become a
// quote. No enclave has this MRENCLAVE: it is no SHA-256 of a measurement.
func QuotingTarget() *sgx.TargetInfo {
	t := &sgx.TargetInfo{}
	copy(t.MREnclave[:], "holdfast quoting monitor v1")
	return t
}

// NewServer serves the platform's enclaves, which run in mode, with evidence of
// the anchor.
func NewServer(p *epc.Platform, a *anchor.Anchor, mode string) *Server {
	return &Server{p: p, a: a, mode: mode, enclaves: map[uint64]*entry{}, perUser: map[uint32]int{}, conns: map[*net.UnixConn]struct{}{}}
}

// Serve takes connections until the listener closes.
func (s *Server) Serve(l *net.UnixListener) error {
	for {
		c, err := l.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			if errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) {
				time.Sleep(50 * time.Millisecond) // others will close
				continue
			}
			return err
		}
		s.mu.Lock()
		full := s.closed || len(s.conns) >= maxConnections
		if !full {
			s.conns[c] = struct{}{}
			s.wg.Add(1)
		}
		s.mu.Unlock()
		if full {
			c.Close()
			continue
		}
		go func() {
			defer s.wg.Done()
			newConn(s, c).run()
		}()
	}
}

// Close ends all connections and enclaves.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	for c := range s.conns {
		c.Close()
	}
	s.mu.Unlock()
	s.wg.Wait()
}

// conn is one connection.
type conn struct {
	s    *Server
	c    *net.UnixConn
	cred *unix.Ucred
	in   chan frame
	gone chan struct{} // closed when the peer is gone
	x    *entry
	own  bool // this connection loaded the enclave, which ends with it
	held *urts.Held
}

func newConn(s *Server, c *net.UnixConn) *conn {
	return &conn{s: s, c: c, in: make(chan frame, 1), gone: make(chan struct{})}
}

func (c *conn) run() {
	stop := make(chan struct{})
	defer func() {
		close(stop)
		c.release()
		if c.own {
			c.s.remove(c.x)
		}
		c.c.Close() // last: who waits for it knows that the enclave is gone
		c.s.mu.Lock()
		delete(c.s.conns, c.c)
		c.s.mu.Unlock()
	}()
	if err := c.peer(); err != nil {
		slog.Warn("enclave daemon: a connection without credentials", "error", err)
		return
	}
	go c.read(stop)
	for {
		select {
		case f := <-c.in:
			err := c.handle(&f)
			f.close()
			if err == nil {
				continue
			}
			var lost *net.OpError
			if errors.As(err, &lost) || errors.Is(err, errPeerGone) {
				return
			}
			if writeFrame(c.c, msgError, []byte(err.Error())) != nil || errors.Is(err, errFrame) {
				return
			}
		case <-c.gone:
			return
		}
	}
}

// read turns the stream into frames. When the peer is gone, an ECALL that still
// runs must end too: the enclave is closed at once by its owner's connection.
func (c *conn) read(stop chan struct{}) {
	defer func() {
		close(c.gone)
		c.s.mu.Lock()
		x := c.x
		own := c.own
		c.s.mu.Unlock()
		if own {
			x.e.Close()
		}
	}()
	for {
		f, err := readFrame(c.c)
		if err != nil {
			return
		}
		select {
		case c.in <- f:
		case <-stop:
			f.close()
			return
		default: // a third message before the answer to the first
			f.close()
			return
		}
	}
}

func (c *conn) peer() error {
	raw, err := c.c.SyscallConn()
	if err != nil {
		return err
	}
	var e error
	if err := raw.Control(func(fd uintptr) { c.cred, e = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return err
	}
	return e
}

var errPeerGone = errors.New("the application is gone")

func (c *conn) handle(f *frame) error {
	switch f.kind {
	case msgLoad:
		return c.load(f)
	case msgAttach:
		return c.attach(f)
	case msgECall:
		return c.ecall(f, nil)
	case msgEnter:
		return c.enter(f)
	case msgCall:
		return c.call(f, nil)
	case msgGrant:
		return c.grant(f)
	case msgRevoke:
		return c.revoke(f)
	case msgSelf:
		return c.self()
	case msgQuote:
		return c.quote(f)
	case msgTarget:
		return writeFrame(c.c, msgResult, QuotingTarget().AppendTo(nil))
	case msgPS:
		return c.reply(c.s.list(c.cred.Uid))
	case msgIdentity:
		return c.identity()
	case msgAnswer:
		return c.answer(f)
	case msgKill:
		return c.kill(f)
	}
	return fmt.Errorf("%w: type %#x is no request", errFrame, f.kind)
}

func (c *conn) reply(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return writeFrame(c.c, msgResult, b)
}

// readFile reads what a client passed: memory of bounded size, from its start,
// once. The client may write to it meanwhile; what is read is what is used.
func readFile(f *os.File, limit int64) ([]byte, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, err
	}
	// A file system that the application serves itself (FUSE) would let it hold
	// the monitor for ever.
	if _, err := unix.FcntlInt(f.Fd(), unix.F_GET_SEALS, 0); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, errors.New("expected a file in memory (memfd_create)")
	}
	b, err := io.ReadAll(io.NewSectionReader(f, 0, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("expected at most %d bytes", limit)
	}
	return b, err
}

// ReadImage reads an enclave: a .signed.so, or a .sgxs with its SIGSTRUCT.
func ReadImage(b, sig []byte) (*image.Image, error) {
	if !bytes.HasPrefix(b, []byte("ECREATE\x00")) {
		if sig != nil {
			return nil, errors.New("a .signed.so brings its own SIGSTRUCT; leave the other one out")
		}
		return image.ReadSDK(b)
	}
	if sig == nil {
		return nil, errors.New("a .sgxs needs its SIGSTRUCT in a file of its own")
	}
	img, err := image.ReadSGXS(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	if img.Sig, err = sgx.ParseSigStruct(sig); err != nil {
		return nil, err
	}
	// A stream says nothing of attributes: those that the signer had in mind.
	img.Attributes, img.MiscSelect = img.Sig.Attributes, img.Sig.MiscSelect
	img.Attributes.Flags &^= sgx.FlagInit | sgx.FlagDebug
	return img, nil
}

func (c *conn) load(f *frame) error {
	if err := f.want(msgLoad, 8); err != nil {
		return err
	}
	if c.x != nil {
		return errors.New("this connection has an enclave already; open another one")
	}
	if len(f.files) == 0 {
		return fmt.Errorf("%w: no image was passed", errFrame)
	}
	flags, shared := binary.LittleEndian.Uint32(f.payload), binary.LittleEndian.Uint32(f.payload[4:])
	if flags&^(flagDebug|flagDynamic|flagBare|flagApp) != 0 || shared > maxShared {
		return fmt.Errorf("%w: flags %#x, shared memory of %d bytes", errFrame, flags, shared)
	}
	if flags&flagApp != 0 {
		return c.loadForApp(f, flags, shared)
	}
	return c.loadWith(f, flags, shared, nil)
}

// loadWith loads an enclave; app is the application's memory or nil.
func (c *conn) loadWith(f *frame, flags, shared uint32, app *os.File) error {
	b, err := readFile(f.files[0], maxImage)
	if err != nil {
		return fmt.Errorf("image: %w", err)
	}
	var sig []byte
	if len(f.files) > 1 {
		if sig, err = readFile(f.files[1], sgx.SigStructSize); err != nil {
			return fmt.Errorf("SIGSTRUCT: %w", err)
		}
	}
	img, err := ReadImage(b, sig)
	if err != nil {
		return err
	}
	if flags&flagDebug != 0 && !mayDebug(img.Sig) {
		return errNoDebug
	}
	x := &entry{uid: c.cred.Uid, pid: c.cred.Pid, info: img.Sig, debug: flags&flagDebug != 0, started: time.Now()}
	if _, err := rand.Read(x.token[:]); err != nil {
		return err
	}
	if err := c.s.reserve(x); err != nil {
		return err
	}
	x.e, err = urts.Load(c.s.p, img, urts.Options{Debug: x.debug, Dynamic: flags&flagDynamic != 0, Bare: flags&flagBare != 0, SharedSize: int(shared), App: app, MaxExceptions: c.s.maxExceptions, Done: c.gone})
	if err != nil {
		c.s.drop(x)
		return err
	}
	x.mr = x.e.MREnclave()
	c.s.mu.Lock()
	c.s.enclaves[x.id] = x
	c.x, c.own = x, true
	c.s.mu.Unlock()
	select { // read may have found the peer gone before there was an enclave
	case <-c.gone:
		return errPeerGone
	default:
	}
	return c.loaded()
}

func (c *conn) loaded() error {
	x := c.x
	b := binary.LittleEndian.AppendUint64(nil, x.id)
	b = append(b, x.token[:]...)
	b = append(b, x.mr[:]...)
	b = append(b, u64s(urts.MemoryAddr, x.e.Memory.Size(), x.e.Memory.Free())...)
	return writeFrame(c.c, msgLoaded, b, x.e.Memory.File())
}

func (c *conn) attach(f *frame) error {
	if err := f.want(msgAttach, 24); err != nil {
		return err
	}
	if c.x != nil {
		return errors.New("this connection has an enclave already; open another one")
	}
	c.s.mu.Lock()
	x := c.s.enclaves[binary.LittleEndian.Uint64(f.payload)]
	c.s.mu.Unlock()
	if x == nil || x.uid != c.cred.Uid || subtle.ConstantTimeCompare(x.token[:], f.payload[8:]) != 1 {
		return errors.New("no such enclave, or not yours")
	}
	c.s.mu.Lock()
	c.x = x
	c.s.mu.Unlock()
	return c.loaded()
}

var errTooMany = errors.New("the most")

// reserve counts an enclave before it is loaded.
func (s *Server) reserve(x *entry) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return errors.New("the monitor is going down")
	case len(s.enclaves) >= maxEnclaves:
		return fmt.Errorf("there are %d enclaves, %w that this monitor takes", len(s.enclaves), errTooMany)
	case s.perUser[x.uid] >= maxPerUser && x.uid != 0:
		return fmt.Errorf("user %d has %d enclaves, %w that one user gets", x.uid, s.perUser[x.uid], errTooMany)
	}
	s.next++
	x.id = s.next
	s.perUser[x.uid]++
	return nil
}

func (s *Server) drop(x *entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.enclaves, x.id)
	if s.perUser[x.uid]--; s.perUser[x.uid] == 0 {
		delete(s.perUser, x.uid)
	}
}

func (s *Server) remove(x *entry) {
	s.drop(x)
	x.e.Close()
}

// kill ends an enclave: its ECALLs return, and its application sees it gone.
func (c *conn) kill(f *frame) error {
	if err := f.want(msgKill, 8); err != nil {
		return err
	}
	c.s.mu.Lock()
	x := c.s.enclaves[binary.LittleEndian.Uint64(f.payload)]
	c.s.mu.Unlock()
	if x == nil || x.uid != c.cred.Uid && c.cred.Uid != 0 {
		return errors.New("no such enclave, or not yours")
	}
	slog.Info("enclave ended on demand", "id", x.id, "of", x.uid, "by", c.cred.Uid)
	x.e.Close()
	return writeFrame(c.c, msgResult, nil)
}

// ecall runs one ECALL; in is the OCALL that it nests in, or nil.
func (c *conn) ecall(f *frame, in *urts.Call) error {
	if err := f.want(msgECall, 16); err != nil {
		return err
	}
	if c.x == nil {
		return errors.New("load or attach to an enclave first")
	}
	index, ms := binary.LittleEndian.Uint64(f.payload), binary.LittleEndian.Uint64(f.payload[8:])
	if index > 1<<31 {
		return fmt.Errorf("%w: ECALL index %d", errFrame, index)
	}
	var lost error
	serve := func(call *urts.Call, index int, ms uint64) uint32 {
		status, err := c.ocall(call, index, ms)
		if err != nil {
			lost = err
		}
		return status
	}
	var err error
	if in != nil {
		err = in.ECall(int(index), ms, serve)
	} else {
		err = c.x.e.ECallWith(int(index), ms, serve)
	}
	if lost != nil {
		return lost
	}
	return writeFrame(c.c, msgDone, doneOf(err))
}

// enter runs one EENTER of a bare enclave.
func (c *conn) enter(f *frame) error {
	if err := f.want(msgEnter, 48); err != nil {
		return err
	}
	if c.x == nil {
		return errors.New("load or attach to an enclave first")
	}
	var in [6]uint64
	for i := range in {
		in[i] = binary.LittleEndian.Uint64(f.payload[8*i:])
	}
	out, err := c.x.e.Enter(in)
	if err != nil {
		return writeFrame(c.c, msgDone, doneOf(err))
	}
	return writeFrame(c.c, msgResult, u64s(out[:]...))
}

func doneOf(err error) []byte {
	outcome, status, text := uint32(outcomeDone), uint32(0), ""
	var st urts.StatusError
	switch {
	case err == nil:
	case errors.As(err, &st):
		outcome, status = outcomeStatus, uint32(st)
	case errors.Is(err, urts.ErrCrashed):
		outcome = outcomeCrashed
	case errors.Is(err, epc.ErrGone), errors.Is(err, urts.ErrClosed):
		outcome = outcomeGone
	default:
		outcome, text = outcomeOther, err.Error()
	}
	b := binary.LittleEndian.AppendUint32(nil, outcome)
	b = binary.LittleEndian.AppendUint32(b, status)
	return append(b, text...)
}

// statusOCall tells the enclave that its OCALL failed (SGX_ERROR_UNEXPECTED).
const statusOCall = 1

// ocall lets the application serve an OCALL, which may make ECALLs meanwhile.
func (c *conn) ocall(call *urts.Call, index int, ms uint64) (uint32, error) {
	if err := writeFrame(c.c, msgOCall, u64s(uint64(index), ms)); err != nil {
		return statusOCall, errPeerGone
	}
	for {
		select {
		case f := <-c.in:
			switch f.kind {
			case msgORet:
				if err := f.want(msgORet, 4); err != nil {
					return statusOCall, err
				}
				return binary.LittleEndian.Uint32(f.payload), nil
			case msgECall:
				if err := c.ecall(&f, call); err != nil {
					return statusOCall, err
				}
			case msgCall:
				if err := c.call(&f, call); err != nil {
					return statusOCall, err
				}
			case msgGrant:
				if err := c.grant(&f); err != nil {
					return statusOCall, err
				}
			case msgRevoke:
				if err := c.revoke(&f); err != nil {
					return statusOCall, err
				}
			default:
				f.close()
				return statusOCall, fmt.Errorf("%w: type %#x while an OCALL waits", errFrame, f.kind)
			}
		case <-c.gone:
			return statusOCall, errPeerGone
		}
	}
}

// quote turns a REPORT into evidence, if an enclave of this monitor made it.
func (c *conn) quote(f *frame) error {
	if err := f.want(msgQuote, sgx.ReportSize); err != nil {
		return err
	}
	r, err := sgx.ParseReport(f.payload)
	if err != nil {
		return err
	}
	c.s.p.Mu.Lock()
	good := c.s.p.Monitor.VerifyReport(r, QuotingTarget())
	c.s.p.Mu.Unlock()
	if !good {
		return errors.New("the REPORT was not made for the quoting target by an enclave of this monitor since its start")
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	b, err := c.s.a.Quote(ctx, c.s.mode, r)
	if err != nil {
		return err
	}
	return writeFrame(c.c, msgResult, b.CBOR())
}

// Listed is one enclave in the list of `holdfast enclave ps`.
type Listed struct {
	ID        uint64    `json:"id"`
	UID       uint32    `json:"uid"`
	PID       int32     `json:"pid"`
	MREnclave string    `json:"mrenclave"`
	MRSigner  string    `json:"mrsigner"`
	ISVProdID uint16    `json:"isv_prod_id"`
	ISVSVN    uint16    `json:"isv_svn"`
	Debug     bool      `json:"debug"`
	Mode      string    `json:"mode"`
	Started   time.Time `json:"started"`
	urts.Stats
}

// Listing is what `holdfast enclave ps` prints.
type Listing struct {
	Level   string `json:"level"`
	Mode    string `json:"mode"`
	Frames  int    `json:"epc_pages"`
	InUse   int    `json:"epc_pages_in_use"`
	Outside int    `json:"pages_outside"`
	Evicted uint64 `json:"pages_evicted"`
	Loaded  uint64 `json:"pages_loaded_back"`
	// Refused counts what applications and enclaves attempted and did not get.
	Refused  map[string]uint64 `json:"refused"`
	Enclaves []Listed          `json:"enclaves"`
}

// list lists the enclaves that a user may know of: his own, root all.
func (s *Server) list(uid uint32) Listing {
	s.p.Mu.Lock()
	st := s.p.Pager().Stats()
	refused := s.p.Refused()
	s.p.Mu.Unlock()
	l := Listing{Level: s.a.Level(), Mode: s.mode, Frames: st.Frames, InUse: st.InUse, Outside: st.Outside, Evicted: st.Evicted, Loaded: st.Loaded, Refused: refused, Enclaves: []Listed{}}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.enclaves {
		if uid == 0 || uid == x.uid {
			signer := x.info.MRSigner()
			l.Enclaves = append(l.Enclaves, Listed{x.id, x.uid, x.pid, hex.EncodeToString(x.mr[:]), hex.EncodeToString(signer[:]), x.info.ISVProdID, x.info.ISVSVN, x.debug, s.mode, x.started, x.e.Stats()})
		}
	}
	sort.Slice(l.Enclaves, func(i, j int) bool { return l.Enclaves[i].ID < l.Enclaves[j].ID })
	return l
}
