// SPDX-License-Identifier: Apache-2.0

//go:build linux

package latch

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"
)

// balancedHelper ADDRESS NAME COUNT CONCURRENCY opens COUNT sessions, a
// request on each, and prints for each the client's port and the first line of
// the answer's body, or the error.
func balancedHelper(a []string) error {
	count, err := strconv.Atoi(a[2])
	if err != nil {
		return err
	}
	workers, err := strconv.Atoi(a[3])
	if err != nil {
		return err
	}
	jobs := make(chan struct{}, count)
	for range count {
		jobs <- struct{}{}
	}
	close(jobs)
	var wg sync.WaitGroup
	var mu sync.Mutex
	for range workers {
		wg.Go(func() {
			for range jobs {
				port, text, err := balancedOne(a[0], a[1])
				if err != nil {
					text = "error: " + strings.ReplaceAll(err.Error(), "\n", " ")
					time.Sleep(2 * time.Millisecond)
				}
				mu.Lock()
				fmt.Println(port, text)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return nil
}

func balancedOne(addr, server string) (port int, text string, err error) {
	d := net.Dialer{Timeout: 10 * time.Second}
	d.SetMultipathTCP(false)
	c, err := d.Dial("tcp", addr)
	if err != nil {
		return 0, "", err
	}
	defer c.Close()
	port = c.LocalAddr().(*net.TCPAddr).Port
	c.SetDeadline(time.Now().Add(10 * time.Second))
	t := tls.Client(c, clientTLS(server))
	if _, err := fmt.Fprintf(t, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", server); err != nil {
		return port, "", err
	}
	b, err := io.ReadAll(t)
	if err != nil {
		return port, "", err
	}
	_, body, _ := strings.Cut(string(b), "\r\n\r\n")
	return port, strings.TrimSpace(body), nil
}
