// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// Every command that help shows has a page, with its flags and without a line
// that a formatter would take for a request of ours gone wrong.
func TestManPages(t *testing.T) {
	dir := t.TempDir()
	root := newRoot()
	n, err := manPages(root, dir)
	if err != nil {
		t.Fatal(err)
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*.1"))
	if n != len(files) || n < 40 {
		t.Errorf("%d pages said, %d there; expected the same, and more than 40 commands", n, len(files))
	}
	requests := map[string]bool{".TH": true, ".nh": true, ".SH": true, ".B": true, ".BR": true, ".TP": true, ".PP": true, ".nf": true, ".fi": true}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for i, l := range strings.Split(string(b), "\n") {
			if strings.HasPrefix(l, ".") && !requests[strings.Fields(l)[0]] || strings.HasPrefix(l, "'") {
				t.Errorf("%s:%d: %q is taken for a request", filepath.Base(f), i+1, l)
			}
		}
	}
	page := manPage(find(t, root, "latch", "gate"))
	for _, want := range []string{`\-\-config`, `\-\-cgroup`, `\-\-log\-level`, "holdfast\\-latch (1)", "SIGHUP"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page of latch gate lacks %q:\n%s", want, page)
		}
	}
}

func find(t *testing.T, root *cobra.Command, path ...string) *cobra.Command {
	t.Helper()
	c, _, err := root.Find(path)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Completion scripts come from cobra and name our verbs.
func TestCompletion(t *testing.T) {
	for shell, want := range map[string]string{"bash": "__start_holdfast", "zsh": "#compdef holdfast", "fish": "complete -c holdfast", "powershell": "Register-ArgumentCompleter"} {
		root := newRoot()
		var out bytes.Buffer
		root.SetOut(&out)
		root.SetArgs([]string{"completion", shell})
		if err := root.Execute(); err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%s: %v, %d bytes without %q", shell, err, out.Len(), want)
		}
	}
	// What a script asks for when the user presses the key.
	root := newRoot()
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetArgs([]string{"__complete", "latch", "re"})
	if err := root.Execute(); err != nil || !strings.Contains(out.String(), "reload\t") {
		t.Errorf("%v: %s", err, out.String())
	}
}
