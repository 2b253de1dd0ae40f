// SPDX-License-Identifier: Apache-2.0

package enclavevm

import (
	"crypto/sha256"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"holdfast/enclave/urts/probe"
	"holdfast/test/vm"
)

func TestMain(m *testing.M) { vm.Main(m) }

// script runs the tests of each mode; short ones, since everything here is
// emulated twice. Then the command line in both modes: monitor, enrolment, an
// enclave, its evidence and the verification of that.
const script = `
/kvm.test -test.v -test.run 'TestProbe$' || exit 1
cd /urts
for mode in GU P; do
	echo "== mode $mode"
	HOLDFAST_TEST_ENCLAVE_MODE=$mode /urts.test -test.short -test.v -test.timeout 600s -test.run '^(TestPutGet|TestOCall|TestException|TestSyscallIsIllegal|TestReportAndKey|TestInterrupt|TestCloseWhileRunning|TestHostile|TestHostileApplication|TestLoadRefuses|TestEDMM|TestThreads|TestProcessIsGone|TestDynamic|TestRace.*|TestFlood|TestLoadIsEnded|TestClosedMeanwhile'$MORE')$' || exit 1
done
/urts.test -test.v -test.timeout 120s -test.run '^TestP[A-Z]' || exit 1
chmod 666 /dev/kvm
for mode in gu p; do
	big=GU
	[ $mode = p ] && big=P
	echo "== command line, mode $mode"
	mkfifo ready-$mode
	/holdfast enclave monitor --state /state-$mode --socket /sock-$mode --mode $mode --key ES256 --epc 8 --ready-fd 3 3>ready-$mode &
	monitor=$!
	read socket <ready-$mode || exit 1
	/holdfast enclave enroll --socket $socket --name vm --trust trust-$mode || exit 1
	/holdfast enclave run /probe.sgxs --sig /probe.sig --sdk --socket $socket --ecall 0:2a00000000000000 --ecall 1:0000000000000000 || exit 1
	/holdfast enclave quote /probe.sgxs --sig /probe.sig --sdk --socket $socket --report-ecall 4 --report-data 0102 --out evidence-$mode || exit 1
	/holdfast attest verify evidence-$mode --policy policy-$big --trust trust-$mode --report-data 0102 || exit 1
	kill $monitor
	wait $monitor
done
if /holdfast attest verify evidence-gu --policy policy-P --trust trust-gu --report-data 0102; then
	echo "GU passes for P"
	exit 1
fi
if [ -n "$BENCH" ]; then
	echo "== bench"
	/holdfast bench enclave --quick --bed "QEMU TCG, emulated" --csv /bench.csv || exit 1
	while read -r line; do echo "csv $line"; done </bench.csv
fi
echo "== all modes done"
`

// policyFor asks for evidence of one enclave in one mode, from one monitor.
func policyFor(mode string, monitor, mrenclave [32]byte) []byte {
	return fmt.Appendf(nil, "environments: [vm]\nsignatures: [ML-DSA-65, ES256]\nclass: enclave\nage: 1h\nenclave: {levels: [hosted], modes: [%s], monitors: [%x], mrenclave: [%x], isv-svn: {min: 2}}\n", mode, monitor, mrenclave)
}

// TestModes: the enclave tests in a machine with KVM.
func TestModes(t *testing.T) {
	var env []string
	timeout := 5 * time.Minute
	if os.Getenv("HOLDFAST_TEST_FULL") != "" {
		env, timeout = []string{"MORE=|TestEviction|TestEvictionUnderThreads|TestReplayed|TestManyCycles|TestClosedAtRandom"}, 15*time.Minute
	}
	if os.Getenv("HOLDFAST_BENCH") != "" {
		env, timeout = append(env, "BENCH=yes"), max(timeout, 9*time.Minute)
	}
	dir := t.TempDir()
	img, err := probe.Image(1, 0, nil)
	if err == nil {
		err = probe.Files(dir, "probe", img)
	}
	if err != nil {
		t.Fatal(err)
	}
	holdfast := vm.GoBinary(t, "holdfast/cmd/holdfast")
	program, err := os.ReadFile(holdfast)
	if err != nil {
		t.Fatal(err)
	}
	r := vm.Run(t, vm.Config{
		Cmd:      []string{"/bin/dash", "/script"},
		Programs: []string{"/bin/dash", "chmod", "mkfifo"},
		Modules:  []string{"kvm_amd"},
		Files: map[string]string{
			"/kvm.test": vm.GoTest(t, "holdfast/enclave/kvm"), "/urts.test": vm.GoTest(t, "holdfast/enclave/urts"),
			"/holdfast": holdfast, "/probe.sgxs": dir + "/probe.sgxs", "/probe.sig": dir + "/probe.sig",
		},
		Env: env,
		Data: map[string][]byte{
			"/script": []byte(script), "/urts/.keep": nil, "/urts/policy-GU": policyFor("GU", sha256.Sum256(program), img.Measure()), "/urts/policy-P": policyFor("P", sha256.Sum256(program), img.Measure()),
		},
		CPU:     "EPYC,+svm,+npt,+umip,+avx,+xsave,+fsgsbase",
		Timeout: timeout,
		Memory:  1024,
	})
	t.Log(r.Output)
	if r.ExitCode != 0 || !strings.Contains(r.Stdout, "== all modes done") {
		t.Fatal(r)
	}
}
