// SPDX-License-Identifier: Apache-2.0

package gate_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"holdfast/test/host"
	"holdfast/test/netns"
)

// TestProxyCurl: real curl through the proxy gate, in all three ways, as a user
// without privileges; refused where nobody vouches for the server.
func TestProxyCurl(t *testing.T) {
	host.Need(t, "nft")
	s := newStage(t, true)
	s.write("gate.yaml", `
services:
  shop.example: {agents: ["tcp:`+netns.ServerV4+`:7443"], trust: trust.yaml, policy: policy.yaml}
proxy:
  - {address: 127.0.0.1:3128, mode: connect}
  - {address: 127.0.0.1:1080, mode: socks5}
  - {address: 127.0.0.1:3129, mode: transparent}
deadline: 20s
`)
	p, err := s.client.Start(netns.Command{Args: []string{s.exe, "e2e-helper", "proxy", s.dir + "/gate.yaml", s.dir + "/stats.json"}})
	if err == nil {
		err = p.WaitOutput("started", 15*time.Second)
	}
	if err != nil {
		t.Fatal(err)
	}
	// Another service with the same name, for which no agent speaks.
	other, err := s.server.Start(netns.Command{Args: []string{s.exe, "e2e-helper", "serve", netns.ServerV4 + ":444"}})
	if err == nil {
		err = other.WaitOutput("ready", 15*time.Second)
	}
	if err != nil {
		t.Fatal(err)
	}
	curl := func(args ...string) (string, error) {
		return s.client.Run(append([]string{"curl", "-sSk", "-m", "40"}, args...)...)
	}
	resolve := []string{"--resolve", "shop.example:443:" + netns.ServerV4, "--resolve", "shop.example:444:" + netns.ServerV4}
	if out, err := curl("-x", "http://127.0.0.1:3128", "--connect-to", "shop.example:444:"+netns.ServerV4+":444", "https://shop.example:444/stolen"); err == nil {
		t.Errorf("a server that nobody vouches for answered: %s", out)
	}
	for _, way := range [][]string{{"-x", "http://127.0.0.1:3128"}, {"-x", "socks5://127.0.0.1:1080"}} {
		// The proxy is asked for the address; the name that counts is that of the hello.
		connect := append(way, "--connect-to", "shop.example:443:"+netns.ServerV4+":443")
		if out, err := curl(append(connect, "https://shop.example/a", "https://shop.example/b")...); err != nil || !strings.Contains(out, "/a got 0") || !strings.Contains(out, "/b got 0") {
			t.Errorf("%v: %v %s", way, err, out)
		}
		if out, err := curl(append(way, "--connect-to", "::"+netns.ServerV4+":443", "https://other.example/")...); err == nil {
			t.Errorf("%v: a name without a policy was released: %s", way, out)
		}
	}
	if out, err := curl("-x", "socks5://127.0.0.1:1080", "--connect-to", "shop.example:443:"+netns.ServerV4+":443", "-T", "/usr/bin/curl", "https://shop.example/up"); err != nil || !strings.Contains(out, "/up got ") {
		t.Errorf("upload: %v %s", err, out)
	}
	// Transparent: curl knows of no proxy. The proxy's own connections pass by
	// their user, as root does here: curl runs as nobody.
	for _, rule := range []string{"add table ip latch", "add chain ip latch out { type nat hook output priority -100 ; }", "add rule ip latch out meta skuid != 0 tcp dport 443-444 redirect to :3129"} {
		if out, err := s.client.Run(append([]string{"nft"}, strings.Fields(rule)...)...); err != nil {
			t.Fatalf("nft %s: %v %s", rule, err, out)
		}
	}
	asNobody := func(url string) (string, error) {
		return s.client.Run(append(append([]string{"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "curl", "-sSk", "-m", "40"}, resolve...), url)...)
	}
	if out, err := asNobody("https://shop.example/transparent"); err != nil || !strings.Contains(out, "/transparent got 0") {
		t.Errorf("transparent: %v %s", err, out)
	}
	if out, err := asNobody("https://shop.example:444/stolen"); err == nil {
		t.Errorf("transparent: a server that nobody vouches for answered: %s", out)
	}
	if strings.Contains(other.Output(), "request") {
		t.Errorf("a request reached the other server: %s", other.Output())
	}
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
	b, err := os.ReadFile(s.dir + "/stats.json")
	if err != nil || !strings.Contains(string(b), `"released":4`) || !strings.Contains(string(b), `"no-policy-for-name":2`) || !strings.Contains(string(b), `"not-observed":2`) {
		t.Errorf("%v %s\n%s", err, b, p.Output())
	}
}
