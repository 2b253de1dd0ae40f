// SPDX-License-Identifier: Apache-2.0

package appraise

import (
	"bytes"
	"context"
	"errors"
	"go/parser"
	"go/token"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	snpdata "github.com/google/go-sev-guest/verify/testdata"
	tdxdata "github.com/google/go-tdx-guest/testing/testdata"

	"holdfast/attest/collateral"
	"holdfast/attest/evidence"
	"holdfast/attest/trust"
	"holdfast/attest/verify"
)

var errNetwork = errors.New("this test lets nobody on the network")

// asked counts requests and look-ups of names.
type asked struct{ n int }

func (a *asked) RoundTrip(r *http.Request) (*http.Response, error) {
	a.n++
	return nil, errNetwork
}

func (a *asked) dial(context.Context, string, string) (net.Conn, error) {
	a.n++
	return nil, errNetwork
}

// watch takes the network away from this process's HTTP clients and resolver.
func watch(t *testing.T) *asked {
	a := &asked{}
	transport, resolver := http.DefaultTransport, net.DefaultResolver
	http.DefaultTransport = a
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: a.dial}
	t.Cleanup(func() { http.DefaultTransport, net.DefaultResolver = transport, resolver })
	return a
}

// TestNoNetwork: the Verifier of gates and agents asks nobody, whether its
// folder of collateral is full, empty or not there; what is missing is
// refused or said, not fetched.
func TestNoNetwork(t *testing.T) {
	a := watch(t)
	if _, err := http.Get("https://kdsintf.amd.com/"); !errors.Is(err, errNetwork) || a.n != 1 {
		t.Fatalf("%v, %d: this test would see nothing", err, a.n)
	}
	a.n = 0
	csvReport, err := os.ReadFile("csv/testdata/report.cert")
	if err != nil {
		t.Fatal(err)
	}
	tdxQuote := tdxdata.RawQuote[:len(tdxdata.RawQuote)-39]
	var snpOver, tdxOver, csvOver evidence.ReportData
	copy(snpOver[:], snpdata.AttestationBytes[0x50:0x90])
	copy(tdxOver[:], tdxQuote[48+0x208:48+0x248])
	copy(csvOver[:], "user data")
	roots, err := trust.Build(trust.Records{Platforms: []trust.Platform{
		{Environment: "snp-1", Type: trust.TypeSNP, Chip: snpdata.AttestationBytes[0x1a0:0x1e0]}, {Environment: "tdx-1", Type: trust.TypeTDX, Chip: bytes.Repeat([]byte{1}, 16)}}})
	if err != nil {
		t.Fatal(err)
	}
	empty, err := collateral.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	vcek := evidence.Endorsement{Type: evidence.TypeCertificate, Body: snpdata.VcekBytes}
	for name, store := range map[string]*collateral.Store{"no folder": nil, "an empty one": empty} {
		v, err := build(roots, store)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			what string
			r    evidence.Report
			data evidence.ReportData
			now  time.Time
			want verify.Fault // empty: accepted
		}{
			{"SEV-SNP with its certificate", evidence.Report{Type: evidence.TypeSNP, Body: snpdata.AttestationBytes, Needs: [][32]byte{vcek.Hash()}}, snpOver, time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC), ""},
			{"SEV-SNP without", evidence.Report{Type: evidence.TypeSNP, Body: snpdata.AttestationBytes}, snpOver, time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC), verify.FaultNoEndorsement},
			{"TDX", evidence.Report{Type: evidence.TypeTDX, Body: tdxQuote}, tdxOver, time.Date(2023, 7, 1, 1, 0, 0, 0, time.UTC), verify.FaultForeign}, // after all that asks for collateral
			{"CSV without its chain", evidence.Report{Type: evidence.TypeCSV, Body: csvReport}, csvOver, time.Now(), verify.FaultNoEndorsement},
		} {
			res, err := v.Verify(c.r, func(h [32]byte) (evidence.Endorsement, bool) { return vcek, h == vcek.Hash() }, c.data, c.now)
			if c.want == "" && (err != nil || res.Platform.Collateral) || c.want != "" && !errors.Is(err, &verify.Error{Fault: c.want}) {
				t.Errorf("%s, %s: expected %q, got %v, %v", name, c.what, c.want, res, err)
			}
			if a.n != 0 {
				t.Errorf("%s, %s: %d tries to use the network", name, c.what, a.n)
				a.n = 0
			}
		}
	}
}

// TestWhoFetches: of our own code below the command line, one file speaks HTTP
// to others, and nobody but `attest collateral fetch` calls it.
func TestWhoFetches(t *testing.T) {
	var http, fetch []string
	err := filepath.WalkDir("../..", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel := strings.TrimPrefix(filepath.ToSlash(p), "../../")
		if d.IsDir() {
			if top := strings.HasPrefix(d.Name(), ".") && d.Name() != ".."; top || rel == "bin" || rel == "test" || rel == "bench" || rel == "tools" {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(p, ".go") || strings.HasSuffix(p, "_test.go") {
			return nil
		}
		b, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		if bytes.Contains(b, []byte("collateral.Fetch(")) {
			fetch = append(fetch, rel)
		}
		if !strings.HasPrefix(rel, "attest/") && !strings.HasPrefix(rel, "latch/") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), p, b, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, i := range f.Imports {
			if i.Path.Value == `"net/http"` {
				http = append(http, rel)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(http)
	// metrics and ops serve; ops asks its own unix socket for `latch status`.
	if want := []string{"attest/collateral/fetch.go", "latch/metrics/agent_linux.go", "latch/metrics/gate.go", "latch/ops/server.go"}; !slices.Equal(http, want) {
		t.Errorf("files that import net/http: expected %v, got %v", want, http)
	}
	if want := []string{"cmd/holdfast/attest_collateral.go"}; !slices.Equal(fetch, want) {
		t.Errorf("callers of collateral.Fetch: expected %v, got %v", want, fetch)
	}
}
