// SPDX-License-Identifier: Apache-2.0

//go:build linux

package latch

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"holdfast/latch/observe"
	"holdfast/test/host"
	"holdfast/test/vm"
)

// What the latch needs of a distribution's kernel that is a module there.
var latchModules = []string{"veth", "nfnetlink_queue", "nft_queue", "nft_ct", "nft_chain_nat", "nft_masq", "nf_conntrack", "nf_conntrack_netlink", "tcp_diag", "inet_diag", "8021q", "vxlan", "tun"}

// stock runs tests of a package in QEMU on Debian's own kernel, with what
// programs of this machine they need, and logs what was skipped there.
func stock(t *testing.T, pkg, tests string, limit time.Duration, programs ...string) {
	t.Helper()
	r := vm.Run(t, vm.Config{
		Cmd: []string{"/t", "-test.v", "-test.parallel=2", "-test.timeout=" + (limit - 20*time.Second).String(), "-test.run=" + tests},
		Env: []string{"HOLDFAST_BIN=/bin/holdfast", "TMPDIR=/tmp", "HOLDFAST_VM=1"}, Modules: latchModules, CPUs: 2, Memory: 1500, Timeout: limit,
		Files:    map[string]string{"/t": vm.GoTest(t, pkg), "/bin/holdfast": vm.GoBinary(t, "holdfast/cmd/holdfast")},
		Programs: append([]string{"sh", "bash", "cat", "sleep", "nft", "ip", "setpriv", "unshare"}, programs...),
	})
	passed := regexp.MustCompile(`(?m)^\s*--- PASS: (\S+)`).FindAllStringSubmatch(r.Output, -1)
	if r.ExitCode != 0 || len(passed) == 0 {
		t.Fatal(r)
	}
	for _, s := range regexp.MustCompile(`(?m)^.*SKIP\[.*$`).FindAllString(r.Output, -1) {
		t.Log("left out on this kernel: " + strings.TrimSpace(strings.ReplaceAll(s, "SKIP", "")))
	}
	t.Logf("%d tests passed on Debian's kernel in %.0f s", len(passed), r.Took.Seconds())
}

// TestStockSession: every eBPF program of the latch passes the verifier of
// Debian's kernel, which is older and less clever than that of this machine,
// and sessions are gated there.
func TestStockSession(t *testing.T) {
	host.Need(t, "qemu", "vm-kernel", "nft")
	stock(t, "holdfast/test/latch", "^TestGuestSession$", 2*time.Minute)
}

// TestStockKernel runs more tests of the latch there: the hold of local sockets,
// the netfilter queue, and which features are there. It takes minutes, so make
// test-full runs it.
func TestStockKernel(t *testing.T) {
	if os.Getenv("HOLDFAST_TEST_FULL") == "" {
		t.Skip("SKIP[full]: minutes in an emulated machine")
	}
	host.Need(t, "qemu", "vm-kernel", "nft", "curl", "openssl", "nginx")
	run := func(name, pkg, tests string, limit time.Duration) {
		t.Run(name, func(t *testing.T) { stock(t, pkg, tests, limit, "curl", "openssl", "timeout", "head", "wc", "nginx") })
	}
	// Not TestBulk (128 MiB of TLS) and TestRoutedRulesFlushed (a netfilter
	// transaction takes two seconds there): emulation is too slow for their limits.
	run("hold", "holdfast/latch/hold/cgroupskb", "^(TestHoldTimes|TestNeverReleased|TestRetry|TestLoopback|TestDenied|TestOtherProtocols|TestReconnect|TestPortReuse|TestWrongKick|TestLostCopy|TestDeadGate|TestMapped|TestSplitHello|TestSecondHelloOnly|TestTwoNamespaces|TestSweep|TestPlain|TestAccepted)$", 6*time.Minute)
	run("netfilter", "holdfast/latch/hold/nfqueue", ".", 3*time.Minute)
	run("whole", "holdfast/test/latch", "^(TestRoutedClients|TestRoutedRefusals|TestRoutedGateKilled|TestRoutedPortReuse|TestRoutedSessions|TestRefusals|TestConnectionReuse|TestGateKilled|TestMachineScope|TestPaths|TestKeepalive|TestZeroWindow|TestEncryptedClientHello)$", 8*time.Minute)
}

// TestGuestSession runs in the machine of TestStockSession: one session with an
// attested server and one where the client is attested too, so that the agent's
// observer and door and the gate's hold work, and the recorder of clients beside
// them. What no policy allows is refused there as everywhere.
func TestGuestSession(t *testing.T) {
	if os.Getenv("HOLDFAST_VM") == "" {
		t.Skip("SKIP[flag]: TestStockSession runs it in QEMU")
	}
	t.Run("server", func(t *testing.T) {
		l := newLab(t)
		rec, err := observe.OpenClients(l.gated)
		if err != nil {
			t.Fatal(err)
		}
		defer rec.Close()
		l.serveGo()
		out, err := l.help("get", v4(goPort), name, "/", "1")
		if err != nil || !answered(out) {
			t.Errorf("%v %s", err, out)
		}
		if got := strings.Join(l.decisions(1), ","); got != "released " {
			t.Errorf("the gate says %q", got)
		}
		var names []string
		for _, s := range rec.Poll(nil, time.Now()) {
			if !s.Ended {
				names = append(names, s.ServerName+" "+s.Remote.String()+" "+string(s.Refusal))
			}
		}
		if got, want := strings.Join(names, ","), name+" "+v4(goPort)+" "; got != want || rec.Lost() != 0 {
			t.Errorf("the recorder saw %q and lost %d, expected %q", got, rec.Lost(), want)
		}
		l.forget()
		if out, err = l.help("get", v4(goPort), "other.test", "/", "1"); err == nil || answered(out) {
			t.Errorf("a name without policy: %v %s", err, out)
		}
		if got := strings.Join(l.decisions(1), ","); got != "refused no-policy-for-name" {
			t.Errorf("the gate says %q of a name without policy", got)
		}
	})
	t.Run("mutual", func(t *testing.T) {
		l := mutualLab(t, nil)
		server := l.serveMutual()
		if out, err := l.getMutual("/guest"); err != nil || !strings.Contains(out, "hello to") || !strings.Contains(server.Output(), "request /guest\n") {
			t.Errorf("%v %s", err, out)
		}
		if s := l.agentStats(); s.ClientsVerified != 1 || s.Door.Opened != 1 || s.Door.Shut != 0 {
			t.Errorf("the agent counts %+v", s)
		}
	})
}

// TestMachineScope gates the whole machine it runs on, so it runs in QEMU only:
// TestStockKernel calls it there. Programs outside of any control group are
// gated, what the configuration exempts is not, and the gate's own connection
// to the agent is not either.
func TestMachineScope(t *testing.T) {
	if os.Getenv("HOLDFAST_VM") == "" {
		t.Skip("SKIP[flag]: it would gate this machine; TestStockKernel runs it in QEMU")
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
