// SPDX-License-Identifier: Apache-2.0

//go:build linux

package demo

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"holdfast/test/host"
	"holdfast/test/netns"
)

// command is `holdfast demo` with a folder of its own for temporary files,
// which everybody can traverse (the demo's stranger runs from there).
func command(t *testing.T, args ...string) (cmd *exec.Cmd, tmp string) {
	t.Helper()
	host.Need(t, needs...)
	tmp, err := os.MkdirTemp("", "holdfast-demo-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(tmp) })
	if err := os.Chmod(tmp, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd = exec.Command(netns.Binary(t), append([]string{"demo"}, args...)...)
	cmd.Env = append(os.Environ(), "TMPDIR="+tmp)
	return cmd, tmp
}

// leftovers fails the test if the demo of a process left anything.
func leftovers(t *testing.T, pid int, tmp string) {
	t.Helper()
	if es, err := os.ReadDir(tmp); err != nil || len(es) > 0 {
		t.Errorf("files are left: %v %v", es, err)
	}
	root, err := host.CgroupRoot()
	if err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(filepath.Join(root, "holdfast-net-"+strconv.Itoa(pid)+"-*")); len(left) > 0 {
		t.Errorf("control groups are left: %v", left)
	}
	out, err := exec.Command(netns.Binary(t), "latch", "status", "--json").Output()
	if err != nil || strings.Contains(string(out), "holdfast-net-"+strconv.Itoa(pid)+"-") {
		t.Errorf("a gate is left: %s %v", out, err)
	}
}

// TestDemo is the whole demo: every outcome as promised, and the JSON that
// scripts rely on.
func TestDemo(t *testing.T) {
	cmd, tmp := command(t, "--json")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, stdout.String(), stderr.String())
	}
	var r struct {
		GenuinePlain struct {
			Answered bool `json:"answered"`
		} `json:"genuine_plain"`
		GenuineGated struct {
			Released bool    `json:"released"`
			Evidence string  `json:"evidence"`
			AddedMS  float64 `json:"added_ms"`
		} `json:"genuine_gated"`
		RelayPlain struct {
			Read    bool   `json:"adversary_read_request"`
			Request string `json:"request"`
		} `json:"relay_plain"`
		RelayGated struct {
			Read   bool   `json:"adversary_read_request"`
			Leaked *int   `json:"request_bytes_leaked"`
			Reason string `json:"reason"`
		} `json:"relay_gated"`
		AsPromised bool `json:"as_promised"`
	}
	if err := json.Unmarshal(stdout.Bytes(), &r); err != nil {
		t.Fatalf("%v\n%s", err, stdout.String())
	}
	if !r.AsPromised || !r.GenuinePlain.Answered || !r.GenuineGated.Released || !strings.Contains(r.GenuineGated.Evidence, "ML-DSA-65") ||
		!r.RelayPlain.Read || !strings.Contains(r.RelayPlain.Request, secret) || r.RelayGated.Read || r.RelayGated.Leaked == nil || *r.RelayGated.Leaked != 0 || r.RelayGated.Reason == "" {
		t.Errorf("%s\n%s", stdout.String(), stderr.String())
	}
	leftovers(t, cmd.Process.Pid, tmp)
}

// TestInterrupted ends the demo in the middle, as ctrl-C does.
func TestInterrupted(t *testing.T) {
	cmd, tmp := command(t)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	guard := time.AfterFunc(90*time.Second, func() { cmd.Process.Kill() })
	defer guard.Stop()
	var seen strings.Builder
	buffer := make([]byte, 1024)
	for !strings.Contains(seen.String(), "start the agent") {
		n, err := stderr.Read(buffer)
		seen.Write(buffer[:n])
		if err != nil {
			t.Fatalf("ended too early: %v\n%s", err, seen.String())
		}
	}
	time.Sleep(300 * time.Millisecond) // somewhere in acts 1 and 2
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for {
		n, err := stderr.Read(buffer)
		seen.Write(buffer[:n])
		if err != nil {
			break
		}
	}
	if err := cmd.Wait(); err == nil {
		t.Error("an interrupted demo ended with status 0")
	}
	if d := time.Since(began); d > 15*time.Second {
		t.Errorf("it took %v to end after the interrupt", d)
	}
	leftovers(t, cmd.Process.Pid, tmp)
}
