// SPDX-License-Identifier: Apache-2.0

package enclavevm

import (
	"os"
	"strings"
	"testing"
	"time"

	"holdfast/test/vm"
)

func TestMain(m *testing.M) { vm.Main(m) }

// script runs the tests of each mode; short ones, since everything here is
// emulated twice.
const script = `
/kvm.test -test.v -test.run 'TestProbe$' || exit 1
cd /urts
for mode in GU P; do
	echo "== mode $mode"
	HOLDFAST_TEST_ENCLAVE_MODE=$mode /urts.test -test.short -test.v -test.timeout 600s -test.run '^(TestPutGet|TestOCall|TestException|TestSyscallIsIllegal|TestReportAndKey|TestInterrupt|TestCloseWhileRunning|TestHostile|TestHostileApplication|TestLoadRefuses|TestEDMM|TestThreads|TestProcessIsGone|TestDynamic'$MORE')$' || exit 1
done
/urts.test -test.v -test.timeout 120s -test.run '^TestP[A-Z]' || exit 1
echo "== all modes done"
`

// TestModes: the enclave tests in a machine with KVM.
func TestModes(t *testing.T) {
	var env []string
	timeout := 5 * time.Minute
	if os.Getenv("HOLDFAST_TEST_FULL") != "" {
		env, timeout = []string{"MORE=|TestEviction|TestEvictionUnderThreads|TestReplayed|TestManyCycles|TestClosedAtRandom"}, 15*time.Minute
	}
	r := vm.Run(t, vm.Config{
		Cmd:      []string{"/bin/dash", "/script"},
		Programs: []string{"/bin/dash"},
		Modules:  []string{"kvm_amd"},
		Files: map[string]string{
			"/kvm.test": vm.GoTest(t, "holdfast/enclave/kvm"), "/urts.test": vm.GoTest(t, "holdfast/enclave/urts"),
		},
		Env:     env,
		Data:    map[string][]byte{"/script": []byte(script), "/urts/.keep": nil},
		CPU:     "EPYC,+svm,+npt,+umip,+avx,+xsave,+fsgsbase",
		Timeout: timeout,
		Memory:  1024,
	})
	t.Log(r.Output)
	if r.ExitCode != 0 || !strings.Contains(r.Stdout, "== all modes done") {
		t.Fatal(r)
	}
}
