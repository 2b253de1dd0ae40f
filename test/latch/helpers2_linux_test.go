// SPDX-License-Identifier: Apache-2.0

//go:build linux

package latch

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"crypto/tls"
)

func init() {
	helpers["rude"] = func(a []string) error {
		return acceptHelper(a[0], func(c *net.TCPConn) {
			if n, _ := c.Read(make([]byte, 1<<16)); n > 0 {
				c.SetLinger(0)
			}
			c.Close()
		})
	}
	helpers["banner"] = func(a []string) error {
		return acceptHelper(a[0], func(c *net.TCPConn) {
			io.WriteString(c, "220 mail.example ESMTP\r\n")
			io.Copy(io.Discard, c)
			c.Close()
		})
	}
	helpers["silent"] = func(a []string) error {
		return acceptHelper(a[0], func(c *net.TCPConn) { io.Copy(io.Discard, c); c.Close() })
	}
	helpers["race"] = raceHelper
	helpers["loop6"] = func([]string) error {
		l, err := net.Listen("tcp", "[::1]:0")
		if err != nil {
			return err
		}
		c, err := net.DialTimeout("tcp", l.Addr().String(), 5*time.Second)
		if err != nil {
			return err
		}
		return c.Close()
	}
}

// acceptHelper serves connections one by one.
func acceptHelper(addr string, serve func(*net.TCPConn)) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go serve(c.(*net.TCPConn))
	}
}

// raceHelper V4 V6 NAME v4|v6 opens both connections, resets the one that does
// not win, and makes a request on the other.
func raceHelper(a []string) error {
	conns := map[string]*net.TCPConn{}
	for i, family := range []string{"v4", "v6"} {
		d := net.Dialer{Timeout: 5 * time.Second}
		d.SetMultipathTCP(false)
		c, err := d.Dial("tcp", a[i])
		if err != nil {
			return err
		}
		conns[family] = c.(*net.TCPConn)
	}
	for family, c := range conns {
		if family != a[3] {
			c.SetLinger(0)
			c.Close()
		}
	}
	c := conns[a[3]]
	defer c.Close()
	c.SetDeadline(time.Now().Add(10 * time.Second))
	t := tls.Client(c, clientTLS(a[2]))
	if _, err := fmt.Fprintf(t, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", a[2]); err != nil {
		return err
	}
	b, err := io.ReadAll(t)
	if err == nil && !strings.Contains(string(b), "hello") {
		err = errors.New("no answer")
	}
	fmt.Printf("%s\n", b)
	return err
}
