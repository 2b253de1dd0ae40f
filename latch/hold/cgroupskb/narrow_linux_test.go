// SPDX-License-Identifier: Apache-2.0

package cgroupskb

import (
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// TestNarrow: of one cgroup only what the scope says is held. Clients send
// bytes that are not TLS: who is held gets a reset, who is not gets an answer.
func TestNarrow(t *testing.T) {
	needRoot(t)
	const user = 54321
	for _, tc := range []struct {
		name   string
		narrow func(l *lab) Narrow
		uid    uint32
		below  bool // the client is in a cgroup below
		server bool // the client is in the server's network namespace
		held   bool
	}{
		{"listed user", func(*lab) Narrow { return Narrow{Users: []uint32{user}} }, user, false, false, true},
		{"other user", func(*lab) Narrow { return Narrow{Users: []uint32{user}} }, 0, false, false, false},
		{"exempted user", func(*lab) Narrow { return Narrow{ExemptUsers: []uint32{user}} }, user, false, false, false},
		{"not the exempted user", func(*lab) Narrow { return Narrow{ExemptUsers: []uint32{user}} }, 0, false, false, true},
		{"exempted cgroup", func(l *lab) Narrow { return Narrow{ExemptGroups: []string{l.cgroup + "/below"}} }, 0, true, false, false},
		{"below another", func(l *lab) Narrow { return Narrow{ExemptGroups: []string{l.cgroup + "/other"}} }, 0, true, false, true},
		{"this network namespace", func(l *lab) Narrow { return Narrow{NetNS: nsPath(l.client)} }, 0, false, false, true},
		{"another network namespace", func(l *lab) Narrow { return Narrow{NetNS: nsPath(l.client)} }, 0, false, true, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := newLab(t, Options{}, nil)
			l.hold.narrow = tc.narrow(l) // the lab's own hold goes; its successor is narrow
			n := l.hold.narrow
			l.gate.stop()
			if err := l.hold.Detach(); err != nil {
				t.Fatal(err)
			}
			below := filepath.Join(l.cgroup, "below")
			if tc.below {
				if err := unix.Mkdir(below, 0o755); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() {
					for range 50 {
						if unix.Rmdir(below) == nil {
							return
						}
						time.Sleep(20 * time.Millisecond)
					}
				})
			}
			h, err := Attach(Options{Cgroup: l.cgroup, Narrow: n})
			if err != nil {
				t.Fatal(err)
			}
			defer h.Detach()
			l.echo(t)
			dir, ns := l.cgroup, l.client
			if tc.below {
				dir = below
			}
			if tc.server {
				ns = l.server
			}
			c := l.commandAs(ns, dir, tc.uid, "bash", "-c", "exec 3<>/dev/tcp/"+server4+"/7007; echo plain >&3; read -t 2 x <&3; echo got $x")
			out, _ := wait(t, c, 10*time.Second)
			if held := !strings.Contains(out, "got plain"); held != tc.held {
				t.Errorf("held %v, expected %v: %s", held, tc.held, out)
			}
		})
	}
}

// TestNarrowPorts: connections that a listener on an exempted port accepts pass;
// a client that binds that port does not.
func TestNarrowPorts(t *testing.T) {
	l := newLab(t, Options{}, nil)
	l.gate.stop()
	if err := l.hold.Detach(); err != nil {
		t.Fatal(err)
	}
	h, err := Attach(Options{Cgroup: l.cgroup, Narrow: Narrow{ExemptPorts: []uint16{7022}}})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Detach()
	for port, passes := range map[string]bool{"7022": true, "7023": false} {
		s := l.command("python3", "-c", `import socket
s = socket.create_server(("", `+port+`))
print("ready", flush=True)
c, _ = s.accept()
c.sendall(b"accepted")`)
		c := l.commandIn(l.server, "", "bash", "-c", "for i in $(seq 50); do exec 3<>/dev/tcp/"+client4+"/"+port+" && break; sleep 0.1; done 2>/dev/null; read -t 2 -n 8 x <&3; echo got $x")
		out, _ := wait(t, c, 25*time.Second)
		if got := strings.Contains(out, "got accepted"); got != passes {
			t.Errorf("port %s: %s", port, out)
		}
		s.Process.Kill()
	}
	l.echo(t)
	c := l.command("python3", "-c", `import socket
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.bind(("", 7022)); s.settimeout(2)
s.connect(("`+server4+`", 7007)); s.sendall(b"plain\n"); print("got", s.recv(5))`)
	if out, _ := wait(t, c, 25*time.Second); strings.Contains(out, "got") {
		t.Errorf("a client on the exempted port: %s", out)
	}
}

// echo starts a server in the server's namespace that sends back what comes.
func (l *lab) echo(t *testing.T) {
	t.Helper()
	in(t, l.server, func() error {
		ln, err := net.Listen("tcp", ":7007")
		if err != nil {
			return err
		}
		t.Cleanup(func() { ln.Close() })
		go func() {
			for {
				c, err := ln.Accept()
				if err != nil {
					return
				}
				go func() {
					defer c.Close()
					c.SetDeadline(time.Now().Add(3 * time.Second))
					b := make([]byte, 100)
					if n, err := c.Read(b); err == nil {
						c.Write(b[:n])
					}
				}()
			}
		}()
		return nil
	})
}

func nsPath(ns netns.NsHandle) string { return "/proc/self/fd/" + strconv.Itoa(int(ns)) }

func (l *lab) commandAs(ns netns.NsHandle, cgroup string, uid uint32, args ...string) *exec.Cmd {
	if uid != 0 {
		args = append([]string{"setpriv", "--reuid", strconv.Itoa(int(uid)), "--clear-groups"}, args...)
	}
	return l.commandIn(ns, cgroup, args[0], args[1:]...)
}
