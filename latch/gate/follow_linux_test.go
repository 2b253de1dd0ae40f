// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	ebpflink "github.com/cilium/ebpf/link"

	"holdfast/latch/hold/cgroupskb"
	"holdfast/test/host"
)

// TestFollowsTheFolder: a cgroup that is removed and made again is gated again
// because its folder is watched; the slow look is out of the way here.
func TestFollowsTheFolder(t *testing.T) {
	host.Need(t, "root", "cgroup2", "bpf", "cgroup-bpf", "bpffs")
	defer func(d time.Duration) { followWatched = d }(followWatched)
	followWatched = time.Hour
	dir, err := cgroupskb.MakeCgroup(fmt.Sprintf("holdfast-follow-%d-%d", os.Getpid(), time.Now().UnixNano()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(dir) })
	h, err := cgroupskb.Attach(cgroupskb.Options{Cgroup: dir})
	if err != nil {
		t.Fatal(err)
	}
	s := &Scoped{Hold: h, dir: dir, quit: make(chan struct{}), done: make(chan struct{})}
	go s.follow()
	defer func() {
		close(s.quit)
		<-s.done
		if err := h.Detach(); err != nil {
			t.Error(err)
		}
	}()
	for round := range 3 {
		if err := os.Remove(dir); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(20 * time.Second); !gated(t, dir); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("round %d: the cgroup was made again and is not gated", round)
			}
		}
	}
}

// gated says whether a cgroup has an egress program of its own.
func gated(t *testing.T, dir string) bool {
	t.Helper()
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := ebpflink.QueryPrograms(ebpflink.QueryOptions{Target: int(f.Fd()), Attach: ebpf.AttachCGroupInetEgress})
	if err != nil {
		t.Fatal(err)
	}
	return len(r.Programs) > 0
}
