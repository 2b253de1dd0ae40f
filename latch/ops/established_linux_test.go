// SPDX-License-Identifier: Apache-2.0

package ops

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"holdfast/latch/audit"
)

// The kernel's tables name a connection that is there, and not one that ended.
func TestEstablished(t *testing.T) {
	group := t.TempDir() // as the kernel shows it: the processes' numbers in a file
	sub := filepath.Join(group, "below")
	if err := os.Mkdir(sub, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(sub, "cgroup.procs"), []byte(strconv.Itoa(os.Getpid())+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, addr := range []string{"127.0.0.1:0", "[::1]:0"} {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			t.Logf("%s: %v", addr, err)
			continue
		}
		defer l.Close()
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		s, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		p := NewPair(c.LocalAddr().(*net.TCPAddr).AddrPort(), c.RemoteAddr().(*net.TCPAddr).AddrPort())
		got, err := Established(group)
		if err != nil || !got[p] {
			t.Errorf("%s: %v is not among %d connections, %v", addr, p, len(got), err)
		}
		if got[NewPair(l.Addr().(*net.TCPAddr).AddrPort(), netip.MustParseAddrPort("0.0.0.0:0"))] {
			t.Error("a listener is among them")
		}
		c.(*net.TCPConn).SetLinger(0)
		c.Close()
		s.Close()
		if got, _ = Established(group); got[p] {
			t.Errorf("%s: a connection that ended is among them", addr)
		}
	}
}

func TestJournal(t *testing.T) {
	var j Journal
	at := func(port int) netip.AddrPort {
		return netip.AddrPortFrom(netip.MustParseAddr("192.0.2.1"), uint16(port))
	}
	far := netip.MustParseAddrPort("198.51.100.1:443")
	for i := range keepSessions + 10 {
		j.Released(&Session{At: time.Unix(int64(i), 0), Local: at(i % 60000), Remote: far})
	}
	j.Released(&Session{At: time.Unix(99999, 0), Local: at(20), Remote: far}) // the same ends again
	live := j.Live(func(p Pair) bool { return p.Local.Port() < 30 })
	var ports []int
	for _, s := range live {
		ports = append(ports, int(s.Local.Port()))
	}
	// 0 to 9 (and 10, for the last one) left the ring; port 20 counts once, as the last.
	if len(live) != 19 || ports[0] != 11 || ports[18] != 20 || live[18].At.Unix() != 99999 {
		t.Errorf("%d: %v", len(live), ports)
	}
	for i := range keepRefusals + 3 {
		j.Refused(&audit.Event{Count: uint64(i)})
	}
	if r := j.Refusals(); len(r) != keepRefusals || r[0].Count != 3 || r[keepRefusals-1].Count != keepRefusals+2 {
		t.Errorf("%d refusals from %d", len(r), r[0].Count)
	}
}
