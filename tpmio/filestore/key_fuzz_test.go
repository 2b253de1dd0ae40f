// SPDX-License-Identifier: Apache-2.0

package filestore

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"
)

// FuzzKey: a key file is the key's bytes or its digits; a key is never zero or
// of another size, and no error holds what the file holds.
func FuzzKey(f *testing.F) {
	f.Add(bytes.Repeat([]byte{7}, keySize))
	f.Add([]byte(strings.Repeat("a5", keySize) + "\n"))
	f.Add(make([]byte, keySize))
	f.Fuzz(func(t *testing.T, b []byte) {
		in := bytes.Clone(b)
		key, err := parseKey("k", b)
		if err != nil {
			if key != nil || len(in) >= 8 && strings.Contains(err.Error(), string(in)) {
				t.Fatalf("%q: %x, %v", in, key, err)
			}
			return
		}
		if len(key) != keySize || bytes.Equal(key, make([]byte, keySize)) {
			t.Fatalf("%q: key %x", in, key)
		}
		digits := strings.ToLower(strings.TrimSuffix(string(in), "\n"))
		if !bytes.Equal(in, key) && digits != hex.EncodeToString(key) {
			t.Fatalf("%q is neither %x nor its digits", in, key)
		}
	})
}
