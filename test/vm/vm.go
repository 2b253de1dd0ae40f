// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// A Config says what a machine is and what it does. Only Cmd must be set.
type Config struct {
	// Cmd runs in the machine as root, with no shell. Its first word is a path
	// in the machine.
	Cmd []string
	// Env is added to the command's small environment.
	Env []string

	// Modules are kernel modules by name, loaded in order after what they
	// depend on. One that is built in is passed over.
	Modules []string
	// Params are parameters of modules, by name: "kvm_amd": "nested=1".
	Params map[string]string

	// Files are copied in: path in the machine to path here. A folder is
	// copied with what is in it.
	Files map[string]string
	// Data are small files given as content; mode 0755.
	Data map[string][]byte
	// Programs are programs of this machine (by path, or by name in PATH),
	// copied to the same place with the shared libraries that they need.
	Programs []string

	CPU        string        // QEMU's -cpu; "" is max
	CPUs       int           // 0 is 1
	Memory     int           // MiB; 0 is 768
	Machine    string        // QEMU's -machine; "" is q35
	UEFI       bool          // boot by OVMF instead of SeaBIOS
	VarsFile   string        // with UEFI: the variables' file, kept by the caller; "" is a fresh one
	KernelArgs []string      // added to the kernel's command line
	QEMUArgs   []string      // added to QEMU's command line
	Timeout    time.Duration // 0 is 3 minutes; the machine is killed then

	// Reboot lets the machine start again when the guest resets it; otherwise a
	// reset ends it.
	Reboot bool
	// Stdin gives the command a standard input, written by Machine.Write.
	Stdin bool
}

// A Result is what came out of a machine.
type Result struct {
	ExitCode int           // of the command; 128+n if signal n ended it
	Output   string        // what the command wrote, both streams as they came
	Stdout   string        // its standard output alone
	Console  string        // what firmware and kernel wrote to the first serial line
	Took     time.Duration // from power on to the end
}

// String is for a failed test's message: everything, the end of the console only.
func (r Result) String() string {
	console := strings.Split(strings.TrimSpace(r.Console), "\n")
	if len(console) > 40 {
		console = console[len(console)-40:]
	}
	return fmt.Sprintf("exit code %d after %.1f s\n-- output\n%s\n-- end of the console\n%s", r.ExitCode, r.Took.Seconds(), r.Output, strings.Join(console, "\n"))
}

// Run boots a machine, runs the command and waits for the machine's end. The
// test is skipped without QEMU or a kernel, and fails if the command could not
// be run to its end; the command's own exit code is the caller's to judge.
func Run(t testing.TB, c Config) Result {
	t.Helper()
	m := Start(t, c)
	r, err := m.Wait()
	if err != nil {
		t.Fatalf("vm: %v\n%v", err, r)
	}
	return r
}
