// SPDX-License-Identifier: Apache-2.0

//go:build linux

package latch

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"holdfast/test/host"
	"holdfast/test/vm"
)

// What the latch needs of a distribution's kernel that is a module there.
var latchModules = []string{"veth", "nfnetlink_queue", "nft_queue", "nft_ct", "nft_chain_nat", "nft_masq", "nf_conntrack", "nf_conntrack_netlink", "tcp_diag", "inet_diag"}

// TestStockKernel runs tests of the latch in QEMU on Debian's own kernel, since
// every user's kernel differs from the one of this machine: the hold of local
// sockets, the netfilter queue, and which features are there. It takes minutes,
// so make test-full runs it.
func TestStockKernel(t *testing.T) {
	if os.Getenv("HOLDFAST_TEST_FULL") == "" {
		t.Skip("SKIP[full]: minutes in an emulated machine: set HOLDFAST_TEST_FULL=1, as make test-full does")
	}
	host.Need(t, "qemu", "vm-kernel")
	run := func(name, pkg, tests string, limit time.Duration) {
		t.Run(name, func(t *testing.T) {
			bin := vm.GoTest(t, pkg)
			r := vm.Run(t, vm.Config{
				Cmd: []string{"/t", "-test.v", "-test.parallel=2", "-test.timeout=" + (limit - 20*time.Second).String(), "-test.run=" + tests},
				Env: []string{"HOLDFAST_BIN=/bin/holdfast", "TMPDIR=/tmp", "HOLDFAST_VM=1"}, Modules: latchModules, CPUs: 2, Memory: 1500, Timeout: limit,
				Files:    map[string]string{"/t": bin, "/bin/holdfast": vm.GoBinary(t, "holdfast/cmd/holdfast")},
				Programs: []string{"sh", "bash", "cat", "sleep", "nft", "ip", "setpriv", "unshare"},
			})
			passed := regexp.MustCompile(`(?m)^\s*--- PASS: (\S+)`).FindAllStringSubmatch(r.Output, -1)
			if r.ExitCode != 0 || len(passed) == 0 {
				t.Fatal(r)
			}
			for _, s := range regexp.MustCompile(`(?m)^.*SKIP\[.*$`).FindAllString(r.Output, -1) {
				t.Log("skipped on this kernel:", strings.TrimSpace(s))
			}
			t.Logf("%d tests passed on Debian's kernel in %.0f s", len(passed), r.Took.Seconds())
		})
	}
	run("hold", "holdfast/latch/hold/cgroupskb", "^(TestHoldTimes|TestNeverReleased|TestRetry|TestBulk|TestLoopback|TestDenied|TestOtherProtocols|TestReconnect|TestPortReuse|TestWrongKick|TestLostCopy|TestDeadGate|TestMapped|TestSplitHello|TestSecondHelloOnly|TestTwoNamespaces|TestSweep|TestPlain|TestAccepted)$", 6*time.Minute)
	run("netfilter", "holdfast/latch/hold/nfqueue", ".", 3*time.Minute)
	run("whole", "holdfast/test/latch", "^(TestRoutedClients|TestRoutedRefusals|TestRoutedRulesFlushed|TestRoutedGateKilled|TestRoutedPortReuse|TestRoutedSessions|TestRefusals|TestConnectionReuse|TestGateKilled|TestMachineScope)$", 8*time.Minute)
}

// TestMachineScope gates the whole machine it runs on, so it runs in QEMU only:
// TestStockKernel calls it there. Programs outside of any control group are
// gated, what the configuration exempts is not, and the gate's own connection
// to the agent is not either.
func TestMachineScope(t *testing.T) {
	if os.Getenv("HOLDFAST_VM") == "" {
		t.Skip("SKIP[full]: it would gate this machine; TestStockKernel runs it in QEMU")
	}
	l := newLab(t, func(l *lab) {
		l.scope = "machine"
		l.extra = `, exempt: {users: ["54321"], ports: [7443, ` + goPort + `]}`
	})
	l.serveGo()
	get := func(server string) (string, error) {
		return l.client.Run(l.helperArgs("get", v4(goPort), server, "/", "1")...)
	}
	if out, err := get(name); err != nil || !answered(out) {
		t.Errorf("%v %s", err, out)
	}
	if got := strings.Join(l.decisions(1), ","); got != "released " {
		t.Errorf("the gate says %q", got)
	}
	if out, err := get("other.test"); err == nil || answered(out) {
		t.Errorf("a name without policy: %v %s", err, out)
	}
	exempt := append([]string{"setpriv", "--reuid", "54321", "--clear-groups"}, l.helperArgs("get", v4(goPort), "other.test", "/", "1")...)
	if out, err := l.client.Run(exempt...); err != nil || !answered(out) {
		t.Errorf("an exempted user: %v %s", err, out)
	}
	if out, err := l.client.Run(l.bin, "latch", "status"); err != nil || !strings.Contains(out, "gated by process") {
		t.Errorf("status: %v %s", err, out)
	}
	// Killed, it leaves the machine shut; the operator opens it.
	l.gate.Kill()
	<-l.gate.Done()
	if out, err := get("other.test"); err == nil || answered(out) {
		t.Errorf("after the gate was killed: %v %s", err, out)
	}
	if out, err := l.client.Run(l.bin, "latch", "status", "--repair", "--open"); err != nil {
		t.Errorf("repair: %v %s", err, out)
	}
	if out, err := get("other.test"); err != nil || !answered(out) {
		t.Errorf("after the repair: %v %s", err, out)
	}
}
