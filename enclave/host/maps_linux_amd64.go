// SPDX-License-Identifier: Apache-2.0

package host

import (
	"fmt"
	"os"
	"strings"
)

type area struct{ start, end uint64 }

// readMaps lists the mappings of a process.
func readMaps(pid int) ([]area, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return nil, fmt.Errorf("enclave/host: mappings of the enclave process: %w", err)
	}
	return parseMaps(string(b))
}

// parseMaps reads proc_pid_maps(5): only the first field of a line is looked at.
func parseMaps(text string) ([]area, error) {
	var out []area
	for _, l := range strings.Split(strings.TrimSpace(text), "\n") {
		var a area
		if _, err := fmt.Sscanf(l, "%x-%x", &a.start, &a.end); err != nil {
			return nil, fmt.Errorf("enclave/host: mapping %q: %w", l, err)
		}
		out = append(out, a)
	}
	return out, nil
}
