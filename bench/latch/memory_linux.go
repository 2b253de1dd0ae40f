// SPDX-License-Identifier: Apache-2.0

package latch

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"holdfast/test/netns"
)

// Memory is the resident memory of gate and agent in MB (1,000,000 bytes).
type Memory struct {
	Sessions int                `json:"sessions"` // live
	Idle     map[string]float64 `json:"idle_mb"`  // by process, before
	Live     map[string]float64 `json:"live_mb"`  // with the sessions open
	// Of Live: pages of the process's own (the rest are the program file's and
	// buffers shared with the kernel).
	Own    map[string]float64 `json:"own_mb"`
	Kernel float64            `json:"kernel_mb"` // what the machine's available memory shrank by meanwhile, clients and servers included
}

// MeasureMemory opens sessions through the latch and keeps them.
func MeasureMemory(ctx context.Context, o Options, count int) (*Memory, error) {
	s, err := open(ctx, o)
	if err != nil {
		return nil, err
	}
	defer s.close()
	m := &Memory{Sessions: count}
	if m.Idle, err = s.resident("VmRSS:"); err != nil {
		return nil, err
	}
	before, err := available()
	if err != nil {
		return nil, err
	}
	stop, input := io.Pipe()
	defer input.Close()
	p, err := s.client.Start(netns.Command{
		Args:  append([]string{s.o.Binary, "bench", "live", "--design", "native", "--address", s.address(latchSide), "--count", strconv.Itoa(count)}, s.kitFlags()...),
		Group: s.clientGroup(latchSide), Time: 3 * time.Minute, Stdin: stop,
	})
	if err != nil {
		return nil, err
	}
	if err := p.WaitOutput("\n", 2*time.Minute); err != nil {
		return nil, err
	}
	var got Sample
	if err := json.Unmarshal([]byte(p.Output()), &got); err != nil {
		return nil, fmt.Errorf("the client said %q: %w", p.Output(), err)
	}
	if got.Connections != count {
		return nil, fmt.Errorf("%d of %d sessions are open: %s\n%s", got.Connections, count, got.FirstError, s.logs())
	}
	after, err := available()
	if err != nil {
		return nil, err
	}
	m.Kernel = before - after
	if m.Live, err = s.resident("VmRSS:"); err != nil {
		return nil, err
	}
	if m.Own, err = s.resident("RssAnon:"); err != nil {
		return nil, err
	}
	input.Close()
	return m, p.Wait()
}

// resident is the resident memory of the chain's processes in MB.
func (s *stage) resident(kind string) (map[string]float64, error) {
	out := map[string]float64{}
	for name, pid := range s.chain.Processes() {
		v, err := field(fmt.Sprintf("/proc/%d/status", pid), kind)
		if err != nil {
			return nil, err
		}
		out[name] = v
	}
	return out, nil
}

func available() (float64, error) { return field("/proc/meminfo", "MemAvailable:") }

// field reads a line "NAME  number kB" and returns MB.
func field(file, name string) (float64, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	for _, l := range strings.Split(string(b), "\n") {
		if v, ok := strings.CutPrefix(l, name); ok {
			kb, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(v), " kB"), 64)
			return kb * 1024 / 1e6, err
		}
	}
	return 0, fmt.Errorf("%s has no line %s", file, name)
}
