// SPDX-License-Identifier: Apache-2.0

// Package serve runs a TPM as a server: `holdfast tpm serve`. Call Run.
package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"

	"holdfast/softtpm"
	"holdfast/tpmio/filestore"
	"holdfast/tpmio/inproc"
	"holdfast/tpmio/listen"
	"holdfast/tpmio/mssim"
	"holdfast/tpmio/platform"
	"holdfast/tpmio/swtpm"
	"holdfast/tpmio/vtpmproxy"
)

// Config says what to serve and where. With no address at all, the data
// channel is offered on DefaultSocket.
type Config struct {
	StateDir   string // folder of the state; empty: in memory only
	StateKey   []byte // 32 bytes that encrypt the state file; nil: not encrypted
	MSSIM      string // HOST:PORT of the command port, platform port above it
	SWTPM      string // data channel, HOST:PORT or unix:PATH
	Control    string // control channel, likewise
	VTPMProxy  bool   // a /dev/tpmN of this kernel
	Locality   uint8  // highest locality of the listeners, 0 to 2
	Startup    Startup
	Options    softtpm.Options
	Limits     listen.Limits
	Log        *slog.Logger
	OnReady    func(Addresses) error // called once all listeners are open; may be nil
	OnShutdown func()                // a client of the control channel asked for the end; may be nil
}

// Startup says who does TPM2_Startup.
type Startup string

// Ways to start.
const (
	StartupClient Startup = ""      // the client
	StartupClear  Startup = "clear" // we, as after a reset
	StartupState  Startup = "state" // we, going on after an orderly shutdown
)

// Addresses are where the TPM listens, as `--tpm` takes them; empty is nowhere.
type Addresses struct {
	MSSIM   string `json:"mssim,omitempty"`
	SWTPM   string `json:"swtpm,omitempty"`
	Control string `json:"swtpm_ctrl,omitempty"`
	Device  string `json:"device,omitempty"`
}

// DefaultSocket returns the address of the unix socket that is used when no
// other is given, and makes the folder for it (mode 0700): /run/holdfast/tpm.sock
// for root, $XDG_RUNTIME_DIR/holdfast/tpm.sock for others.
func DefaultSocket() (string, error) {
	dir := "/run/holdfast"
	if os.Geteuid() != 0 {
		base := os.Getenv("XDG_RUNTIME_DIR")
		if base == "" {
			return "", errors.New("no place for the socket: XDG_RUNTIME_DIR is not set; give an address, such as --swtpm unix:PATH")
		}
		dir = filepath.Join(base, "holdfast")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("folder of the socket: %w", err)
	}
	return "unix:" + filepath.Join(dir, "tpm.sock"), nil
}

// DefaultState returns the state folder that is used when no other is given.
func DefaultState() (string, error) {
	if os.Geteuid() == 0 {
		return "/var/lib/holdfast/tpm", nil
	}
	base := os.Getenv("XDG_STATE_HOME")
	if base == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("no place for the state: %w; give --state DIR", err)
		}
		base = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(base, "holdfast", "tpm"), nil
}

// Run serves until ctx ends, a client asks for the end over the control
// channel, or a listener fails. Then it shuts the TPM down in order, so that
// its state is saved. nil means that all went well.
func Run(ctx context.Context, c Config) (err error) {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.MSSIM == "" && c.SWTPM == "" && c.Control == "" && !c.VTPMProxy {
		if c.SWTPM, err = DefaultSocket(); err != nil {
			return err
		}
	}
	store, closeStore, err := openStore(c.StateDir, c.StateKey)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeStore()) }()
	engine, err := inproc.NewEngine(store, c.Options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	if c.Startup != StartupClient {
		if err := inproc.Startup(engine, c.Startup == StartupState); err != nil {
			return err
		}
	}
	s := &server{Config: c, machine: platform.New(engine), failed: make(chan error, 8)}
	ctx, s.stop = context.WithCancel(ctx)
	defer s.stop()
	defer s.close()
	if err := s.open(); err != nil {
		return err
	}
	if c.OnReady != nil {
		if err := c.OnReady(s.addresses); err != nil {
			return fmt.Errorf("telling that the TPM is ready: %w", err)
		}
	}
	select {
	case <-ctx.Done():
	case err = <-s.failed:
	}
	s.close() // no command comes any more
	if s.machine.On() {
		err = errors.Join(err, inproc.Shutdown(engine))
	}
	return err
}

func openStore(dir string, key []byte) (softtpm.Store, func() error, error) {
	if dir == "" {
		return softtpm.NewMemoryStore(), func() error { return nil }, nil
	}
	f, err := filestore.Open(dir, filestore.Options{Key: key})
	if err != nil {
		return nil, nil, err
	}
	return f, f.Close, nil
}

// server is the set of listeners of one Run.
type server struct {
	Config
	machine   *platform.Machine
	addresses Addresses
	failed    chan error
	stop      func()
	closers   []func() error
}

func (s *server) close() {
	for _, c := range s.closers {
		_ = c()
	}
	s.closers = nil
}

// run serves in the background and reports a failure.
func (s *server) run(what string, f func() error) {
	go func() {
		if err := f(); err != nil && !errors.Is(err, listen.ErrClosed) {
			s.failed <- fmt.Errorf("%s: %w", what, err)
		}
	}()
}

func (s *server) open() error {
	if s.MSSIM != "" {
		if err := s.openMSSIM(); err != nil {
			return err
		}
	}
	if s.SWTPM == "" && s.Control == "" && !s.VTPMProxy {
		return nil
	}
	srv, err := swtpm.NewServer(s.machine, swtpm.Options{MaxLocality: s.Locality, Limits: s.Limits, Log: s.Log, OnShutdown: s.shutdown})
	if err != nil {
		return err
	}
	s.closers = append(s.closers, srv.Close)
	if s.SWTPM != "" {
		l, err := listen.Open(s.SWTPM)
		if err != nil {
			return fmt.Errorf("swtpm data channel: %w", err)
		}
		s.addresses.SWTPM = "swtpm:" + address(s.SWTPM, l)
		s.run("swtpm data channel", func() error { return srv.ServeData(l) })
	}
	if s.Control != "" {
		l, err := listen.Open(s.Control)
		if err != nil {
			return fmt.Errorf("swtpm control channel: %w", err)
		}
		s.addresses.Control = address(s.Control, l)
		s.run("swtpm control channel", func() error { return srv.ServeControl(l) })
	}
	if s.VTPMProxy {
		d, err := vtpmproxy.New()
		if err != nil {
			return err
		}
		s.addresses.Device = "device:" + d.Path
		s.run("vTPM "+d.Path, func() error {
			srv.ServeOwn(d.Conn())
			return nil
		})
	}
	return nil
}

func (s *server) openMSSIM() error {
	srv, err := mssim.NewServer(s.machine, mssim.Options{MaxLocality: s.Locality, Limits: s.Limits, Log: s.Log})
	if err != nil {
		return err
	}
	command, plat, err := mssim.Listen(s.MSSIM)
	if err != nil {
		return err
	}
	s.closers = append(s.closers, srv.Close)
	s.addresses.MSSIM = "mssim:" + command.Addr().String()
	s.run("simulator protocol", func() error { return srv.Serve(command, plat) })
	return nil
}

func (s *server) shutdown() {
	s.Log.Info("a client of the control channel ends the TPM")
	s.stop()
	if s.OnShutdown != nil {
		s.OnShutdown()
	}
}

// address is the address with the port that was chosen, should it have been 0.
func address(want string, l net.Listener) string {
	if a, ok := l.Addr().(*net.TCPAddr); ok {
		return a.String()
	}
	return want
}
