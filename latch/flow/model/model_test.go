// SPDX-License-Identifier: Apache-2.0

// Package model checks latch.pml, the model of gate and agent, with spin. It
// holds no code for others.
package model

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdfast/latch/flow"
	"holdfast/test/host"
)

// check builds a verifier from the model with the given definitions and runs
// it. It returns what the verifier printed.
func check(t *testing.T, spinFlags, ccFlags, panFlags []string) string {
	t.Helper()
	host.Need(t, "spin", "gcc")
	src, err := filepath.Abs("latch.pml")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	run := func(name string, args ...string) string {
		c := exec.CommandContext(ctx, name, args...)
		c.Dir = dir
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, out)
		}
		return string(out)
	}
	run("spin", append(spinFlags, "-a", src)...)
	run("gcc", append(ccFlags, "-O2", "-o", "pan", "pan.c")...)
	return run("./pan", panFlags...)
}

func errorsIn(t *testing.T, out string) bool {
	t.Helper()
	for _, l := range strings.Split(out, "\n") {
		if _, n, found := strings.Cut(l, "errors: "); found {
			return strings.TrimSpace(n) != "0"
		}
	}
	t.Fatalf("the verifier did not say how many errors it found:\n%s", out)
	return true
}

// TestSafety: with the adversary's budget, no run opens the door for a
// ServerHello that is not proved, and none ends in a state that is no end.
func TestSafety(t *testing.T) {
	// With three segments (-DBUDGET=3) it takes 3.4 million states and half a
	// minute of a quiet processor; the result is the same.
	out := check(t, []string{"-DBUDGET=2"}, []string{"-DSAFETY", "-DNOCLAIM"}, []string{"-m1000000"})
	if errorsIn(t, out) || strings.Contains(out, "max search depth too small") {
		t.Errorf("the model breaks its promise:\n%s", out)
	}
	if !strings.Contains(out, "assertion violations	+") || !strings.Contains(out, "invalid end states	+") {
		t.Errorf("the verifier did not check what it should:\n%s", out)
	}
}

// TestDecided: under weak fairness every connection is opened or refused.
func TestDecided(t *testing.T) {
	out := check(t, []string{"-DBUDGET=1"}, []string{"-DNFAIR=3"}, []string{"-a", "-f", "-m1000000"})
	if errorsIn(t, out) || !strings.Contains(out, "acceptance   cycles 	+ (fairness enabled)") {
		t.Errorf("a connection may stay undecided:\n%s", out)
	}
}

// TestBroken: each rule that is taken away lets the adversary in. A model that
// cannot fail would prove nothing.
func TestBroken(t *testing.T) {
	for _, d := range []string{"NOCOUNT", "COUNTFIRST", "NODIFFER", "NOBINDER"} {
		t.Run(d, func(t *testing.T) {
			out := check(t, []string{"-DBUDGET=2", "-D" + d}, []string{"-DSAFETY", "-DNOCLAIM"}, []string{"-m1000000"})
			if !errorsIn(t, out) || !strings.Contains(out, "assertion violated") {
				t.Errorf("the broken model was not found out:\n%s", out)
			}
		})
	}
}

// TestNames: the model's states are those of the code.
func TestNames(t *testing.T) {
	b, err := os.ReadFile("latch.pml")
	if err != nil {
		t.Fatal(err)
	}
	_, names, found := strings.Cut(string(b), "mtype = {")
	names, _, closed := strings.Cut(names, "}")
	if !found || !closed {
		t.Fatal("no list of states in the model")
	}
	code := map[string]bool{"Open": true} // the code drops the entry instead
	for s := flow.Hello; s <= flow.Ended; s++ {
		code[s.String()] = true
	}
	for _, n := range strings.Split(names, ",") {
		if n = strings.TrimSpace(n); !code[n] {
			t.Errorf("the model has a state %q that the code does not know", n)
		}
	}
}
