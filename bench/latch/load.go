// SPDX-License-Identifier: Apache-2.0

package latch

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"holdfast/bench/latch/baseline"
	"holdfast/bench/stat"
)

// LoadOptions choose a sample.
type LoadOptions struct {
	Design      string // of package baseline
	Address     string
	Concurrency int
	Time        time.Duration // no connection begins later
	Size        int64         // of the request, at least 1 KiB; the reply has 1 KiB
}

// Sample is what one run of the load generator measured.
type Sample struct {
	Connections int     `json:"connections"` // that got their reply
	Errors      int     `json:"errors"`
	FirstError  string  `json:"first_error,omitempty"`
	Rate        float64 `json:"rate"` // connections per second
	P50         float64 `json:"p50_ms"`
	P95         float64 `json:"p95_ms"`
	CPU         float64 `json:"cpu_us"` // of the client, per connection
	Seconds     float64 `json:"seconds"`
}

// Load opens connections as fast as it can, Concurrency at a time: each is a
// fresh full handshake with all that the design asks of the client, a request,
// a reply of 1 KiB, then a close. The clock runs from the dial to the last byte of the reply.
func Load(ctx context.Context, k *baseline.Kit, o LoadOptions) (Sample, error) {
	if o.Size < smallSize {
		return Sample{}, fmt.Errorf("size %d, expected at least %d", o.Size, smallSize)
	}
	d, err := baseline.Find(o.Design)
	if err != nil {
		return Sample{}, err
	}
	client, err := d.Client(k)
	if err != nil {
		return Sample{}, err
	}
	var mu sync.Mutex
	var all []float64
	var s Sample
	cpu, err := stat.CPU(os.Getpid())
	if err != nil {
		return s, err
	}
	start := time.Now()
	ctx, stop := context.WithDeadline(ctx, start.Add(o.Time))
	defer stop()
	var workers sync.WaitGroup
	for range o.Concurrency {
		workers.Go(func() {
			var times []float64
			failed, first := 0, error(nil)
			buf := make([]byte, min(o.Size, bufSize))
			for ctx.Err() == nil {
				began := time.Now()
				end, err := exchange(o.Address, client, o.Size, buf)
				if err != nil {
					if failed++; first == nil {
						first = err
					}
					time.Sleep(time.Millisecond) // a refused client must not spin
					continue
				}
				times = append(times, end.Sub(began).Seconds()*1e3)
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, times...)
			s.Errors += failed
			if first != nil && s.FirstError == "" {
				s.FirstError = first.Error()
			}
		})
	}
	workers.Wait()
	s.Seconds = time.Since(start).Seconds()
	after, err := stat.CPU(os.Getpid())
	s.Connections = len(all)
	s.Rate = float64(len(all)) / s.Seconds
	s.P50, s.P95 = stat.Median(all), stat.Quantile(all, 0.95)
	if len(all) > 0 {
		s.CPU = float64((after - cpu).Microseconds()) / float64(len(all))
	}
	return s, err
}

// exchange is one connection; end is when the reply was there.
func exchange(address string, client baseline.Client, size int64, buf []byte) (end time.Time, err error) {
	c, stream, err := connect(address, client)
	if err != nil {
		return end, err
	}
	defer c.Close()
	if err := request(stream, size, buf); err != nil {
		return end, err
	}
	end = time.Now()
	return end, stream.Close()
}

func connect(address string, client baseline.Client) (net.Conn, baseline.Stream, error) {
	d := net.Dialer{Timeout: 10 * time.Second}
	d.SetMultipathTCP(false)
	c, err := d.Dial("tcp", address)
	if err != nil {
		return nil, nil, err
	}
	_ = c.SetDeadline(time.Now().Add(exchangeTime))
	stream, err := client.Connect(c)
	if err != nil {
		c.Close()
		return nil, nil, err
	}
	return c, stream, nil
}

// request sends a request of size bytes and reads the reply. buf is as long as
// the request, or bufSize.
func request(stream io.ReadWriter, size int64, buf []byte) error {
	binary.BigEndian.PutUint64(buf, uint64(size))
	binary.BigEndian.PutUint64(buf[8:], smallSize)
	for left := size; left > 0; {
		n := min(left, int64(len(buf)))
		if _, err := stream.Write(buf[:n]); err != nil {
			return err
		}
		left -= n
	}
	_, err := io.ReadFull(stream, buf[:smallSize])
	return err
}
