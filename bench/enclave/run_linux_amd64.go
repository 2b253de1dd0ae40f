// SPDX-License-Identifier: Apache-2.0

package enclave

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"holdfast/bench/stat"
	"holdfast/enclave/daemon"
	"holdfast/enclave/epc"
	"holdfast/enclave/host"
	"holdfast/enclave/kvm"
	"holdfast/enclave/monitor"
	"holdfast/enclave/sgx"
	"holdfast/enclave/urts"
	"holdfast/enclave/urts/probe"
)

var le = binary.LittleEndian

// Options of a run.
type Options struct {
	Modes []string // HU, GU, P
	Quick bool     // a tenth of the samples
	// Hosted launches a daemon that runs enclaves in a mode; nil leaves its rows
	// out.
	Hosted func(mode string) (c *daemon.Client, end func() error, err error)
	Log    func(format string, a ...any)

	part int // of the samples, for tests; 0: all
}

func (o *Options) n(n int) int {
	switch {
	case o.part > 0:
		n /= o.part
	case o.Quick:
		n /= 10
	}
	return max(3, n)
}

// Available are the modes that work here.
func Available() []string {
	out := []string{"HU"}
	for _, m := range []kvm.Mode{kvm.GU, kvm.P} {
		if _, err := kvm.Probe(m); err == nil {
			out = append(out, m.String())
		}
	}
	return out
}

// Run measures everything in each mode.
func Run(o Options) ([]Row, error) {
	rows, err := leaves(o.Quick)
	if err != nil {
		return nil, err
	}
	system, err := system(o.n(3000))
	if err != nil {
		return nil, err
	}
	rows = append(rows, system...)
	for _, mode := range o.Modes {
		o.Log("mode %s", mode)
		r, err := o.mode(mode)
		if err != nil {
			return nil, fmt.Errorf("mode %s: %w", mode, err)
		}
		rows = append(rows, r...)
	}
	return rows, nil
}

// system measures what the host costs, for comparison.
func system(n int) ([]Row, error) {
	var calls []float64
	for range n {
		begin := time.Now()
		for range 100 {
			unix.Getppid()
		}
		calls = append(calls, us(time.Since(begin))/100)
	}
	var there, back [2]int
	if err := errors.Join(unix.Pipe2(there[:], unix.O_CLOEXEC), unix.Pipe2(back[:], unix.O_CLOEXEC)); err != nil {
		return nil, err
	}
	go func() {
		runtime.LockOSThread()
		b := make([]byte, 1)
		for {
			if k, err := unix.Read(there[0], b); k != 1 || err != nil {
				break
			}
			_, _ = unix.Write(back[1], b)
		}
		_ = unix.Close(there[0])
		_ = unix.Close(back[1])
	}()
	var pings []float64
	b := make([]byte, 1)
	for range n {
		begin := time.Now()
		_, _ = unix.Write(there[1], b)
		_, _ = unix.Read(back[0], b)
		pings = append(pings, us(time.Since(begin)))
	}
	_ = unix.Close(there[1])
	_ = unix.Close(back[0])
	return []Row{of(tableCalls, opCall, "host", calls), of(tableCalls, opPing, "host", pings)}, nil
}

func platform(mode string, frames int) (*epc.Platform, error) {
	o := monitor.Options{Root: [32]byte{1}}
	switch mode {
	case "GU":
		return kvm.New(frames, o, kvm.GU)
	case "P":
		return kvm.New(frames, o, kvm.P)
	}
	return host.New(frames, o)
}

const (
	heapPages = 64
	bigPages  = 2048
)

func (o *Options) mode(mode string) (rows []Row, err error) {
	p, err := platform(mode, 8192)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	img, err := probe.Image(1, heapPages, nil)
	if err != nil {
		return nil, err
	}
	e, err := urts.Load(p, img, urts.Options{SharedSize: 8 << 20, OCalls: func(*urts.Memory, int, uint64) uint32 { return 0 }})
	if err != nil {
		return nil, err
	}
	defer e.Close()
	// Bare exits and ECALLs take turns, so that a disturbance meets both.
	at, _, err := room(e.Memory, 64)
	if err != nil {
		return nil, err
	}
	ud2 := uint64(bytes.Index(probe.Code, []byte{0x0f, 0x0b}))
	var bare, ecall, ocall, ud []float64
	timed := func(to *[]float64, f func() error) error {
		begin := time.Now()
		if err := f(); err != nil {
			return err
		}
		*to = append(*to, us(time.Since(begin)))
		return nil
	}
	call := func(cmd int) func() error { return func() error { return e.ECall(cmd, at) } }
	for range o.n(4000) {
		d, err := e.BareExits(ud2, 2)
		if err == nil {
			bare = append(bare, us(d))
			err = errors.Join(timed(&ecall, call(probe.Put)), timed(&ocall, call(probe.OCall)), timed(&ud, call(probe.UD)))
		}
		if err != nil {
			return nil, err
		}
	}
	rows = append(rows, of(tableCalls, opBare, mode, bare), of(tableCalls, opECall, mode, ecall), of(tableCalls, opOCall, mode, less(ocall, ecall)), of(tableFaults, opUD, mode, less(ud, ecall)))
	gc, err := o.collect(mode, e)
	if err != nil {
		return nil, err
	}
	rows = append(rows, gc)
	if mode == "P" {
		inside, err := o.inside(p)
		if err != nil {
			return nil, err
		}
		rows = append(rows, inside...)
	}
	m, err := o.marshal(mode, e)
	if err != nil {
		return nil, err
	}
	rows = append(rows, m...)
	if m, err = o.load(mode, p); err != nil {
		return nil, err
	}
	rows = append(rows, m...)
	if o.Hosted != nil {
		if m, err = o.hosted(mode); err != nil {
			return nil, err
		}
		rows = append(rows, m...)
	}
	return rows, nil
}

// less takes the median of what is common off each sample.
func less(v, common []float64) []float64 {
	m := stat.Median(common)
	out := make([]float64, len(v))
	for i := range v {
		out[i] = max(0, v[i]-m)
	}
	return out
}

// room allocates shared memory for a structure.
func room(m *urts.Memory, n int) (uint64, []byte, error) {
	at, err := m.Alloc(n)
	if err != nil {
		return 0, nil, err
	}
	b, err := m.Bytes(at, uint64(n))
	return at, b, err
}

func words(b []byte, v ...uint64) {
	for i, x := range v {
		le.PutUint64(b[8*i:], x)
	}
}

// collect is the seed's garbage collector: the heap loses W (EMODPR by the
// runtime, EACCEPT), then each page is written to; the enclave's handler gives W
// back (EMODPE).
func (o *Options) collect(mode string, e *urts.Enclave) (Row, error) {
	at, b, err := room(e.Memory, 128)
	if err != nil {
		return Row{}, err
	}
	const restrict = -4
	base := uint64(leafBase) // where urts puts enclaves: checked by the ECALL's success
	index := int64(restrict)
	var v []float64
	for range o.n(100) {
		begin := time.Now()
		words(b, uint64(index), at+64)
		words(b[64:], base+probe.OffHeap, heapPages*sgx.PageSize, 1)
		err := e.ECall(probe.Ask, at)
		if err == nil {
			words(b, probe.OffHeap, 0x221, heapPages) // R, permission restricted, REG
			err = e.ECall(probe.AcceptAs, at)
		}
		if err == nil {
			words(b, probe.OffHeap, heapPages, 7)
			err = e.ECall(probe.Collect, at)
		}
		if err != nil {
			return Row{}, fmt.Errorf("GC: %w", err)
		}
		v = append(v, us(time.Since(begin))/heapPages)
	}
	return of(tableFaults, opGC, mode, v), nil
}

// inside measures what an enclave in P handles itself.
func (o *Options) inside(p *epc.Platform) ([]Row, error) {
	img, err := probe.PImage()
	if err != nil {
		return nil, err
	}
	e, err := urts.Load(p, img, urts.Options{})
	if err != nil {
		return nil, err
	}
	defer e.Close()
	at, b, err := room(e.Memory, 16)
	if err != nil {
		return nil, err
	}
	var rows []Row
	for _, c := range []struct {
		name string
		cmd  int
	}{{opUDIn, probe.PUD}, {opGCIn, probe.PFault}} {
		run := func(n uint64) (float64, error) {
			words(b, n)
			begin := time.Now()
			err := e.ECall(c.cmd, at)
			return us(time.Since(begin)), err
		}
		const n = 2000
		var v []float64
		for range o.n(30) {
			one, err := run(1)
			if err != nil {
				return nil, err
			}
			many, err := run(n)
			if err != nil {
				return nil, err
			}
			v = append(v, max(0, many-one)/(n-1))
		}
		rows = append(rows, of(tableFaults, c.name, "P", v))
	}
	return rows, nil
}

// Sizes of figure 7 in bytes.
var marshalSizes = []int{1 << 10, 4 << 10, 16 << 10, 64 << 10}

// marshal measures an ECALL with data that lie in the shared memory already,
// beside one whose data the application copies there and back. The application's
// buffers take turns through 64 MiB, so that they are not in a cache.
func (o *Options) marshal(mode string, e *urts.Enclave) ([]Row, error) {
	app := make([]byte, 64<<20)
	for i := range app {
		app[i] = byte(i)
	}
	most := marshalSizes[len(marshalSizes)-1]
	at, b, err := room(e.Memory, 32+most)
	if err != nil {
		return nil, err
	}
	next := 0
	var rows []Row
	for _, dir := range []string{"in", "out", "in and out"} {
		for _, size := range marshalSizes {
			in, out := size, size
			switch dir {
			case "in":
				out = 0
			case "out":
				in = 0
			}
			var direct, copied []float64
			for range o.n(1000) {
				words(b, probe.OffHeap, uint64(in), uint64(out), 0)
				begin := time.Now()
				if err := e.ECall(probe.Copy, at); err != nil {
					return nil, err
				}
				direct = append(direct, us(time.Since(begin)))
				if next += most; next+most > len(app) {
					next = 0
				}
				buf := app[next : next+size]
				begin = time.Now()
				copy(b[32:], buf[:in])
				if err := e.ECall(probe.Copy, at); err != nil {
					return nil, err
				}
				copy(buf[:out], b[32:])
				copied = append(copied, us(time.Since(begin)))
			}
			name := fmt.Sprintf("ECALL, %d KiB %s", size>>10, dir)
			rows = append(rows, of(tableMarshal, name+", direct", mode, direct), of(tableMarshal, name+", marshalled", mode, copied))
		}
	}
	return rows, nil
}

// load measures loading with many measured pages, and with many that are not.
func (o *Options) load(mode string, p *epc.Platform) ([]Row, error) {
	var rows []Row
	for _, measured := range []bool{true, false} {
		img, err := probe.Image(1, bigPages, measuredHeap(measured))
		if err != nil {
			return nil, err
		}
		var v []float64
		for range o.n(30) {
			begin := time.Now()
			e, err := urts.Load(p, img, urts.Options{})
			if err != nil {
				return nil, err
			}
			v = append(v, us(time.Since(begin))/float64(len(img.Pages)))
			e.Close()
		}
		name := opLoadBig
		if measured {
			name = opLoad
		}
		rows = append(rows, of(tableLoad, name, mode, v))
	}
	return rows, nil
}

// hosted measures edge calls through the daemon: another process, over its
// socket.
func (o *Options) hosted(mode string) (rows []Row, err error) {
	c, end, err := o.Hosted(mode)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, end()) }()
	dir, err := os.MkdirTemp("", "holdfast-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	img, err := probe.Image(1, 0, nil)
	if err == nil {
		err = probe.Files(dir, "probe", img)
	}
	if err != nil {
		return nil, err
	}
	var files [2]*os.File
	for i, name := range []string{"probe.sgxs", "probe.sig"} {
		if files[i], err = os.Open(dir + "/" + name); err != nil {
			return nil, err
		}
		defer files[i].Close()
	}
	e, err := c.Load(files[0], daemon.LoadOptions{Sig: files[1]})
	if err != nil {
		return nil, err
	}
	at, _, err := room(e.Memory, 64)
	if err != nil {
		return nil, err
	}
	serve := func(*daemon.Nested, int, uint64) uint32 { return 0 }
	var ecall, ocall []float64
	for range o.n(3000) {
		for cmd, to := range map[int]*[]float64{probe.Put: &ecall, probe.OCall: &ocall} {
			begin := time.Now()
			if err := e.ECall(cmd, at, serve); err != nil {
				return nil, err
			}
			*to = append(*to, us(time.Since(begin)))
		}
	}
	return []Row{of(tableCalls, opHosted, mode, ecall), of(tableCalls, opHostedO, mode, less(ocall, ecall))}, nil
}
