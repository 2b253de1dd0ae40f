// SPDX-License-Identifier: Apache-2.0

// Command guest is /init in a test machine of package vm: it mounts the
// kernel's file systems, loads the modules that the test named, runs one
// command with its output framed onto the second serial line, and powers the
// machine off. A kernel panic or the end of this program ends the machine too.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"holdfast/test/vm/frame"
)

// job is what package vm puts into /holdfast-vm.json.
type job struct {
	Modules []string // files in the order of loading
	Params  map[string]string
	Cmd     []string
	Env     []string
	Stdin   bool
}

func main() {
	if os.Getpid() != 1 {
		os.Exit(power(os.Args[1:]))
	}
	mount()
	line, err := serial("/dev/ttyS1")
	if err != nil {
		fmt.Println("guest: no serial line:", err)
		off(nil)
	}
	w := frame.NewWriter(line)
	_ = w.Hello()
	code, err := run(w, line)
	if err != nil {
		_ = w.Send(frame.Fault, []byte(err.Error()))
	} else {
		_ = w.Send(frame.Exit, []byte(strconv.Itoa(code)))
	}
	off(line)
}

// power serves commands in the machine: /init reboot resets it in order, as
// an operating system does, /init suspend sends it to sleep (S3).
func power(args []string) int {
	err := fmt.Errorf("expected reboot or suspend, got %q: this is the first process of a test machine", args)
	switch {
	case len(args) == 1 && args[0] == "reboot":
		err = unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART)
	case len(args) == 1 && args[0] == "suspend":
		if err = os.WriteFile("/sys/power/mem_sleep", []byte("deep"), 0); err == nil {
			err = os.WriteFile("/sys/power/state", []byte("mem"), 0)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "guest:", err)
		return 2
	}
	return 0
}

// off powers the machine off when the line has sent everything.
func off(line *os.File) {
	syscall.Sync()
	if line != nil {
		_ = unix.IoctlSetInt(int(line.Fd()), unix.TCSBRK, 1) // tcdrain
		time.Sleep(50 * time.Millisecond)
	}
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
	os.Exit(0) // the kernel panics, which ends the machine as well
}

// mount mounts what ordinary programs expect. What a kernel lacks is left out.
func mount() {
	for _, m := range []struct{ kind, dir, data string }{
		{"proc", "/proc", ""},
		{"sysfs", "/sys", ""},
		{"devtmpfs", "/dev", ""},
		{"devpts", "/dev/pts", "ptmxmode=0666"},
		{"tmpfs", "/dev/shm", ""},
		{"tmpfs", "/run", "mode=0755"},
		{"tmpfs", "/tmp", "mode=1777"},
		{"securityfs", "/sys/kernel/security", ""},
		{"cgroup2", "/sys/fs/cgroup", ""},
		{"bpf", "/sys/fs/bpf", "mode=0700"},
		{"debugfs", "/sys/kernel/debug", ""},
		{"tracefs", "/sys/kernel/tracing", ""},
		{"configfs", "/sys/kernel/config", ""},
	} {
		_ = os.MkdirAll(m.dir, 0o755)
		if err := unix.Mount(m.kind, m.dir, m.kind, 0, m.data); err != nil && !errors.Is(err, unix.EBUSY) && !errors.Is(err, unix.ENODEV) && !errors.Is(err, unix.ENOENT) {
			fmt.Printf("guest: mount %s: %v\n", m.dir, err)
		}
	}
	for link, to := range map[string]string{"/dev/fd": "/proc/self/fd", "/dev/stdin": "/proc/self/fd/0", "/dev/stdout": "/proc/self/fd/1", "/dev/stderr": "/proc/self/fd/2"} {
		_ = os.Symlink(to, link)
	}
	_ = unix.Sethostname([]byte("holdfast-vm"))
	if err := loopback(); err != nil {
		fmt.Println("guest: loopback:", err)
	}
}

func loopback() error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	r, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, r)
}

// serial opens a serial line without any translation.
func serial(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	t, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	if err != nil {
		return nil, err
	}
	t.Iflag, t.Oflag, t.Lflag = 0, 0, 0
	t.Cflag = unix.CS8 | unix.CREAD | unix.CLOCAL | unix.B115200
	t.Cc[unix.VMIN], t.Cc[unix.VTIME] = 1, 0
	return f, unix.IoctlSetTermios(int(f.Fd()), unix.TCSETS, t)
}

func run(w *frame.Writer, line *os.File) (int, error) {
	text, err := os.ReadFile("/holdfast-vm.json")
	if err != nil {
		return 0, err
	}
	var j job
	if err := json.Unmarshal(text, &j); err != nil {
		return 0, err
	}
	for _, m := range j.Modules {
		if err := load(m, j.Params[m]); err != nil {
			return 0, fmt.Errorf("load module %s: %w", m, err)
		}
	}
	_ = w.Send(frame.Ready, nil)
	os.Clearenv()
	for k, v := range map[string]string{"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "TMPDIR": "/tmp", "LANG": "C.UTF-8"} {
		os.Setenv(k, v)
	}
	cmd := exec.Command(j.Cmd[0], j.Cmd[1:]...)
	cmd.Env = append(os.Environ(), j.Env...)
	cmd.Stdout, cmd.Stderr = output{w, frame.Stdout}, output{w, frame.Stderr}
	cmd.WaitDelay = 2 * time.Second // a daemon that holds the pipe does not keep the machine
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if j.Stdin {
		in, err := cmd.StdinPipe()
		if err != nil {
			return 0, err
		}
		go input(line, in)
	}
	err = cmd.Run()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit) && exit.ExitCode() < 0:
		return 128 + int(exit.Sys().(syscall.WaitStatus).Signal()), nil
	case errors.As(err, &exit):
		return exit.ExitCode(), nil
	case err != nil && !errors.Is(err, exec.ErrWaitDelay):
		return 0, err
	}
	return cmd.ProcessState.ExitCode(), nil
}

func load(path, params string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.FinitModule(int(f.Fd()), params, 0); err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	return nil
}

// input hands the host's input to the command.
func input(line *os.File, to io.WriteCloser) {
	defer to.Close()
	r, _ := frame.NewReader(line, false)
	for {
		kind, data, err := r.Next()
		if err != nil || kind == frame.Close {
			return
		}
		if kind == frame.Input {
			if _, err := to.Write(data); err != nil {
				return
			}
		}
	}
}

type output struct {
	w    *frame.Writer
	kind byte
}

func (o output) Write(b []byte) (int, error) { return len(b), o.w.Send(o.kind, b) }
