// SPDX-License-Identifier: Apache-2.0

package cgroupskb

import (
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// Names belong to the adversary, who can give a gated service the address of a
// plain destination: what begins like TLS is gated there too, unless the entry
// says otherwise.
func TestPlainIsClear(t *testing.T) {
	t.Parallel()
	l := newLab(t, Options{Plain: []Plain{
		{Prefix: netip.MustParsePrefix(server4 + "/32"), Port: 8443},
		{Prefix: netip.MustParsePrefix(server4 + "/32"), Port: 9443, TLS: true},
		{Prefix: netip.MustParsePrefix(server4 + "/32"), Port: 25},
	}}, never)
	gated := l.fakeServer(server4+":8443", true)
	l.tlsServer(l.server, server4+":9443", nil)
	if out, err := wait(t, l.helper("get", "https://"+server4+":9443/"), 8*time.Second); err != nil || !strings.HasPrefix(out, "hello") {
		t.Errorf("plain-tls: %q %v", out, err)
	}
	for _, mode := range [][]string{nil, {"split"}, {"one"}} {
		c := l.helper(append([]string{"raw", server4 + ":8443", "300"}, mode...)...)
		time.Sleep(500 * time.Millisecond)
		c.Process.Kill()
		wait(t, c, 5*time.Second)
	}
	deadline := time.Now().Add(10 * time.Second)
	for ended := 0; ended < 3 && time.Now().Before(deadline); {
		select {
		case <-gated.ended:
			ended++
		case <-time.After(100 * time.Millisecond):
		}
	}
	gated.mu.Lock()
	for _, got := range gated.read {
		if strings.Contains(got, secret) {
			t.Errorf("the secret left behind a hello to a plain destination: %d bytes", len(got))
		}
	}
	gated.mu.Unlock()

	// A server that speaks first, as in SMTP, works; TLS behind it does not.
	ln := l.listen(server4 + ":25")
	heard := make(chan string, 2)
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				c.SetDeadline(time.Now().Add(4 * time.Second))
				c.Write([]byte("220 ready\r\n"))
				heard <- readAll(c)
			}()
		}
	}()
	if out, err := wait(t, l.helper("plain", server4+":25", "EHLO "+secret), 8*time.Second); err != nil || out != "220 ready\r\n" {
		t.Errorf("a server that speaks first: %q %v", out, err)
	}
	if got := <-heard; got != "EHLO "+secret {
		t.Errorf("the server heard %q", got)
	}
	c := l.helper("late", server4+":25")
	if _, err := wait(t, c, 8*time.Second); err == nil {
		t.Error("TLS after the server spoke was not refused")
	}
	if got := <-heard; got != "" {
		t.Errorf("a hello left after the server spoke: %d bytes", len(got))
	}
}

func readAll(c net.Conn) string {
	var b strings.Builder
	p := make([]byte, 4096)
	for {
		n, err := c.Read(p)
		b.Write(p[:n])
		if err != nil {
			return b.String()
		}
	}
}
