// SPDX-License-Identifier: Apache-2.0

package tpmvm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"holdfast/test/host"
	"holdfast/test/vm"
)

func TestMain(m *testing.M) { vm.Main(m) }

func holdfast(t testing.TB) string { return vm.GoBinary(t, "holdfast/cmd/holdfast") }

// server is `holdfast tpm serve` for one machine. A machine needs a fresh
// control connection, so a server serves several machines one after another.
type server struct {
	t       testing.TB
	control string // path of its unix socket
	cmd     *exec.Cmd
	out     bytes.Buffer
}

func serve(t testing.TB, args ...string) *server {
	t.Helper()
	dir, err := os.MkdirTemp("", "tpm")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s := &server{t: t, control: filepath.Join(dir, "c")}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	s.cmd = exec.Command(holdfast(t), append([]string{"tpm", "serve", "--ready-fd", "3", "--swtpm-ctrl", "unix:" + s.control}, args...)...)
	s.cmd.ExtraFiles = []*os.File{w}
	s.cmd.Stdout, s.cmd.Stderr = &s.out, &s.out
	err = s.cmd.Start()
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.stop)
	_ = r.SetReadDeadline(time.Now().Add(30 * time.Second))
	if n, _ := r.Read(make([]byte, 1)); n == 0 {
		t.Fatalf("holdfast tpm serve did not get ready:\n%s", s.out.String())
	}
	return s
}

func (s *server) stop() {
	if s.cmd.ProcessState != nil {
		return
	}
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	timer := time.AfterFunc(20*time.Second, func() { _ = s.cmd.Process.Kill() })
	defer timer.Stop()
	if err := s.cmd.Wait(); err != nil {
		s.t.Errorf("holdfast tpm serve after SIGTERM: %v\n%s", err, s.out.String())
	}
}

// qemu are QEMU's arguments for a TPM: model is tpm-tis or tpm-crb.
func (s *server) qemu(model string, more ...string) []string {
	return append([]string{"-chardev", "socket,id=tpm,path=" + s.control, "-tpmdev", "emulator,id=tpm,chardev=tpm", "-device", model + ",tpmdev=tpm"}, more...)
}

// guest is the script that machines run: functions, and one command a line of
// input, each answered by its output and "done <status>".
//
// Errors go where the output goes: over two ways an error could come in after
// the "done" of its command, and count as output of the next one.
const guest = `
exec 2>&1
log=/sys/kernel/security/tpm0/binary_bios_measurements
T=device:/dev/tpm0
hf() { /bin/holdfast "$@"; }
echo "up"
while read -r line; do eval "$line"; echo "done $?"; done
`

// machine is a machine with holdfast and a TPM in it.
type machine struct {
	*vm.Machine
	t testing.TB
	n int // answers seen
}

func start(t testing.TB, c vm.Config) *machine {
	t.Helper()
	c.Programs = append(c.Programs, "/bin/dash", "cat")
	c.Files = map[string]string{"/bin/holdfast": holdfast(t)}
	c.Data = map[string][]byte{"/script": []byte(guest)}
	c.Cmd = []string{"/bin/dash", "/script"}
	c.Stdin = true
	if c.Timeout == 0 {
		c.Timeout = 10 * time.Minute
	}
	m := &machine{Machine: vm.Start(t, c), t: t}
	m.up(1)
	return m
}

// up waits until the machine has started n times.
func (m *machine) up(n int) {
	m.t.Helper()
	if err := m.WaitOutput(strings.Repeat("up\n", 1), 4*time.Minute); err != nil {
		m.t.Fatal(err)
	}
	deadline := time.Now().Add(4 * time.Minute)
	for strings.Count(m.Output(), "up\n") < n {
		if !m.Running() || time.Now().After(deadline) {
			r := vm.Result{}
			if !m.Running() {
				r, _ = m.Wait()
			}
			m.t.Fatalf("the machine did not start %d times: %q\n%v", n, m.Output(), r)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// send starts a command.
func (m *machine) send(line string) {
	m.t.Helper()
	if _, err := m.Write([]byte(line + "\n")); err != nil {
		m.t.Fatal(err)
	}
}

// run runs a command and returns its output and status.
func (m *machine) run(line string) (string, int) {
	m.t.Helper()
	before := len(m.Output())
	m.send(line)
	return m.answer(before, line)
}

func (m *machine) answer(before int, line string) (string, int) {
	m.t.Helper()
	deadline := time.Now().Add(3 * time.Minute)
	for {
		out := m.Output()[before:]
		if i := strings.LastIndex(out, "done "); i >= 0 && strings.HasSuffix(out, "\n") {
			var status int
			if _, err := fmt.Sscanf(out[i:], "done %d", &status); err == nil {
				return out[:i], status
			}
		}
		if !m.Running() || time.Now().After(deadline) {
			m.t.Fatalf("%s: no answer; output %q", line, out)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// ok runs a command that must succeed.
func (m *machine) ok(line string) string {
	m.t.Helper()
	out, status := m.run(line)
	if status != 0 {
		m.t.Fatalf("%s: status %d\n%s", line, status, out)
	}
	return out
}

// off ends the machine in order.
func (m *machine) off() {
	m.t.Helper()
	if err := m.CloseInput(); err != nil {
		m.t.Fatal(err)
	}
	if r, err := m.Wait(); err != nil {
		m.t.Errorf("%v\n%v", err, r)
	}
}

// boot is what `holdfast attest eventlog --tpm` found in the machine.
type boot struct {
	Events []struct {
		PCR  int
		Type string
	}
	PCRs []struct {
		Bank  string
		Index int
		Value string
		TPM   string
	}
	Matches bool `json:"matches_tpm"`
}

// measured checks the boot's event log against the PCRs.
func (m *machine) measured() boot {
	m.t.Helper()
	out := m.ok("hf attest eventlog $log --tpm $T --json")
	var b boot
	if err := json.Unmarshal([]byte(out), &b); err != nil {
		m.t.Fatalf("%v in %s", err, out)
	}
	if !b.Matches || len(b.Events) < 10 {
		m.t.Errorf("the log of %d events does not lead to the PCRs: %s", len(b.Events), out)
	}
	banks := map[string]map[int]bool{}
	for _, p := range b.PCRs {
		if strings.Trim(p.TPM, "0") == "" {
			m.t.Errorf("%s PCR %d is zero", p.Bank, p.Index)
		}
		if banks[p.Bank] == nil {
			banks[p.Bank] = map[int]bool{}
		}
		banks[p.Bank][p.Index] = true
	}
	for _, bank := range []string{"sha256", "sha384"} {
		for pcr := range 8 {
			if !banks[bank][pcr] {
				m.t.Errorf("nothing measured into PCR %d of %s", pcr, bank)
			}
		}
	}
	return b
}

// without leaves a PCR out.
func (b boot) without(pcr int) boot {
	keep := b
	keep.PCRs = nil
	for _, p := range b.PCRs {
		if p.Index != pcr {
			keep.PCRs = append(keep.PCRs, p)
		}
	}
	return keep
}

func (b boot) values() string {
	var s strings.Builder
	for _, p := range b.PCRs {
		fmt.Fprintf(&s, "%s:%d=%s\n", p.Bank, p.Index, p.TPM)
	}
	return s.String()
}

func needs(t testing.TB, features ...string) {
	host.Need(t, append([]string{"qemu", "vm-kernel"}, features...)...)
}
