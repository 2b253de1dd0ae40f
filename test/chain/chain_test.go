// SPDX-License-Identifier: Apache-2.0

//go:build linux

package chain

import (
	"context"
	"testing"
	"time"

	"holdfast/test/host"
	"holdfast/test/netns"
)

// TestSimulated brings up everything but the TPM.
func TestSimulated(t *testing.T) {
	n, client, server := netns.Pair(t)
	host.Need(t, "cgroup2", "bpf", "cgroup-bpf")
	bin := netns.Binary(t)
	c, err := Start(context.Background(), Options{
		Binary: bin, Dir: t.TempDir(), Net: n, Client: client, Server: server, ServiceName: "service.test", Address: netns.ServerV4 + ":443", AgentHost: netns.ServerV4,
		Executable: bin, AK: "ECC-P256", Simulated: time.Millisecond, Log: t.Logf,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := client.WaitTCP(netns.ServerV4+":"+agentPort, time.Second); err != nil {
		t.Errorf("the agent is not reached from the client: %v\n%s", err, c.AgentOutput())
	}
	if err := c.Stop(); err != nil {
		t.Error(err)
	}
}
