// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"holdfast/test/chain"
	"holdfast/test/netns"
)

// serviceName is in a domain reserved for tests (RFC 6761).
const serviceName = "service.holdfast.test"

// stage is what the acts need: the network, the files, the running programs.
type stage struct {
	net                    *netns.Net
	client, router, server *netns.Namespace
	dir                    string // readable by everybody; secrets in it are 0600
	bin                    string // the holdfast program, a copy that everybody can run
	log                    func(format string, args ...any)
	chain                  *chain.Chain
	ak                     string // algorithm of the attestation key
}

// newStage makes namespaces, certificates and the web server.
func newStage(binary string, log func(string, ...any)) (s *stage, err error) {
	s = &stage{log: log}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if s.dir, err = os.MkdirTemp("", "holdfast-demo-"); err != nil {
		return s, err
	}
	if err = os.Chmod(s.dir, 0o755); err != nil {
		return s, err
	}
	s.bin = filepath.Join(s.dir, "holdfast")
	if err = copyFile(s.bin, binary, 0o755); err != nil {
		return s, err
	}
	if s.net, err = netns.New(); err != nil {
		return s, err
	}
	if s.client, s.router, s.server, err = s.net.Routed(); err != nil {
		return s, err
	}
	if err = makePKI(s.dir, serviceName); err != nil {
		return s, fmt.Errorf("certificates: %w", err)
	}
	return s, nil
}

func (s *stage) close() error {
	var err error
	if s.net != nil {
		err = s.net.Close()
	}
	if s.dir != "" {
		err = errors.Join(err, os.RemoveAll(s.dir))
	}
	return err
}

func (s *stage) path(name string) string { return filepath.Join(s.dir, name) }

func copyFile(to, from string, mode os.FileMode) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	_, err = io.Copy(out, in)
	return err
}

// nginxConf answers every request; the log tells the key exchange.
const nginxConf = `daemon off;
user nobody nogroup;
worker_processes 1;
pid DIR/nginx.pid;
error_log stderr warn;
events { worker_connections 1024; }
http {
  client_body_temp_path DIR/nginx-body;
  proxy_temp_path DIR/nginx-proxy;
  fastcgi_temp_path DIR/nginx-fastcgi;
  uwsgi_temp_path DIR/nginx-uwsgi;
  scgi_temp_path DIR/nginx-scgi;
  log_format demo '$ssl_protocol $ssl_curve $request_length "$request"';
  access_log DIR/access.log demo;
  default_type text/plain;
  server {
    listen ADDR:443 ssl;
    listen [ADDR6]:443 ssl;
    server_name SERVICE;
    ssl_certificate DIR/service.pem;
    ssl_certificate_key DIR/service.key;
    ssl_protocols TLSv1.3;
    ssl_ecdh_curve GROUPS;
    ssl_session_tickets off;
    location / { return 200 "payment accepted by the genuine service\n"; }
  }
}
`

// answer is how the client knows that the genuine service answered.
const answer = "payment accepted by the genuine service"

// writeNginxConf writes the configuration, which is measured before nginx runs.
func (s *stage) writeNginxConf(groups string) error {
	conf := strings.NewReplacer("DIR", s.dir, "ADDR6", netns.ServerV6, "ADDR", netns.ServerV4, "SERVICE", serviceName, "GROUPS", groups).Replace(nginxConf)
	return os.WriteFile(s.path("nginx.conf"), []byte(conf), 0o644)
}

// startNginx runs the distribution's nginx, with nothing of ours in it.
func (s *stage) startNginx(group string) error {
	p, err := s.server.Start(netns.Command{Args: []string{"nginx", "-c", s.path("nginx.conf"), "-e", "stderr"}, Group: group, Time: stageTime})
	if err != nil {
		return err
	}
	if err := s.server.WaitTCP(netns.ServerV4+":443", 10*time.Second); err != nil {
		return fmt.Errorf("nginx does not listen: %w\n%s", err, p.Output())
	}
	return nil
}

// stageTime bounds the programs that run through the whole demo.
const stageTime = 5 * time.Minute

// lastGroup is the key exchange of the last session that nginx logged.
func (s *stage) lastGroup() string {
	b, err := os.ReadFile(s.path("access.log"))
	if err != nil {
		return ""
	}
	lines := bytes.Split(bytes.TrimSpace(b), []byte("\n"))
	f := strings.Fields(string(lines[len(lines)-1]))
	if len(f) < 2 {
		return ""
	}
	return f[1]
}
