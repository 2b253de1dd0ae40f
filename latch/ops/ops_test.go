// SPDX-License-Identifier: Apache-2.0

//go:build unix

package ops

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holdfast/latch/audit"
)

func TestCheck(t *testing.T) {
	for text, c := range map[string]Config{
		"":                         {Control: "/run/x", Metrics: "127.0.0.1:9477", Audit: audit.Config{File: "/x"}},
		" ":                        {Metrics: "[::1]:9477"},
		"  ":                       {Metrics: "unix:/run/m"},
		"   ":                      {Metrics: "0.0.0.0:9477", MetricsRemote: true},
		"expected the absolute":    {Control: "run/x"},
		"at most 100":              {Control: "/" + strings.Repeat("x", 100)},
		"reached from elsewhere":   {Metrics: "0.0.0.0:9477"},
		"reached from elsewhere; ": {Metrics: "192.0.2.1:9477"},
		"expected IP:PORT":         {Metrics: "localhost:9477"},
		"expected unix:":           {Metrics: "unix:m"},
		"without metrics":          {MetricsRemote: true},
		"audit.queue":              {Audit: audit.Config{File: "/x", Queue: -1}},
	} {
		err := c.Check()
		if want := strings.TrimSpace(text); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%+v: got %v, want %q", c, err, text)
		}
	}
}

func TestServe(t *testing.T) {
	dir := t.TempDir()
	c := Config{Control: filepath.Join(dir, "c"), Metrics: "unix:" + filepath.Join(dir, "m")}
	reloads, fail := 0, error(nil)
	subject := Subject{
		Status:  func() any { return map[string]int{"live": 3} },
		Reload:  func() error { reloads++; return fail },
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "m 1\n") }),
	}
	s, err := Serve(c, subject)
	if err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(c.Control); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("control socket: %v %v, expected mode 0600", st.Mode(), err)
	}
	call := func(path, method, what string) string {
		b, err := Call(context.Background(), path, method, what)
		if err != nil {
			return err.Error()
		}
		return string(b)
	}
	if got := call(c.Control, "GET", "/status"); got != "{\"live\":3}\n" {
		t.Error(got)
	}
	if got := call(c.Control, "POST", "/reload"); got != "" || reloads != 1 {
		t.Error(got)
	}
	fail = errors.New("policy.yaml: no")
	if got := call(c.Control, "POST", "/reload"); !strings.Contains(got, "policy.yaml: no") {
		t.Error(got)
	}
	if got := call(filepath.Join(dir, "m"), "GET", "/metrics"); got != "m 1\n" {
		t.Error(got)
	}
	// The metrics' address must not give more than metrics.
	for _, x := range [][2]string{{"GET", "/status"}, {"POST", "/reload"}} {
		if got := call(filepath.Join(dir, "m"), x[0], x[1]); !strings.Contains(got, "404") {
			t.Errorf("%v on the metrics socket: %s", x, got)
		}
	}
	if _, err := Serve(c, subject); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Errorf("a second server on the same socket: %v", err)
	}
	s.Close()
	os.WriteFile(c.Control, nil, 0o600)
	if _, err := Serve(c, subject); err == nil || !strings.Contains(err.Error(), "not a socket") {
		t.Errorf("a file in the socket's place: %v", err)
	}
}
