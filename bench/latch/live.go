// SPDX-License-Identifier: Apache-2.0

package latch

import (
	"encoding/json"
	"io"
	"net"
	"sync"

	"holdfast/bench/latch/baseline"
)

// Live opens count sessions, 64 at a time, each with a request and a reply,
// and keeps them. It prints a Sample without times to w when all are there, and
// ends with the input r.
func Live(k *baseline.Kit, design, address string, count int, r io.Reader, w io.Writer) error {
	d, err := baseline.Find(design)
	if err != nil {
		return err
	}
	client, err := d.Client(k)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	var open []net.Conn
	var s Sample
	next := make(chan struct{}, count)
	for range count {
		next <- struct{}{}
	}
	close(next)
	var workers sync.WaitGroup
	for range 64 {
		workers.Go(func() {
			buf := make([]byte, smallSize)
			for range next {
				c, stream, err := connect(address, client)
				if err == nil {
					err = request(stream, smallSize, buf)
				}
				mu.Lock()
				if err == nil {
					s.Connections++
					open = append(open, c)
				} else if s.Errors++; s.FirstError == "" {
					s.FirstError = err.Error()
				}
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	if err := json.NewEncoder(w).Encode(s); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, r)
	for _, c := range open {
		c.Close()
	}
	return err
}
