// SPDX-License-Identifier: Apache-2.0

package tpm

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"holdfast/tpmio/swtpm"
)

// Server is a TPM in a process of its own, reached over the swtpm data
// protocol on a unix socket.
type Server struct {
	*swtpm.Client
	Pid  int
	stop func()
}

// StartOurs starts `holdfast tpm serve` with durable state in dir, which
// exists; StartSwtpm starts swtpm likewise.
func StartOurs(ctx context.Context, binary, dir string) (*Server, error) {
	return start(ctx, dir, func(socket string) []string {
		return []string{binary, "--log-level", "error", "tpm", "serve", "--state", filepath.Join(dir, "state"), "--startup", "clear", "--swtpm", "unix:" + socket}
	})
}

// StartSwtpm starts Debian's swtpm.
func StartSwtpm(ctx context.Context, dir string) (*Server, error) {
	return start(ctx, dir, func(socket string) []string {
		return []string{"swtpm", "socket", "--tpm2", "--tpmstate", "dir=" + dir, "--server", "type=unixio,path=" + socket, "--flags", "not-need-init,startup-clear"}
	})
}

func start(ctx context.Context, dir string, args func(socket string) []string) (*Server, error) {
	if err := os.Chmod(dir, 0o700); err != nil {
		return nil, err
	}
	socket := filepath.Join(dir, "s")
	words := args(socket)
	cmd := exec.Command(words[0], words[1:]...)
	var said lastWords
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	s := &Server{Pid: cmd.Process.Pid, stop: func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(5 * time.Second):
			_ = cmd.Process.Kill()
			<-ended
		}
	}}
	deadline := time.Now().Add(10 * time.Second)
	for {
		var err error
		if s.Client, err = swtpm.Dial(ctx, "unix:"+socket); err == nil {
			return s, nil
		}
		select {
		case exit := <-ended:
			return nil, fmt.Errorf("%s ended at once: %v: %s", words[0], exit, said.b)
		case <-ctx.Done():
			s.stop()
			return nil, ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			s.stop()
			return nil, fmt.Errorf("%s is not reached after 10 s: %w", words[0], err)
		}
	}
}

// Close ends connection and process.
func (s *Server) Close() error {
	err := s.Client.Close()
	s.stop()
	return err
}

// lastWords keeps the first 4 KiB of what a server says; it is read after the
// server's end only.
type lastWords struct{ b []byte }

func (l *lastWords) Write(p []byte) (int, error) {
	l.b = append(l.b, p[:min(len(p), 4096-len(l.b))]...)
	return len(p), nil
}
