// SPDX-License-Identifier: Apache-2.0

// Package listen opens the sockets of the TPM servers and keeps the rules of
// who may connect and how long a peer may take. Open makes a listener, Serve
// runs one handler for each connection.
//
// Rules: a unix socket has mode 0600 from its first moment, and a peer that is
// neither our own user nor root is turned away even if the mode was changed;
// the number of connections is bounded; a request once begun, and the reading
// of a response, must end in time; a connection that is idle between requests
// may stay for ever, since resource managers keep theirs open.
package listen

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Open listens at addr: HOST:PORT, or unix:PATH.
func Open(addr string) (net.Listener, error) {
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		return openUnix(path)
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil || port == "" {
		return nil, fmt.Errorf("listen address %q: expected HOST:PORT or unix:PATH", addr)
	}
	if host == "" {
		// The usual meaning of an empty host is "everybody". Not for a TPM.
		return nil, fmt.Errorf("listen address %q: name the host, such as 127.0.0.1:%s", addr, port)
	}
	return net.Listen("tcp", addr)
}

// openUnix binds a socket with mode 0600 before it listens, so that at no
// moment anybody else can connect.
func openUnix(path string) (net.Listener, error) {
	if path == "" {
		return nil, errors.New("listen address unix: expected a path after unix:")
	}
	if strings.HasPrefix(path, "@") {
		return nil, fmt.Errorf("listen address unix:%s: abstract sockets have no access mode; give a path", path)
	}
	if err := checkParent(filepath.Dir(path)); err != nil {
		return nil, err
	}
	if err := removeStale(path); err != nil {
		return nil, err
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close() // FileListener duplicates
	// On Linux the mode of the descriptor becomes that of the file.
	if err := unix.Fchmod(fd, 0o600); err != nil {
		return nil, os.NewSyscallError("fchmod", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		return nil, fmt.Errorf("cannot bind %s: %w", path, err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, err
	}
	if err := unix.Listen(fd, 128); err != nil {
		return nil, os.NewSyscallError("listen", err)
	}
	l, err := net.FileListener(f)
	if err != nil {
		return nil, err
	}
	l.(*net.UnixListener).SetUnlinkOnClose(true)
	return l, nil
}

// checkParent refuses a folder in which anybody could put another socket in
// the place of ours and so play the TPM.
func checkParent(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("folder of the socket: %w", err)
	}
	if info.Mode().Perm()&0o022 != 0 && info.Mode()&fs.ModeSticky == 0 {
		return fmt.Errorf("folder of the socket: %s has mode %#o, so others can replace the socket; expected no write permission for group and others", dir, info.Mode().Perm())
	}
	return nil
}

// removeStale removes a socket on which nobody listens any more.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode()&fs.ModeSocket == 0 {
		return fmt.Errorf("%s exists and is not a socket; remove it or choose another path", path)
	}
	c, err := net.Dial("unix", path)
	if err == nil {
		c.Close()
		return fmt.Errorf("%s: another server listens there", path)
	}
	if !errors.Is(err, unix.ECONNREFUSED) {
		return fmt.Errorf("%s exists: %w", path, err)
	}
	return os.Remove(path)
}
