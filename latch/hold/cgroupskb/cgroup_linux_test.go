// SPDX-License-Identifier: Apache-2.0

package cgroupskb

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFindCgroup2(t *testing.T) {
	for _, c := range []struct{ table, want string }{
		{"30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n", "/sys/fs/cgroup"},
		{"31 30 0:28 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n40 30 0:37 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 none rw\n", "/sys/fs/cgroup/unified"},
		{"40 30 0:37 /sub /mnt/part rw - cgroup2 none rw\n41 30 0:37 / /mnt/a\\040b rw - cgroup2 none rw\n", "/mnt/a b"}, // a bind of a part is not the root
		{"31 30 0:28 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n", ""},
		{"garbage - cgroup2\n", ""},
	} {
		got, err := findCgroup2(strings.NewReader(c.table))
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%q: got %q, %v; want %q", c.table, got, err, c.want)
		}
	}
}

func TestInside(t *testing.T) {
	for _, c := range []struct {
		table, path string
		want        bool
	}{
		{"0::/a/b\n", "/a/b", true},
		{"0::/a/b/c\n", "/a/b", true},
		{"0::/a/bc\n", "/a/b", false},
		{"0::/\n", "/a", false},
		{"0::/\n", "/", true},
		{"9:cpu:/a\n0::/x\n", "/a", false},
		{"9:cpu:/a\n", "/a", false},
	} {
		if got := inside(c.table, c.path); got != c.want {
			t.Errorf("inside(%q, %q) = %v", c.table, c.path, got)
		}
	}
}

// A gate that would hold itself is told so.
func TestAttachRefusesOwnCgroup(t *testing.T) {
	needRoot(t)
	root, err := CgroupRoot()
	if err != nil {
		t.Skipf("SKIP[cgroup2]: %v", err)
	}
	if h, err := Attach(Options{Cgroup: root}); err == nil || !strings.Contains(err.Error(), "contains this process") {
		if h != nil {
			h.Detach()
		}
		t.Errorf("%v", err)
	}
	if _, err := Attach(Options{Cgroup: t.TempDir()}); err == nil || !strings.Contains(err.Error(), "version 2") {
		t.Errorf("a folder that is no cgroup: %v", err)
	}
}

// The folder of the pins must be nobody else's.
func TestPrivate(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		mode os.FileMode
		ok   bool
	}{{0o700, true}, {0o755, true}, {0o775, false}, {0o702, false}, {0o777, false}} {
		if err := os.Chmod(dir, c.mode); err != nil {
			t.Fatal(err)
		}
		if err := private(dir); (err == nil) != c.ok {
			t.Errorf("mode %o: %v", c.mode, err)
		}
	}
	os.Chmod(dir, 0o700)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if private(link) == nil {
		t.Error("a symbolic link was taken for a folder")
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(dir, 65534, 65534); err != nil {
			t.Fatal(err)
		}
		if private(dir) == nil {
			t.Error("a stranger's folder was taken")
		}
	}
}
