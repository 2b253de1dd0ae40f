// SPDX-License-Identifier: Apache-2.0

package tpmvm

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"holdfast/test/vm"
)

// full says whether the whole matrix runs.
func full() bool { return os.Getenv("HOLDFAST_TEST_FULL") != "" }

// A kind of machine.
type kind struct {
	name, model string
	uefi        bool
	short       bool // part of the short run
}

var kinds = []kind{
	{"SeaBIOS tpm-tis", "tpm-tis", false, true},
	{"OVMF tpm-crb", "tpm-crb", true, true},
	{"SeaBIOS tpm-crb", "tpm-crb", false, false},
	{"OVMF tpm-tis", "tpm-tis", true, false},
}

// TestMachine: firmware and kernel measure their start into our TPM, and the
// log replays to the PCRs; sleep (S3), snapshots and resets keep what a TPM
// keeps and lose what it loses. Each kind of machine is started once, since a
// start is what takes the time; the short run has two kinds.
func TestMachine(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			needs(t)
			if !k.short && !full() {
				t.Skip("SKIP[full]: two of four combinations of firmware and interface run here")
			}
			dir := t.TempDir()
			s := serve(t, "--state", dir+"/state")
			config := vm.Config{UEFI: k.uefi, VarsFile: dir + "/vars", QEMUArgs: s.qemu(k.model), Reboot: true}
			if !k.uefi { // the variables' flash is no place for snapshots
				disk(t, &config, dir+"/disk.qcow2")
				config.Modules = []string{"tpm_vtpm_proxy"}
			}
			m := start(t, config)
			first := m.measured()
			t.Logf("%d events, %d PCR values", len(first.Events), len(first.PCRs))
			m.nv()
			if !k.uefi || full() {
				m.quotes(first)
			}
			if !k.uefi || full() {
				m.sleeps()
			}
			if !k.uefi {
				m.snapshot()
				m.proxy()
			}
			m.foreignExtension()
			m.resets(first, k.uefi)
			m.off()
			s.stop()
		})
	}
}

// nv writes what must stay.
func (m *machine) nv() {
	m.t.Helper()
	m.ok("hf tpm nvdefine --tpm $T 0x1500001 -C o -s 8 -a 'ownerread|ownerwrite' && printf 12345678 >/tmp/w && hf tpm nvwrite --tpm $T 0x1500001 -C o -i /tmp/w")
}

func (m *machine) nvStays(after string) {
	m.t.Helper()
	if out := m.ok("hf tpm nvread --tpm $T 0x1500001 -C o"); out != "12345678" {
		m.t.Errorf("NV after %s: %q", after, out)
	}
}

// sleeps: over S3 the TPM is off; Shutdown(STATE) and Startup(STATE) keep the
// PCRs, which a program of the guest sees unchanged.
func (m *machine) sleeps() {
	m.t.Helper()
	m.ok("hf tpm pcrextend --tpm $T 9:sha256=" + strings.Repeat("02", 32))
	before := m.ok("hf tpm pcrread --tpm $T sha256:0,1,2,3,4,5,6,7,8,9,10")
	clock := m.clock()
	at := len(m.Output())
	m.send("/init suspend")
	for deadline := time.Now().Add(3 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		state, err := m.Monitor("info status")
		if err != nil || time.Now().After(deadline) {
			m.t.Fatalf("the machine did not fall asleep: %q, %v, %q", state, err, m.Output()[at:])
		}
		if strings.Contains(state, "suspended") {
			break
		}
	}
	if _, err := m.QMP("system_wakeup", nil); err != nil {
		m.t.Fatal(err)
	}
	if out, status := m.answer(at, "/init suspend"); status != 0 {
		m.t.Fatalf("suspend: status %d, %s", status, out)
	}
	if after := m.ok("hf tpm pcrread --tpm $T sha256:0,1,2,3,4,5,6,7,8,9,10"); after != before {
		m.t.Errorf("PCRs after sleep:\n%sbefore:\n%s", after, before)
	}
	if now := m.clock(); now.Reset != clock.Reset || now.Restart != clock.Restart+1 {
		m.t.Errorf("counters after sleep: %+v, before: %+v; want one restart more", now, clock)
	}
	m.nvStays("sleep")
}

type clockInfo struct {
	Reset   int `json:"reset_count"`
	Restart int `json:"restart_count"`
	Clock   int
	Safe    bool
}

func (m *machine) clock() clockInfo {
	m.t.Helper()
	var c clockInfo
	if err := json.Unmarshal([]byte(m.ok("hf tpm readclock --tpm $T --json")), &c); err != nil {
		m.t.Fatal(err)
	}
	return c
}

// disk gives the machine a disk in which QEMU keeps snapshots.
func disk(t testing.TB, c *vm.Config, file string) {
	t.Helper()
	if out, err := exec.Command("qemu-img", "create", "-q", "-f", "qcow2", file, "16M").CombinedOutput(); err != nil {
		t.Fatalf("qemu-img: %v: %s", err, out)
	}
	c.QEMUArgs = append(c.QEMUArgs, "-drive", "if=none,id=disk,format=qcow2,file="+file, "-device", "ide-hd,drive=disk")
}

// snapshot: savevm and loadvm move the TPM's state through state blobs. What
// came after the snapshot is undone, volatile and permanent state alike.
func (m *machine) snapshot() {
	m.t.Helper()
	m.ok("hf tpm pcrextend --tpm $T 9:sha256=" + strings.Repeat("03", 32))
	before := m.ok("hf tpm pcrread --tpm $T sha256:9,10")
	for _, step := range []string{"savevm one", "change", "loadvm one"} {
		if step == "change" {
			m.ok("hf tpm pcrextend --tpm $T 9:sha256=" + strings.Repeat("04", 32))
			m.ok("printf 87654321 >/tmp/w && hf tpm nvwrite --tpm $T 0x1500001 -C o -i /tmp/w")
			continue
		}
		if text, err := m.Monitor(step); err != nil || strings.TrimSpace(text) != "" {
			m.t.Fatalf("%s: %q, %v", step, text, err)
		}
	}
	if after := m.ok("hf tpm pcrread --tpm $T sha256:9,10"); after != before {
		m.t.Errorf("PCRs after loadvm:\n%sat savevm:\n%s", after, before)
	}
	m.nvStays("loadvm")
}

// proxy: our TPM as a device of this very kernel, through /dev/vtpmx, and our
// client on it.
func (m *machine) proxy() {
	m.t.Helper()
	m.ok("{ hf tpm serve --ephemeral --vtpm-proxy --ready-fd 3 3>/tmp/ready 2>/tmp/serve & }; n=0; while ! [ -s /tmp/ready ] && [ $n -lt 2000 ]; do n=$((n+1)); hf version >/dev/null; done; cat /tmp/ready /tmp/serve; [ -s /tmp/ready ]")
	device := strings.TrimSpace(m.ok("read -r d </tmp/ready; echo $d"))
	if !strings.Contains(device, "/dev/tpm1") {
		m.t.Fatalf("the device is %q, want one beside tpm0", device)
	}
	if out := m.ok("hf tpm getrandom --tpm device:/dev/tpm1 --hex 16"); len(strings.TrimSpace(out)) != 32 {
		m.t.Errorf("getrandom over /dev/tpm1: %q", out)
	}
	// The resource manager of the kernel between us and the TPM.
	m.ok("hf tpm createprimary --tpm device:/dev/tpmrm1 -C o -G ecc -c /tmp/primary.ctx")
	if out := m.ok("hf tpm pcrread --tpm device:/dev/tpmrm1 sha256:0"); !strings.Contains(out, strings.Repeat("0", 64)) {
		m.t.Errorf("PCR 0 of the second TPM: %s", out)
	}
}

// foreignExtension: what is not in the log is found out.
func (m *machine) foreignExtension() {
	m.t.Helper()
	m.ok("hf tpm pcrextend --tpm $T 7:sha256=" + strings.Repeat("01", 32))
	if out, status := m.run("hf attest eventlog $log --tpm $T"); status != 1 || !strings.Contains(out, "NOT as in the TPM") {
		m.t.Errorf("an extension outside the log: status %d\n%s", status, out)
	}
}

// resets: after an orderly reset the firmware measures anew.
func (m *machine) resets(first boot, uefi bool) {
	m.t.Helper()
	clock := m.clock()
	m.send("/init reboot")
	m.up(2)
	second := m.measured()
	if uefi { // the first start of OVMF makes its boot variables, which PCR 1 shows
		first, second = first.without(1), second.without(1)
	}
	if first.values() != second.values() {
		m.t.Errorf("PCRs after a reset:\n%s\nbefore:\n%s", second.values(), first.values())
	}
	if now := m.clock(); now.Reset != clock.Reset+1 || now.Restart != 0 || now.Clock < clock.Clock || !now.Safe {
		m.t.Errorf("counters after a reset: %+v, before: %+v; want one reset more, and a clock that goes on and is safe", now, clock)
	}
	m.nvStays("a reset")
}
