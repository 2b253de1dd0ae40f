// SPDX-License-Identifier: Apache-2.0

package csvguest

import (
	"bytes"
	"context"
	"crypto/hmac"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/emmansun/gmsm/sm3"

	"holdfast/attest/evidence"
	"holdfast/attest/evidence/csv"
	"holdfast/attest/provider"
)

var _ provider.Provider = (*Provider)(nil)

func real(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "appraise", "csv", "testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// firmware answers as the real one does, with the certificates of the real
// report and a signature that is not good any more.
type firmware struct {
	t      *testing.T
	spoil  func(b []byte)
	closed bool
	err    error
}

func (f *firmware) Close() error { f.closed = true; return nil }

func (f *firmware) report(b *[bufferSize]byte) error {
	if f.err != nil {
		return f.err
	}
	data, nonce := bytes.Clone(b[:64]), bytes.Clone(b[64:80])
	sum := sm3.Sum(b[:80])
	if !bytes.Equal(sum[:], b[80:112]) {
		return errors.New("the request's digest is wrong")
	}
	extended := bytes.Equal(b[112:132], append([]byte("ATTESTATION_EXT\x00"), 1, 0, 0, 0))
	if !extended && len(bytes.Trim(b[112:], "\x00")) != 0 {
		return errors.New("bytes after the request")
	}
	v1 := real(f.t, "report.cert")
	mask := v1[0xbc:0xc0]
	var out []byte
	mac := 0x9d4
	if extended {
		out = make([]byte, csv.ReportSizeV2)
		for i := 0x150; i < 0x9d4; i++ {
			out[0x490+i-0x150] = v1[i] ^ mask[i%4]
		}
		copy(out[0x40:], data)
		copy(out[0x80:], nonce)
		mac = 0xd14
	} else {
		out = bytes.Clone(v1)
		for i, c := range append(data, nonce...) {
			out[0x40+i] = c ^ mask[i%4]
		}
	}
	h := hmac.New(sm3.New, nonce)
	h.Write(out[mac-(0x9d4-0x150) : mac])
	copy(out[mac:], h.Sum(nil))
	if f.spoil != nil {
		f.spoil(out)
	}
	clear(b[:])
	copy(b[:], out)
	return nil
}

func TestReport(t *testing.T) {
	chain := filepath.Join(t.TempDir(), "NZA9T14052605.cert")
	if err := os.WriteFile(chain, real(t, "hsk_cek.cert"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, extended := range []bool{false, true} {
		p, err := open(context.Background(), &firmware{t: t}, Options{Extended: extended, Chain: filepath.Join(filepath.Dir(chain), "%s.cert")})
		if err != nil {
			t.Fatal(err)
		}
		data := evidence.ReportData{1, 2, 3}
		r, err := p.Report(context.Background(), data)
		if err != nil {
			t.Fatal(err)
		}
		got, err := csv.ParseReport(r.Body)
		if err != nil || got.UserData != [64]byte(data) || (got.Version == 2) != extended || r.Type != evidence.TypeCSV {
			t.Errorf("got %+v, %v", got, err)
		}
		es, err := p.Endorsements(context.Background())
		if err != nil || len(es) != 1 || len(r.Needs) != 1 || es[0].Hash() != r.Needs[0] || es[0].Type != evidence.TypeCSVChain {
			t.Errorf("got %d endorsements for %x, %v", len(es), r.Needs, err)
		}
		again, err := p.Report(context.Background(), data)
		if err != nil || bytes.Equal(again.Body, r.Body) {
			t.Error("two reports with the same nonce")
		}
	}
}

func TestRefused(t *testing.T) {
	for name, c := range map[string]struct {
		f    *firmware
		o    Options
		want string
	}{
		"another request's data": {&firmware{t: t, spoil: func(b []byte) { b[0x40] ^= 1 }}, Options{}, "another request"},
		"another nonce":          {&firmware{t: t, spoil: func(b []byte) { b[0x80] ^= 1 }}, Options{}, "another request"},
		"damaged":                {&firmware{t: t, spoil: func(b []byte) { b[0x9c0] ^= 1 }}, Options{}, "damaged"},
		"the driver refuses":     {&firmware{t: t, err: errors.New("ioctl")}, Options{}, "ioctl"},
		"no chain":               {&firmware{t: t}, Options{Chain: "/nonexistent/%s"}, "NZA9T14052605"},
	} {
		p, err := open(context.Background(), c.f, c.o)
		if p != nil || err == nil || !strings.Contains(err.Error(), c.want) || !c.f.closed {
			t.Errorf("%s: got %v, %v, closed %t", name, p, err, c.f.closed)
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	stop()
	if _, err := open(ctx, &firmware{t: t}, Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	for _, path := range []string{"/nonexistent", "/dev/null", filepath.Join(t.TempDir())} {
		if _, err := Open(context.Background(), Options{Device: path}); err == nil {
			t.Errorf("%s was opened", path)
		}
	}
}

// TestRequest: golden bytes typed from the layout, SM3 by its standard's
// example (GB/T 32905, A.1: SM3 of "abc").
func TestRequest(t *testing.T) {
	if h := sm3.Sum([]byte("abc")); hex.EncodeToString(h[:]) != "66c7f0f462eeedd9d1f2d46bdc10e4e24167c4875cf2f7a2297da02b8f4ba8e0" {
		t.Errorf("SM3 of abc: %x", h)
	}
	b := request(evidence.ReportData{0xaa}, [16]byte{0xbb}, true)
	if len(b) != 132 || b[0] != 0xaa || b[64] != 0xbb || string(b[112:128]) != "ATTESTATION_EXT\x00" || !bytes.Equal(b[128:], []byte{1, 0, 0, 0}) {
		t.Errorf("got %x", b)
	}
	if b := request(evidence.ReportData{}, [16]byte{}, false); len(b) != 112 {
		t.Errorf("got %d bytes", len(b))
	}
}
