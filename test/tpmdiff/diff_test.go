// SPDX-License-Identifier: Apache-2.0

//go:build linux

package tpmdiff

import (
	"flag"
	"fmt"
	"os/exec"
	"sort"
	"testing"
	"time"

	"holdfast/test/host"
	"holdfast/tpm2"
)

var (
	duration  = flag.Duration("diff.time", time.Minute, "how long TestDifferential runs at most")
	count     = flag.Int("diff.sequences", 120, "how many sequences it runs at most; 0: as many as the time allows")
	firstSeed = flag.Int64("diff.seed", 1, "seed of its first sequence; each further one takes the next")
	length    = flag.Int("diff.steps", 40, "steps in a sequence at most")
	most      = flag.Int("diff.most", 1, "unexplained differences to report, each of another kind")
)

func newPair(t testing.TB) *pair {
	t.Helper()
	host.Need(t, "swtpm")
	if _, err := exec.LookPath("swtpm"); err != nil {
		t.Fatal(err)
	}
	sw, err := startSwtpm(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sw.close)
	return &pair{ours: &side{machine: &ourTPM{}}, theirs: &side{machine: sw}, succeeded: map[tpm2.CC]int{}, refused: map[tpm2.CC]int{}, explained: map[string]int{}}
}

// TestDifferential: no difference that is not explained in known.go.
func TestDifferential(t *testing.T) {
	p := newPair(t)
	found := map[string]int{}
	explained := p.explained
	sequences := 0
	for begin := time.Now(); time.Since(begin) < *duration && (*count == 0 || sequences < *count); sequences++ {
		d, err := p.explore(*firstSeed+int64(sequences), *length)
		if err != nil {
			t.Fatalf("seed %d: %v", *firstSeed+int64(sequences), err)
		}
		if d == nil {
			continue
		}
		if k := explain(d); k != nil {
			explained[k.name]++
			continue
		}
		kind := fmt.Sprintf("%v: ours %#x, swtpm %#x %s", d.last().cc, uint32(d.ours.rc), uint32(d.theirs.rc), d.field)
		if found[kind]++; found[kind] > 1 {
			continue
		}
		small, err := p.shrink(d)
		if err != nil {
			t.Fatal(err)
		}
		t.Errorf("seed %d:\n%v\n", *firstSeed+int64(sequences), small)
		if len(found) >= *most {
			break
		}
	}
	t.Logf("%d sequences, %d commands answered alike", sequences, p.commands)
	for k, n := range explained {
		t.Logf("explained %d times: %s", n, k)
	}
	for k, n := range found {
		t.Logf("unexplained %d times: %s", n, k)
	}
	// These cannot succeed: our PCRs are in no group, nothing asserts physical
	// presence. The rare ones succeed in TestRareAlike.
	never := map[tpm2.CC]bool{tpm2.CCPCRSetAuthValue: true, tpm2.CCPCRSetAuthPolicy: true, tpm2.CCPPCommands: true}
	for _, cc := range rare {
		never[cc] = true
	}
	var l []string
	for _, cc := range commands {
		l = append(l, fmt.Sprintf("%v %d/%d", cc, p.succeeded[cc], p.refused[cc]))
		if *count == 0 && *duration >= 5*time.Minute && p.succeeded[cc] == 0 && !never[cc] {
			t.Errorf("%v never succeeded", cc)
		}
	}
	sort.Strings(l)
	t.Log("succeeded/refused:", l)
}
