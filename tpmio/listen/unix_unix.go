// SPDX-License-Identifier: Apache-2.0

//go:build unix

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
	fd, err := unixSocket()
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close() // FileListener duplicates
	if err := modeFirst(fd); err != nil {
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
