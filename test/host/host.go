// SPDX-License-Identifier: Apache-2.0

// Package host finds out what this machine can run. Call [Probe] for the
// whole list (`holdfast doctor` prints it), or [Need] in a test that depends
// on a feature.
//
// A probe does the thing in question (loads a program, makes a namespace,
// opens the device) instead of reading version numbers, and undoes it. Probes
// need no network and leave nothing behind; each is bounded by a few seconds.
package host

import (
	"sync"
)

// A Feature is one ability of the machine.
type Feature struct {
	Name    string `json:"name"`
	Present bool   `json:"present"`
	Fact    string `json:"fact"`  // what was found, or why the probe failed
	Gives   string `json:"gives"` // what of Holdfast depends on it
}

// A probe returns what it found, or why the feature is absent.
type probe struct {
	name  string
	gives string
	run   func() (fact string, err error)
}

// probes are in the order in which a person wants to read them.
var probes = concat(systemProbes, programProbes)

func concat(lists ...[]probe) []probe {
	var out []probe
	for _, l := range lists {
		out = append(out, l...)
	}
	return out
}

// Names lists all features.
func Names() []string {
	var out []string
	for _, p := range probes {
		out = append(out, p.name)
	}
	return out
}

var (
	mu    sync.Mutex
	cache = map[string]Feature{}
)

// Has probes one feature, once per process.
func Has(name string) Feature {
	mu.Lock()
	defer mu.Unlock()
	if f, ok := cache[name]; ok {
		return f
	}
	for _, p := range probes {
		if p.name != name {
			continue
		}
		f := Feature{Name: p.name, Gives: p.gives}
		fact, err := p.run()
		f.Fact, f.Present = fact, err == nil
		if err != nil {
			f.Fact = err.Error()
		}
		cache[name] = f
		return f
	}
	return Feature{Name: name, Fact: "no such feature is known to test/host"}
}

// Probe runs every probe.
func Probe() []Feature {
	var out []Feature
	for _, p := range probes {
		out = append(out, Has(p.name))
	}
	return out
}

// skipper is the part of *testing.T that Need uses; tests of Need fake it.
type skipper interface {
	Helper()
	Skipf(format string, args ...any)
}

// Need skips the test unless the machine has each of the features. The
// message has the one form that tools/testrun understands,
//
//	SKIP[feature]: host fact
//
// and that program fails if the doctor says that the feature is present, so
// that no test is lost in silence.
func Need(t skipper, features ...string) {
	t.Helper()
	for _, name := range features {
		if f := Has(name); !f.Present {
			t.Skipf("SKIP[%s]: %s", f.Name, f.Fact)
			return
		}
	}
}
