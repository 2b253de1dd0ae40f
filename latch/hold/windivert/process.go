// SPDX-License-Identifier: Apache-2.0

package windivert

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"time"
)

// Words between guard and gate: the guard's on the gate's standard input, the
// gate's on its standard output.
const (
	wordUp  = "up"
	wordEnd = "end"
)

// upWait bounds the gate's start.
var upWait = time.Minute

// BorrowFlag is the flag that Guard adds to the gate's command line: the name of
// the handle for Borrow.
const BorrowFlag = "borrow"

// Guard opens the filter and keeps a gate behind it: a child process, made by
// command, which borrows the handle and calls Tell and Told. A gate that dies is
// started again, and until then nothing passes; one that does not even come up
// the first time is an error. Guard returns when the gate ends in order, or when
// ctx ends and the gate has been asked to. Then the machine is open; what the
// driver has queued is dropped.
func Guard(ctx context.Context, d Lender, command func() *exec.Cmd) (err error) {
	h, err := OpenHandle(d)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, Discard(h)) }()
	first, err := startProcess(ctx, d, h, command())
	if err != nil {
		return err
	}
	return Keep(ctx, func() (Child, error) {
		if c := first; c != nil {
			first = nil
			return c, nil
		}
		c, err := startProcess(ctx, d, h, command())
		if err != nil {
			return nil, err // no Child that is a nil *process
		}
		return c, nil
	})
}

// process is a gate in a process of its own.
type process struct {
	c     *exec.Cmd
	in    io.WriteCloser
	ended chan struct{}
	err   error // after ended
}

// startProcess returns when the gate is up. When ctx ends before that it asks the
// gate to end, and waits for it.
func startProcess(ctx context.Context, d Lender, h Handle, c *exec.Cmd) (*process, error) {
	name, err := d.Lend(c, h)
	if err != nil {
		return nil, fmt.Errorf("WinDivert: hand the filter to the gate: %w", err)
	}
	c.Args = append(c.Args, "--"+BorrowFlag+"="+name)
	p := &process{c: c, ended: make(chan struct{})}
	if p.in, err = c.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.Start(); err != nil {
		return nil, fmt.Errorf("start the gate: %w", err)
	}
	up := make(chan struct{})
	go func() {
		r := bufio.NewScanner(out)
		if r.Scan() && r.Text() == wordUp {
			close(up)
		}
		io.Copy(io.Discard, out)
		p.err = c.Wait()
		close(p.ended)
	}()
	limit := time.NewTimer(upWait)
	defer limit.Stop()
	select {
	case <-up:
		return p, nil
	case <-p.ended:
		select {
		case <-up: // it was up, and its end is Wait's to tell
			return p, nil
		default:
			return nil, errors.Join(errors.New("the gate ended before it was up; its own messages say why"), p.err)
		}
	case <-limit.C:
		err = fmt.Errorf("the gate was not up after %v", upWait)
	case <-ctx.Done():
		err = ctx.Err()
		p.End()
		select {
		case <-p.ended:
		case <-time.After(endWait):
		}
	}
	p.Kill()
	<-p.ended
	return nil, err
}

// Wait implements Child.
func (p *process) Wait() error {
	<-p.ended
	return p.err
}

// End implements Child.
func (p *process) End() {
	io.WriteString(p.in, wordEnd+"\n")
	p.in.Close()
}

// Kill implements Child.
func (p *process) Kill() { p.c.Process.Kill() }

// Tell tells the guard that this gate is up.
func Tell(w io.Writer) error {
	_, err := io.WriteString(w, wordUp+"\n")
	return err
}

// Told returns a context that ends when the guard asks for the end. A guard that
// dies without a word does not end it: the gate goes on, but nobody keeps the
// machine shut if it dies too.
func Told(ctx context.Context, r io.Reader) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		b, err := io.ReadAll(io.LimitReader(r, 64))
		switch {
		case err == nil && strings.TrimSpace(string(b)) == wordEnd:
			cancel()
		case ctx.Err() == nil:
			slog.Error("the gate's guard has died: if this gate dies too the machine is open. End it and start it again", "guard", os.Getppid(), "error", err)
		}
	}()
	return ctx, cancel
}
