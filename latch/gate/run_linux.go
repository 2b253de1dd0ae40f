// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"holdfast/latch/hold/cgroupskb"
)

// dialWait is how long a start waits for the first try to reach each agent.
const dialWait = 2 * time.Second

// plainList is the list of destinations that pass: the configured ones, and
// the resolvers by UDP and TCP.
func plainList(c *Config) []cgroupskb.Plain {
	var out []cgroupskb.Plain
	for _, d := range c.Plain {
		out = append(out, cgroupskb.Plain{Prefix: d.Prefix, Port: d.Port})
	}
	for _, d := range c.PlainTLS {
		out = append(out, cgroupskb.Plain{Prefix: d.Prefix, Port: d.Port, TLS: true})
	}
	for _, d := range c.Resolvers {
		out = append(out, cgroupskb.Plain{Prefix: d.Prefix, Port: d.Port}, cgroupskb.Plain{Prefix: d.Prefix, Port: d.Port, UDP: true})
	}
	for _, d := range c.Scope.Exempt.UDP {
		out = append(out, cgroupskb.Plain{Prefix: d.Prefix, Port: d.Port, UDP: true})
	}
	return out
}

// Scoped is a gate on one cgroup.
type Scoped struct {
	*Gate
	Hold *cgroupskb.Hold
	dir  string
	what string        // the scope in words; "": the folder
	quit chan struct{} // ends follow
	done chan struct{}
}

// How often the folder of the cgroup is looked at: with a watch that tells of
// changes for safety only, without one (no inotify instance left) to see them at all.
var (
	followWatched = time.Second
	followEvery   = 20 * time.Millisecond
)

// follow keeps the gate on the folder's cgroup when a service manager removes
// and makes it again.
func (s *Scoped) follow() {
	defer close(s.done)
	every := followWatched
	var changed <-chan struct{}
	if w, err := s.Hold.Folders(); err == nil {
		defer w.Close()
		changed = w.C()
	} else {
		slog.Warn("changes of the cgroup's folder are noticed later than they could be", "cgroup", s.dir, "looked at every", followEvery.String(), "error", err)
		every = followEvery
	}
	t := time.NewTicker(every)
	defer t.Stop()
	last := ""
	for {
		select {
		case <-s.quit:
			return
		case <-changed:
		case <-t.C:
		}
		again, err := s.Hold.Follow()
		if err == nil {
			err = s.Hold.RefreshNarrow()
		}
		switch {
		case err == nil:
			if last = ""; again {
				slog.Warn("the cgroup was removed and made again; it is gated again", "cgroup", s.dir)
			}
		case err.Error() != last:
			last = err.Error()
			slog.Error("the cgroup is not gated", "cgroup", s.dir, "error", err)
		}
	}
}

// Open loads what the configuration names, gates the cgroup (a folder of the
// cgroup v2 hierarchy) and starts. Rules first: from its return on nothing of
// the cgroup leaves unjudged.
func Open(c *Config, dir string) (*Scoped, error) { return openNarrow(c, dir, cgroupskb.Narrow{}) }

func openNarrow(c *Config, dir string, n cgroupskb.Narrow) (*Scoped, error) {
	c.scoped(dir)
	s, err := loadServices(c)
	if err != nil {
		return nil, err
	}
	h, err := cgroupskb.Attach(cgroupskb.Options{Cgroup: dir, Narrow: n, Plain: plainList(c), Connections: c.Limits.Connections})
	if err != nil {
		return nil, err
	}
	if h.Inherited() {
		// What the dead gate held would hang until its programs lose patience.
		if err := h.ResetHeld(); err != nil {
			slog.Warn("connections that a dead gate held may hang", "cgroup", dir, "error", err)
		}
	}
	g := newGate(c, s, h, c.dialAgent)
	if err := g.withOwn(c); err != nil {
		return nil, errors.Join(err, h.Detach())
	}
	g.Start()
	sc := &Scoped{Gate: g, Hold: h, dir: dir, quit: make(chan struct{}), done: make(chan struct{})}
	go sc.follow()
	return sc, nil
}

// Dir is the folder of the control group.
func (s *Scoped) Dir() string { return s.dir }

// Reload is Gate.Reload that also changes the plain destinations and resolvers.
func (s *Scoped) Reload(c *Config) error {
	return s.Gate.reload(c, func(c *Config) error { return s.Hold.SetPlain(plainList(c)) })
}

// Close stops the gate. If a process is still in the cgroup, the hold stays:
// its connections are shut until a new gate starts there or the processes end.
func (s *Scoped) Close() error {
	s.Stop()
	close(s.quit)
	<-s.done
	busy, err := cgroupskb.Populated(s.dir)
	if err != nil || busy {
		s.Hold.Close()
		if busy {
			slog.Warn("processes are still in the cgroup: their connections stay shut until they end and `holdfast latch status --repair` is called, or a gate starts there again", "cgroup", s.dir)
		}
		return err
	}
	return s.Hold.Detach()
}

// closeOpen stops the gate and takes the hold away, also while processes are
// inside: they send without a gate from then on.
func (s *Scoped) closeOpen() error {
	s.Stop()
	close(s.quit)
	<-s.done
	return s.Hold.Detach()
}

// Command is a program to run in a scope of its own.
type Command struct {
	Args []string
	// Started is called when the gate is up and the program was started.
	Started func(g *Scoped)
}

// RunCommand runs one program, as the invoking user, with its connections
// gated, and returns its exit status as a shell would (128 + signal). Other
// processes are not touched. A signal that ends this process only is passed on.
func RunCommand(ctx context.Context, c *Config, cmd Command) (status int, stats Stats, err error) {
	path, err := exec.LookPath(cmd.Args[0])
	if err != nil {
		return 127, stats, err
	}
	if err := c.command(path); err != nil {
		return 127, stats, err
	}
	who, err := invokingUser()
	if err != nil {
		return 0, stats, err
	}
	dir, err := cgroupskb.MakeCgroup(fmt.Sprintf("holdfast/run-%d-%x", os.Getpid(), time.Now().UnixNano()))
	if err != nil {
		return 0, stats, err
	}
	defer func() {
		os.Remove(dir) // these fail, as they should, while a process or another run is there
		os.Remove(filepath.Dir(dir))
	}()
	s, err := Open(c, dir)
	if err != nil {
		return 0, stats, err
	}
	defer func() {
		stats = s.Stats()
		err = errors.Join(err, s.Close())
	}()
	s.Ready(ctx, dialWait)

	sig := make(chan os.Signal, 16)
	signal.Notify(sig, unix.SIGTERM, unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2)
	defer signal.Stop(sig)
	p, err := who.start(path, cmd.Args, dir)
	if err != nil {
		return 0, stats, err
	}
	if cmd.Started != nil {
		cmd.Started(s)
	}
	done := make(chan error, 1)
	go func() { done <- p.Wait() }()
	for {
		select {
		case x := <-sig:
			// The terminal sends these to the whole foreground group by itself.
			if (x == unix.SIGINT || x == unix.SIGQUIT) && foreground() {
				continue
			}
			p.Process.Signal(x)
		case err := <-done:
			if p.ProcessState == nil {
				return 0, stats, err
			}
			w := p.ProcessState.Sys().(syscall.WaitStatus)
			if w.Signaled() {
				return 128 + int(w.Signal()), stats, nil
			}
			return w.ExitStatus(), stats, nil
		}
	}
}

// foreground reports whether this process is in the foreground group of its terminal.
func foreground() bool {
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	defer tty.Close()
	g, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && g == unix.Getpgrp()
}

// identity is the user that the program runs as.
type identity struct {
	cred *syscall.Credential // nil: as this process
	env  []string
}

// invokingUser is the user who called sudo, or else this process's own user.
func invokingUser() (identity, error) {
	id := identity{env: os.Environ()}
	uid := os.Getenv("SUDO_UID")
	if os.Geteuid() != 0 || uid == "" || uid == "0" {
		return id, nil
	}
	u, err := user.LookupId(uid)
	if err != nil {
		return id, fmt.Errorf("SUDO_UID: %w", err)
	}
	groups, err := u.GroupIds()
	if err != nil {
		return id, fmt.Errorf("groups of %s: %w", u.Username, err)
	}
	n := func(s string) (uint32, error) {
		v, err := strconv.ParseUint(s, 10, 32)
		return uint32(v), err
	}
	id.cred = &syscall.Credential{}
	if id.cred.Uid, err = n(u.Uid); err == nil {
		id.cred.Gid, err = n(u.Gid)
	}
	for _, g := range groups {
		var v uint32
		if err == nil {
			v, err = n(g)
			id.cred.Groups = append(id.cred.Groups, v)
		}
	}
	if err != nil {
		return id, fmt.Errorf("user and groups of %s: %w", u.Username, err)
	}
	env := id.env[:0:0]
	for _, e := range id.env {
		switch name, _, _ := strings.Cut(e, "="); name {
		case "HOME", "USER", "LOGNAME", "SUDO_UID", "SUDO_GID", "SUDO_USER", "SUDO_COMMAND":
		default:
			env = append(env, e)
		}
	}
	id.env = append(env, "HOME="+u.HomeDir, "USER="+u.Username, "LOGNAME="+u.Username)
	return id, nil
}

// start starts the program inside the cgroup, in which it is from its first
// instruction on (clone3, Linux 5.7).
func (id identity) start(path string, args []string, dir string) (*exec.Cmd, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	p := &exec.Cmd{Path: path, Args: args, Env: id.env, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	p.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(f.Fd()), Credential: id.cred}
	if err := p.Start(); err != nil {
		return nil, fmt.Errorf("start %s in cgroup %s: %w", path, dir, err)
	}
	return p, nil
}

// CgroupDir is the folder of a configured scope; it is made if it is missing.
func CgroupDir(path string) (string, error) {
	if strings.Trim(path, "/") == "" {
		return "", errors.New("the root cgroup is the whole machine: say --machine (scope: {machine: true}), or name a cgroup, such as /system.slice/shop.service")
	}
	return cgroupskb.MakeCgroup(strings.Trim(filepath.Clean(path), "/"))
}
