// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// seed is the mapping of the design's description: the classes, and the
// smallest sets of powers with which the adversary reads the request.
var seed = []struct {
	name, environment, overlap, scope string
	readBy                            []string
}{
	{"plain TLS", "ordinary", "-", "-", []string{"T"}},
	{"RA-TLS, long-lived key", "vendor-attested", "yes: the key is both", "long-lived", []string{"T", "V", "R", "B"}},
	{"RA-TLS, renewed", "vendor-attested", "yes: the key is both", "periodic", []string{"T (until-renewal)", "V", "R", "B (until-renewal)"}},
	{"TLS+RA", "vendor-attested", "no", "per-session", []string{"T+V", "T+R"}},
	{"nested tunnel", "vendor-attested", "no", "periodic", []string{"T+V", "T+R", "T+B (until-renewal)"}},
	{"gateway, application-layer encryption", "vendor-attested", "no", "long-lived", []string{"T+V", "T+R", "T+B"}},
	{"latch", "provider-authorized", "no", "per-session", []string{"T+R"}},
}

func TestTable(t *testing.T) {
	ctx, stop := context.WithTimeout(context.Background(), 3*time.Minute)
	defer stop()
	r, err := Run(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if testing.Verbose() {
		r.Print(os.Stdout)
	}
	if len(r.Rows) != len(seed) || !r.Simulated {
		t.Fatalf("expected %d rows of simulated evidence, got %d", len(seed), len(r.Rows))
	}
	for i, want := range seed {
		row := r.Rows[i]
		if row.Name != want.name || row.Environment != want.environment || row.Overlap != want.overlap || row.Scope != want.scope {
			t.Errorf("row %d: expected %+v, got %+v", i, want, row.Design)
		}
		got := slices.Clone(row.Minimal)
		slices.Sort(got)
		slices.Sort(want.readBy)
		if !slices.Equal(got, want.readBy) {
			t.Errorf("%s: expected to be read by %v, got %v", row.Name, want.readBy, got)
		}
		if len(row.Outcomes) != int(all) {
			t.Errorf("%s: expected %d outcomes, got %d", row.Name, all, len(row.Outcomes))
		}
		for p, o := range row.Outcomes {
			if (o == Yes) != (row.Detail[p] == "") {
				t.Errorf("%s, %s: outcome %s with the refusal %q", row.Name, p, o, row.Detail[p])
			}
		}
	}
	// The refusals of the latch are the ones that its description names.
	detail := r.Rows[len(r.Rows)-1].Detail
	for p, want := range map[string]string{"T": "report-data", "T+V": "environments", "T+B": "report-data"} {
		if !strings.Contains(detail[p], want) {
			t.Errorf("latch, %s: expected a refusal by %q, got %q (of %v)", p, want, detail[p], slices.Sorted(maps.Keys(detail)))
		}
	}
}

// TestMinimal: a set is printed if no smaller one does as well.
func TestMinimal(t *testing.T) {
	outcomes := map[string]Outcome{}
	for p := Power(1); p <= all; p++ {
		outcomes[p.String()] = No
		if p.has(T | B) {
			outcomes[p.String()] = UntilRenewal
		}
		if p.has(T | R) {
			outcomes[p.String()] = Yes
		}
	}
	if got := minimal(outcomes); !slices.Equal(got, []string{"T+R", "T+B (until-renewal)"}) {
		t.Errorf("got %v", got)
	}
}
