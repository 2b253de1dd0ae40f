// SPDX-License-Identifier: Apache-2.0

package eventlog

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"holdfast/attest/evidence"
	"holdfast/tpm2"
)

// golden is a log typed from the Firmware Profile: header (10.2.1.1), Spec ID
// event for SHA-256 (10.4.5.1), startup locality 3 (10.4.5.3), and one
// separator in PCR 7 whose digest is SHA-256 of its four zero bytes.
const golden = "00000000 03000000 0000000000000000000000000000000000000000 21000000" +
	"53706563204944204576656e743033 00 00000000 00 02 00 02 01000000 0b00 2000 00" +
	"00000000 03000000 01000000 0b00 0000000000000000000000000000000000000000000000000000000000000000 11000000 537461727475704c6f63616c69747900 03" +
	"07000000 04000000 01000000 0b00 df3f619804a92fdb4057192dc43dd748ea778adc52bc498ce80524c014b81119 04000000 00000000"

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestGolden(t *testing.T) {
	b := unhex(t, golden)
	l, err := Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	if len(l.Events) != 2 || l.Events[1].PCR != 7 || l.Events[1].Type != EvSeparator || !l.Events[1].Bound() || len(l.Header.Algs) != 1 {
		t.Fatalf("got %+v", l)
	}
	if !bytes.Equal(l.Encode(), b) {
		t.Errorf("encodes to %x", l.Encode())
	}
	v, err := Replay(tpm2.AlgSHA256, l)
	if err != nil {
		t.Fatal(err)
	}
	want := tpm2.AlgSHA256.Sum(make([]byte, 32), l.Events[1].Digests[0].Value)
	if !bytes.Equal(v.Value[7], want) || v.Value[0][31] != 3 || v.Touched[0] || !v.Touched[7] || v.Value[17][0] != 0xff || v.Value[23][0] != 0 {
		t.Errorf("replay: got %+v", v)
	}
	// A bank without digests in the log is not explained by it.
	v, err = Replay(tpm2.AlgSHA384, l)
	if err != nil || !v.Unknown[7] || v.Touched[7] {
		t.Errorf("other bank: got %+v, %v", v, err)
	}
	if _, err := Replay(tpm2.AlgNull, l); err == nil {
		t.Error("replay of a bank that is no hash")
	}
}

func TestMalformed(t *testing.T) {
	b := unhex(t, golden)
	l, err := Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	whole := len(l.Encode())
	ends := map[int]bool{len((&Log{Header: l.Header}).Encode()): true, len((&Log{Header: l.Header, Events: l.Events[:1]}).Encode()): true, whole: true}
	for i := range b {
		if _, err := Parse(b[:i]); (err == nil) != ends[i] || (err != nil && !errors.Is(err, ErrMalformed)) {
			t.Errorf("cut at %d: got %v", i, err)
		}
	}
	for name, at := range map[string]struct {
		offset int
		value  byte
	}{
		"Spec ID event in PCR 1":      {0, 1},
		"Spec ID event of other type": {4, 4},
		"Spec ID event with a digest": {8, 1},
		"older log":                   {32 + 14, '2'},
		"no algorithms":               {32 + 24, 0},
		"too many algorithms":         {32 + 24, 9},
		"wrong digest size":           {32 + 30, 31},
		"vendor info too long":        {32 + 32, 1},
		"event in PCR 24":             {whole - 54 + 0, 24},
		"two digests of one":          {whole - 54 + 8, 2},
		"digest of other bank":        {whole - 54 + 12, 0x0c},
		"event size":                  {whole - 8, 5},
	} {
		x := bytes.Clone(b)
		x[at.offset] = at.value
		if l, err := Parse(x); err == nil || l != nil {
			t.Errorf("%s: accepted as %+v", name, l)
		}
	}
	if _, err := Parse(append(bytes.Clone(b), 0)); err == nil {
		t.Error("a trailing byte is accepted")
	}
	if _, err := Parse(make([]byte, MaxSize+1)); err == nil {
		t.Error("a log above the limit is accepted")
	}
}

func TestStartupLocality(t *testing.T) {
	loc := func(l byte) Event {
		return Event{Type: EvNoAction, Digests: []evidence.Digest{{Hash: tpm2.AlgSHA256, Value: make([]byte, 32)}}, Data: append([]byte(localityEvent), l)}
	}
	ext := Event{Type: EvSeparator, Digests: []evidence.Digest{{Hash: tpm2.AlgSHA256, Value: make([]byte, 32)}}}
	for name, c := range map[string]struct {
		events []Event
		ok     bool
	}{
		"locality 0":       {[]Event{loc(0), ext}, true},
		"locality 4":       {[]Event{loc(4), ext}, true},
		"locality 1":       {[]Event{loc(1)}, false},
		"after an extend":  {[]Event{ext, loc(3)}, false},
		"twice":            {[]Event{loc(3), loc(4)}, false},
		"in another PCR":   {[]Event{{PCR: 1, Type: EvNoAction, Data: append([]byte(localityEvent), 3)}}, false},
		"without locality": {[]Event{{Type: EvNoAction, Data: []byte(localityEvent)}}, false},
	} {
		l := New(tpm2.AlgSHA256)
		l.Events = c.events
		if _, err := Replay(tpm2.AlgSHA256, l); (err == nil) != c.ok {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestMeasured(t *testing.T) {
	hashes := []tpm2.Alg{tpm2.AlgSHA1, tpm2.AlgSHA256, tpm2.AlgSHA384}
	e, err := MeasuredEvent(14, &evidence.Measured{Kind: "file", Name: "/bin/x", SHA256: [32]byte{5}}, hashes)
	if err != nil {
		t.Fatal(err)
	}
	l := New(hashes...)
	l.Events = []Event{e}
	back, err := Parse(l.Encode())
	if err != nil {
		t.Fatal(err)
	}
	m, err := back.Events[0].Measured()
	if err != nil || m == nil || m.Name != "/bin/x" || m.SHA256[0] != 5 {
		t.Fatalf("got %+v, %v", m, err)
	}
	for i := range e.Data { // a record that does not fit the digests pretends
		x := back.Events[0]
		x.Data = bytes.Clone(e.Data)
		x.Data[i] ^= 1
		if m, err := x.Measured(); m != nil || (err == nil && i >= 4) {
			t.Errorf("byte %d flipped: got %+v, %v", i, m, err)
		}
	}
	sha1 := e
	sha1.Digests = e.Digests[:1]
	if m, err := sha1.Measured(); m != nil || err == nil {
		t.Error("a record that only SHA-1 binds is accepted")
	}
	for _, bad := range []evidence.Measured{{Kind: "", Name: "a"}, {Kind: "file"}, {Kind: "file", Name: strings.Repeat("a", 1025)}, {Kind: "file", Name: "\xff"}} {
		if _, err := MeasuredEvent(14, &bad, hashes); err == nil {
			t.Errorf("%+v: accepted", bad)
		}
	}
	if _, err := MeasuredEvent(24, &evidence.Measured{Kind: "file", Name: "a"}, hashes); err == nil {
		t.Error("PCR 24: accepted")
	}
}

// TestAgainstTPM2Tools: tpm2_eventlog, an independent reader, finds in our
// logs the PCR values that Replay finds. With HOLDFAST_EVENTLOGS naming a
// folder of real logs it compares those too.
func TestAgainstTPM2Tools(t *testing.T) {
	tool, err := exec.LookPath("tpm2_eventlog")
	if err != nil {
		t.Skip("SKIP[tpm2-tools]: tpm2_eventlog is not installed (package tpm2-tools)")
	}
	hashes := []tpm2.Alg{tpm2.AlgSHA1, tpm2.AlgSHA256, tpm2.AlgSHA384}
	l := New(hashes...)
	for i := range 5 {
		e, err := MeasuredEvent(uint32(10+i%2), &evidence.Measured{Kind: "file", Name: fmt.Sprintf("/bin/%d", i)}, hashes)
		if err != nil {
			t.Fatal(err)
		}
		l.Events = append(l.Events, e)
	}
	dir := t.TempDir()
	ours := filepath.Join(dir, "ours")
	if err := os.WriteFile(ours, l.Encode(), 0o600); err != nil {
		t.Fatal(err)
	}
	files := []string{ours}
	if more := os.Getenv("HOLDFAST_EVENTLOGS"); more != "" {
		list, err := filepath.Glob(filepath.Join(more, "*"))
		if err != nil || len(list) == 0 {
			t.Fatalf("HOLDFAST_EVENTLOGS=%s: %v, %v", more, list, err)
		}
		files = append(files, list...)
	}
	for _, f := range files {
		t.Run(filepath.Base(f), func(t *testing.T) { compare(t, tool, f) })
	}
}

var (
	bankLine = regexp.MustCompile(`^  (sha\w+):$`)
	pcrLine  = regexp.MustCompile(`^    (\d+) *: 0x([0-9a-f]+)$`)
)

func compare(t *testing.T, tool, file string) {
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	l, err := Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(l.Encode(), b) {
		t.Error("does not encode to the same bytes")
	}
	out, err := exec.Command(tool, file).Output()
	if err != nil {
		t.Fatalf("tpm2_eventlog: %v", err)
	}
	_, pcrs, ok := strings.Cut(string(out), "\npcrs:\n")
	if !ok {
		t.Fatal("tpm2_eventlog prints no PCRs")
	}
	n := 0
	var values *Values
	for _, line := range strings.Split(pcrs, "\n") {
		if m := bankLine.FindStringSubmatch(line); m != nil {
			h, err := evidence.ParseHashAlg(m[1])
			if err != nil {
				t.Fatal(err)
			}
			if values, err = Replay(h, l); err != nil {
				t.Fatal(err)
			}
		} else if m := pcrLine.FindStringSubmatch(line); m != nil {
			var i int
			fmt.Sscan(m[1], &i)
			if i == 0 && bytes.Contains(b, []byte(localityEvent)) {
				continue // tpm2-tools 5.4 does not take the startup locality into account
			}
			if got := hex.EncodeToString(values.Value[i]); got != m[2] {
				t.Errorf("%v PCR %d: tpm2_eventlog has %s, we have %s", values.Hash, i, m[2], got)
			}
			n++
		}
	}
	if n == 0 {
		t.Error("nothing was compared")
	}
}

func FuzzParse(f *testing.F) {
	f.Add(unhex(f, golden))
	l := New(tpm2.AlgSHA1, tpm2.AlgSHA256)
	e, err := MeasuredEvent(14, &evidence.Measured{Kind: "file", Name: "/bin/x"}, []tpm2.Alg{tpm2.AlgSHA1, tpm2.AlgSHA256})
	if err != nil {
		f.Fatal(err)
	}
	l.Events = []Event{e}
	f.Add(l.Encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := Parse(b)
		if (err == nil) == (l == nil) {
			t.Fatalf("log %v with error %v", l, err)
		}
		if err != nil {
			return
		}
		if !bytes.Equal(l.Encode(), b) {
			t.Fatal("does not encode to the same bytes")
		}
		for _, a := range l.Header.Algs {
			if a.Hash.New() != nil {
				if v, err := Replay(a.Hash, l); err == nil && len(v.Value[0]) != a.Size {
					t.Fatalf("replay gives %d bytes for %v", len(v.Value[0]), a.Hash)
				}
			}
		}
		for i := range l.Events {
			l.Events[i].Measured()
		}
	})
}
