// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"holdfast/test/host"
	"holdfast/test/vm/frame"
)

// A Machine is a running QEMU.
type Machine struct {
	t     testing.TB
	cmd   *exec.Cmd
	dir   string
	begin time.Time
	input *frame.Writer
	stdin io.Closer
	line  io.Reader
	err   strings.Builder // QEMU's own messages

	mu      sync.Mutex
	changed chan struct{} // closed and renewed with each frame
	result  Result
	both    strings.Builder
	stdout  strings.Builder
	boots   int
	ready   int
	code    *int
	fault   string
	ended   chan struct{}
	waitErr error
}

// Start boots a machine and returns at once. The test's end kills it.
func Start(t testing.TB, c Config) *Machine {
	t.Helper()
	host.Need(t, "qemu", "vm-kernel")
	if c.UEFI {
		host.Need(t, "ovmf")
	}
	kernel, err := host.StockKernel()
	if err != nil {
		t.Fatal(err)
	}
	if c.Timeout == 0 {
		c.Timeout = 3 * time.Minute
	}
	m := &Machine{t: t, dir: socketDir(t), changed: make(chan struct{}), ended: make(chan struct{})}
	initrd := filepath.Join(m.dir, "initrd")
	if err := writeInitrd(initrd, kernel, c, guestInit(t)); err != nil {
		t.Fatalf("vm: %v", err)
	}
	args, err := m.args(c, kernel, initrd)
	if err != nil {
		t.Fatalf("vm: %v", err)
	}
	// timeout(1) ends the machine even when this process cannot any more.
	limit := strconv.Itoa(int(c.Timeout.Seconds()) + 1)
	m.cmd = exec.Command("timeout", append([]string{"--signal=KILL", limit, "qemu-system-x86_64"}, args...)...)
	m.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	m.cmd.Stderr = &m.err
	in, err := m.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := m.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	m.input, m.stdin, m.line = frame.NewWriter(in), in, out
	m.begin = time.Now()
	if err := m.cmd.Start(); err != nil {
		t.Fatalf("vm: %v", err)
	}
	t.Cleanup(m.Kill)
	go m.read()
	return m
}

// socketDir is a folder whose path is short enough for a unix socket.
func socketDir(t testing.TB) string {
	dir, err := os.MkdirTemp("", "vm")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// args is QEMU's command line. The first serial line is the console, the
// second carries frames over QEMU's standard input and output.
func (m *Machine) args(c Config, k host.Kernel, initrd string) ([]string, error) {
	pick := func(s, otherwise string) string {
		if s == "" {
			return otherwise
		}
		return s
	}
	memory, cpus := c.Memory, c.CPUs
	if memory == 0 {
		memory = 768
	}
	if cpus == 0 {
		cpus = 1
	}
	accel := []string{"-accel", "tcg"}
	if host.Has("kvm").Present {
		accel = []string{"-accel", "kvm", "-accel", "tcg"}
	}
	cmdline := append([]string{"console=ttyS0", "panic=-1", "loglevel=6", "random.trust_cpu=on", "mitigations=off", "tsc=unstable", "no_timer_check"}, c.KernelArgs...)
	args := append(accel,
		"-machine", pick(c.Machine, "q35"), "-cpu", pick(c.CPU, "max"), "-smp", strconv.Itoa(cpus), "-m", strconv.Itoa(memory),
		"-nodefaults", "-no-user-config", "-display", "none",
		"-kernel", k.Image, "-initrd", initrd, "-append", strings.Join(cmdline, " "),
		"-chardev", "file,id=console,path="+m.consoleFile(), "-serial", "chardev:console",
		"-chardev", "stdio,id=line,signal=off", "-serial", "chardev:line",
		"-qmp", "unix:"+filepath.Join(m.dir, "qmp")+",server=on,wait=off")
	if !c.Reboot {
		args = append(args, "-no-reboot")
	}
	if c.UEFI {
		code, template, err := host.OVMF()
		if err != nil {
			return nil, err
		}
		vars := c.VarsFile
		if vars == "" {
			vars = filepath.Join(m.dir, "vars")
		}
		if _, err := os.Stat(vars); errors.Is(err, os.ErrNotExist) {
			b, err := os.ReadFile(template)
			if err == nil {
				err = os.WriteFile(vars, b, 0o600)
			}
			if err != nil {
				return nil, err
			}
		}
		args = append(args, "-drive", "if=pflash,format=raw,unit=0,readonly=on,file="+code, "-drive", "if=pflash,format=raw,unit=1,file="+vars)
	}
	return append(args, c.QEMUArgs...), nil
}

func (m *Machine) consoleFile() string { return filepath.Join(m.dir, "console") }

// read takes the frames in until QEMU ends.
func (m *Machine) read() {
	defer close(m.ended)
	r, err := frame.NewReader(m.line, true)
	for err == nil {
		var kind byte
		var data []byte
		if kind, data, err = r.Next(); err == nil {
			m.take(kind, data)
		}
	}
	_, _ = io.Copy(io.Discard, m.line)
	m.waitErr = m.cmd.Wait()
}

func (m *Machine) take(kind byte, data []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch kind {
	case frame.Ready:
		m.ready++
	case frame.Stdout:
		m.both.Write(data)
		m.stdout.Write(data)
	case frame.Stderr:
		m.both.Write(data)
	case frame.Exit:
		if n, err := strconv.Atoi(string(data)); err == nil {
			m.code = &n
		}
	case frame.Fault:
		m.fault = string(data)
	}
	close(m.changed)
	m.changed = make(chan struct{})
}

// Wait waits for the machine's end. An error says that the command did not
// run to its end, and what happened instead.
func (m *Machine) Wait() (Result, error) {
	<-m.ended
	m.mu.Lock()
	defer m.mu.Unlock()
	console, _ := os.ReadFile(m.consoleFile())
	m.result = Result{ExitCode: -1, Output: m.both.String(), Stdout: m.stdout.String(), Console: string(console), Took: time.Since(m.begin)}
	if m.code != nil {
		m.result.ExitCode = *m.code
		return m.result, nil
	}
	if m.fault != "" {
		return m.result, fmt.Errorf("the guest could not run the command: %s", m.fault)
	}
	why := "the machine ended before the command did"
	if m.waitErr != nil {
		why = fmt.Sprintf("QEMU or its time limit: %v", m.waitErr)
	}
	return m.result, fmt.Errorf("%s; started %d times\n%s", why, m.ready, m.err.String())
}

// Output is what the command has written so far.
func (m *Machine) Output() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.both.String()
}

// WaitOutput waits until the command's output holds text. An error says that
// the machine ended before, or that the time did.
func (m *Machine) WaitOutput(text string, limit time.Duration) error {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		m.mu.Lock()
		found, changed := strings.Contains(m.both.String(), text), m.changed
		m.mu.Unlock()
		if found {
			return nil
		}
		select {
		case <-changed:
		case <-m.ended:
			if strings.Contains(m.Output(), text) {
				return nil
			}
			r, err := m.Wait()
			return fmt.Errorf("the machine ended without saying %q: %v\n%v", text, err, r)
		case <-timer.C:
			console, _ := os.ReadFile(m.consoleFile())
			return fmt.Errorf("no %q within %v; so far: %q\nconsole: %s", text, limit, m.Output(), console)
		}
	}
}

// Write gives the command input; it needs Config.Stdin.
func (m *Machine) Write(b []byte) (int, error) { return len(b), m.input.Send(frame.Input, b) }

// CloseInput ends the command's input.
func (m *Machine) CloseInput() error { return m.input.Send(frame.Close, nil) }

// Kill ends the machine as a power cut does. It is safe to call twice.
func (m *Machine) Kill() {
	_ = syscall.Kill(-m.cmd.Process.Pid, syscall.SIGKILL)
	<-m.ended
}

// Running says whether the machine has not ended.
func (m *Machine) Running() bool {
	select {
	case <-m.ended:
		return false
	default:
		return true
	}
}
