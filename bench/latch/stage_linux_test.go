// SPDX-License-Identifier: Apache-2.0

package latch

import (
	"context"
	"os"
	"testing"
	"time"

	"holdfast/bench/latch/baseline"
	"holdfast/test/chain"
	"holdfast/test/host"
	"holdfast/test/netns"
)

// TestStage is a tiny run of everything that needs the whole chain: two ways
// over a wire with a round-trip time, 64 MB with eBPF statistics, live sessions.
func TestStage(t *testing.T) {
	host.Need(t, "root", "netns", "tun", "cgroup2", "bpf", "cgroup-bpf", "bpffs")
	bin := netns.Binary(t)
	o := Options{Binary: bin, Group: "x25519", Latency: time.Millisecond, Log: t.Logf, Points: []Point{{Concurrency: 1, Pairs: 1, Time: 100 * time.Millisecond, RTT: 5 * time.Millisecond}},
		Start: func(ctx context.Context, n *netns.Net, client, server *netns.Namespace, address string) (Chain, error) {
			dir, err := os.MkdirTemp("", "holdfast-bench-")
			if err != nil {
				return nil, err
			}
			t.Cleanup(func() { os.RemoveAll(dir) })
			c, err := chain.Start(ctx, chain.Options{Binary: bin, Dir: dir, Net: n, Client: client, Server: server, ServiceName: baseline.ServiceName, Address: address,
				AgentHost: netns.ServerV4, Executable: bin, AK: "ECC-P256", Simulated: time.Millisecond, Log: t.Logf, Control: true})
			if err != nil {
				return nil, err
			}
			return c, c.StartGate()
		}}
	cs, err := Compare(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range cs[0].Sides {
		if s.P50 <= 0 || s.Rate <= 0 || s.Errors != 0 {
			t.Errorf("%+v", s)
		}
	}
	if l := cs[0].Find("latch"); cs[0].Ping <= 0 || l.CPU["gate"] <= 0 || l.CPU["agent"] <= 0 || l.CPU["server"] <= 0 {
		t.Errorf("%+v", cs[0])
	}
	o.Points, bulkRounds = nil, 1
	b, err := MeasureBulk(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if b.Transfers == 0 || b.Programs < 2 || b.Runs < 100 || b.RunTime <= 0 || b.Records < 1 || b.Records > 20 {
		t.Errorf("%+v", b)
	}
	m, err := MeasureMemory(t.Context(), o, 200)
	if err != nil {
		t.Fatal(err)
	}
	if m.Live["gate"] < 1 || m.Live["agent"] < 1 || m.Own["gate"] > m.Live["gate"] || m.Idle["gate"] <= 0 {
		t.Errorf("%+v", m)
	}
}
