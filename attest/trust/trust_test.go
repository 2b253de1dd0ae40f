// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"time"
)

func record(name string, public byte) AK {
	return AK{Environment: name, Public: []byte{public, 2, 3}, QualifiedName: []byte{0, 11, 1}, Method: MethodActivation, Machine: "m",
		Enrolled: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC), EK: EK{Name: []byte{0, 11}, Type: "ECC-P256", CertificateSHA256: []byte{9}}}
}

func TestRoundTrip(t *testing.T) {
	r, err := New([]AK{record("web-1", 1), record("web-2", 2)}, []SimulatedRoot{{"lab", "ES256", []byte{4}}})
	if err != nil {
		t.Fatal(err)
	}
	b, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	back, err := Parse(b)
	if err != nil {
		t.Fatalf("%v in\n%s", err, b)
	}
	if !reflect.DeepEqual(back, r) {
		t.Errorf("got %+v, want %+v", back, r)
	}
	a, ok := back.AK(PublicHash([]byte{2, 2, 3}))
	if !ok || a.Environment != "web-2" || len(back.AKs()) != 2 || len(back.Simulated()) != 1 {
		t.Errorf("got %+v", a)
	}
	if _, ok := back.AK(PublicHash([]byte{3, 2, 3})); ok {
		t.Error("found a key that is not pinned")
	}
}

func TestRefuses(t *testing.T) {
	ok := `version: 1
attestation-keys:
  - environment: web-1
    public: AQID
    method: imported
    enrolled: 2026-11-30T12:00:00Z
`
	if _, err := Parse([]byte(ok)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ from, to, says string }{
		{"version: 1", "version: 2", "version"},
		{"version: 1", "", "version"},
		{"environment: web-1", "environment: SIMULATED/x/y", "letters"},
		{"environment: web-1", "environment: ''", "64 characters"},
		{"public: AQID", "public: AQI", "base64"},
		{"public: AQID", "public: ''", "1 to 8192"},
		{"method: imported", "method: hope", "method"},
		{"method: imported", "method: credential-activation", "EK name"},
		{"enrolled: 2026-11-30T12:00:00Z", "", "enrolled"},
		{"method: imported", "method: imported\n    trusted: yes", "trusted"},
		{"method: imported", "method: imported\n    qualified-name: xyz", "hexadecimal"},
		{ok, "", "empty"},
		{ok, ok + "---\n" + ok, "one YAML document"},
		{ok, ok + ok[len("version: 1\nattestation-keys:\n"):], "already"},
		{ok, ok + strings.Replace(ok[len("version: 1\nattestation-keys:\n"):], "web-1", "web-2", 1), "pinned already"},
		{ok, ok + "simulated-roots: [{name: a, algorithm: RS256, public: AQID}]", "algorithm"},
		{ok, ok + "simulated-roots: [{name: a, algorithm: ES256, public: AQID}, {name: a, algorithm: ES256, public: AQID}]", "twice"},
	} {
		s := strings.Replace(ok, c.from, c.to, 1)
		r, err := Parse([]byte(s))
		if err == nil || r != nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q instead of %q: expected an error with %q, got %v", c.to, c.from, c.says, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	r, err := New([]AK{record("web-1", 1)}, []SimulatedRoot{{"lab", "ES256", []byte{4}}})
	if err != nil {
		f.Fatal(err)
	}
	b, err := r.Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	all, err := Build(Records{AKs: []AK{record("web-1", 1)}, Platforms: []Platform{{Environment: "tdx-1", Type: TypeTDX, Chip: bytes.Repeat([]byte{7}, 16)}}})
	if err != nil {
		f.Fatal(err)
	}
	if b, err = all.Encode(); err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := Parse(b)
		if (err == nil) == (r == nil) {
			t.Fatalf("roots %v with error %v", r, err)
		}
		if err != nil {
			return
		}
		enc, err := r.Encode()
		if err != nil {
			t.Fatal(err)
		}
		again, err := Parse(enc)
		if err != nil {
			t.Fatalf("%q does not read back: %v", enc, err)
		}
		if out, err := again.Encode(); err != nil || !bytes.Equal(out, enc) {
			t.Fatalf("%q becomes %q (%v)", enc, out, err)
		}
	})
}
