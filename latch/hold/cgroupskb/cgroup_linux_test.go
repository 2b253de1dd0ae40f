// SPDX-License-Identifier: Apache-2.0

package cgroupskb

import (
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
