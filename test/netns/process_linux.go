// SPDX-License-Identifier: Apache-2.0

package netns

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"holdfast/test/host"
)

// defaultTime bounds a program that has no Time of its own.
const defaultTime = 60 * time.Second

// A Command is a program to run inside a namespace.
type Command struct {
	Args   []string // program and arguments; the program is looked for in host.SearchPath
	Env    []string // nil: this process's
	Dir    string
	Stdin  io.Reader
	Stdout io.Writer // nil: kept for Process.Output
	Stderr io.Writer // nil: together with standard output
	Group  string    // control group (from Net.Group); "": the run's
	Time   time.Duration
	Keep   int                 // bytes of output that Process.Output keeps, the first ones; 0: 1 MiB
	Extra  []*os.File          // descriptors 3, 4, ...
	User   *syscall.Credential // nil: this process's
}

// A Process is a running program. It is killed when its time is over, when
// the Net is closed or when this process dies.
type Process struct {
	cmd      *exec.Cmd
	net      *Net
	stop     context.CancelFunc
	done     chan struct{}
	err      error
	output   lockedBuffer
	timedOut func() bool
}

// Run runs a program to its end and returns its output, standard error
// included. The error of a program that failed holds that output.
func (ns *Namespace) Run(args ...string) (string, error) {
	return ns.RunCommand(Command{Args: args})
}

// RunCommand is Run with everything to choose.
func (ns *Namespace) RunCommand(c Command) (string, error) {
	p, err := ns.Start(c)
	if err != nil {
		return "", err
	}
	err = p.Wait()
	return p.Output(), err
}

// Start starts a program. What it prints can be read from Output meanwhile.
func (ns *Namespace) Start(c Command) (*Process, error) {
	path, err := host.LookPath(c.Args[0])
	if err != nil {
		return nil, err
	}
	if c.Time == 0 {
		c.Time = defaultTime
	}
	ctx, stop := context.WithTimeout(context.Background(), c.Time)
	p := &Process{net: ns.net, stop: stop, done: make(chan struct{})}
	if p.output.keep = c.Keep; c.Keep == 0 {
		p.output.keep = 1 << 20
	}
	p.timedOut = func() bool { return errors.Is(ctx.Err(), context.DeadlineExceeded) }
	p.cmd = exec.CommandContext(ctx, path, c.Args[1:]...)
	p.cmd.Env, p.cmd.Dir, p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr, p.cmd.ExtraFiles = c.Env, c.Dir, c.Stdin, c.Stdout, c.Stderr, c.Extra
	if c.Stdout == nil {
		p.cmd.Stdout = &p.output
	}
	if c.Stderr == nil {
		p.cmd.Stderr = p.cmd.Stdout
	}
	// A process group of its own: the terminal's interrupt reaches us, and we end our children in order.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, Credential: c.User}
	p.cmd.Cancel = func() error { return syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) }
	p.cmd.WaitDelay = 2 * time.Second
	if c.Group == "" {
		c.Group = ns.net.group
	}
	started := make(chan error, 1)
	// The parent-death signal is sent when the forking thread ends: that thread stays until the program is over.
	go func() {
		runtime.LockOSThread()
		if err := p.start(ns, c.Group); err != nil {
			stop()
			started <- fmt.Errorf("%s: start %s: %w", ns.Name, strings.Join(c.Args, " "), err)
			return
		}
		started <- nil
		p.wait(ns.Name, c)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// start forks on the calling thread, which it moves into the namespace.
func (p *Process) start(ns *Namespace, group string) error {
	if group != "" {
		dir, err := os.Open(group)
		if err != nil {
			return err
		}
		defer dir.Close()
		p.cmd.SysProcAttr.UseCgroupFD, p.cmd.SysProcAttr.CgroupFD = true, int(dir.Fd())
	}
	if err := unix.Setns(int(ns.handle), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("setns: %w", err)
	}
	p.net.mu.Lock()
	defer p.net.mu.Unlock()
	if p.net.closed {
		return errors.New("the network is closed")
	}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	p.net.processes[p] = true
	return nil
}

func (p *Process) wait(where string, c Command) {
	err := p.cmd.Wait()
	late := p.timedOut()
	p.stop()
	p.net.mu.Lock()
	delete(p.net.processes, p)
	p.net.mu.Unlock()
	switch {
	case err == nil:
	case late:
		p.err = fmt.Errorf("%s: %s: killed after %v\n%s", where, strings.Join(c.Args, " "), c.Time, p.Output())
	default:
		p.err = fmt.Errorf("%s: %s: %w\n%s", where, strings.Join(c.Args, " "), err, p.Output())
	}
	close(p.done)
}

// Wait waits for the end of the program.
func (p *Process) Wait() error {
	<-p.done
	return p.err
}

// Done is closed when the program has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Pid is the program's process id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Output returns what the program has printed up to now.
func (p *Process) Output() string { return p.output.String() }

// WaitOutput waits until the program has printed want; it is an error if it
// ends before that or does not within the limit.
func (p *Process) WaitOutput(want string, limit time.Duration) error {
	deadline := time.After(limit)
	for !strings.Contains(p.Output(), want) {
		select {
		case <-p.done:
			if strings.Contains(p.Output(), want) {
				return nil
			}
			return fmt.Errorf("%s ended before it printed %q (%v):\n%s", p.cmd.Path, want, p.err, p.Output())
		case <-deadline:
			return fmt.Errorf("%s did not print %q within %v; it printed:\n%s", p.cmd.Path, want, limit, p.Output())
		case <-time.After(5 * time.Millisecond):
		}
	}
	return nil
}

// ExitCode is the exit status of a program that has ended, -1 if a signal ended it.
func (p *Process) ExitCode() int {
	<-p.done
	return p.cmd.ProcessState.ExitCode()
}

// Usage is what the program and its reaped children used. It has ended.
func (p *Process) Usage() syscall.Rusage {
	<-p.done
	u, _ := p.cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if u == nil {
		return syscall.Rusage{}
	}
	return *u
}

// Signal sends a signal to the program alone.
func (p *Process) Signal(s syscall.Signal) error { return p.cmd.Process.Signal(s) }

// Stop asks the program to end (SIGTERM), waits for at most five seconds and
// kills it then.
func (p *Process) Stop() error {
	_ = p.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
		return p.err
	case <-time.After(5 * time.Second):
		p.Kill()
		return fmt.Errorf("%s did not end on SIGTERM within 5 s", p.cmd.Path)
	}
}

// Kill ends the program and its process group at once and waits for that.
func (p *Process) Kill() {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	<-p.done
}

// lockedBuffer is written by the copying goroutine and read by anyone. It
// keeps the beginning.
type lockedBuffer struct {
	mu   sync.Mutex
	b    bytes.Buffer
	keep int
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if room := l.keep - l.b.Len(); room > 0 {
		l.b.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
