// SPDX-License-Identifier: Apache-2.0

//go:build linux

package soak

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"holdfast/test/host"
	"holdfast/test/netns"
)

var (
	soakTime = flag.Duration("soak.time", 0, "length of the soak; 0: half a minute in make test-full only")
	soakLive = flag.Int("soak.live", 10000, "live sessions")
	soakRate = flag.Float64("soak.rate", 120, "attempts a second at most")
	soakCSV  = flag.String("soak.csv", "", "file for the series")
)

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "soak-helper" {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		if err := Helper(ctx, os.Args[2:]); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestSoak(t *testing.T) {
	host.Need(t, "root", "netns", "cgroup2", "bpf", "cgroup-bpf")
	length, live := *soakTime, *soakLive
	if length == 0 {
		if os.Getenv("HOLDFAST_TEST_FULL") != "1" {
			t.Skip("SKIP[full]: the soak takes half a minute; make soak runs the long one")
		}
		length, live = 30*time.Second, 1000
	}
	// Each live session is a descriptor at both ends; Go raises the soft limit to the hard one.
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil || files.Max < uint64(live) {
		t.Fatalf("a limit of %d open files, expected %d at least (ulimit -Hn), %v", files.Max, live, err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var out io.Writer = io.Discard
	if *soakCSV != "" {
		f, err := os.Create(*soakCSV)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		out = f
	}
	bin := netns.Binary(t)
	n := netns.Test(t)
	r, err := Run(t.Context(), n, Options{Binary: bin, Self: self, Dir: t.TempDir(), Time: length, Live: live, Rate: *soakRate, CSV: out,
		Log: func(f string, a ...any) { fmt.Printf(time.Now().Format("15:04:05 ")+f+"\n", a...) }})
	if r != nil {
		fmt.Printf("served %d, attempts %v, kills %d, live at the end %d, at most %d; gate 0: %d releases in its audit log, %d reloads; slowest attempt since the last sample %v\n",
			r.Served, r.Attempts, r.Kills, r.Live, r.MaxLive, r.Audited, r.Reloads, r.Slowest)
		for i, f := range r.Faults {
			if i < 50 {
				t.Error(f)
			}
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	if r.Served == 0 || r.Kills == 0 || r.Attempts[kindThief]+r.Attempts[kindRelay]+r.Attempts[kindNoise]+r.Attempts[kindOddHello] == 0 {
		t.Errorf("nothing was tried: served %d, kills %d, attempts %v", r.Served, r.Kills, r.Attempts)
	}
}

// The guard must see what it is there for.
func TestGuard(t *testing.T) {
	hello := append([]byte{22, 3, 1, 0, 4}, 1, 0, 0, 0)
	for _, c := range []struct {
		name string
		in   []byte
		want int64
	}{
		{"a hello", hello, 0},
		{"a part of one", hello[:7], 0},
		{"a hello and a byte", append(bytes.Clone(hello), 20), 1},
		{"a hello and a record", append(bytes.Clone(hello), 23, 3, 3, 0, 1, 9), 6},
		{"no TLS", []byte("GET /"), 5},
		{"nothing", nil, 0},
	} {
		for cut := 0; cut <= len(c.in); cut++ {
			var n atomic.Int64
			a, b := net.Pipe()
			g := &guard{Conn: a, counter: &n, log: func(string, string, []byte) {}}
			g.saw(c.in[:cut])
			g.saw(c.in[cut:])
			a.Close()
			b.Close()
			if n.Load() != c.want {
				t.Errorf("%s, cut at %d: %d bytes beyond, want %d", c.name, cut, n.Load(), c.want)
			}
		}
	}
}
