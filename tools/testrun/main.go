// SPDX-License-Identifier: Apache-2.0

// Command testrun is `make test`: it vets and runs every test of the module,
// says what was skipped and why, and ends with one line
//
//	N passed, N failed, N skipped
//
// A skip must have the form SKIP[feature]: fact. It counts as a failure if it
// has not, or if `holdfast doctor` says that this host has the feature: then
// the test should have run. SKIP[full] is for what only `make test-full` runs,
// SKIP[flag] for what only its own flag starts (a recorder of test data).
// A test that fails and then passes three times by itself is called unsteady.
//
// Flags: -full also runs the long tests (HOLDFAST_TEST_FULL=1 in their
// environment) and all under the race detector; -check runs only what needs
// neither root nor packages.
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	full := flag.Bool("full", false, "long tests and the race detector everywhere")
	check := flag.Bool("check", false, "only what needs neither root nor packages")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "testrun: expected no arguments, got", flag.Args())
		os.Exit(2)
	}
	r := &run{full: *full, start: time.Now(), features: map[string]bool{}}
	if *check {
		r.checks()
	} else {
		r.tests()
	}
	os.Exit(r.report(os.Stdout))
}

// raceQuick are packages whose concurrency matters most and whose tests are
// short: `make test` runs them a second time under the race detector.
var raceQuick = []string{"./latch/channel/...", "./latch/flow/...", "./tpmio/...", "./attest/provider/..."}

// raceBefore is when the rest of a quarter of an hour is too short for them:
// the detector needs a build of its own.
const raceBefore = 13 * time.Minute

// otherSystems must compile: all packages for Linux, the program with all that
// it needs elsewhere.
var otherSystems = []struct{ os, arch, packages string }{
	{"linux", "arm64", "./..."},
	{"linux", "arm", "./..."},
	{"linux", "riscv64", "./..."},
	{"windows", "amd64", "./cmd/holdfast"},
	{"windows", "arm64", "./cmd/holdfast"},
	{"darwin", "amd64", "./cmd/holdfast"},
	{"darwin", "arm64", "./cmd/holdfast"},
}

// checks is `make check`.
func (r *run) checks() {
	r.step("vet", nil, "go", "vet", "./...")
	for _, s := range otherSystems {
		r.step("build "+s.os+"/"+s.arch, []string{"GOOS=" + s.os, "GOARCH=" + s.arch}, "go", "build", "-o", os.DevNull, s.packages)
	}
	for _, o := range []string{"windows", "darwin"} { // with their tests, and the calls of the systems
		r.step("vet "+o+"/amd64", []string{"GOOS=" + o, "GOARCH=amd64"}, "go", "vet", "./cmd/...", "./latch/...")
	}
	r.goTest("hygiene", nil, ".", "./tools/...")
	r.generated()
}

// tests is `make test`.
func (r *run) tests() {
	bin, err := filepath.Abs("bin/holdfast")
	if err != nil {
		r.fail("testrun", err.Error())
		return
	}
	prefix := rootPrefix(bin, r.full)
	if !r.doctor(prefix) {
		return
	}
	alone, together := r.packages()
	r.goTest("packages without a network", prefix, append([]string{"-vet=all"}, together...)...)
	// Namespaces, deadlines and two cores: one package at a time.
	r.goTest("packages with a network", prefix, append([]string{"-vet=all", "-p=1"}, alone...)...)
	if spent := time.Since(r.start); !r.full && spent > raceBefore {
		r.note(fmt.Sprintf("race detector left to make test-full: the tests took %.0f s on this machine", spent.Seconds()))
		return
	}
	r.race(prefix)
}

// rootPrefix is what runs a program as root with our settings.
func rootPrefix(bin string, full bool) []string {
	env := []string{"env", "HOLDFAST_BIN=" + bin}
	if full {
		env = append(env, "HOLDFAST_TEST_FULL=1")
	}
	if os.Geteuid() != 0 {
		env = append([]string{"sudo", "--"}, append(env, "PATH="+os.Getenv("PATH"), "HOME="+os.Getenv("HOME"))...)
	}
	return env
}

// doctor asks the binary what this host can run.
func (r *run) doctor(prefix []string) bool {
	args := append(append([]string{}, prefix...), "bin/holdfast", "doctor", "--json")
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	var list struct {
		Features []struct {
			Name    string
			Present bool
		}
	}
	if err == nil {
		err = json.Unmarshal(out, &list)
	}
	if err == nil && len(list.Features) == 0 {
		err = fmt.Errorf("it names no feature")
	}
	if err != nil {
		r.fail("holdfast doctor --json", err.Error())
		return false
	}
	for _, f := range list.Features {
		r.features[f.Name] = f.Present
	}
	return true
}

// race runs the race detector, which needs a C compiler.
func (r *run) race(prefix []string) {
	patterns := r.existing(raceQuick)
	if r.full {
		patterns = []string{"./..."}
	}
	if !r.features["gcc"] {
		r.note("race detector not used: it needs gcc")
		return
	}
	if len(patterns) == 0 {
		return
	}
	args := []string{"-race", "-short"}
	if r.full {
		args = []string{"-race", "-p=1"}
	}
	old := os.Getenv("CGO_ENABLED")
	os.Setenv("CGO_ENABLED", "1")
	defer os.Setenv("CGO_ENABLED", old)
	r.goTest("race detector", prefix, append(args, patterns...)...)
}

// existing drops patterns that match no package, so that a list may name what
// is not written yet.
func (r *run) existing(patterns []string) []string {
	var out []string
	for _, p := range patterns {
		dir := strings.TrimSuffix(p, "/...")
		if _, err := os.Stat(dir); err == nil {
			out = append(out, p)
		}
	}
	return out
}

// packages splits the module's packages with tests: alone are those whose
// tests make networks.
func (r *run) packages() (alone, together []string) {
	cmd := exec.Command("go", "list", "-f", `{{.ImportPath}} {{len .TestGoFiles}}{{len .XTestGoFiles}} {{join .Imports ","}},{{join .TestImports ","}},{{join .XTestImports ","}},`, "./...")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		r.fail("go list", err.Error())
	}
	for _, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		f := strings.Fields(line)
		switch {
		case len(f) < 2 || f[1] == "00":
		case len(f) > 2 && networked(f[0], f[2]):
			alone = append(alone, f[0])
		default:
			together = append(together, f[0])
		}
	}
	return alone, together
}

// networked says whether a package's tests make networks or servers whose
// timing others would disturb.
func networked(pkg, imports string) bool {
	for _, dir := range []string{"holdfast/test/", "holdfast/cmd/", "holdfast/bench/", "holdfast/latch/hold/", "holdfast/latch/observe", "holdfast/latch/agent", "holdfast/latch/gate"} {
		if strings.HasPrefix(pkg, dir) {
			return true
		}
	}
	return strings.Contains(imports, "holdfast/test/netns,")
}

// generated makes the generated files again and compares, if the tools for
// that are here.
func (r *run) generated() {
	if _, err := exec.LookPath("clang-14"); err != nil {
		r.note("generated files not compared: clang-14 is not installed")
		return
	}
	before, err := exec.Command("git", "status", "--porcelain").Output()
	if err != nil {
		r.note("generated files not compared: this is no git checkout")
		return
	}
	r.step("go generate", nil, "go", "generate", "./...")
	after, err := exec.Command("git", "status", "--porcelain").Output()
	if err != nil || !bytes.Equal(before, after) {
		r.fail("go generate", "committed files are not what go generate makes:\n"+string(after))
	}
}
