// SPDX-License-Identifier: Apache-2.0

//go:build linux

package latch

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"holdfast/test/netns"
)

// TestConnectionReuse: 300 requests on one HTTP/2 connection are one decision.
func TestConnectionReuse(t *testing.T) {
	l := newLab(t)
	l.serveGo()
	out, err := l.help("get", netns.ServerV4+":"+goPort, name, "/", "300")
	if err != nil || !strings.Contains(out, "hello by HTTP/2.0") || !strings.Contains(out, "connections 1 ") {
		t.Fatalf("%v\n%s", err, out)
	}
	s := l.stats()
	if s.Released != 1 || s.Announced != 1 || s.Records > 20 || len(s.Refused) != 0 {
		t.Errorf("%+v", s)
	}
}

// TestBulk: 64 MiB up and down pass without a packet of them in user space:
// all that the gate ever sees of a connection are the copies before its
// release.
func TestBulk(t *testing.T) {
	for _, way := range []string{"down", "up"} {
		t.Run(way, func(t *testing.T) {
			l := newLab(t)
			l.serveGo()
			args := []string{"get", netns.ServerV4 + ":" + goPort, name, "/" + way, "1"}
			want := fmt.Sprintf("bytes %d ", bulk)
			if way == "up" {
				args = append(args, "upload")
				want = fmt.Sprintf("%d <nil>", bulk)
			}
			out, err := l.help(args...)
			if err != nil || !strings.Contains(out, want) {
				t.Fatalf("%v\n%s", err, out)
			}
			if s := l.stats(); s.Released != 1 || s.Records > 20 || s.Records < 3 {
				t.Errorf("%d records for 64 MiB: %+v", s.Records, s)
			} else {
				t.Logf("%d records in user space", s.Records)
			}
		})
	}
}

// TestManyAtOnce: sessions that wait for one report at the same time are each
// judged by their own leaf; none gets another's evidence, none waits in vain.
func TestManyAtOnce(t *testing.T) {
	l := newLab(t, slow(20*time.Millisecond))
	l.serveGo()
	const n = 100
	out, err := l.help("many", netns.ServerV4+":"+goPort, name, fmt.Sprint(n))
	if err != nil || !strings.Contains(out, fmt.Sprintf("good %d of %d", n, n)) {
		t.Errorf("%v\n%s", err, out)
	}
	if s := l.stats(); s.Released != n || len(s.Refused) != 0 {
		t.Errorf("%+v", s)
	}
}

// TestSplitHello: a ClientHello that leaves in many segments.
func TestSplitHello(t *testing.T) {
	l := newLab(t)
	l.serveGo()
	for _, size := range []int{5, 100, 1000} {
		l.forget()
		out, err := l.help("get", netns.ServerV4+":"+goPort, name, "/", "1", fmt.Sprint("split", size))
		if e := l.events("released", "refused"); err != nil || !answered(out) || len(e) != 1 || e[0].Msg != "released" {
			t.Errorf("%d bytes a segment: %v, the gate says %+v; %s", size, err, e, out)
		}
	}
}

// TestHalfClose: a client that closes its side right after the request, while
// all of it is held: the FIN stays behind the data.
func TestHalfClose(t *testing.T) {
	l := newLab(t, slow(400*time.Millisecond))
	l.serveGo()
	wire := watch(t, l.server)
	p := l.start(l.client, netns.Command{Args: l.helperArgs("half", netns.ServerV4+":"+goPort, name), Group: l.gated, Time: 30 * time.Second})
	if err := p.WaitOutput("closed for writing", 10*time.Second); err != nil {
		t.Fatal(err)
	}
	<-p.Done()
	if out := p.Output(); !answered(out) {
		t.Errorf("%v %s", p.Wait(), out)
	}
	fin, last := time.Time{}, time.Time{}
	for _, x := range wire.packets() {
		if x.dst.Port() == 8443 && x.src.Addr().String() == netns.ClientV4 {
			if x.flags&1 != 0 && fin.IsZero() {
				fin = x.at
			}
			if len(x.payload) > 0 {
				last = x.at
			}
		}
	}
	if fin.IsZero() || last.IsZero() || fin.Before(last) {
		t.Errorf("FIN at %v, last data at %v", fin, last)
	}
}

// TestReleasedOutlivesGate: what was released goes on when the gate ends, in
// order or killed; what comes after it stays shut.
func TestReleasedOutlivesGate(t *testing.T) {
	for _, end := range []string{"stopped", "killed"} {
		t.Run(end, func(t *testing.T) {
			l := newLab(t)
			l.serveGo()
			p := l.start(l.client, netns.Command{Args: l.helperArgs("twice", netns.ServerV4+":"+goPort, name, l.path("go-on")), Group: l.gated, Time: 40 * time.Second})
			if err := p.WaitOutput("answer 1 true", 10*time.Second); err != nil {
				t.Fatal(err)
			}
			if end == "killed" {
				l.gate.Kill()
				<-l.gate.Done()
			} else if err := l.gate.Stop(); err != nil {
				t.Errorf("%v %s", err, l.gate.Output())
			}
			if out, err := l.help("get", netns.ServerV4+":"+goPort, name, "/", "1"); err == nil || answered(out) {
				t.Errorf("a new connection without a gate: %v %s", err, out)
			}
			l.write("go-on", "")
			if <-p.Done(); p.Wait() != nil || !strings.Contains(p.Output(), "answer 2 true") {
				t.Errorf("the old connection: %v %s", p.Wait(), p.Output())
			}
		})
	}
}

// TestPortReuse: a new connection from the same port, after the server has
// reset the first one, needs a decision of its own.
func TestPortReuse(t *testing.T) {
	l := newLab(t)
	l.serveGo("reset")
	wire := watch(t, l.server)
	out, err := l.help("again", netns.ServerV4+":"+goPort, name, name, "40001")
	if err != nil {
		t.Fatalf("%v %s", err, out)
	}
	ids := map[string]bool{}
	for range 3 {
		for _, e := range l.events("released", "refused") {
			if e.Msg != "released" {
				t.Errorf("%+v; %s", e, out)
			}
			ids[e.ID] = true
		}
		if len(ids) == 2 {
			break
		}
	}
	if len(ids) != 2 {
		t.Errorf("%d decisions for two connections; %s", len(ids), out)
	}
	// The same with a name that has no policy: the first release opens nothing.
	l.forget()
	wire.forget()
	if out, err = l.help("again", netns.ServerV4+":"+goPort, name, "other.test", "40002"); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	var got []string
	for len(got) < 2 {
		e := l.events("released", "refused")
		if len(e) == 0 {
			break
		}
		for _, x := range e {
			got = append(got, x.Msg+" "+x.Reason)
		}
	}
	if strings.Join(got, ",") != "released ,refused no-policy-for-name" {
		t.Errorf("the gate says %q; %s", got, out)
	}
}

// TestGateKilled: a gate that dies in the middle of a hold leaves the door
// shut, for what is held and for what comes, until it is repaired.
func TestGateKilled(t *testing.T) {
	l := newLab(t, slow(1500*time.Millisecond))
	l.serveGo()
	wire := watch(t, l.server)
	held := l.start(l.client, netns.Command{Args: l.helperArgs("idle", netns.ServerV4+":"+goPort, name), Group: l.gated, Time: 30 * time.Second})
	hello := func() bool {
		for _, b := range wire.streams(t, 8443) {
			if len(b) > 0 {
				return true
			}
		}
		return false
	}
	for i := 0; !hello(); i++ {
		if i > 100 {
			t.Fatalf("no ClientHello arrives: %s", held.Output())
		}
	}
	l.gate.Kill()
	<-l.gate.Done()
	time.Sleep(3 * time.Second) // the report is long ready
	streams := wire.streams(t, 8443)
	for src, b := range streams {
		if err := onlyHellos(b); err != nil {
			t.Errorf("%v has sent %v after the gate was killed", src, err)
		}
	}
	if len(streams) == 0 || answered(held.Output()) || strings.Contains(held.Output(), "answer") {
		t.Errorf("%d streams; %s", len(streams), held.Output())
	}
	// A new connection does not get through either.
	wire.forget()
	out, err := l.help("get", netns.ServerV4+":"+goPort, name, "/", "1")
	if err == nil || answered(out) {
		t.Errorf("without a gate: %v %s", err, out)
	}
	wire.noLeak(t)
	// The next gate takes the scope over.
	l.startGate()
	if out, err := l.help("get", netns.ServerV4+":"+goPort, name, "/", "1"); err != nil || !answered(out) {
		t.Errorf("with a new gate: %v %s", err, out)
	}
	held.Kill()
}

// TestAgentLost: the agent ends while evidence is awaited.
func TestAgentLost(t *testing.T) {
	l := newLab(t, slow(2*time.Second))
	l.serveGo()
	wire := watch(t, l.server)
	p := l.start(l.client, netns.Command{Args: l.helperArgs("idle", netns.ServerV4+":"+goPort, name), Group: l.gated, Time: 30 * time.Second})
	if err := p.WaitOutput("connected", 5*time.Second); err != nil {
		t.Fatal(err)
	}
	time.Sleep(400 * time.Millisecond)
	l.agent.Kill()
	<-p.Done()
	e := l.events("refused", "released")
	if len(e) != 1 || e[0].Msg != "refused" || e[0].Reason != "agent-lost" {
		t.Errorf("the gate says %+v; %s", e, p.Output())
	}
	wire.noLeak(t)
}

// TestDeadline: an agent that never answers costs the deadline, not more.
func TestDeadline(t *testing.T) {
	l := newLab(t, slow(20*time.Second))
	l.serveGo()
	wire := watch(t, l.server)
	began := time.Now()
	out, err := l.help("get", netns.ServerV4+":"+goPort, name, "/", "1")
	took := time.Since(began)
	e := l.events("refused", "released")
	if err == nil || len(e) != 1 || e[0].Reason != "deadline" || took < 4*time.Second || took > 8*time.Second {
		t.Errorf("after %v: %v, the gate says %+v; %s", took, err, e, out)
	}
	wire.noLeak(t)
}

// TestReporterFailed: a security processor that hangs is reported by the agent
// before the gate's deadline.
func TestReporterFailed(t *testing.T) {
	l := newLab(t, slow(20*time.Second), func(l *lab) { l.reports = "reports: {timeout: 500ms}\n" })
	l.serveGo()
	wire := watch(t, l.server)
	out, err := l.help("get", netns.ServerV4+":"+goPort, name, "/", "1")
	if e := l.events("refused", "released"); err == nil || len(e) != 1 || e[0].Reason != "reporter-failed" {
		t.Errorf("%v, the gate says %+v; %s", err, e, out)
	}
	wire.noLeak(t)
}

// TestLatchRun: one command behind a gate of its own; its exit status and
// output are its own, and it runs as its own user's process.
func TestLatchRun(t *testing.T) {
	l := newLab(t)
	l.serveGo()
	out, err := l.client.Run(append([]string{l.bin, "latch", "run", "--config", l.path("gate.yaml"), "--stats", l.path("run.json"), "--"},
		l.helperArgs("get", netns.ServerV4+":"+goPort, name, "/", "3")...)...)
	if err != nil || !answered(out) {
		t.Errorf("%v %s", err, out)
	}
	if b, err := os.ReadFile(l.path("run.json")); err != nil || !strings.Contains(string(b), `"released": 1`) {
		t.Errorf("%v %s", err, b)
	}
	if out, err := l.client.Run(l.bin, "latch", "run", "--config", l.path("gate.yaml"), "--", "sh", "-c", "exit 7"); err == nil || !strings.Contains(err.Error(), "7") {
		t.Errorf("%v %s", err, out)
	}
	// Its neighbour outside is not gated.
	if out, err := l.client.Run(l.helperArgs("get", netns.ServerV4+":"+goPort, "other.test", "/", "1")...); err != nil || !answered(out) {
		t.Errorf("outside: %v %s", err, out)
	}
}
