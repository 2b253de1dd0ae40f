// SPDX-License-Identifier: Apache-2.0

//go:build linux

package netns

import (
	"bufio"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"holdfast/test/host"
)

func TestPair(t *testing.T) {
	_, client, server := Pair(t)
	for _, address := range []string{ServerV4 + ":4430", "[" + ServerV6 + "]:4430"} {
		p, err := server.Start(Command{Args: []string{"python3", "-m", "http.server", "--bind", strings.Trim(address[:strings.LastIndex(address, ":")], "[]"), "4430"}, Dir: t.TempDir()})
		if err != nil {
			t.Skipf("SKIP[python3]: %v", err)
		}
		if err := client.WaitTCP(address, 10*time.Second); err != nil {
			t.Fatalf("%s: %v\n%s", address, err, p.Output())
		}
		p.Kill()
	}
}

func TestRoutedGoesThroughRouter(t *testing.T) {
	_, client, router, server := Routed(t)
	p, err := server.Start(Command{Args: []string{"python3", "-m", "http.server", "4430"}, Dir: t.TempDir()})
	if err != nil {
		t.Skipf("SKIP[python3]: %v", err)
	}
	if err := client.WaitTCP(ServerV4+":4430", 10*time.Second); err != nil {
		t.Fatalf("%v\n%s", err, p.Output())
	}
	if err := router.Sysctl("net/ipv4/ip_forward", 0); err != nil {
		t.Fatal(err)
	}
	if err := client.WaitTCP(ServerV4+":4430", 100*time.Millisecond); err == nil {
		t.Error("the server is still reached although the router forwards nothing")
	}
}

func TestProcessIsBoundedAndGrouped(t *testing.T) {
	n, client, _ := Pair(t)
	host.Need(t, "cgroup2")
	dir, err := n.Group("scope")
	if err != nil {
		t.Fatal(err)
	}
	out, err := client.RunCommand(Command{Args: []string{"cat", "/proc/self/cgroup"}, Group: dir})
	if err != nil || !strings.Contains(out, "/scope") {
		t.Errorf("group of the program: %q, %v; want one that ends in /scope", out, err)
	}
	start := time.Now()
	_, err = client.RunCommand(Command{Args: []string{"sleep", "60"}, Time: 50 * time.Millisecond})
	if err == nil || !strings.Contains(err.Error(), "killed after 50ms") || time.Since(start) > 5*time.Second {
		t.Errorf("a program past its time: %v after %v", err, time.Since(start))
	}
	if _, err = client.Run("false"); err == nil {
		t.Error("a failed program gave no error")
	}
}

// TestCloseEndsDaemons: a program that left its process group and parent is
// still found, by its control group.
func TestCloseEndsDaemons(t *testing.T) {
	host.Need(t, "root", "netns", "cgroup2")
	n, err := New()
	if err != nil {
		t.Fatal(err)
	}
	ns, err := n.Namespace("x")
	if err != nil {
		t.Fatal(err)
	}
	out, err := ns.Run("sh", "-c", "setsid sleep 300 >/dev/null 2>&1 & echo $!")
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(out))
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	if !gone(pid) {
		t.Errorf("process %d lives after Close", pid)
	}
}

// TestCrash kills a process that owns a network, as a crash would: its child
// dies at once and the next New removes its group.
func TestCrash(t *testing.T) {
	host.Need(t, "root", "netns", "cgroup2")
	if os.Getenv("HOLDFAST_NETNS_CRASH") != "" {
		crashChild(t)
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestCrash$")
	cmd.Env = append(os.Environ(), "HOLDFAST_NETNS_CRASH=1")
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	var group string
	for s := bufio.NewScanner(pipe); s.Scan(); {
		if f := strings.Fields(s.Text()); len(f) == 3 && f[0] == "READY" {
			pid, _ = strconv.Atoi(f[1])
			group = f[2]
			break
		}
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if pid == 0 {
		t.Fatal("the child did not start its program")
	}
	if !gone(pid) {
		t.Errorf("process %d outlived its owner", pid)
	}
	n, err := New()
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	if _, err := os.Stat(group); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("group %s outlived its owner: %v", group, err)
	}
}

func crashChild(t *testing.T) {
	n, err := New()
	if err != nil {
		t.Fatal(err)
	}
	ns, err := n.Namespace("x")
	if err != nil {
		t.Fatal(err)
	}
	p, err := ns.Start(Command{Args: []string{"sleep", "300"}, Time: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	os.Stdout.WriteString("READY " + strconv.Itoa(p.Pid()) + " " + n.group + "\n")
	time.Sleep(30 * time.Second)
}

// gone reports whether a process ends within two seconds (a zombie has ended).
func gone(pid int) bool {
	for range 200 {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil || strings.Contains(string(stat), ") Z ") || errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			return true
		}
		time.Sleep(10 * time.Millisecond)
	}
	return false
}
