// SPDX-License-Identifier: Apache-2.0

package latch

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"holdfast/bench/stat"
	"holdfast/latch/ops"
)

// Bulk is what 64 MB after the release cost.
type Bulk struct {
	Transfers    int        `json:"transfers"`
	Milliseconds float64    `json:"ms"`                   // median, of the whole connection
	Records      float64    `json:"records_per_transfer"` // packets that came to the gate, per connection
	SmallRecords float64    `json:"records_per_1kb"`      // the same for connections of 1 KB
	After        float64    `json:"packets_in_user_space_after_release"`
	Programs     int        `json:"ebpf_programs"`
	Runs         float64    `json:"ebpf_runs_per_transfer"`
	RunTime      float64    `json:"ebpf_us_per_transfer"` // on both sides together
	Share        stat.Ratio `json:"ebpf_share"`           // of the transfer's time
}

func (b *Bulk) String() string {
	t := stat.Table{Head: []string{"64 MB through the latch", ""}}
	t.Add("transfers", b.Transfers)
	t.Add("median time of a connection, ms", b.Milliseconds)
	t.Add("packets that came to user space, a connection of 64 MB", b.Records)
	t.Add("the same, a connection of 1 KB", b.SmallRecords)
	t.Add("packets in user space after the release", b.After)
	t.Add("eBPF programs of gate and agent; runs per transfer", fmt.Sprintf("%d; %s", b.Programs, stat.Short(b.Runs)))
	t.Add("their time per transfer, µs (BPF_STATS_RUN_TIME)", b.RunTime)
	t.Add("their share of the transfer's time, %", fmt.Sprintf("%.2f [%.2f, %.2f]", 100*b.Share.Median, 100*b.Share.Low, 100*b.Share.High))
	return t.String()
}

// bulkRounds samples are taken of each size; tests take one.
var bulkRounds = 7

// MeasureBulk sends 64 MB a connection, one at a time, with the kernel's
// statistics of eBPF programs switched on. They cost time themselves, so these
// samples are not those of a comparison.
func MeasureBulk(ctx context.Context, o Options) (*Bulk, error) {
	s, err := open(ctx, o)
	if err != nil {
		return nil, err
	}
	defer s.close()
	if s.chain.Control() == "" {
		return nil, errors.New("the gate has no control socket")
	}
	stats, err := ebpf.EnableStats(unix.BPF_STATS_RUN_TIME)
	if err != nil {
		return nil, fmt.Errorf("statistics of eBPF programs: %w", err)
	}
	defer stats.Close()
	b := &Bulk{}
	var shares, times, runs, spent, records, small []float64
	for range bulkRounds {
		for _, size := range []int64{smallSize, 64 << 20} {
			before, err := s.seen(ctx)
			if err != nil {
				return nil, err
			}
			m, err := s.sample(ctx, latchSide, Point{Concurrency: 1, Size: size, Time: 500 * time.Millisecond})
			if err != nil {
				return nil, err
			}
			after, err := s.seen(ctx)
			if err != nil {
				return nil, err
			}
			n := float64(m.Connections + m.Errors)
			if size == smallSize {
				small = append(small, float64(after.records-before.records)/n)
				continue
			}
			b.Transfers += m.Connections
			b.Programs = after.programs
			times = append(times, m.P50)
			records = append(records, float64(after.records-before.records)/n)
			runs = append(runs, float64(after.runs-before.runs)/n)
			us := float64((after.time - before.time).Nanoseconds()) / 1e3 / n
			spent = append(spent, us)
			shares = append(shares, us/1e3/m.P50)
		}
	}
	b.Milliseconds, b.Records, b.SmallRecords, b.Runs, b.RunTime = stat.Median(times), stat.Median(records), stat.Median(small), stat.Median(runs), stat.Median(spent)
	b.After = max(0, b.Records-b.SmallRecords)
	b.Share = stat.Spread(shares)
	return b, nil
}

// latchSide is the latch's place among the usual two ways.
const latchSide = 1

// seen are counters of the gate and of the eBPF programs.
type seen struct {
	records  uint64
	programs int
	runs     uint64
	time     time.Duration
}

func (s *stage) seen(ctx context.Context) (x seen, err error) {
	b, err := ops.Call(ctx, s.chain.Control(), "GET", "/status")
	if err != nil {
		return x, err
	}
	var status struct {
		Counters struct {
			Records uint64 `json:"records"`
		} `json:"counters"`
	}
	if err := json.Unmarshal(b, &status); err != nil {
		return x, err
	}
	x.records = status.Counters.Records
	ids := map[ebpf.ProgramID]bool{}
	for _, pid := range s.chain.Processes() {
		if err := programs(pid, ids); err != nil {
			return x, err
		}
	}
	for id := range ids {
		p, err := ebpf.NewProgramFromID(id)
		if err != nil {
			return x, fmt.Errorf("eBPF program %d: %w", id, err)
		}
		st, err := p.Stats()
		p.Close()
		if err != nil {
			return x, fmt.Errorf("eBPF program %d: %w", id, err)
		}
		x.programs++
		x.runs += st.RunCount
		x.time += st.Runtime
	}
	if x.programs == 0 {
		return x, errors.New("gate and agent hold no eBPF program")
	}
	return x, nil
}

// programs collects the eBPF programs that a process holds, itself or by links.
func programs(pid int, ids map[ebpf.ProgramID]bool) error {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fdinfo/*", pid))
	if err != nil {
		return err
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if errors.Is(err, os.ErrNotExist) {
			continue // closed meanwhile
		}
		if err != nil {
			return err
		}
		lines := bufio.NewScanner(strings.NewReader(string(b)))
		for lines.Scan() {
			if v, ok := strings.CutPrefix(lines.Text(), "prog_id:"); ok {
				n, err := strconv.ParseUint(strings.TrimSpace(v), 10, 32)
				if err != nil {
					return fmt.Errorf("%s: %w", f, err)
				}
				ids[ebpf.ProgramID(n)] = true
			}
		}
	}
	return nil
}
