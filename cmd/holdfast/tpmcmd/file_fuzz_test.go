// SPDX-License-Identifier: Apache-2.0

package tpmcmd

import (
	"bytes"
	"reflect"
	"testing"
)

// FuzzFiles: the files that tpm2-tools makes are read whole or refused; what is
// read is written as the same bytes.
func FuzzFiles(f *testing.F) {
	c, err := credential([]byte{0, 1, 2}, []byte{3, 4})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(c)
	f.Add([]byte{0, 2, 1, 2})
	f.Add([]byte{0})
	f.Fuzz(func(t *testing.T, b []byte) {
		id, secret, err := parseCredential(b)
		if err != nil {
			if id != nil || secret != nil {
				t.Fatal("parts of a credential beside an error")
			}
		} else if again, err := credential(id, secret); err != nil || !bytes.Equal(again, b) {
			t.Fatalf("%x becomes %x, %v", b, again, err)
		}
		x, err := unwrap(b, "TPM2B_PUBLIC")
		if err != nil {
			if x != nil {
				t.Fatal("a content beside an error")
			}
		} else if len(x) != len(b)-2 || int(b[0])<<8|int(b[1]) != len(x) {
			t.Fatalf("%x gave %x", b, x)
		}
	})
}

// FuzzSpecs: what the command line says of PCRs, handles and values is read as
// it stands there, or refused with nothing beside.
func FuzzSpecs(f *testing.F) {
	for _, s := range []string{"sha256:0,7,16+sha1:all", "sha384:none", "0x81000001", "hex:00ff", "str:a:b", "owner", "sha256:7,7", "sha256:24"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		sel, err := PCRs(s)
		if (sel == nil) != (err != nil) {
			t.Fatalf("%q: %v, %v", s, sel, err)
		}
		for _, x := range sel {
			if _, err := Hash(x.Hash.String()); err != nil || len(x.Select) != 3 {
				t.Fatalf("%q selects %+v", s, x)
			}
		}
		if h, err := Handle(s); err != nil && h != 0 {
			t.Fatalf("%q: handle %v beside %v", s, h, err)
		}
		if h, err := Hierarchy(s); err != nil && h != 0 {
			t.Fatalf("%q: hierarchy %v beside %v", s, h, err)
		}
		if len(s) > 4 && s[:4] == "hex:" {
			v, err := Value(s)
			if again, err2 := Value(s); !reflect.DeepEqual(v, again) || (err == nil) != (err2 == nil) || err == nil && 2*len(v) != len(s)-4 || err != nil && v != nil {
				t.Fatalf("%q: %x, %v", s, v, err)
			}
		}
	})
}
