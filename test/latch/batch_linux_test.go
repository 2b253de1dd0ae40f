// SPDX-License-Identifier: Apache-2.0

//go:build linux

package latch

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"holdfast/test/host"
	"holdfast/test/netns"
)

// watched is a watcher with the control group of its clients.
type watched struct {
	l           *lab
	name, group string
	p           *netns.Process
}

// batchStats is what a watcher counted.
type batchStats struct {
	Sessions, Confirmed, Killed, Manifests uint64
	Alarms                                 map[string]uint64
	Oldest                                 float64 `json:"oldest_confirmed_seconds"`
}

const batchDeadline = 2 * time.Second

// watch starts a watcher whose manifests come from this address.
func (l *lab) watch(label, agent string) *watched {
	l.t.Helper()
	w := &watched{l: l, name: label}
	var err error
	if w.group, err = l.n.Group("watched-" + label); err != nil {
		l.t.Fatal(err)
	}
	root, err := host.CgroupRoot()
	if err != nil {
		l.t.Fatal(err)
	}
	l.write("watch-"+label+".yaml", fmt.Sprintf("services:\n  %s:\n    agents: [%q]\n    trust: trust.yaml\n    policy: policy.yaml\nscope: {cgroup: %q}\ndeadline: %v\naction: kill\n",
		name, "tcp:"+agent, strings.TrimPrefix(w.group, root), batchDeadline))
	w.p = l.start(l.client, netns.Command{Args: []string{l.bin, "--log-format", "json", "latch", "watch", "--config", l.path("watch-" + label + ".yaml"),
		"--stats", l.path(label + ".json"), "--ready", l.path(label + ".ready")}, Time: 5 * time.Minute})
	l.waitFile(w.p, label+".ready")
	return w
}

// many opens sessions in the watcher's group, all at once.
func (w *watched) many(port string, count int) {
	w.l.t.Helper()
	out, err := w.l.client.RunCommand(netns.Command{Args: []string{w.l.helper, "helper", "many", netns.ServerV4 + ":" + port, name, fmt.Sprint(count)}, Group: w.group, Time: 30 * time.Second})
	if want := fmt.Sprintf("good %d of %d", count, count); err != nil || !strings.Contains(out, want) {
		w.l.t.Fatalf("%s: %v, expected %s: %s", w.name, err, want, tail(out, 500))
	}
}

// stop ends the watcher and returns its counters and its exit status.
func (w *watched) stop() (s batchStats, status int) {
	w.l.t.Helper()
	w.p.Stop()
	b, err := os.ReadFile(w.l.path(w.name + ".json"))
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	if err != nil {
		w.l.t.Fatalf("%s: %v\n%s", w.name, err, w.p.Output())
	}
	return s, w.p.ExitCode()
}

// TestBatch: sessions that nothing holds are confirmed by the next manifest;
// an impostor's session is an alarm and is ended; whoever drops, delays, repeats
// or changes manifests only causes alarms.
func TestBatch(t *testing.T) {
	l := newLab(t, func(l *lab) {
		l.reports = "reports: {batch-interval: 500ms}\n"
		l.edit = func(file, text string) string {
			if file == "agent.yaml" {
				text = strings.ReplaceAll(text, "service: go,", "service: go, batch: true,")
			}
			return text
		}
	})
	l.serveGo()
	// The impostor has the service's certificate and key, and no agent.
	impostor := l.start(l.server, netns.Command{Args: []string{l.helper, "helper", "serve", ":9443", l.path("cert.pem"), l.path("key.pem")}, Time: time.Minute})
	if err := l.server.WaitTCP("127.0.0.1:9443", 10*time.Second); err != nil {
		t.Fatalf("%v %s", err, impostor.Output())
	}
	direct := netns.ServerV4 + ":7443"
	true1 := l.watch("true", direct)
	relay := l.watch("relay", direct)
	attacks := map[string]*watched{}
	for i, mode := range []string{"drop", "delay", "replay", "alter"} {
		port := fmt.Sprint(9600 + i)
		l.start(l.server, netns.Command{Args: []string{l.helper, "helper", "batch-proxy", ":" + port, direct, mode}, Time: time.Minute})
		if err := l.server.WaitTCP("127.0.0.1:"+port, 10*time.Second); err != nil {
			t.Fatal(err)
		}
		attacks[mode] = l.watch(mode, netns.ServerV4+":"+port)
	}
	for _, w := range append([]*watched{true1}, attacks["drop"], attacks["delay"], attacks["replay"], attacks["alter"]) {
		out := w.p.WaitOutput("agent connected", 5*time.Second)
		if out != nil {
			t.Fatalf("%s: %v", w.name, out)
		}
	}
	// A client that keeps its connection to the impostor.
	long := l.start(l.client, netns.Command{Args: []string{l.helper, "helper", "twice", netns.ServerV4 + ":9443", name, l.path("go-on")}, Group: relay.group, Time: time.Minute})
	if err := long.WaitOutput("answer 1 true", 5*time.Second); err != nil {
		t.Fatal(err) // batch mode does not prevent: the first answer comes
	}
	true1.many(goPort, 200)
	for _, w := range attacks {
		w.many(goPort, 5)
	}
	time.Sleep(700 * time.Millisecond)
	attacks["replay"].many(goPort, 5) // in another manifest
	time.Sleep(batchDeadline + 1500*time.Millisecond)
	l.write("go-on", "")
	if err := long.Wait(); err == nil {
		t.Errorf("the impostor's connection was not ended: %s", long.Output())
	}

	s, status := true1.stop()
	if s.Sessions != 200 || s.Confirmed != 200 || len(s.Alarms) != 0 || status != 0 || s.Manifests == 0 || s.Oldest > 1.5 {
		t.Errorf("true: %+v, status %d", s, status)
	}
	s, status = relay.stop()
	if s.Sessions != 1 || s.Confirmed != 0 || s.Alarms["unconfirmed"] != 1 || s.Killed != 1 || status != 1 {
		t.Errorf("relay: %+v, status %d", s, status)
	}
	for mode, want := range map[string]struct {
		sessions, confirmed uint64
		alarm               string
		unconfirmed, late   uint64
	}{
		"drop":   {5, 0, "", 5, 0},
		"delay":  {5, 0, "", 5, 5},
		"replay": {10, 10, "manifest-replayed", 0, 0},
		"alter":  {5, 0, "manifest-invalid", 5, 0},
	} {
		s, status := attacks[mode].stop()
		if s.Sessions != want.sessions || s.Confirmed != want.confirmed || s.Alarms["unconfirmed"] != want.unconfirmed || s.Alarms["late"] != want.late || want.alarm != "" && s.Alarms[want.alarm] == 0 || status != 1 {
			t.Errorf("%s: %+v, status %d", mode, s, status)
		}
	}
}
