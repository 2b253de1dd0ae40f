// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"reflect"
	"strings"
	"testing"

	"holdfast/tpm2"
)

func TestEndorsementHash(t *testing.T) {
	e := Endorsement{Type: "text/plain", Body: []byte("abc")}
	if e.Hash() != sha256.Sum256([]byte("text/plain\x00abc")) {
		t.Error("the hash is not SHA-256(type, 0, body)")
	}
	if (Endorsement{Type: "a/b", Body: []byte("c")}).Hash() == (Endorsement{Type: "a/bc"}).Hash() {
		t.Error("type and body are not kept apart")
	}
}

func TestCheckType(t *testing.T) {
	for _, ok := range []string{TypeTPMQuote, TypeTPMPublic, TypeTCGEventLog, TypeSimulated, TypeSimulatedKey, "a/b"} {
		if err := CheckType(ok); err != nil {
			t.Errorf("%q: %v", ok, err)
		}
	}
	for _, bad := range []string{"", "a", "/b", "a/", "a/b/c", "a /b", "a/b\x00", "a/\"b", "a/é", "a/\\", strings.Repeat("a", 127) + "/b"} {
		if err := CheckType(bad); !errors.Is(err, ErrMalformed) {
			t.Errorf("%q: got %v", bad, err)
		}
	}
}

func sampleQuote() *TPMQuote {
	return &TPMQuote{Attest: []byte{1, 2}, Signature: []byte{3}, PCRs: [][]byte{make([]byte, 32), make([]byte, 20)}}
}

// TestGoldenQuote: CBOR typed from RFC 8949.
func TestGoldenQuote(t *testing.T) {
	q := &TPMQuote{Attest: []byte{0xff, 0x54}, Signature: []byte{0}, PCRs: [][]byte{bytes.Repeat([]byte{7}, 32)}}
	want := "a3" + "01" + "42ff54" + "02" + "4100" + "03" + "81" + "5820" + strings.Repeat("07", 32)
	if got := hex.EncodeToString(q.Encode()); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	back, err := ParseTPMQuote(q.Encode())
	if err != nil || !reflect.DeepEqual(back, q) {
		t.Errorf("got %+v, %v", back, err)
	}
}

func TestMalformedQuotes(t *testing.T) {
	pcr := "5820" + strings.Repeat("07", 32)
	for name, s := range map[string]string{
		"empty":                  "",
		"no map":                 "83",
		"fewer keys":             "a2" + "014101" + "024101",
		"more keys":              "a4" + "014101" + "024101" + "0380" + "0400",
		"order":                  "a3" + "024101" + "014101" + "0380",
		"twice":                  "a3" + "014101" + "014101" + "0380",
		"text for bytes":         "a3" + "016101" + "024101" + "0380",
		"empty attest":           "a3" + "0140" + "024101" + "0380",
		"long head":              "a3" + "01580101" + "024101" + "0380",
		"indefinite map":         "bf" + "014101" + "024101" + "0380" + "ff",
		"indefinite string":      "a3" + "015f4101ff" + "024101" + "0380",
		"reserved head":          "a3" + "015c01" + "024101" + "0380",
		"short PCR":              "a3" + "014101" + "024101" + "03814101",
		"long PCR":               "a3" + "014101" + "024101" + "03815841" + strings.Repeat("00", 65),
		"array longer than data": "a3" + "014101" + "024101" + "0398c0" + pcr,
		"array above the limit":  "a3" + "014101" + "024101" + "0398c1" + pcr,
		"huge string":            "a3" + "015b7fffffffffffffff" + "024101" + "0380",
		"trailing":               "a3" + "014101" + "024101" + "0380" + "00",
	} {
		b, err := hex.DecodeString(s)
		if err != nil {
			t.Fatal(name, err)
		}
		if q, err := ParseTPMQuote(b); q != nil || !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: got %+v, %v", name, q, err)
		}
	}
}

func sampleBundle() *Bundle {
	es := []Endorsement{{TypeTPMPublic, []byte("public")}, {TypeTCGEventLog, []byte("log")}}
	r := Report{Type: TypeTPMQuote, Body: sampleQuote().Encode(), Needs: [][32]byte{es[0].Hash(), es[1].Hash()}}
	return &Bundle{r, es}
}

func TestBundle(t *testing.T) {
	b := sampleBundle()
	for name, enc := range map[string][]byte{"CBOR": b.CBOR(), "JSON": b.JSON()} {
		back, err := ParseFile(enc)
		if err != nil || !reflect.DeepEqual(back, b) {
			t.Errorf("%s: got %+v, %v", name, back, err)
		}
		for i := range enc {
			if back, err := ParseFile(enc[:i]); err == nil && !(name == "JSON" && i == len(enc)-1) { // JSON may lack the last line break
				t.Errorf("%s cut at %d: accepted as %+v", name, i, back)
			}
		}
		if _, err := ParseFile(append(bytes.Clone(enc), 'x')); err == nil {
			t.Errorf("%s: a trailing byte is accepted", name)
		}
	}
	if _, ok := b.Endorsement(b.Report.Needs[1]); !ok {
		t.Error("endorsement not found")
	}
	if _, ok := b.Endorsement([32]byte{}); ok {
		t.Error("found an endorsement that is not there")
	}
	if nb, err := NewBundle(b.Report, []Endorsement{b.Endorsements[1], b.Endorsements[0]}); err != nil || !reflect.DeepEqual(nb, b) {
		t.Errorf("NewBundle: got %+v, %v", nb, err)
	}
	if nb, err := NewBundle(b.Report, b.Endorsements[:1]); err == nil || nb != nil {
		t.Error("NewBundle without an endorsement that the report needs")
	}
}

func TestMalformedCollections(t *testing.T) {
	ok := `{"__cmwc_t": "` + CollectionType + `", "evidence": ["a/b","AA",4], "endorsement-0": ["c/d","AQ",2]}`
	if _, err := ParseFile([]byte(ok)); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string][2]string{
		"other collection":      {CollectionType, "tag:other"},
		"no type":               {`"__cmwc_t": "` + CollectionType + `", `, ""},
		"other label":           {"endorsement-0", "endorsement-1"},
		"endorsement first":     {`"evidence"`, `"endorsement-0"`},
		"evidence as result":    {`"AA",4`, `"AA",8`},
		"no indicator":          {`"AA",4`, `"AA"`},
		"indicator 0":           {`"AA",4`, `"AA",0`},
		"indicator as text":     {`"AA",4`, `"AA","4"`},
		"indicator as fraction": {`"AA",4`, `"AA",4.0`},
		"padding":               {`"AA"`, `"AA=="`},
		"loose bits":            {`"AA"`, `"AB"`},
		"null type":             {`"a/b"`, `null`},
		"escaped type":          {`"a/b"`, `"a\/b"`},
		"number as value":       {`"AQ"`, `1`},
		"four parts":            {`"AQ",2`, `"AQ",2,2`},
		"second object":         {`]}`, `]}{}`},
		"no evidence":           {`, "evidence": ["a/b","AA",4], "endorsement-0": ["c/d","AQ",2]`, ""},
		"empty body":            {`"AA"`, `""`},
		"same twice":            {`["c/d","AQ",2]`, `["c/d","AQ",2], "endorsement-1": ["c/d","AQ",2]`},
	} {
		s := strings.Replace(ok, c[0], c[1], 1)
		if s == ok {
			t.Fatalf("%s: the replacement does nothing", name)
		}
		if b, err := ParseFile([]byte(s)); b != nil || !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: got %+v, %v", name, b, err)
		}
	}
	b := sampleBundle()
	for len(b.Endorsements) <= MaxNeeds {
		e := Endorsement{"a/b", []byte{byte(len(b.Endorsements))}}
		b.Endorsements, b.Report.Needs = append(b.Endorsements, e), append(b.Report.Needs, e.Hash())
	}
	for _, enc := range [][]byte{b.JSON(), b.CBOR()} {
		if _, err := ParseFile(enc); err == nil {
			t.Errorf("%d endorsements are accepted", len(b.Endorsements))
		}
	}
}

// TestRecords: the examples of RFC 9999 have this shape.
func TestRecords(t *testing.T) {
	r := Record{"application/vnd.example.a", []byte{0x2e, 0x2f}, EvidenceMessage | EndorsementMessage}
	if got, want := string(r.JSON()), `["application/vnd.example.a","Li8",6]`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := hex.EncodeToString(r.CBOR()), "83"+"7819"+hex.EncodeToString([]byte(r.Type))+"422e2f"+"06"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	r.Ind = 0
	for _, parse := range []func() (*Record, error){
		func() (*Record, error) { return ParseRecordJSON(r.JSON()) },
		func() (*Record, error) { return ParseRecordCBOR(r.CBOR()) },
	} {
		if back, err := parse(); err != nil || !reflect.DeepEqual(*back, r) {
			t.Errorf("got %+v, %v", back, err)
		}
	}
	for _, bad := range []string{"84", "8163612f62", "8363612f624100" + "00", "8363612f624100" + "1820", "826161" + "4100", "8262ff2f4100"} {
		b, _ := hex.DecodeString(bad)
		if r, err := ParseRecordCBOR(b); err == nil || r != nil {
			t.Errorf("%s: accepted as %+v", bad, r)
		}
	}
}

func TestSimulatedRoundTrip(t *testing.T) {
	s := &Simulated{Algorithm: ES256, Data: ReportData{5}, Made: 1 << 40, Counter: 7, Signature: make([]byte, 64)}
	if back, err := ParseSimulated(s.Encode()); err != nil || !reflect.DeepEqual(back, s) {
		t.Errorf("got %+v, %v", back, err)
	}
	k := &SimulatedKey{RootAlgorithm: MLDSA65, Name: "psp", Algorithm: ES256, Public: []byte{4}, Signature: []byte{1}}
	if back, err := ParseSimulatedKey(k.Encode()); err != nil || !reflect.DeepEqual(back, k) {
		t.Errorf("got %+v, %v", back, err)
	}
	if bytes.Equal(s.SignedBytes(), k.SignedBytes()) || !bytes.Contains(s.Encode(), []byte("SIMULATED")) || !bytes.Contains(k.Encode(), []byte("SIMULATED")) {
		t.Error("no mark, or the same bytes are signed")
	}
	if _, err := ParseSimulated(bytes.Replace(s.Encode(), []byte("SIMULATED"), []byte("simulated"), 1)); err == nil {
		t.Error("accepted without the mark")
	}
	if _, err := ParseSimulated(k.Encode()); err == nil {
		t.Error("a key is accepted as a report")
	}
	if _, err := ParseSimulatedKey((&SimulatedKey{RootAlgorithm: ES256, Algorithm: ES256, Public: []byte{1}, Signature: []byte{1}}).Encode()); err == nil {
		t.Error("a key without a name is accepted")
	}
}

func TestParseHashAlg(t *testing.T) {
	for _, a := range hashAlgs {
		if got, err := ParseHashAlg(a.String()); err != nil || got != a {
			t.Errorf("%v: got %v, %v", a, got, err)
		}
	}
	for _, bad := range []string{"", "md5", "SHA256", "rsa"} {
		if a, err := ParseHashAlg(bad); err == nil || a != tpm2.AlgError {
			t.Errorf("%q: got %v", bad, a)
		}
	}
}

// roundTrip is the property of every parser here: error and result exclude
// each other, and what is accepted encodes to the same bytes.
func roundTrip[T any](t *testing.T, b []byte, parse func([]byte) (*T, error), encode func(*T) []byte) {
	t.Helper()
	v, err := parse(b)
	if (err == nil) == (v == nil) {
		t.Fatalf("result %v with error %v", v, err)
	}
	if err != nil {
		if !errors.Is(err, ErrMalformed) {
			t.Fatalf("an error that is not ErrMalformed: %v", err)
		}
		return
	}
	if got := encode(v); !bytes.Equal(got, b) {
		t.Fatalf("%x encodes to %x", b, got)
	}
}

func FuzzTPMQuote(f *testing.F) {
	f.Add(sampleQuote().Encode())
	f.Fuzz(func(t *testing.T, b []byte) { roundTrip(t, b, ParseTPMQuote, (*TPMQuote).Encode) })
}

func FuzzSimulated(f *testing.F) {
	f.Add((&Simulated{Algorithm: ES256, Made: 9, Signature: []byte{1}}).Encode())
	f.Add((&SimulatedKey{RootAlgorithm: ES256, Name: "a", Algorithm: ES256, Public: []byte{1}}).Encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		roundTrip(t, b, ParseSimulated, (*Simulated).Encode)
		roundTrip(t, b, ParseSimulatedKey, (*SimulatedKey).Encode)
	})
}

func FuzzMeasured(f *testing.F) {
	f.Add((&Measured{Kind: "file", Name: "/bin/x"}).Encode())
	f.Fuzz(func(t *testing.T, b []byte) { roundTrip(t, b, ParseMeasured, (*Measured).Encode) })
}

func FuzzRecord(f *testing.F) {
	r := Record{"a/b", []byte{1}, 4}
	f.Add(r.CBOR())
	f.Add(r.JSON())
	f.Fuzz(func(t *testing.T, b []byte) {
		roundTrip(t, b, ParseRecordCBOR, func(r *Record) []byte { return r.CBOR() })
		if r, err := ParseRecordJSON(b); err == nil { // white space may differ
			if again, err := ParseRecordJSON(r.JSON()); err != nil || !reflect.DeepEqual(again, r) {
				t.Fatalf("%q: reads as %+v, then as %+v, %v", b, r, again, err)
			}
		} else if r != nil || !errors.Is(err, ErrMalformed) {
			t.Fatalf("record %v with error %v", r, err)
		}
	})
}

func FuzzFile(f *testing.F) {
	f.Add(sampleBundle().CBOR())
	f.Add(sampleBundle().JSON())
	f.Fuzz(func(t *testing.T, b []byte) {
		x, err := ParseFile(b)
		if (err == nil) == (x == nil) {
			t.Fatalf("bundle %v with error %v", x, err)
		}
		if err != nil {
			return
		}
		if b[0] != '{' && b[0] > ' ' && !bytes.Equal(x.CBOR(), b) {
			t.Fatal("does not encode to the same bytes")
		}
		for _, enc := range [][]byte{x.CBOR(), x.JSON()} {
			if again, err := ParseFile(enc); err != nil || !reflect.DeepEqual(again, x) {
				t.Fatalf("reads as %+v, then as %+v, %v", x, again, err)
			}
		}
	})
}
