// SPDX-License-Identifier: Apache-2.0

//go:build linux

package agent

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

const goodConfig = `
listeners:
  - {address: "0.0.0.0:443", service: shop, executables: [/usr/sbin/nginx], units: [nginx.service]}
  - {address: "[::1]:8443", service: admin}
channel:
  listen: ["tcp:127.0.0.1:7443", "unix:/run/holdfast/agent.sock"]
  allow: ["10.0.0.0/8", "fd00::/8"]
  limits: {per-second: 500, clients: 10}
provider:
  simulated: {name: lab-psp, algorithm: ES256, latency: 3.369ms}
reports: {gap: 5ms, park: 2s}
`

func TestConfig(t *testing.T) {
	c, err := ParseConfig([]byte(goodConfig))
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.services()
	if err != nil || len(s) != 2 || s[0].Name != "shop" || s[0].Executables[0].Path != "/usr/sbin/nginx" {
		t.Errorf("services %+v, %v", s, err)
	}
	if c.Reports.Gap != 5*time.Millisecond || c.Provider.Simulated.Latency != 3369*time.Microsecond {
		t.Errorf("%+v %+v", c.Reports, c.Provider.Simulated)
	}
	o, err := c.channel()
	if err != nil || len(o.Allow) != 2 || o.Limits.PerSecond != 500 {
		t.Errorf("channel %+v, %v", o, err)
	}
}

func TestConfigRefused(t *testing.T) {
	for name, c := range map[string]struct{ old, new, want string }{
		"unknown key":           {"listeners:", "listenres:", "listenres"},
		"no listeners":          {goodConfig, "channel: {listen: ['tcp:127.0.0.1:1']}\nprovider: {simulated: {name: a}}\n", "listeners: none"},
		"empty":                 {goodConfig, "", "empty"},
		"port missing":          {"0.0.0.0:443", "0.0.0.0", "IP:PORT"},
		"port 0":                {"0.0.0.0:443", "0.0.0.0:0", "IP:PORT"},
		"name instead of IP":    {"0.0.0.0:443", "localhost:443", "IP:PORT"},
		"twice":                 {"[::1]:8443", "0.0.0.0:443", "twice"},
		"no service":            {"service: shop", "service: ''", "service"},
		"relative executable":   {"/usr/sbin/nginx", "nginx", "absolute path"},
		"short digest":          {"/usr/sbin/nginx", "sha256:abcd", "64 lower-case"},
		"interpreter alone":     {"{address: \"[::1]:8443\", service: admin}", "{address: \"[::1]:8443\", service: admin, executables: [/usr/bin/python3]}", "interpreter"},
		"missing configuration": {"service: admin}", "service: admin, config: /nowhere/x.conf}", "config"},
		"channel address":       {"tcp:127.0.0.1:7443", "127.0.0.1:7443", "tcp:IP:PORT"},
		"relative unix path":    {"unix:/run/holdfast/agent.sock", "unix:agent.sock", "absolute"},
		"prefix":                {"10.0.0.0/8", "10.0.0.0", "prefix"},
		"no provider":           {"simulated: {name: lab-psp, algorithm: ES256, latency: 3.369ms}", "{}", "exactly one"},
		"TPM without PCRs":      {"simulated: {name: lab-psp, algorithm: ES256, latency: 3.369ms}", "tpm: {address: 'inproc:/x', key: /k, secret: /s}", "pcrs"},
		"TPM with wrong PCRs":   {"simulated: {name: lab-psp, algorithm: ES256, latency: 3.369ms}", "tpm: {address: 'inproc:/x', key: /k, secret: /s, pcrs: ['sha256:99']}", "pcrs"},
		"long park":             {"park: 2s", "park: 2h", "reports"},
		"existing":              {"listeners:", "existing: trust\nlisteners:", "identify or refuse"},
		"two documents":         {"reports:", "---\nreports:", "more than one"},
		"negative limit":        {"per-second: 500", "per-second: -1", "negative"},
	} {
		_, err := ParseConfig([]byte(strings.Replace(goodConfig, c.old, c.new, 1)))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, c.want)
		}
	}
}

// FuzzConfig: what is accepted is accepted again after encoding, with the same
// meaning; an error means a nil result.
func FuzzConfig(f *testing.F) {
	f.Add([]byte(goodConfig))
	f.Add([]byte("provider: {tpm: {address: 'swtpm:unix:/x', key: /k, secret: /s, pcrs: ['sha256:7']}}\nlisteners: [{address: '1.2.3.4:5', service: a}]\nchannel: {listen: ['unix:/x']}\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if bytes.Contains(b, []byte("config")) {
			return // names files of the machine
		}
		c, err := ParseConfig(b)
		if err != nil {
			if c != nil {
				t.Fatal("error with a result")
			}
			return
		}
		e, err := yaml.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		again, err := ParseConfig(e)
		if err != nil {
			t.Fatalf("%v\n%s", err, e)
		}
		x, _ := yaml.Marshal(again)
		if !bytes.Equal(x, e) {
			t.Fatalf("%s\nbecomes\n%s", e, x)
		}
	})
}

func TestDigestTree(t *testing.T) {
	dir := t.TempDir()
	for name, s := range map[string]string{"b/x": "1", "a": "2"} {
		p := filepath.Join(dir, name)
		os.MkdirAll(filepath.Dir(p), 0o755)
		if err := os.WriteFile(p, []byte(s), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	one, err := digestTree(dir)
	if err != nil {
		t.Fatal(err)
	}
	os.WriteFile(filepath.Join(dir, "b/x"), []byte("3"), 0o644)
	if two, err := digestTree(dir); err != nil || two == one {
		t.Errorf("a changed file did not change the digest (%v)", err)
	}
	file, err := digestTree(filepath.Join(dir, "a"))
	if err != nil || file == one {
		t.Errorf("%x, %v", file, err)
	}
}

func TestPrivate(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	for mode, ok := range map[os.FileMode]bool{0o600: true, 0o400: true, 0o640: false, 0o604: false} {
		if err := os.WriteFile(file, []byte("x"), mode); err != nil {
			t.Fatal(err)
		}
		if err := private(file); (err == nil) != ok {
			t.Errorf("mode %04o: %v", mode, err)
		}
		os.Remove(file)
	}
	if err := private(t.TempDir()); err == nil {
		t.Error("a folder was taken for a secret")
	}
}
