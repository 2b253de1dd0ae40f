// SPDX-License-Identifier: Apache-2.0

package simulated_test

import (
	"bytes"
	"testing"

	"holdfast/attest/evidence"
	"holdfast/attest/provider/simulated"
)

// FuzzParseRoot: what is read as a root is written so that the same root comes
// back, with the mark that it is simulated.
func FuzzParseRoot(f *testing.F) {
	for _, alg := range []string{evidence.ES256, evidence.MLDSA65} {
		r, err := simulated.NewRoot("lab", alg)
		if err != nil {
			f.Fatal(err)
		}
		b, err := r.Encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte("what: x\nname: a\nalgorithm: ES256\nkey: 00\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := simulated.ParseRoot(b)
		if (r == nil) != (err != nil) {
			t.Fatalf("%v, %v", r, err)
		}
		if err != nil {
			return
		}
		out, err := r.Encode()
		if err != nil || !bytes.Contains(out, []byte(evidence.SimulatedMark)) {
			t.Fatalf("%q, %v", out, err)
		}
		again, err := simulated.ParseRoot(out)
		if err != nil {
			t.Fatalf("%q does not read back: %v", out, err)
		}
		x, err := r.Record()
		if err != nil {
			t.Fatal(err)
		}
		if y, err := again.Record(); err != nil || y.Name != x.Name || y.Algorithm != x.Algorithm || !bytes.Equal(y.Public, x.Public) {
			t.Fatalf("%+v becomes %+v, %v", x, y, err)
		}
	})
}
