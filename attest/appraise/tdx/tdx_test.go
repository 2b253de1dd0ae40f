// SPDX-License-Identifier: Apache-2.0

package tdx

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	tdxtest "github.com/google/go-tdx-guest/testing"
	"github.com/google/go-tdx-guest/testing/testdata"

	"holdfast/attest/collateral"
	"holdfast/attest/evidence"
	"holdfast/attest/trust"
	"holdfast/attest/verify"
)

// real is go-tdx-guest's public quote of a production machine, and the
// collateral that Intel served for it in 2023. A text of 39 bytes follows the
// quote in their file.
var (
	realQuote = testdata.RawQuote[:len(testdata.RawQuote)-39]
	realTime  = time.Date(2023, time.July, 1, 1, 0, 0, 0, time.UTC)
)

func realData(t testing.TB) (d evidence.ReportData) {
	t.Helper()
	q, err := parse(realQuote)
	if err != nil {
		t.Fatal(err)
	}
	copy(d[:], q.GetTdQuoteBody().GetReportData())
	return d
}

func realChip(t testing.TB) []byte {
	t.Helper()
	q, err := parse(realQuote)
	if err != nil {
		t.Fatal(err)
	}
	b, err := hex.DecodeString(q.exts.PPID)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func roots(t testing.TB, chip []byte) *trust.Roots {
	t.Helper()
	r, err := trust.Build(trust.Records{Platforms: []trust.Platform{{Environment: "tdx-1", Type: trust.TypeTDX, Chip: chip}}})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// realStore has Intel's collateral of the time of the quote; change may spoil it.
func realStore(t testing.TB, change func(url string, i *collateral.Item)) *collateral.Store {
	t.Helper()
	s, err := collateral.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for url, r := range tdxtest.TestGetter.Responses {
		i := &collateral.Item{URL: url, Body: r.Body, Fetched: realTime, Header: map[string]string{}}
		for name, values := range r.Header {
			i.Header[name] = values[0]
		}
		if change != nil {
			change(url, i)
		}
		if i.URL == "" {
			continue
		}
		if err := s.Put(i); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func check(v *Verifier, quote []byte, data evidence.ReportData, now time.Time) (*verify.Result, error) {
	return v.Check(evidence.Report{Type: evidence.TypeTDX, Body: quote}, nil, data, now)
}

func wantFault(t *testing.T, name string, res *verify.Result, err error, want verify.Fault) {
	t.Helper()
	if res != nil || !errors.Is(err, &verify.Error{Fault: want}) {
		t.Errorf("%s: expected the fault %q, got %v, %v", name, want, res, err)
	}
}

func TestReal(t *testing.T) {
	r, err := check(New(roots(t, realChip(t)), nil), realQuote, realData(t), realTime)
	if err != nil {
		t.Fatal(err)
	}
	p := r.Platform
	if r.Environment != "tdx-1" || r.Signature != "ES256" || r.PQ || p.Collateral || p.Debug || p.TDX.FMSPC != "50806f000000" || len(p.TDX.RTMR) != 4 || len(p.Measurement) != 48 {
		t.Errorf("got %+v, %+v, %+v", r, p, p.TDX)
	}
	// In the collateral that belongs to the quote the firmware is below every level that Intel lists.
	res, err := check(New(roots(t, realChip(t)), realStore(t, nil)), realQuote, realData(t), realTime)
	wantFault(t, "low TCB", res, err, verify.FaultTCB)
	urls, err := Wants(evidence.Report{Type: evidence.TypeTDX, Body: realQuote})
	if err != nil || len(urls) != len(tdxtest.TestGetter.Responses) {
		t.Errorf("wants %v, %v", urls, err)
	}
	for _, u := range urls {
		if _, ok := tdxtest.TestGetter.Responses[u]; !ok {
			t.Errorf("nobody serves %s", u)
		}
	}
}

func TestRealRefused(t *testing.T) {
	chip, data := realChip(t), realData(t)
	v := New(roots(t, chip), realStore(t, nil))
	other := data
	other[0] ^= 1
	res, err := check(v, realQuote, other, realTime)
	wantFault(t, "replayed", res, err, verify.FaultReportData)
	res, err = check(New(roots(t, bytes.Repeat([]byte{7}, 16)), nil), realQuote, data, realTime)
	wantFault(t, "foreign", res, err, verify.FaultForeign)
	res, err = check(v, realQuote, data, realTime.AddDate(0, 3, 0))
	wantFault(t, "stale collateral", res, err, verify.FaultCollateralExpired)
	res, err = check(v, realQuote, data, realTime.AddDate(20, 0, 0))
	wantFault(t, "expired certificates", res, err, verify.FaultExpired)
	for _, n := range []int{0, 1, 48, 632, len(realQuote) / 2} {
		res, err = check(v, realQuote[:n], data, realTime)
		wantFault(t, "truncated", res, err, verify.FaultMalformed)
	}
	res, err = check(v, testdata.RawQuote, data, realTime)
	wantFault(t, "too long", res, err, verify.FaultMalformed)
	b := slices.Clone(realQuote)
	b[48+136] ^= 1 // MRTD
	res, err = check(v, b, data, realTime)
	wantFault(t, "a changed measurement", res, err, verify.FaultSignature)
	_, err = v.Check(evidence.Report{Type: evidence.TypeTDX, Body: realQuote, Needs: make([][32]byte, 1)}, nil, data, realTime)
	wantFault(t, "an endorsement", nil, err, verify.FaultMalformed)

	for name, change := range map[string]func(string, *collateral.Item){
		"changed TCB information": func(url string, i *collateral.Item) {
			i.Body = bytes.Replace(i.Body, []byte(`"svn":`), []byte(`"svn": `), 1)
		},
		"without its issuers": func(url string, i *collateral.Item) { i.Header = nil },
		"a list that is none": func(url string, i *collateral.Item) {
			if url == RootCRLURL {
				i.Body = []byte("no list")
			}
		},
	} {
		res, err := check(New(roots(t, chip), realStore(t, change)), realQuote, data, realTime)
		wantFault(t, name, res, err, verify.FaultCollateral)
	}
	missing := realStore(t, func(url string, i *collateral.Item) {
		if url == RootCRLURL {
			i.URL = ""
		}
	})
	res, err = check(New(roots(t, chip), missing), realQuote, data, realTime)
	if err != nil || res.Platform.Collateral {
		t.Errorf("one piece of collateral is missing: got %+v, %v", res, err)
	}
}

// TestRealFlips: no bit of what is signed, and none of what a certificate
// says, can change. (A PEM encoding has bits that say nothing: line ends.)
func TestRealFlips(t *testing.T) {
	v := New(roots(t, realChip(t)), nil)
	data := realData(t)
	end := bytes.Index(realQuote, []byte("-----BEGIN"))
	for i := 0; i < end; i += step() {
		b := slices.Clone(realQuote)
		b[i] ^= 1 << (i % 8)
		if res, err := check(v, b, data, realTime); err == nil || res != nil {
			t.Errorf("a flipped bit in byte %#x was accepted", i)
		}
	}
}

// step: every bit of the quote takes seconds on a slow machine.
func step() int {
	if os.Getenv("HOLDFAST_TEST_FULL") != "" {
		return 1
	}
	return 11
}

// FuzzCheck: whatever comes, there is a result or an error with a fault, and
// a result only for what the machine signed.
func FuzzCheck(f *testing.F) {
	v := New(roots(f, realChip(f)), nil)
	data := realData(f)
	f.Add(realQuote)
	f.Add(realQuote[:700])
	const signed = 48 + 584 // header and TD report
	f.Fuzz(func(t *testing.T, quote []byte) {
		res, err := check(v, quote, data, realTime)
		var e *verify.Error
		switch {
		case err == nil && (res == nil || !bytes.Equal(quote[:signed], realQuote[:signed])):
			t.Fatalf("accepted %x", quote)
		case err != nil && (res != nil || !errors.As(err, &e)):
			t.Fatalf("got %v, %v", res, err)
		}
	})
}

func BenchmarkVerify(b *testing.B) {
	v := New(roots(b, realChip(b)), nil)
	data := realData(b)
	for b.Loop() {
		if _, err := check(v, realQuote, data, realTime); err != nil {
			b.Fatal(err)
		}
	}
}
