// SPDX-License-Identifier: Apache-2.0

package tsm

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-configfs-tsm/configfs/configfsi"
	"github.com/google/go-configfs-tsm/configfs/faketsm"
	"github.com/google/go-sev-guest/abi"
	sevdata "github.com/google/go-sev-guest/verify/testdata"
	tdxdata "github.com/google/go-tdx-guest/testing/testdata"
	"github.com/google/uuid"

	"holdfast/attest/appraise/snp"
	"holdfast/attest/evidence"
	"holdfast/attest/provider"
	"holdfast/attest/trust"
)

var _ provider.Provider = (*Provider)(nil)

// kernel is a fake file tree with the behaviour of configfs-tsm.
type kernel struct {
	driver  string
	out     func(in []byte) []byte
	aux     []byte
	busy    int // writes that are answered with EBUSY first
	mu      sync.Mutex
	entries int // made and not removed
}

func (k *kernel) client() configfsi.Client {
	sub := &faketsm.ReportSubsystem{
		Random: rand.Reader,
		MakeEntry: func() *faketsm.ReportEntry {
			return &faketsm.ReportEntry{InAttrs: map[string]*faketsm.ReportAttributeState{"inblob": {}, "privlevel": {}}}
		},
		CheckInAttr: func(e *faketsm.ReportEntry, attr string, contents []byte) error {
			k.mu.Lock()
			defer k.mu.Unlock()
			if k.busy > 0 {
				k.busy--
				return syscall.EBUSY
			}
			if attr == "inblob" && len(contents) != 64 {
				return fmt.Errorf("inblob of %d bytes", len(contents))
			}
			return nil
		},
		ReadAttr: func(e *faketsm.ReportEntry, attr string) ([]byte, error) {
			switch attr {
			case "provider":
				return []byte(k.driver + "\n"), nil
			case "outblob":
				return k.out(e.InAttrs["inblob"].Value), nil
			case "auxblob":
				if k.aux == nil {
					return nil, errors.New("no such attribute")
				}
				return k.aux, nil
			}
			return nil, errors.New("no such attribute")
		},
	}
	return &counting{&faketsm.Client{Subsystems: map[string]configfsi.Client{"report": sub}}, k}
}

// counting counts entries.
type counting struct {
	configfsi.Client
	k *kernel
}

func (c *counting) MkdirTemp(dir, pattern string) (string, error) {
	c.k.mu.Lock()
	c.k.entries++
	c.k.mu.Unlock()
	return c.Client.MkdirTemp(dir, pattern)
}

func (c *counting) RemoveAll(p string) error {
	c.k.mu.Lock()
	c.k.entries--
	c.k.mu.Unlock()
	return c.Client.RemoveAll(p)
}

func withData(report []byte, at int) func([]byte) []byte {
	return func(in []byte) []byte {
		b := bytes.Clone(report)
		copy(b[at:at+64], in)
		return b
	}
}

// table is the host's certificate table with the real VCEK.
func table(t *testing.T) []byte {
	t.Helper()
	c := abi.CertTable{Entries: []abi.CertTableEntry{{GUID: uuid.MustParse(abi.VcekGUID), RawCert: sevdata.VcekBytes}}}
	return append(c.Marshal(), make([]byte, 100)...)
}

func TestSNP(t *testing.T) {
	k := &kernel{driver: SNP, out: withData(sevdata.AttestationBytes, 0x50), aux: table(t), busy: 3}
	p, err := open(context.Background(), k.client(), Options{Kind: SNP})
	if err != nil {
		t.Fatal(err)
	}
	data := evidence.ReportData{1, 2, 3, 4, 5} // what the real report is over
	r, err := p.Report(context.Background(), data)
	if err != nil {
		t.Fatal(err)
	}
	es, err := p.Endorsements(context.Background())
	if err != nil || r.Type != evidence.TypeSNP || len(es) != 1 || len(r.Needs) != 1 || es[0].Hash() != r.Needs[0] {
		t.Fatalf("got %+v with %d endorsements, %v", r.Needs, len(es), err)
	}
	roots, err := trust.Build(trust.Records{Platforms: []trust.Platform{{Environment: "snp-1", Type: trust.TypeSNP, Chip: sevdata.AttestationBytes[0x1a0:0x1e0]}}})
	if err != nil {
		t.Fatal(err)
	}
	b, err := evidence.NewBundle(r, es)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := snp.New(roots, nil).Check(b.Report, b.Endorsement, data, time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)); err != nil {
		t.Errorf("what the provider made does not verify: %v", err)
	}
	if k.entries != 0 {
		t.Errorf("%d entries were left behind", k.entries)
	}
}

func TestSNPWithoutTable(t *testing.T) {
	k := &kernel{driver: SNP, out: withData(sevdata.AttestationBytes, 0x50)}
	p, err := open(context.Background(), k.client(), Options{Kind: SNP})
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.Report(context.Background(), evidence.ReportData{7})
	if err != nil || len(r.Needs) != 0 || r.Body[0x50] != 7 {
		t.Errorf("got %+v, %v", r, err)
	}
}

func TestTDX(t *testing.T) {
	quote := tdxdata.RawQuote[:len(tdxdata.RawQuote)-39]
	out := withData(quote, 48+520)
	k := &kernel{driver: TDX, out: func(in []byte) []byte { return append(out(in), make([]byte, 1000)...) }}
	p, err := open(context.Background(), k.client(), Options{Kind: TDX})
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.Report(context.Background(), evidence.ReportData{9})
	if err != nil || r.Type != evidence.TypeTDX || len(r.Body) != len(quote) || r.Body[48+520] != 9 || len(r.Needs) != 0 {
		t.Errorf("got %d bytes, %v", len(r.Body), err)
	}
}

func TestRefused(t *testing.T) {
	one := uint(1)
	four := uint(4)
	good := withData(sevdata.AttestationBytes, 0x50)
	for name, c := range map[string]struct {
		k    *kernel
		o    Options
		want string
	}{
		"another kind of machine": {&kernel{driver: TDX, out: good}, Options{Kind: SNP}, "another kind"},
		"no kind":                 {&kernel{driver: SNP, out: good}, Options{}, "expected"},
		"privilege level 4":       {&kernel{driver: SNP, out: good}, Options{Kind: SNP, Privilege: &four}, "privilege"},
		"privilege level for TDX": {&kernel{driver: TDX, out: good}, Options{Kind: TDX, Privilege: &one}, "privilege"},
		"a short report":          {&kernel{driver: SNP, out: func([]byte) []byte { return []byte{1} }}, Options{Kind: SNP}, "1184 bytes"},
		"a short quote":           {&kernel{driver: TDX, out: func([]byte) []byte { return []byte{1} }}, Options{Kind: TDX}, "quote"},
	} {
		p, err := open(context.Background(), c.k.client(), c.o)
		if p != nil || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, %v", name, p, err)
		}
		if c.k.entries != 0 {
			t.Errorf("%s: %d entries were left behind", name, c.k.entries)
		}
	}
	// A kernel that stays busy is waited for as long as the context says.
	ctx, stop := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer stop()
	k := &kernel{driver: SNP, out: good, busy: 1 << 30}
	if _, err := open(ctx, k.client(), Options{Kind: SNP}); !errors.Is(err, context.DeadlineExceeded) || k.entries != 0 {
		t.Errorf("got %v with %d entries left", err, k.entries)
	}
}

func TestOpenHere(t *testing.T) {
	if p, err := Open(context.Background(), Options{Kind: SNP}); err == nil {
		p.Close()
		t.Log("this is a SEV-SNP machine")
	} else if !strings.Contains(err.Error(), "configfs-tsm") {
		t.Errorf("got %v", err)
	}
}

// FuzzTrimQuote: what is cut off is zeros only, and what stays has the size that it says.
func FuzzTrimQuote(f *testing.F) {
	f.Add(tdxdata.RawQuote)
	f.Add(make([]byte, quoteHead+5))
	f.Fuzz(func(t *testing.T, b []byte) {
		q, err := trimQuote(b)
		if err != nil {
			if q != nil {
				t.Fatal("an error with a quote")
			}
			return
		}
		if !bytes.HasPrefix(b, q) || len(bytes.Trim(b[len(q):], "\x00")) != 0 || len(q) < quoteHead {
			t.Fatal("not a prefix, or more than zeros cut off")
		}
	})
}
