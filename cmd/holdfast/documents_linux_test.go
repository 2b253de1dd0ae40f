// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"holdfast/attest/policy"
	"holdfast/latch/agent"
	"holdfast/latch/flow"
	"holdfast/latch/gate"
	"holdfast/latch/hold"
)

// documents are those for users; what they show must work.
func documents(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(files) < 5 {
		t.Fatalf("%v, %d documents", err, len(files))
	}
	out := map[string]string{}
	for _, f := range append(files, "../../README.md") {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		out[filepath.Base(f)] = strings.ReplaceAll(string(b), "\\\n", " ")
	}
	return out
}

var (
	inlineCode  = regexp.MustCompile("`((?:sudo )?(?:bin/)?holdfast [^`\n]+)`")
	commandLine = regexp.MustCompile(`(?m)^(?:    )?((?:sudo )?(?:bin/)?holdfast [^\n]+)$`)
	endOfWords  = regexp.MustCompile(`\s(?:#|&&|&|\||;|>).*$`)
	ellipsis    = regexp.MustCompile(`\.\.\.|…|^[^a-z-]|\|`)
)

// TestDocumentedCommands: every command line of the documents names commands
// and flags that are there.
func TestDocumentedCommands(t *testing.T) {
	n := 0
	for name, text := range documents(t) {
		for _, m := range append(inlineCode.FindAllStringSubmatch(text, -1), commandLine.FindAllStringSubmatch(text, -1)...) {
			line := strings.TrimPrefix(strings.TrimPrefix(m[1], "sudo "), "bin/")
			n++
			if err := parses(strings.Fields(endOfWords.ReplaceAllString(line, ""))[1:]); err != "" {
				t.Errorf("%s: %q: %s", name, m[1], err)
			}
		}
	}
	if n < 45 {
		t.Errorf("%d command lines were found, expected the documents' 45 and more", n)
	}
	for _, bad := range []string{"latch gat", "latch gate --confg x", "nonsense"} {
		if parses(strings.Fields(bad)) == "" {
			t.Errorf("%q was taken for good", bad)
		}
	}
}

// parses says what is wrong with the words of a command line.
func parses(words []string) string {
	c := newRoot()
	for len(words) > 0 && !strings.HasPrefix(words[0], "-") {
		var next *cobra.Command
		c.InitDefaultHelpCmd()
		c.InitDefaultCompletionCmd()
		for _, s := range c.Commands() {
			if s.Name() == words[0] {
				next = s
			}
		}
		if next == nil {
			if c.HasSubCommands() && !ellipsis.MatchString(words[0]) { // not a placeholder such as COMMAND
				return words[0] + " is no command of " + c.CommandPath()
			}
			break
		}
		c, words = next, words[1:]
	}
	for _, w := range words {
		if w == "--" {
			break
		}
		flag, ok := strings.CutPrefix(w, "--")
		if flag, _, _ = strings.Cut(strings.Trim(flag, "[],.;:)"), "="); ok && flag != "" && flag != "help" && c.Flag(flag) == nil && c.InheritedFlags().Lookup(flag) == nil {
			return "--" + flag + " is no flag of " + c.CommandPath()
		}
	}
	return ""
}

var yamlBlock = regexp.MustCompile("(?s)```yaml\n(.*?)```")

// TestGuideConfigurations: the files of the operators' guide are good.
func TestGuideConfigurations(t *testing.T) {
	kinds := map[string]int{}
	for _, m := range yamlBlock.FindAllStringSubmatch(documents(t)["operations.md"], -1) {
		text := m[1]
		var err error
		kind := strings.SplitN(text, ":", 2)[0]
		switch kinds[kind]++; kind {
		case "listeners":
			_, err = agent.ParseConfig([]byte(text))
		case "services":
			_, err = gate.ParseConfig([]byte(text))
		case "proxy":
			_, err = gate.ParseConfig([]byte("services: {a.test: {agents: [\"unix:/a\"], trust: t, policy: p}}\n" + text))
		case "environments":
			_, err = policy.Parse([]byte(strings.Replace(text, "SHA-256 of /usr/sbin/nginx on the server", strings.Repeat("0f", 32), 1)))
		default:
			t.Errorf("a block that nobody checks begins with %q", kind)
		}
		if err != nil {
			t.Errorf("%v in\n%s", err, text)
		}
	}
	for _, k := range []string{"listeners", "services", "proxy", "environments"} {
		if kinds[k] == 0 {
			t.Errorf("the guide has no block %s:", k)
		}
	}
}

// TestExplain: every name that a refusal can have is explained, in both forms;
// none is invented.
func TestExplain(t *testing.T) {
	names := flow.Reasons()
	for r := hold.ReasonNone + 1; r.Code() != "unknown"; r++ {
		switch r {
		case hold.ReasonNotTaken, hold.ReasonWrongKick: // of tries to release: counted, never a verdict
		default:
			names = append(names, flow.Reason(r.Code()))
		}
	}
	explain := func(args ...string) (string, error) {
		root := newRoot()
		var out bytes.Buffer
		root.SetOut(&out)
		root.SetArgs(append([]string{"latch", "explain"}, args...))
		err := root.Execute()
		return out.String(), err
	}
	all, err := explain()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range names {
		out, err := explain(string(r))
		if err != nil || !strings.HasPrefix(out, string(r)+" ") || len(out) < len(r)+25 || !strings.Contains(all, out) {
			t.Errorf("%s: %v %q", r, err, out)
		}
	}
	if n := strings.Count(all, "\n"); n != len(flow.Reasons()) {
		t.Errorf("%d lines for %d reasons", n, len(flow.Reasons()))
	}
	if _, err := explain("no-such-reason"); err == nil {
		t.Error("a reason that nobody gives was explained")
	}
}

// TestPagesAndCompletionOfEveryVerb: each command that help shows has a manual
// page, and completion offers it.
func TestPagesAndCompletionOfEveryVerb(t *testing.T) {
	dir := t.TempDir()
	root := newRoot()
	if _, err := manPages(root, dir); err != nil {
		t.Fatal(err)
	}
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		page, err := os.ReadFile(filepath.Join(dir, manName(c)+".1"))
		if err != nil {
			t.Error(err)
		}
		var subs []*cobra.Command
		for _, s := range c.Commands() {
			if s.IsAvailableCommand() && !s.IsAdditionalHelpTopicCommand() {
				subs = append(subs, s)
			}
		}
		if len(subs) == 0 {
			return
		}
		fresh := newRoot()
		var out bytes.Buffer
		fresh.SetOut(&out)
		fresh.SetErr(io.Discard)
		fresh.SetArgs(append(append([]string{"__complete"}, strings.Fields(c.CommandPath())[1:]...), ""))
		if err := fresh.Execute(); err != nil {
			t.Error(err)
		}
		for _, s := range subs {
			if !strings.Contains("\n"+out.String(), "\n"+s.Name()+"\t") {
				t.Errorf("completion of %q does not offer %s", c.CommandPath(), s.Name())
			}
			if !bytes.Contains(page, []byte(roff(manName(s)))) {
				t.Errorf("the page of %q does not name %s", c.CommandPath(), s.Name())
			}
			walk(s)
		}
	}
	walk(root)
}
