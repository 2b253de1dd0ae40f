// SPDX-License-Identifier: Apache-2.0

package host

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// FuzzMaps: whatever a mapped file is called, the areas are those that the
// kernel wrote. (It writes a line's end in a name as an escape.)
func FuzzMaps(f *testing.F) {
	f.Add(uint64(0x400000), uint64(0x401000), "/bin/x (deleted)")
	f.Add(uint64(0), ^uint64(0), " 7f00-7f01 rw-p")
	f.Fuzz(func(t *testing.T, start, end uint64, name string) {
		name = strings.ReplaceAll(name, "\n", `\012`)
		want := []area{{start, end}, {end, start}}
		var text strings.Builder
		for _, a := range want {
			fmt.Fprintf(&text, "%08x-%08x r-xp 00000000 08:01 7 %s\n", a.start, a.end, name)
		}
		got, err := parseMaps(text.String())
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("%q: %v, %v", text.String(), got, err)
		}
		if got, err := parseMaps(name); err != nil && got != nil {
			t.Fatalf("%v beside %v", got, err)
		}
	})
}
