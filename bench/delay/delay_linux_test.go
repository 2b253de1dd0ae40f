// SPDX-License-Identifier: Apache-2.0

package delay

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"

	"holdfast/test/host"
	"holdfast/test/netns"
)

func link(t *testing.T) *Link {
	t.Helper()
	host.Need(t, "tun")
	n := netns.Test(t)
	_, _, l, err := Pair(n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// TestRTT: no packet is early, whatever the machine does; and pings take the
// time that was asked for, give or take what a busy machine adds.
func TestRTT(t *testing.T) {
	l := link(t)
	for _, want := range []time.Duration{20 * time.Millisecond, 5 * time.Millisecond} {
		best := time.Hour
		for range 20 {
			got, err := l.SetRTT(want)
			if err != nil {
				t.Fatal(err)
			}
			// Each way holds half of what is asked for, less half of the way's own time.
			if least := 2 * time.Duration(l.hold.Load()); got < least {
				t.Fatalf("a ping took %v, expected at least %v", got, least)
			}
			if best = min(best, got); best < want+want/4 {
				break
			}
		}
		if best > 10*want {
			t.Errorf("pings take %v, expected about %v", best, want)
		}
		t.Logf("asked for %v, ping %v", want, best)
	}
	if _, err := l.SetRTT(-1); err == nil {
		t.Error("a negative time")
	}
}

// TestCarries: a megabyte goes through and back unchanged, over both families.
func TestCarries(t *testing.T) {
	l := link(t)
	if _, err := l.SetRTT(time.Millisecond); err != nil {
		t.Fatal(err)
	}
	data := make([]byte, 0, 1<<20)
	for i := range uint32(1 << 18) {
		data = binary.BigEndian.AppendUint32(data, i)
	}
	for _, address := range []string{netns.ServerV4, netns.ServerV6} {
		var ln net.Listener
		err := l.server.Do(func() (err error) { ln, err = net.Listen("tcp", net.JoinHostPort(address, "4430")); return err })
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			_, _ = io.Copy(c, io.LimitReader(c, int64(len(data))))
		}()
		var back []byte
		err = l.client.Do(func() error {
			c, err := net.DialTimeout("tcp", net.JoinHostPort(address, "4430"), 20*time.Second)
			if err != nil {
				return err
			}
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(60 * time.Second))
			sent := make(chan error, 1)
			go func() { _, err := c.Write(data); sent <- err }()
			if back, err = io.ReadAll(c); err != nil {
				return err
			}
			return <-sent
		})
		ln.Close()
		if err != nil || !bytes.Equal(back, data) {
			t.Errorf("%s: %d bytes came back, %v", address, len(back), err)
		}
	}
}

// TestClose: the devices are gone, and a second Close does nothing.
func TestClose(t *testing.T) {
	l := link(t)
	for range 2 {
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.server.Run("ip", "link", "show", "eth0"); err == nil {
		t.Error("the device outlived the link")
	}
}
