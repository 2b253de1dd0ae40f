// SPDX-License-Identifier: Apache-2.0

package host

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"holdfast/enclave/epc"
	"holdfast/enclave/monitor"
	"holdfast/enclave/sgx"
)

// Thread runs the code of one enclave thread in a process of its own. One
// goroutine at a time uses it.
type Thread struct {
	r     *runner
	p     *epc.Platform
	e     *monitor.Enclave
	stale map[uint64]struct{} // addresses whose mapping changed; under p.Mu

	fixed  []epc.Shared // mapped from the start
	appFD  uint64       // the application's memory in the process; 0: none
	shares []share      // changes of regions that are due; under p.Mu

	pid     int
	regs    unix.PtraceRegs // as they were at the start
	xsave   []byte          // the process's whole XSAVE image
	ask     chan func()
	quit    chan struct{} // closed to end the tracing thread; ask is never closed, since others may send
	done    chan struct{} // closed when it has ended
	once    sync.Once
	kick    atomic.Bool
	running atomic.Bool
	stops   atomic.Uint64 // how often it stopped
}

// NewThread implements epc.Runner: it starts a process for a thread of e, with
// the shared regions mapped readable and writable at their addresses.
func (r *runner) NewThread(e *monitor.Enclave, shared ...epc.Shared) (epc.Thread, error) {
	t := &Thread{r: r, p: r.p, e: e, stale: map[uint64]struct{}{}, ask: make(chan func()), quit: make(chan struct{}), done: make(chan struct{})}
	started := make(chan error, 1)
	go t.trace(shared, started)
	if err := <-started; err != nil {
		return nil, err
	}
	r.p.Mu.Lock()
	defer r.p.Mu.Unlock()
	r.p.Each(e, func(linear uint64, _ epc.Mapping) { t.stale[linear] = struct{}{} })
	for _, region := range r.p.Regions(e) {
		t.shares = append(t.shares, share{region, false})
	}
	r.threads[t] = struct{}{}
	return t, nil
}

// Entered implements epc.Thread: a process has nothing beside its registers.
func (t *Thread) Entered() error { return nil }

// Stale implements epc.Thread.
func (t *Thread) Stale(linear uint64) bool {
	_, s := t.stale[linear&^(4096-1)]
	return s
}

// trace owns the process: ptrace calls must come from the thread that started
// it.
func (t *Thread) trace(shared []epc.Shared, started chan<- error) {
	runtime.LockOSThread() // not unlocked: the thread ends with the goroutine
	defer close(t.done)
	err := t.start(shared)
	started <- err
	if err != nil {
		return
	}
	for ended := false; !ended; {
		select {
		case f := <-t.ask:
			f()
		case <-t.quit:
			ended = true
		}
	}
	_ = unix.Kill(t.pid, unix.SIGKILL)
	var ws unix.WaitStatus
	_, _ = unix.Wait4(t.pid, &ws, unix.WALL, nil)
}

// do runs f on the tracing thread.
func (t *Thread) do(f func()) error {
	ran := make(chan struct{})
	select {
	case t.ask <- func() { f(); close(ran) }:
		<-ran
		return nil
	case <-t.done:
		return epc.ErrGone
	}
}

// Close ends the process.
func (t *Thread) Close() {
	t.once.Do(func() {
		t.p.Mu.Lock()
		delete(t.r.threads, t)
		t.p.Mu.Unlock()
		t.Kill()
		close(t.quit)
	})
	<-t.done
}

// Kill ends the process at once; a Run that is under way returns ErrGone.
func (t *Thread) Kill() { _ = unix.Kill(t.pid, unix.SIGKILL) }

func (t *Thread) start(shared []epc.Shared) error {
	files := []*os.File{t.r.stub, t.p.File()}
	for _, s := range shared {
		files = append(files, s.File)
	}
	cmd := exec.Command("/proc/self/fd/3")
	cmd.Args = []string{"enclave"}
	cmd.Env = []string{}
	cmd.ExtraFiles = files
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true, Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("enclave/host: start an enclave process: %w", err)
	}
	t.pid = cmd.Process.Pid
	_ = cmd.Process.Release() // waited for by hand
	var ws unix.WaitStatus
	if _, err := unix.Wait4(t.pid, &ws, unix.WALL, nil); err != nil || !ws.Stopped() {
		return fmt.Errorf("enclave/host: the enclave process did not stop at its start: %v %#x", err, uint32(ws))
	}
	err := t.confine(shared)
	if err != nil {
		_ = unix.Kill(t.pid, unix.SIGKILL)
		_, _ = unix.Wait4(t.pid, &ws, unix.WALL, nil)
	}
	return err
}

// confine takes away what the process has and gives it what it needs.
func (t *Thread) confine(shared []epc.Shared) error {
	if err := unix.PtraceSetOptions(t.pid, unix.PTRACE_O_EXITKILL|unix.PTRACE_O_TRACESYSGOOD); err != nil {
		return fmt.Errorf("enclave/host: PTRACE_SETOPTIONS: %w", err)
	}
	maps, err := readMaps(t.pid)
	if err != nil {
		return err
	}
	for _, m := range maps {
		if m.start == stubAddr || m.start >= 1<<47 {
			continue
		}
		if _, err := t.inject(unix.SYS_MUNMAP, m.start, m.end-m.start); err != nil {
			return fmt.Errorf("enclave/host: unmap %#x: %w", m.start, err)
		}
	}
	for i, s := range shared {
		if s.Size == 0 {
			t.appFD = uint64(5 + i)
			continue
		}
		t.fixed = append(t.fixed, s)
		if err := t.mmap(s.Addr, s.Size, unix.PROT_READ|unix.PROT_WRITE, uint64(5+i), 0); err != nil {
			return fmt.Errorf("enclave/host: map shared memory at %#x: %w", s.Addr, err)
		}
	}
	calls := [][]uint64{
		{unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1},
		{unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 0},
	}
	if os.Geteuid() == 0 {
		const nobody = 65534
		calls = append([][]uint64{{unix.SYS_SETGROUPS, 0, 0}, {unix.SYS_SETRESGID, nobody, nobody, nobody}, {unix.SYS_SETRESUID, nobody, nobody, nobody}}, calls...)
	}
	for _, c := range calls {
		if _, err := t.inject(c[0], c[1:]...); err != nil {
			return fmt.Errorf("enclave/host: confine the enclave process (system call %d): %w", c[0], err)
		}
	}
	if err := unix.PtraceGetRegs(t.pid, &t.regs); err != nil {
		return fmt.Errorf("enclave/host: registers of the enclave process: %w", err)
	}
	t.xsave, err = getXState(t.pid)
	return err
}

// inject makes one system call in the process.
func (t *Thread) inject(nr uint64, args ...uint64) (uint64, error) {
	var a [6]uint64
	copy(a[:], args)
	var r unix.PtraceRegs
	if err := unix.PtraceGetRegs(t.pid, &r); err != nil {
		return 0, err
	}
	r.Rip, r.Rax, r.Orig_rax = stubCode, nr, ^uint64(0)
	r.Rdi, r.Rsi, r.Rdx, r.R10, r.R8, r.R9 = a[0], a[1], a[2], a[3], a[4], a[5]
	if err := unix.PtraceSetRegs(t.pid, &r); err != nil {
		return 0, err
	}
	for {
		if err := unix.PtraceCont(t.pid, 0); err != nil {
			return 0, err
		}
		var ws unix.WaitStatus
		if _, err := unix.Wait4(t.pid, &ws, unix.WALL, nil); err != nil {
			return 0, err
		}
		if !ws.Stopped() {
			return 0, epc.ErrGone
		}
		if ws.StopSignal() == unix.SIGTRAP {
			break
		}
		if ws.StopSignal() != kickSignal { // a kick that came meanwhile is remembered by its flag
			return 0, fmt.Errorf("signal %v in an injected system call", ws.StopSignal())
		}
	}
	if err := unix.PtraceGetRegs(t.pid, &r); err != nil {
		return 0, err
	}
	if r.Rip != stubCode+opLen+1 {
		return 0, fmt.Errorf("an injected system call ended at %#x", r.Rip)
	}
	if e := int64(r.Rax); e < 0 && e > -4096 {
		return 0, syscall.Errno(-e)
	}
	return r.Rax, nil
}

func (t *Thread) mmap(addr, size, prot, fd, offset uint64) error {
	got, err := t.inject(unix.SYS_MMAP, addr, size, prot, unix.MAP_SHARED|unix.MAP_FIXED, fd, offset)
	if err == nil && got != addr {
		err = fmt.Errorf("mapped at %#x instead of %#x", got, addr)
	}
	return err
}

// sync brings the process's mappings up to date with the monitor's.
func (t *Thread) sync() error {
	if err := t.syncRegions(); err != nil {
		return err
	}
	t.p.Mu.Lock()
	changes := t.p.Changes(t.e, t.stale)
	t.p.Mu.Unlock()
	for _, c := range changes {
		var err error
		if c.There {
			var prot uint64
			if c.Perm&sgx.PermR != 0 {
				prot |= unix.PROT_READ
			}
			if c.Perm&sgx.PermW != 0 {
				prot |= unix.PROT_WRITE
			}
			if c.Perm&sgx.PermX != 0 {
				prot |= unix.PROT_EXEC
			}
			err = t.mmap(c.Linear, c.Size, prot, 4, uint64(c.Frame)*sgx.PageSize)
		} else {
			_, err = t.inject(unix.SYS_MUNMAP, c.Linear, c.Size)
		}
		if err != nil {
			return fmt.Errorf("enclave/host: page %#x: %w", c.Linear, err)
		}
	}
	return nil
}
