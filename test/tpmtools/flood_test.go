// SPDX-License-Identifier: Apache-2.0

package tpmtools

import (
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"holdfast/tpmio/dial"
	"holdfast/tss"
)

// TestFlood: a thousand clients that connect and say nothing, or send half a
// command, or never read their responses, on each of the four ports; those who
// work with the TPM go on, and a new one is let in.
func TestFlood(t *testing.T) {
	dir := t.TempDir()
	control := "unix:" + filepath.Join(dir, "c")
	addresses, stop := serve(t, "--ephemeral", "--startup", "clear", "--mssim", "127.0.0.1:0", "--swtpm", "unix:"+filepath.Join(dir, "d"), "--swtpm-ctrl", control)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	connect := func(spec string) (*tss.TPM, func() error) {
		t.Helper()
		c, err := dial.Dial(ctx, spec)
		if err != nil {
			t.Fatal(err)
		}
		return tss.New(c), c.Close
	}
	var early []*tss.TPM
	for _, spec := range addresses[:2] {
		c, end := connect(spec)
		defer end()
		if _, err := c.GetRandom(8); err != nil {
			t.Fatal(err)
		}
		early = append(early, c)
	}
	command := strings.TrimPrefix(addresses[0], "mssim:")
	var d net.Dialer
	halves := []string{"", "\x00", "\x80\x01\x00\x00\x00\x0c\x00\x00", "\x80\x01\x00\x00\xff\xff\x00\x00\x01\x7b", "\x00\x00\x00\x08\x00\x00\x00\x20\x00half"}
	getRandom := "\x80\x01\x00\x00\x00\x0c\x00\x00\x01\x7b\x00\x40"
	for i := range 1000 {
		network, addr := "tcp", command
		switch i % 4 {
		case 1:
			network, addr = "unix", filepath.Join(dir, "d")
		case 2:
			network, addr = "unix", filepath.Join(dir, "c")
		}
		c, err := d.DialContext(ctx, network, addr)
		for errors.Is(err, syscall.EAGAIN) && ctx.Err() == nil { // the listener's queue is full for a moment (unix(7))
			time.Sleep(time.Millisecond)
			c, err = d.DialContext(ctx, network, addr)
		}
		if err != nil {
			t.Fatalf("client %d: %v", i, err)
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(time.Second))
		if i%4 == 1 && i%8 == 1 {
			io.WriteString(c, strings.Repeat(getRandom, 200)) // and never reads
		} else {
			io.WriteString(c, halves[i%len(halves)])
		}
	}
	for i, c := range early {
		begin := time.Now()
		for range 20 {
			if _, err := c.GetRandom(8); err != nil {
				t.Fatalf("client on %s: %v", addresses[i], err)
			}
		}
		if took := time.Since(begin); took > 10*time.Second {
			t.Fatalf("20 commands took %v beside the flood", took)
		}
	}
	for _, spec := range addresses[:2] {
		c, end := connect(spec)
		if _, err := c.GetRandom(8); err != nil {
			t.Fatalf("a new client on %s: %v", spec, err)
		}
		end()
	}
	stop()
}
