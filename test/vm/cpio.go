// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"fmt"
	"io"
	"path"
	"strings"
)

// cpio writes the archive that the kernel unpacks as its first file system
// (Documentation/driver-api/early-userspace/buffer-format.rst, "newc").
type cpio struct {
	w    io.Writer
	n    int64
	ino  int
	dirs map[string]bool
	err  error
}

const (
	cpioDir  = 0o040000
	cpioFile = 0o100000
	cpioLink = 0o120000
	cpioChar = 0o020000
)

func newCpio(w io.Writer) *cpio { return &cpio{w: w, dirs: map[string]bool{}} }

func (c *cpio) write(b []byte) {
	if c.err == nil {
		var n int
		n, c.err = c.w.Write(b)
		c.n += int64(n)
	}
}

func (c *cpio) pad() {
	if rest := int(c.n % 4); rest != 0 {
		c.write(make([]byte, 4-rest))
	}
}

func (c *cpio) entry(name string, mode, major, minor int, content []byte) {
	c.ino++
	// ino mode uid gid nlink mtime filesize devmajor devminor rdevmajor rdevminor namesize check
	c.write(fmt.Appendf(nil, "070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X", c.ino, mode, 0, 0, 1, 0, len(content), 0, 0, major, minor, len(name)+1, 0))
	c.write(append([]byte(name), 0))
	c.pad()
	c.write(content)
	c.pad()
}

// clean makes a path relative, as the archive wants it.
func clean(name string) string { return strings.TrimPrefix(path.Clean("/"+name), "/") }

// dir adds a folder and those above it, once.
func (c *cpio) dir(name string) {
	name = clean(name)
	if name == "" || c.dirs[name] {
		return
	}
	c.dirs[name] = true
	c.dir(path.Dir(name))
	c.entry(name, cpioDir|0o755, 0, 0, nil)
}

// file adds a file with the permissions perm.
func (c *cpio) file(name string, perm int, content []byte) {
	name = clean(name)
	c.dir(path.Dir(name))
	c.entry(name, cpioFile|perm&0o7777, 0, 0, content)
}

func (c *cpio) link(name, target string) {
	name = clean(name)
	c.dir(path.Dir(name))
	c.entry(name, cpioLink|0o777, 0, 0, []byte(target))
}

func (c *cpio) char(name string, major, minor int) {
	name = clean(name)
	c.dir(path.Dir(name))
	c.entry(name, cpioChar|0o600, major, minor, nil)
}

// close ends the archive.
func (c *cpio) close() error {
	c.entry("TRAILER!!!", 0, 0, 0, nil)
	return c.err
}
