// SPDX-License-Identifier: Apache-2.0

package tpmstate

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"holdfast/softtpm"
	"holdfast/tpm2"
	"holdfast/tpmio/filestore"
	"holdfast/tpmio/inproc"
	"holdfast/tss"
)

// stateFolder in the environment makes this test binary the worker: it opens
// the TPM there and runs the steps.
const stateFolder = "HOLDFAST_TPMSTATE_WORKER"

// report is the descriptor on which the worker reports each acknowledged step.
const report = 3

func init() {
	// The worker does all its work on the process's first thread, the one that is traced.
	if os.Getenv(stateFolder) != "" {
		runtime.LockOSThread()
	}
}

func TestMain(m *testing.M) {
	if dir := os.Getenv(stateFolder); dir != "" {
		if err := worker(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func worker(dir string) error {
	out := os.NewFile(report, "report")
	fmt.Fprintln(out, "begin")
	store, err := filestore.Open(dir, filestore.Options{})
	if err != nil {
		return err
	}
	e, err := inproc.NewEngine(store, softtpm.Options{})
	if err != nil {
		return err
	}
	if err := inproc.Startup(e, false); err != nil {
		return err
	}
	fmt.Fprintln(out, "started")
	c := tss.New(transport{e})
	for _, s := range steps {
		if err := s.do(c); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		fmt.Fprintln(out, s.name)
	}
	return store.Close()
}

// start is the state file in which each run begins, and what is seen after
// each number of acknowledged steps.
type reference struct {
	file []byte // tpm.state
	srk  string
	seen []string
}

var makeReference = sync.OnceValues(func() (*reference, error) {
	dir, err := os.MkdirTemp("", "tpmstate")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	store, err := filestore.Open(dir, filestore.Options{})
	if err != nil {
		return nil, err
	}
	defer store.Close()
	e, err := inproc.NewEngine(store, softtpm.Options{})
	if err != nil {
		return nil, err
	}
	if err := inproc.Startup(e, false); err != nil {
		return nil, err
	}
	c := tss.New(transport{e})
	if err := prepare(c); err != nil {
		return nil, err
	}
	k, err := c.CreatePrimary(tss.Owner(nil), tss.SRKTemplate(tss.ECCP256), nil)
	if err != nil {
		return nil, err
	}
	r := &reference{srk: string(k.Name)}
	if err := c.FlushContext(k.Handle); err != nil {
		return nil, err
	}
	if err := c.Shutdown(tpm2.SUClear); err != nil {
		return nil, err
	}
	r.file, err = os.ReadFile(filepath.Join(dir, "tpm.state"))
	return r, err
})

// expect fills in what is seen after each step of a run that nobody kills.
func expect(t *testing.T) *reference {
	t.Helper()
	r, err := makeReference()
	if err != nil {
		t.Fatal(err)
	}
	if r.seen != nil {
		return r
	}
	store := softtpm.NewMemoryStore()
	dir := folder(t, r.file)
	saved := load(t, dir)
	if err := store.Save(saved); err != nil {
		t.Fatal(err)
	}
	e, err := inproc.NewEngine(store, softtpm.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := inproc.Startup(e, false); err != nil {
		t.Fatal(err)
	}
	c := tss.New(transport{e})
	see := func() {
		b, err := store.Load()
		if err != nil {
			t.Fatal(err)
		}
		r.seen = append(r.seen, view(t, b, r.srk))
	}
	see()
	for _, s := range steps {
		if err := s.do(c); err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		see()
	}
	for i, s := range steps {
		if r.seen[i] == r.seen[i+1] && !strings.HasPrefix(s.name, "Shutdown") {
			t.Fatalf("%s leaves nothing to see: %s", s.name, r.seen[i])
		}
	}
	return r
}

// folder makes a state folder with the given file.
func folder(t *testing.T, file []byte) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "state")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "tpm.state"), file, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// load reads the state as the next start of a TPM does.
func load(t *testing.T, dir string) []byte {
	t.Helper()
	store, err := filestore.Open(dir, filestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	b, err := store.Load()
	if err != nil || b == nil {
		t.Fatalf("the state is gone: %v", err)
	}
	return b
}

// TestKillAtEverySystemCall kills the process before the n-th system call of
// a run of commands, for each n (in the short run for each seventh), by a real
// SIGKILL under ptrace. The state afterwards is that of the last acknowledged
// command or, for the command in flight, old or new.
func TestKillAtEverySystemCall(t *testing.T) {
	r := expect(t)
	pace := 7
	if os.Getenv("HOLDFAST_TEST_FULL") != "" {
		pace = 1
	}
	first := 1 + rand.IntN(pace)
	runs, inFlight := 0, map[string]int{}
	for n := first; ; n += pace {
		dir := folder(t, r.file)
		acked, names, calls, err := run(dir, n)
		if err != nil {
			t.Fatalf("system call %d: %v", n, err)
		}
		got := view(t, load(t, dir), r.srk)
		next := min(acked+1, len(steps))
		if got != r.seen[acked] && got != r.seen[next] {
			t.Fatalf("killed before system call %d (%s), %d steps acknowledged (%s):\n%s\nwant\n%s\nor\n%s", n, calls, acked, names, got, r.seen[acked], r.seen[next])
		}
		runs++
		if got == r.seen[next] && got != r.seen[acked] {
			inFlight["new"]++
		} else {
			inFlight["old"]++
		}
		if calls == "" { // it ran to its end: n is behind the last system call
			if acked != len(steps) {
				t.Fatalf("the run ended after %d steps: %s", acked, names)
			}
			t.Logf("killed %d times, before every system call to number %d with a distance of %d; the command in flight was old %d times, new %d times", runs-1, n, pace, inFlight["old"], inFlight["new"])
			break
		}
	}
	if runs < 5*len(steps)/pace {
		t.Fatalf("only %d runs: the tracing does not see the file operations", runs)
	}
}

// run runs the worker and kills it before its n-th system call after "begin".
// call is the number of that system call, or "" if the worker ended before.
func run(dir string, n int) (acked int, names, call string, err error) {
	pr, pw, err := os.Pipe()
	if err != nil {
		return 0, "", "", err
	}
	defer pr.Close()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), stateFolder+"="+dir, "GOMAXPROCS=1", "GOGC=off")
	cmd.ExtraFiles = []*os.File{pw}
	var text strings.Builder
	cmd.Stderr = &text
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	done := make(chan error, 1)
	go func() { // ptrace belongs to a thread
		runtime.LockOSThread()
		err := cmd.Start()
		pw.Close()
		if err == nil {
			call, err = trace(cmd.Process.Pid, n)
			if e := cmd.Process.Kill(); err == nil && e != nil && !errors.Is(e, os.ErrProcessDone) {
				err = e
			}
			_ = cmd.Wait()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		return 0, "", "", err
	}
	lines := bufio.NewScanner(pr)
	var list []string
	for lines.Scan() {
		list = append(list, lines.Text())
	}
	if call == "" && len(list) != len(steps)+2 {
		return 0, "", "", fmt.Errorf("the worker ended early: %s", text.String())
	}
	return max(0, len(list)-2), strings.Join(list, ", "), call, nil
}

// trace lets the traced thread run to its n-th system call after the first
// write to the report, and kills the process there, before the call.
func trace(pid, n int) (call string, err error) {
	deadline := time.Now().Add(time.Minute)
	var ws unix.WaitStatus
	if _, err := unix.Wait4(pid, &ws, unix.WALL, nil); err != nil {
		return "", err
	}
	if err := unix.PtraceSetOptions(pid, unix.PTRACE_O_TRACESYSGOOD|unix.PTRACE_O_EXITKILL); err != nil {
		return "", err
	}
	count, begun, entry, signal := 0, false, true, 0
	for time.Now().Before(deadline) {
		if err := unix.PtraceSyscall(pid, signal); err != nil {
			return "", err
		}
		signal = 0
		if _, err := unix.Wait4(pid, &ws, unix.WALL, nil); err != nil {
			return "", err
		}
		switch {
		case ws.Exited() || ws.Signaled():
			return "", nil
		case ws.StopSignal() != unix.SIGTRAP|0x80:
			if s := ws.StopSignal(); s != unix.SIGTRAP {
				signal = int(s) // Go's own signals, such as SIGURG
			}
			continue
		}
		if entry {
			var regs unix.PtraceRegs
			if err := unix.PtraceGetRegs(pid, &regs); err != nil {
				return "", err
			}
			if begun {
				if count++; count == n {
					return fmt.Sprintf("system call %d", regs.Orig_rax), unix.Kill(pid, unix.SIGKILL)
				}
			}
			begun = begun || regs.Orig_rax == unix.SYS_WRITE && regs.Rdi == report
		}
		entry = !entry
	}
	return "", fmt.Errorf("the traced worker hangs: %w", unix.Kill(pid, unix.SIGKILL))
}
