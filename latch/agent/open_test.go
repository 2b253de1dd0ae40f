// SPDX-License-Identifier: Apache-2.0

//go:build linux

package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"holdfast/attest/trust"
	"holdfast/latch/binder"
	"holdfast/latch/channel"
	"holdfast/latch/observe"
)

// TestFromConfiguration: a file, a trust file for the gate, a session, the end.
func TestFromConfiguration(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("SKIP[root]: needs root")
	}
	addr, gate := freePort(t), freePort(t)
	dir := t.TempDir()
	c, err := ParseConfig(fmt.Appendf(nil, `
listeners: [{address: %q, service: shop}]
channel: {listen: ["tcp:%s", "unix:%s/agent"], allow-users: [0], allow: [127.0.0.0/8]}
provider: {simulated: {name: lab, algorithm: ML-DSA-65, latency: 1ms, trust: %q}}
`, addr, gate, dir, filepath.Join(dir, "trust.yaml")))
	if err != nil {
		t.Fatal(err)
	}
	r, err := c.Open("1.2")
	if errors.Is(err, observe.ErrUnsupported) {
		t.Skipf("SKIP[bpf]: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	serveTLS(t, addr.String())
	roots, err := trust.Load(filepath.Join(dir, "trust.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	g := dialGate(t, gate.String(), roots)
	s := connect(t, addr.String(), g, binder.Hello)
	claims, err := g.check(await(t, s.answer), s.binder(t))
	if err != nil || claims.AgentVersion != "1.2" {
		t.Errorf("claims %+v, %v", claims, err)
	}
	u, err := channel.Dial(context.Background(), "unix", filepath.Join(dir, "agent"), channel.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	if _, err := c.Open("second"); err == nil {
		t.Error("a second agent on the same addresses was opened")
	}
	cancel()
	_, err = u.Recv(nil)
	if bye := (*channel.GoodbyeError)(nil); !errors.As(err, &bye) || bye.Code != channel.CodeShutdown {
		t.Errorf("at the end the gate got %v, want a goodbye", err)
	}
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("Run: %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("Run does not end")
	}
}
