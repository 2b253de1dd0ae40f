// SPDX-License-Identifier: Apache-2.0

package binder

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"testing"
)

type vectors struct {
	Binders []struct {
		Role, Grade       string
		Group             uint16
		Share, Transcript string
		Messages          []string
		Binder            string
	}
	Claims []struct {
		Service, Listener, NetNS, Executable, Unit, Config, Class string
		AgentVersion                                              string `json:"agent_version"`
		Encoding, Digest                                          string
	}
	Trees []struct {
		Binders      []string
		ClaimsDigest string `json:"claims_digest"`
		Leaves       []string
		Root         string
		Paths        [][]string
		ReportData   string `json:"report_data"`
	}
}

func load(t testing.TB) *vectors {
	b, err := os.ReadFile("testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	v := new(vectors)
	if err := json.Unmarshal(b, v); err != nil {
		t.Fatal(err)
	}
	if len(v.Binders) < 12 || len(v.Claims) < 2 || len(v.Trees) < 6 {
		t.Fatalf("only %d binders, %d claims, %d trees", len(v.Binders), len(v.Claims), len(v.Trees))
	}
	return v
}

func unhex(t testing.TB, s string) []byte {
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func hash(t testing.TB, s string) (h [32]byte) {
	if copy(h[:], unhex(t, s)) != 32 {
		t.Fatalf("hash %q", s)
	}
	return h
}

// TestBinderVectors compares with the published vectors, and with the bytes of
// the format put together by hand.
func TestBinderVectors(t *testing.T) {
	for i, v := range load(t).Binders {
		role := map[string]Role{"server": Server, "client": Client}[v.Role]
		grade, ok := ParseGrade(v.Grade)
		if !ok || grade.String() != v.Grade {
			t.Fatalf("grade %q", v.Grade)
		}
		share := unhex(t, v.Share)
		var ms [][]byte
		for _, m := range v.Messages {
			ms = append(ms, unhex(t, m))
		}
		tr := Transcript(ms...)
		if tr != hash(t, v.Transcript) || tr != sha256.Sum256(bytes.Join(ms, nil)) {
			t.Errorf("%d: transcript %x", i, tr)
		}
		got := Compute(role, grade, v.Group, share, tr)
		raw := append([]byte("holdfast/latch/v1"), byte(role), byte(v.Group>>8), byte(v.Group), byte(len(share)>>8), byte(len(share)))
		raw = append(raw, share...)
		if v.Grade == "hello" {
			raw = append(raw, tr[:]...)
		}
		if got != hash(t, v.Binder) || got != sha256.Sum256(raw) {
			t.Errorf("%d: binder %x, want %s", i, got, v.Binder)
		}
	}
}

// Every input of the binder must change it.
func TestBinderSeparates(t *testing.T) {
	share, tr := bytes.Repeat([]byte{7}, 32), sha256.Sum256([]byte("t"))
	seen := map[[32]byte]string{}
	add := func(what string, b [32]byte) {
		if old, ok := seen[b]; ok {
			t.Errorf("%s and %s have one binder", what, old)
		}
		seen[b] = what
	}
	add("base", Compute(Server, Hello, 0x1d, share, tr))
	add("role", Compute(Client, Hello, 0x1d, share, tr))
	add("grade", Compute(Server, Share, 0x1d, share, tr))
	add("group", Compute(Server, Hello, 0x1e, share, tr))
	add("share", Compute(Server, Hello, 0x1d, share[:31], tr))
	add("transcript", Compute(Server, Hello, 0x1d, share, sha256.Sum256([]byte("u"))))
	// A share that swallows the transcript is still another binder.
	add("moved", Compute(Server, Share, 0x1d, append(bytes.Clone(share), tr[:]...), tr))
	if Compute(Server, Share, 0x1d, share, tr) != Compute(Server, Share, 0x1d, share, [32]byte{}) {
		t.Error("grade share must not depend on the transcript")
	}
}

func TestComputeAllocatesNothing(t *testing.T) {
	share, tr := make([]byte, 1665), [32]byte{}
	claims := sha256.Sum256(nil)
	if n := testing.AllocsPerRun(100, func() { Leaf(Compute(Server, Hello, 0x11ed, share, tr), claims) }); n != 0 {
		t.Errorf("%v allocations per leaf", n)
	}
	var tree Tree
	leaves := make([][32]byte, 100)
	path := make([][32]byte, 0, 20)
	tree.Build(leaves)
	if n := testing.AllocsPerRun(100, func() { tree.Build(leaves); path = tree.AppendPath(path[:0], 57) }); n != 0 {
		t.Errorf("%v allocations per rebuilt tree", n)
	}
}
