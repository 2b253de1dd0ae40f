// SPDX-License-Identifier: Apache-2.0

package stat

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// Host is what a figure belongs to.
type Host struct {
	Time   string `json:"time"` // UTC
	CPU    string `json:"cpu"`
	Cores  int    `json:"cores"`
	Kernel string `json:"kernel"`
	Go     string `json:"go"`
	Load   string `json:"load"` // 1, 5 and 15 minutes, before the run: others' work disturbs
	Commit string `json:"commit"`
}

// ThisHost reads the facts; commit is the version of the program.
func ThisHost(commit string) Host {
	h := Host{Time: time.Now().UTC().Format(time.RFC3339), CPU: runtime.GOARCH, Cores: runtime.NumCPU(), Go: runtime.Version(), Commit: commit}
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for _, l := range strings.Split(string(b), "\n") {
			if k, v, ok := strings.Cut(l, ":"); ok && strings.TrimSpace(k) == "model name" {
				h.CPU = strings.TrimSpace(v)
				break
			}
		}
	}
	if b, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		h.Kernel = strings.TrimSpace(string(b))
	}
	if b, err := os.ReadFile("/proc/loadavg"); err == nil {
		if f := strings.Fields(string(b)); len(f) > 2 {
			h.Load = strings.Join(f[:3], " ")
		}
	}
	return h
}

// Fields are the facts in the order of [HostColumns], for CSV.
func (h Host) Fields() []string {
	return []string{h.Time, h.Commit, h.CPU, itoa(h.Cores), h.Kernel, h.Go, h.Load}
}

// HostColumns names the fields of [Host.Fields].
var HostColumns = []string{"time", "commit", "cpu", "cores", "kernel", "go", "load"}

// Busy says that others' work makes the figures doubtful, or "".
func (h Host) Busy() string {
	one, _, _ := strings.Cut(h.Load, " ")
	load, err := strconv.ParseFloat(one, 64)
	if err != nil || load <= float64(h.Cores) {
		return ""
	}
	return fmt.Sprintf("This machine was busy before the run (load %s on %d cores): the figures are doubtful, rates more than CPU times.", one, h.Cores)
}
