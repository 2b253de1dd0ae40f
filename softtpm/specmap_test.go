// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"holdfast/tpm2"
)

// TestSpecMap: docs/specmap.md has one row for each implemented command, and
// none for another. That the files and tests of the rows exist is tested in
// the root.
func TestSpecMap(t *testing.T) {
	text, err := os.ReadFile("../docs/specmap.md")
	if err != nil {
		t.Fatal(err)
	}
	_, part, ok := strings.Cut(string(text), "\n## Each command\n")
	part, _, ok2 := strings.Cut(part, "\n## ")
	if !ok || !ok2 {
		t.Fatal("docs/specmap.md has no section \"Each command\" with one behind it")
	}
	rows := map[string]int{}
	for _, m := range regexp.MustCompile(`(?m)^\| [^|]+ \| (?:TPM2_)?(\w+)[^|]* \|`).FindAllStringSubmatch(part, -1) {
		rows[m[1]]++
	}
	delete(rows, "command") // the head
	other := map[tpm2.CC]string{tpm2.CCHMAC: "MAC", tpm2.CCHMACStart: "MAC_Start"}
	for _, m := range commands.sorted {
		name := m.code.String()
		if n := other[m.code]; n != "" {
			name = n
		}
		if rows[name] != 1 {
			t.Errorf("docs/specmap.md has %d rows for %s, want 1", rows[name], name)
		}
		delete(rows, name)
	}
	for name := range rows {
		t.Errorf("docs/specmap.md has a row for %s, which is not implemented", name)
	}
}
