// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"os"
	"strings"
	"testing"
	"time"

	"holdfast/test/host"
)

func TestMain(m *testing.M) { Main(m) }

// TestRun boots the distribution's kernel and checks all that the package
// comment promises: files, programs with libraries, modules with dependencies,
// both output streams, the exit code.
func TestRun(t *testing.T) {
	k, err := host.StockKernel()
	if err != nil {
		host.Need(t, "vm-kernel")
	}
	script := `
set -e
uname -r
cat /given/deep/file
lsmod() { while read -r name rest; do echo "module $name"; done </proc/modules; }
lsmod
echo "to stderr" >&2
[ "$WORD" = "two words" ]
ls -d /sys/fs/cgroup/cgroup.procs /sys/kernel/security
exit 7
`
	dir := t.TempDir()
	os.MkdirAll(dir+"/deep", 0o755)
	os.WriteFile(dir+"/deep/file", []byte("content\n"), 0o644)
	r := Run(t, Config{
		Cmd: []string{"/bin/dash", "/script"}, Env: []string{"WORD=two words"},
		Modules: []string{"virtio_console", "tpm_vtpm_proxy", "tpm"}, Programs: []string{"/bin/dash", "cat", "ls", "uname"},
		Files: map[string]string{"/given": dir}, Data: map[string][]byte{"/script": []byte(script)},
	})
	if r.ExitCode != 7 {
		t.Fatal(r)
	}
	for _, want := range []string{k.Release + "\n", "content\n", "module virtio_console", "module virtio_ring", "module tpm_vtpm_proxy", "/sys/fs/cgroup/cgroup.procs"} {
		if !strings.Contains(r.Stdout, want) {
			t.Errorf("standard output lacks %q:\n%v", want, r)
		}
	}
	if strings.Contains(r.Stdout, "to stderr") || !strings.Contains(r.Output, "to stderr") {
		t.Errorf("streams are mixed up: %v", r)
	}
	t.Logf("machine on for %.1f s", r.Took.Seconds())
}

// TestEnds: a command that hangs, a missing module and a missing program end
// in an error within the time limit.
func TestEnds(t *testing.T) {
	host.Need(t, "qemu", "vm-kernel")
	begin := time.Now()
	m := Start(t, Config{Cmd: []string{"/bin/sleep", "1000"}, Programs: []string{"/bin/sleep"}, Timeout: 10 * time.Second})
	missing := Start(t, Config{Cmd: []string{"/no/such/program"}})
	if _, err := m.Wait(); err == nil || !strings.Contains(err.Error(), "time limit: signal: killed") {
		t.Errorf("a command that hangs: %v", err)
	}
	if took := time.Since(begin); took > time.Minute {
		t.Errorf("the time limit of 10 s came after %v", took)
	}
	if _, err := missing.Wait(); err == nil || !strings.Contains(err.Error(), "/no/such/program") {
		t.Errorf("a missing program: %v", err)
	}
	k, _ := host.StockKernel()
	if _, err := modules(k.Modules, []string{"no_such_module"}); err == nil {
		t.Error("a missing module was not reported")
	}
}

// TestTalk: input, output while the machine runs, the monitor, and a reset
// after which the same command starts again.
func TestTalk(t *testing.T) {
	m := Start(t, Config{
		Cmd:      []string{"/bin/dash", "-c", "echo up; read -r word; echo got $word"},
		Programs: []string{"/bin/dash"}, Stdin: true, Reboot: true,
	})
	if err := m.WaitOutput("up\n", 3*time.Minute); err != nil {
		t.Fatal(err)
	}
	if _, err := m.QMP("system_reset", nil); err != nil {
		t.Fatal(err)
	}
	if err := m.WaitOutput("up\nup\n", 3*time.Minute); err != nil {
		t.Fatal(err)
	}
	if text, err := m.Monitor("info status"); err != nil || !strings.Contains(text, "running") {
		t.Fatal(text, err)
	}
	m.Write([]byte("hello\n"))
	r, err := m.Wait()
	if err != nil || r.ExitCode != 0 || !strings.Contains(r.Stdout, "got hello\n") {
		t.Fatal(err, r)
	}
}
