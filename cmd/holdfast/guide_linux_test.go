// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"holdfast/test/host"
	"holdfast/test/netns"
)

var (
	guideBlock = regexp.MustCompile("(?s)```(?:yaml)?\n(.*?)```")
	resolver   = regexp.MustCompile(`(?m)^resolvers: .*\n`)
)

// TestGuideNginx follows "Beside nginx in ten minutes" of the operators' guide:
// its own commands and files, with the folders of the test in the place of those
// of the system, and without systemd, whose units' commands it starts itself.
func TestGuideNginx(t *testing.T) {
	host.Need(t, "root", "netns", "cgroup2", "bpf", "cgroup-bpf", "nginx", "curl")
	// A unit's group, where systemd would make it: below a slice.
	root, err := host.CgroupRoot()
	if err != nil {
		t.Fatal(err)
	}
	slice := fmt.Sprintf("%s/holdfastguide%d.slice", root, os.Getpid())
	group := slice + "/nginx.service"
	if err := os.MkdirAll(group, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(group); os.Remove(slice) }) // after the network's end, which ends nginx
	_, client, server := netns.Pair(t)
	dir := t.TempDir()
	nginx, err := host.LookPath("nginx")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(nginx)
	if err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(exe, dir+"/holdfast"); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"etc", "tpm", "state", "agent", "gate", "log", "nginx"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	text := documents(t)["operations.md"]
	text = text[strings.Index(text, "## Beside nginx"):strings.Index(text, "## What is going on")]
	text = strings.NewReplacer("/etc/holdfast", dir+"/etc", "/run/holdfast-tpm", dir+"/tpm", "/run/holdfast-agent", dir+"/agent", "/run/holdfast", dir+"/gate",
		"/var/log/holdfast", dir+"/log", "/etc/nginx/nginx.conf", dir+"/nginx/nginx.conf", "/usr/sbin/nginx]", nginx+"]", "192.0.2.10", netns.ServerV4,
		"SHA-256 of /usr/sbin/nginx on the server", fmt.Sprintf("%x", sha256.Sum256(program)),
		"curl https://", "curl -sS -m 40 --cacert "+dir+"/nginx/cert.pem --resolve shop.example:443:"+netns.ServerV4+" https://").Replace(text)
	write := func(name string, b []byte) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	start := func(ns *netns.Namespace, group, ready string, args ...string) *netns.Process {
		t.Helper()
		p, err := ns.Start(netns.Command{Args: args, Group: group, Time: 3 * time.Minute})
		if err == nil && ready != "" {
			err = p.WaitOutput(ready, time.Minute)
		}
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	holdfast := dir + "/holdfast"
	cert, key := nginxCertificate(t)
	write("nginx/cert.pem", cert)
	write("nginx/key.pem", key)
	write("nginx/nginx.conf", []byte(`pid DIR/pid; error_log stderr; daemon off; events {}
http { access_log DIR/access; client_body_temp_path DIR/b; proxy_temp_path DIR/p; fastcgi_temp_path DIR/f; uwsgi_temp_path DIR/u; scgi_temp_path DIR/s;
  server { listen 443 ssl; ssl_protocols TLSv1.3; ssl_certificate DIR/cert.pem; ssl_certificate_key DIR/key.pem; location / { return 200 "the shop answers\n"; } } }
`))
	conf, _ := os.ReadFile(dir + "/nginx/nginx.conf")
	write("nginx/nginx.conf", bytes.ReplaceAll(conf, []byte("DIR"), []byte(dir+"/nginx")))

	// The units' own commands are started where the guide enables them.
	units := map[string]func(){
		"holdfast-tpm": func() {
			start(server, "", "TPM ready", holdfast, "tpm", "serve", "--state", dir+"/state", "--startup", "clear", "--swtpm", "unix:"+dir+"/tpm/tpm.sock")
		},
		"holdfast-agent": func() {
			start(server, "", "the agent answers gates", holdfast, "latch", "agent", "--config", dir+"/etc/agent.yaml")
		},
		"nginx": func() {
			start(server, group, "", nginx, "-e", "stderr", "-p", dir+"/nginx", "-c", dir+"/nginx/nginx.conf")
			if err := server.WaitTCP(netns.ServerV4+":443", time.Minute); err != nil {
				t.Fatal(err)
			}
		},
	}
	var did []string
	for _, m := range guideBlock.FindAllStringSubmatch(text, -1) {
		block := m[1]
		switch kind := strings.SplitN(block, ":", 2)[0]; kind {
		case "listeners":
			write("etc/agent.yaml", []byte(block))
			continue
		case "environments":
			write("etc/policy.yaml", []byte(block))
			continue
		case "services":
			write("etc/gate.yaml", []byte(resolver.ReplaceAllString(block, "")))
			continue
		}
		for _, line := range strings.Split(block, "\n") {
			for _, command := range strings.Split(line, "&&") {
				words := strings.Fields(command)
				switch {
				case len(words) == 0 || words[0] == "dpkg" || words[0] == "touch":
				case words[0] == "systemctl":
					if start := units[words[len(words)-1]]; start != nil {
						start()
						did = append(did, "started "+words[len(words)-1])
					}
				case words[0] == "holdfast" && words[2] == "status": // of the unit that a systemd would run
				case words[0] == "holdfast":
					where := server
					if words[2] == "check" || words[2] == "run" {
						where = client
					}
					out, err := where.Run(append([]string{holdfast}, words[1:]...)...)
					if err != nil {
						t.Fatalf("%s: %v", command, err)
					}
					did = append(did, strings.Join(words[1:3], " "))
					if words[2] == "run" && !strings.Contains(out, "the shop answers") {
						t.Errorf("%s: %s", command, out)
					}
				default:
					t.Errorf("a command that nobody runs: %s", command)
				}
			}
		}
	}
	want := "started holdfast-tpm, attest enroll, latch agent, started holdfast-agent, started nginx, latch check, latch run"
	if got := strings.Join(did, ", "); got != want {
		t.Errorf("the guide did: %s; expected: %s", got, want)
	}
}

// nginxCertificate is a certificate for shop.example that is its own root.
func nginxCertificate(t *testing.T) (cert, key []byte) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "shop.example"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), DNSNames: []string{"shop.example"},
		IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, k.Public(), k)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: raw})
}
