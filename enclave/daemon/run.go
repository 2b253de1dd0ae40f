// SPDX-License-Identifier: Apache-2.0

//go:build linux && amd64

package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"holdfast/attest/evidence"
	"holdfast/enclave/daemon/anchor"
	"holdfast/enclave/monitor"
	"holdfast/tpmio/swtpm"
)

// Run is the monitor process, which Launch started. It returns when ctx ends,
// or the launcher is gone.
func Run(ctx context.Context) error {
	ready := os.NewFile(fdReady, "ready")
	err := run(ctx, ready)
	if err != nil && ready != nil {
		fmt.Fprintf(ready, "%v", err)
	}
	return err
}

func run(ctx context.Context, ready *os.File) (err error) {
	var c Monitor
	if err := json.Unmarshal([]byte(os.Getenv(ConfigEnv)), &c); err != nil {
		return fmt.Errorf("enclave monitor: %s: expected the launcher's configuration; start `holdfast enclave monitor` instead (%w)", ConfigEnv, err)
	}
	if err := harden(); err != nil {
		return err
	}
	for fd := fdTPM; fd <= fdImage; fd++ {
		unix.CloseOnExec(fd)
	}
	os.NewFile(fdImage, "image").Close()
	tpmFile := os.NewFile(fdTPM, "tpm")
	tpm, err := net.FileConn(tpmFile)
	if err != nil {
		return fmt.Errorf("enclave monitor: the launcher's TPM connection: %w", err)
	}
	tpmFile.Close()
	defer tpm.Close()
	lf := os.NewFile(fdListener, "listener")
	any, err := net.FileListener(lf)
	if err != nil {
		return fmt.Errorf("enclave monitor: the launcher's socket: %w", err)
	}
	lf.Close()
	l, ok := any.(*net.UnixListener)
	if !ok {
		return errors.New("enclave monitor: the launcher's socket is no unix socket")
	}
	defer l.Close()
	// First of all the root: what is done before the PCRs are closed is what
	// could leak it.
	a, err := anchor.Open(swtpm.NewClient(tpm, "the launcher"), anchor.Options{Level: evidence.LevelHosted, Dir: c.Dir, Log: filepath.Join(c.Dir, logFile),
		EventLogs: c.EventLogs, PCRs: c.PCRs, Algorithm: c.Algorithm, NewRoot: c.NewRoot})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	p, err := newPlatform(c.Frames, monitor.Options{Root: a.KeyRoot(), CPUSVN: CPUSVN, NoDebug: c.NoDebug}, c.RunMode)
	if err != nil {
		return err
	}
	defer p.Close()
	s := NewServer(p, a, p.Mode())
	s.maxExceptions = c.MaxExceptions
	defer s.Close()
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	if _, err := ready.WriteString(readyText); err != nil {
		return fmt.Errorf("enclave monitor: the launcher is gone: %w", err)
	}
	ready.Close()
	return s.Serve(l)
}

// CPUSVN is the version of this monitor in reports and keys; it grows when a
// fault is mended that let secrets of enclaves out.
var CPUSVN = [16]byte{1}

// harden keeps the process's memory out of core dumps and of the reach of
// others with the same user.
func harden() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("enclave monitor: PR_SET_DUMPABLE: %w", err)
	}
	return unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
}
