// SPDX-License-Identifier: Apache-2.0

package tpmquote

import (
	"bytes"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// FuzzSecret: a secret is 64 digits and nothing else, is written as it was
// read, and is never in an error.
func FuzzSecret(f *testing.F) {
	f.Add([]byte(strings.Repeat("0f", SecretSize) + "\n"))
	f.Add([]byte(strings.Repeat("zz", SecretSize)))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := ParseSecret(b)
		if err != nil {
			if s != nil || len(b) > 8 && strings.Contains(err.Error(), string(b)) {
				t.Fatalf("%q: %x, %v", b, s, err)
			}
			return
		}
		if out := FormatSecret(s); len(s) != SecretSize || !bytes.Equal(bytes.ToLower(bytes.TrimSuffix(b, []byte("\n"))), bytes.TrimSuffix(out, []byte("\n"))) {
			t.Fatalf("%q becomes %q", b, out)
		}
	})
}

// FuzzSelection: a selection that is written down again selects the same
// registers, and nothing is selected that the text does not name.
func FuzzSelection(f *testing.F) {
	for _, s := range []string{"sha256:0,7,14", "sha384:23", "sha256:7,7", "sha256:", "sm3_256:1", "sha256:+7"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		sel, err := ParseSelection([]string{s})
		if err != nil {
			if sel != nil {
				t.Fatalf("%q: %v beside %v", s, sel, err)
			}
			return
		}
		var numbers []string
		for i := range 24 {
			if sel[0].Select[i/8]>>(i%8)&1 != 0 {
				numbers = append(numbers, strconv.Itoa(i))
			}
		}
		_, named, _ := strings.Cut(s, ":")
		for _, n := range strings.Split(named, ",") {
			if n = strings.TrimLeft(n, "0"); !slices.Contains(numbers, n) && n != "" {
				t.Fatalf("%q does not select %s", s, n)
			}
		}
		again, err := ParseSelection([]string{sel[0].Hash.String() + ":" + strings.Join(numbers, ",")})
		if err != nil || !reflect.DeepEqual(again, sel) {
			t.Fatalf("%q selects %+v and written again %+v (%v)", s, sel, again, err)
		}
		if two, err := ParseSelection([]string{s, s}); err == nil || two != nil {
			t.Fatalf("%q twice was accepted", s)
		}
	})
}
