// SPDX-License-Identifier: Apache-2.0

//go:build linux && amd64

package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"holdfast/attest/evidence"
	"holdfast/enclave/daemon/anchor"
	"holdfast/softtpm"
	"holdfast/tpmio/dial"
	"holdfast/tpmio/inproc"
	"holdfast/tss"
)

// LaunchConfig says how the daemon runs.
type LaunchConfig struct {
	State  string      // folder of this user alone; made if missing
	TPM    string      // as dial.Forms; empty: a TPM in this process, with its state in State/tpm
	Socket string      // path of the socket for applications
	Mode   os.FileMode // of the socket; 0 means 0600
	Image  string      // the monitor's program; empty: this program
	Args   []string    // that make the program call Run
	User   int         // user and group of the monitor; -1: this user. Needs root
	Monitor
	// OnReady is told when applications can connect, and the monitor's process.
	OnReady func(socket string, pid int)
}

// Monitor is what the launcher tells the monitor; it holds no secret.
type Monitor struct {
	Dir       string   // its folder
	Frames    int      // pages of the EPC
	Algorithm string   // of the monitor's key
	PCRs      []uint8  // further PCRs to seal to and to quote
	EventLogs []string // what leads to them
	NewRoot   bool
	NoDebug   bool // refuse debug enclaves
	// MaxExceptions bounds what one ECALL may raise (urts.Options); 0: no bound.
	MaxExceptions uint64
	RunMode       string // of evidence.EnclaveModes; empty: GU where it works, else HU
}

// Descriptors of the monitor process.
const (
	fdTPM = 3 + iota
	fdListener
	fdReady
	fdImage
)

// ConfigEnv is the variable in which the monitor finds its Monitor as JSON.
const ConfigEnv = "HOLDFAST_ENCLAVE_MONITOR"

// logFile is the event log in Monitor.Dir.
const logFile = "events.log"

// Launch runs the daemon until ctx ends or the monitor does.
func Launch(ctx context.Context, c LaunchConfig) error {
	if err := c.prepare(); err != nil {
		return fmt.Errorf("enclave launcher: %w", err)
	}
	tpm, err := c.openTPM(ctx)
	if err != nil {
		return fmt.Errorf("enclave launcher: %w", err)
	}
	err = c.launch(ctx, tpm)
	if err = errors.Join(err, tpm.Close()); err != nil {
		return fmt.Errorf("enclave launcher: %w", err)
	}
	return nil
}

// prepare makes the folders: State for the launcher, State/monitor for the
// monitor's user.
func (c *LaunchConfig) prepare() error {
	if c.User >= 0 && os.Geteuid() != 0 {
		return errors.New("only root can run the monitor as another user")
	}
	c.Dir = filepath.Join(c.State, "monitor")
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return err
	}
	if c.User >= 0 {
		// The monitor passes through the first folder, and owns the second.
		if err := os.Chmod(c.State, 0o711); err != nil {
			return err
		}
		for _, p := range []string{"", "kroot.yaml", "ak.yaml"} {
			if err := os.Chown(filepath.Join(c.Dir, p), c.User, c.User); err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
		}
	}
	var st unix.Stat_t
	if err := unix.Stat(c.Dir, &st); err != nil {
		return err
	}
	if want := max(c.User, 0); st.Mode&0o077 != 0 || int(st.Uid) != os.Geteuid() && int(st.Uid) != want {
		return fmt.Errorf("%s: mode %04o, owner %d: expected a folder of the monitor's user alone", c.Dir, st.Mode&0o7777, st.Uid)
	}
	return nil
}

// openTPM opens the TPM; one of our own is reset. Others must have been.
func (c *LaunchConfig) openTPM(ctx context.Context) (dial.Conn, error) {
	dir, own := strings.CutPrefix(c.TPM, "inproc:")
	switch {
	case c.TPM == "":
		dir, own = filepath.Join(c.State, "tpm"), true
	case !own:
		return dial.Dial(ctx, c.TPM)
	}
	return inproc.OpenReset(dir, softtpm.Options{})
}

func (c *LaunchConfig) launch(ctx context.Context, tpm dial.Conn) error {
	image, digest, err := c.image()
	if err != nil {
		return err
	}
	defer image.Close()
	if err := anchor.CheckReset(tss.New(tpm), evidence.LevelHosted); err != nil {
		return err
	}
	log := filepath.Join(c.Dir, logFile)
	if err := os.Remove(log); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := anchor.Measure(tss.New(tpm), evidence.LevelHosted, log, c.Image, digest); err != nil {
		return err
	}
	if c.User >= 0 {
		if err := os.Chown(log, c.User, c.User); err != nil {
			return err
		}
	}
	l, err := c.listen()
	if err != nil {
		return err
	}
	defer os.Remove(c.Socket)
	defer l.Close()
	// The monitor inherits no_new_privs from the thread that starts it, and dies
	// with that thread (Pdeathsig): one of its own, which ends with the goroutine.
	ended := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			ended <- fmt.Errorf("PR_SET_NO_NEW_PRIVS: %w", err)
			return
		}
		ended <- c.run(ctx, tpm, image, l)
	}()
	return <-ended
}

// image copies the monitor's program into memory that nobody can change and
// measures that: what runs is what was measured.
func (c *LaunchConfig) image() (*os.File, [32]byte, error) {
	if c.Image == "" {
		p, err := os.Executable()
		if err != nil {
			return nil, [32]byte{}, err
		}
		c.Image = p
	}
	if p, err := filepath.Abs(c.Image); err == nil {
		c.Image = p
	}
	in, err := os.Open(c.Image)
	if err != nil {
		return nil, [32]byte{}, err
	}
	defer in.Close()
	fd, err := unix.MemfdCreate("enclave-monitor", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, [32]byte{}, fmt.Errorf("memory for the monitor's program: %w", err)
	}
	f := os.NewFile(uintptr(fd), "enclave-monitor")
	h := sha256.New()
	_, err = io.Copy(io.MultiWriter(f, h), in)
	if err == nil {
		_, err = unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_WRITE|unix.F_SEAL_SEAL)
	}
	if err != nil {
		f.Close()
		return nil, [32]byte{}, fmt.Errorf("copy of %s: %w", c.Image, err)
	}
	return f, [32]byte(h.Sum(nil)), nil
}

// listen makes the socket. One that is there already is removed if nobody
// answers at it.
func (c *LaunchConfig) listen() (*net.UnixListener, error) {
	if err := os.MkdirAll(filepath.Dir(c.Socket), 0o755); err != nil {
		return nil, err
	}
	if d, err := net.Dial("unix", c.Socket); err == nil {
		d.Close()
		return nil, fmt.Errorf("%s: another monitor answers there", c.Socket)
	} else if errors.Is(err, unix.ECONNREFUSED) {
		if err := os.Remove(c.Socket); err != nil {
			return nil, err
		}
	}
	old := unix.Umask(0o177)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: c.Socket, Net: "unix"})
	unix.Umask(old)
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	if c.Mode == 0 {
		c.Mode = 0o600
	}
	if err := os.Chmod(c.Socket, c.Mode); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// run starts the monitor, serves it the TPM, and waits for its end.
func (c *LaunchConfig) run(ctx context.Context, tpm dial.Conn, image *os.File, l *net.UnixListener) error {
	ours, theirs, err := socketPair()
	if err != nil {
		return err
	}
	defer ours.Close()
	lf, err := l.File()
	if err != nil {
		theirs.Close()
		return err
	}
	readyR, readyW, err := os.Pipe()
	if err != nil {
		theirs.Close()
		lf.Close()
		return err
	}
	defer readyR.Close()
	config, err := json.Marshal(c.Monitor)
	if err != nil {
		return err
	}
	cmd := exec.Command(fmt.Sprintf("/proc/self/fd/%d", fdImage), c.Args...)
	cmd.Args[0] = filepath.Base(c.Image)
	cmd.Env = []string{ConfigEnv + "=" + string(config), "GOTRACEBACK=none"}
	cmd.Stderr = os.Stderr
	cmd.Dir = c.Dir
	cmd.ExtraFiles = []*os.File{theirs, lf, readyW, image}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if c.User >= 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(c.User), Gid: uint32(c.User)}
	}
	err = cmd.Start()
	theirs.Close()
	lf.Close()
	readyW.Close()
	l.Close() // the monitor's now
	if err != nil {
		return fmt.Errorf("start the monitor: %w", err)
	}
	go func() {
		if err := relay(ours, tpm); err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
			slog.Debug("enclave launcher: the monitor's TPM connection ended", "error", err)
		}
		ours.Close()
	}()
	stop := context.AfterFunc(ctx, func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		time.AfterFunc(10*time.Second, func() { _ = cmd.Process.Kill() })
	})
	defer stop()
	text, _ := io.ReadAll(io.LimitReader(readyR, 4096))
	if string(text) == readyText {
		if c.OnReady != nil {
			c.OnReady(c.Socket, cmd.Process.Pid)
		}
		text = nil
	}
	err = cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return nil
	case len(text) > 0:
		return fmt.Errorf("the monitor did not start: %s", text)
	case err != nil:
		return fmt.Errorf("the monitor ended: %w", err)
	}
	return errors.New("the monitor ended")
}

// readyText is what the monitor writes when it serves; anything else is why it
// does not.
const readyText = "ready\n"

func socketPair() (net.Conn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	a, b := os.NewFile(uintptr(fds[0]), "tpm"), os.NewFile(uintptr(fds[1]), "tpm")
	c, err := net.FileConn(a)
	a.Close()
	if err != nil {
		b.Close()
		return nil, nil, err
	}
	return c, b, nil
}
