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

	"golang.org/x/sys/unix"

	"holdfast/attest/evidence"
	"holdfast/attest/provider/simulated"
	"holdfast/attest/trust"
	"holdfast/test/host"
	"holdfast/test/netns"
)

// The mutual service of these tests, beside the one-sided one at goPort.
const mutualPort = "8543"

// mutualLab is a lab whose agent has a second service that wants evidence of
// clients, and whose gate gives it. change edits the files further.
func mutualLab(t *testing.T, change func(file, text string) string) *lab {
	t.Helper()
	return newLab(t, func(l *lab) {
		l.edit = func(file, text string) string {
			switch file {
			case "agent.yaml":
				clientFiles(l)
				text = strings.Replace(text, "listeners:\n", fmt.Sprintf("listeners:\n  - {address: \"0.0.0.0:%s\", service: go, executables: [%q], clients: {trust: %q, policy: %q}}\n",
					mutualPort, l.helper, l.path("clients.yaml"), l.path("clients-policy.yaml")), 1)
				text = strings.Replace(text, "simulated: {", fmt.Sprintf("simulated: {root: %q, ", l.path("server.root")), 1)
				park := "1s" // what nobody announces is over soon
				if os.Getenv("HOLDFAST_VM") != "" {
					park = "20s" // an emulated machine takes seconds for a report
				}
				text += "reports: {park: " + park + "}\n"
			case "gate.yaml":
				text = strings.Replace(text, "    policy: policy.yaml\n", "    policy: policy.yaml\n    grade: mutual\n", 1)
				text += fmt.Sprintf("client:\n  name: frontend\n  provider: {simulated: {name: machine, algorithm: ES256, latency: 1ms, root: %q}}\n", l.path("clients.root"))
			}
			if change != nil {
				text = change(file, text)
			}
			return text
		}
	})
}

// clientFiles writes the roots of the machines, and what the agent trusts and
// accepts of clients.
func clientFiles(l *lab) {
	var records []trust.SimulatedRoot
	for _, name := range []string{"clients", "strangers", "lab"} {
		r, err := simulated.NewRoot(name, evidence.ES256)
		if err != nil {
			l.t.Fatal(err)
		}
		b, err := r.Encode()
		if err != nil {
			l.t.Fatal(err)
		}
		file := name + ".root"
		if name == "lab" { // the agent trusts its own machine as a client too: the worst case for reflection
			file = "server.root"
		}
		l.write(file, string(b))
		if name == "strangers" {
			continue
		}
		rec, err := r.Record()
		if err != nil {
			l.t.Fatal(err)
		}
		records = append(records, rec)
	}
	roots, err := trust.New(nil, records)
	if err != nil {
		l.t.Fatal(err)
	}
	b, err := roots.Encode()
	if err != nil {
		l.t.Fatal(err)
	}
	l.write("clients.yaml", string(b))
	root, err := host.CgroupRoot()
	if err != nil {
		l.t.Fatal(err)
	}
	l.write("clients-policy.yaml", fmt.Sprintf("version: 1\nenvironments: [SIMULATED/clients/machine, SIMULATED/lab/lab]\nsignatures: [ES256]\nsimulated: allow\nclass: machine\nmeasurements: none\n"+
		"groups: [X25519MLKEM768, x25519]\nclaims: {services: [frontend, go], units: [/x, %q]}\n", strings.TrimPrefix(l.gated, root)))
}

// serveMutual starts the service that prints each request.
func (l *lab) serveMutual() *netns.Process {
	l.t.Helper()
	p := l.start(l.server, netns.Command{Args: []string{l.helper, "helper", "mutual-serve", "0.0.0.0:" + mutualPort, l.path("cert.pem"), l.path("key.pem")},
		Group: l.service, Time: 5 * time.Minute})
	if err := l.server.WaitTCP("127.0.0.1:"+mutualPort, 20*time.Second); err != nil {
		l.t.Fatalf("%v\n%s", err, p.Output())
	}
	return p
}

func (l *lab) getMutual(path string) (string, error) {
	return l.help("get", netns.ServerV4+":"+mutualPort, name, path, "1")
}

// agentStats stops the agent and returns its counters.
func (l *lab) agentStats() (s struct {
	Attested        uint64
	ClientsVerified uint64 `json:"clients_verified"`
	Refused         map[string]uint64
	Door            struct {
		Connections, Opened  uint64
		Shut                 uint64 `json:"segments_shut"`
		Contradicting, Early uint64
	}
}) {
	l.t.Helper()
	if err := l.agent.Stop(); err != nil {
		l.t.Fatalf("agent: %v\n%s", err, l.agent.Output())
	}
	out := l.agent.Output()
	if err := json.Unmarshal([]byte(out[strings.LastIndex(out, "\n{")+1:]), &s); err != nil {
		l.t.Fatalf("%v\n%s", err, out)
	}
	return s
}

// TestMutual: sessions of an unmodified client and server where both machines
// are attested, and clients without true evidence for just their session.
func TestMutual(t *testing.T) {
	l := mutualLab(t, nil)
	server := l.serveMutual()
	l.serveGo()
	for i := range 5 {
		if out, err := l.getMutual(fmt.Sprintf("/true%d", i)); err != nil || !strings.Contains(out, "hello to") {
			t.Fatalf("a true client: %v %s", err, out)
		}
	}
	if host.Has("curl").Present {
		out, err := l.run("curl", "-sk", "--http1.1", "--resolve", name+":"+mutualPort+":"+netns.ServerV4, "https://"+name+":"+mutualPort+"/curl")
		if err != nil || !strings.Contains(out, "hello to") {
			t.Errorf("curl: %v %s", err, out)
		}
	}
	for _, a := range []struct {
		mode, agent string
		answered    bool
	}{
		{"genuine", "session", true},
		{"silent", "", false},
		{"one-sided", "mutual-required", false},
		{"missing", "no-client-evidence", false},
		{"reuse", "client-evidence-invalid", false},
		{"reflect", "client-evidence-invalid", false},
	} {
		t.Run(a.mode, func(t *testing.T) {
			// Outside the gate's control group: this client obeys nobody.
			out, err := l.client.RunCommand(netns.Command{Time: 30 * time.Second, Args: []string{l.helper, "helper", "mutual-attack", netns.ServerV4 + ":" + mutualPort,
				netns.ServerV4 + ":" + goPort, netns.ServerV4 + ":7443", name, l.path("clients.root"), a.mode}})
			if err != nil {
				t.Fatalf("%v %s", err, out)
			}
			if a.agent != "" && !strings.Contains(out, "agent "+a.agent+"\n") {
				t.Errorf("the agent did not say %s: %s", a.agent, out)
			}
			if got := strings.Contains(out, a.mode+":") && strings.Contains(out[strings.Index(out, a.mode+":"):], "answered true"); got != a.answered {
				t.Errorf("answered %v, expected %v: %s", got, a.answered, out)
			}
			if reset := strings.Contains(out, "reset by peer"); reset == a.answered {
				t.Errorf("the refused client was reset: %v, expected %v: %s", reset, !a.answered, out)
			}
			if got := strings.Contains(server.Output(), "request /"+a.mode+"\n"); got != a.answered {
				t.Errorf("the service read the request: %v, expected %v", got, a.answered)
			}
			if a.mode == "reuse" && !strings.Contains(server.Output(), "request /first\n") {
				t.Errorf("the session whose evidence is reused was not answered: %s", out)
			}
		})
	}
	// The gate's door stays shut when the agent is killed, for new clients; an
	// agent that comes back serves them again.
	l.agent.Signal(unix.SIGKILL)
	<-l.agent.Done()
	out, err := l.client.RunCommand(netns.Command{Time: 30 * time.Second, Args: []string{l.helper, "helper", "mutual-attack", netns.ServerV4 + ":" + mutualPort, "", "", name, "", "silent"}})
	if strings.Contains(out, "answered true") || strings.Contains(server.Output(), "request /silent\n") {
		t.Errorf("with a dead agent the request got through: %v %s", err, out)
	}
	l.startAgent()
	for range 50 {
		if out, err = l.getMutual("/again"); err == nil && strings.Contains(out, "hello to") {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	if !strings.Contains(out, "hello to") {
		t.Errorf("after the agent came back: %v %s", err, out)
	}
	if s := l.agentStats(); s.ClientsVerified == 0 || s.Door.Opened == 0 || s.Door.Shut != 0 {
		t.Errorf("stats of the second agent, which saw true clients only: %+v", s)
	}
}

// TestMutualClients: gates whose machine, name or configuration the agent does
// not accept.
func TestMutualClients(t *testing.T) {
	for _, c := range []struct {
		what, reason string
		change       func(file, text string) string
	}{
		{"a stranger's machine", "client-untrusted", func(file, text string) string {
			if file == "gate.yaml" {
				text = strings.Replace(text, "clients.root", "strangers.root", 1)
			}
			return text
		}},
		{"another program", "client-policy", func(file, text string) string {
			if file == "gate.yaml" {
				text = strings.Replace(text, "name: frontend", "name: backend", 1)
			}
			return text
		}},
		{"one-sided", "mutual-required", func(file, text string) string {
			if file == "gate.yaml" {
				text = strings.Replace(text, "grade: mutual", "grade: hello", 1)
			}
			return text
		}},
	} {
		t.Run(c.what, func(t *testing.T) {
			l := mutualLab(t, c.change)
			server := l.serveMutual()
			out, err := l.getMutual("/x")
			if err == nil {
				t.Errorf("answered: %s", out)
			}
			if e := l.events("refused", "released"); len(e) != 1 || e[0].Reason != c.reason {
				t.Errorf("the gate says %+v, expected %s", e, c.reason)
			}
			if strings.Contains(server.Output(), "request") {
				t.Error("the service read the request")
			}
			if c.reason == "mutual-required" {
				return
			}
			// The same gate at a service that takes no evidence of clients.
			l.serveGo()
			l.forget()
			l.help("get", netns.ServerV4+":"+goPort, name, "/", "1")
			if e := l.events("refused", "released"); len(e) != 1 || e[0].Reason != "not-mutual" {
				t.Errorf("at a one-sided service the gate says %+v, expected not-mutual", e)
			}
		})
	}
}
