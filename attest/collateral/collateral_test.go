// SPDX-License-Identifier: Apache-2.0

package collateral

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const url = "https://kdsintf.amd.com/vcek/v1/Milan/crl"

func TestStore(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(url); !errors.Is(err, ErrMissing) {
		t.Errorf("got %v", err)
	}
	var none *Store
	if _, err := none.Get(url); !errors.Is(err, ErrMissing) {
		t.Errorf("nil store: got %v", err)
	}
	first := &Item{URL: url, Body: []byte("one"), Header: map[string]string{"X-Issuer-Chain": "c"}, Fetched: time.Unix(1e9, 0).UTC()}
	if err := s.Put(first); err != nil {
		t.Fatal(err)
	}
	got, err := s.Get(url)
	if err != nil || string(got.Body) != "one" || got.Header["X-Issuer-Chain"] != "c" {
		t.Errorf("got %+v, %v", got, err)
	}
	// Another process replaces it.
	other, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Put(&Item{URL: url, Body: []byte("two, longer"), Fetched: time.Now()}); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Get(url); err != nil || string(got.Body) != "two, longer" {
		t.Errorf("after a replacement: got %+v, %v", got, err)
	}
	all, err := s.List()
	if err != nil || len(all) != 1 {
		t.Errorf("got %d items, %v", len(all), err)
	}
	// A file that says it is another's.
	b, err := os.ReadFile(s.path(url))
	if err != nil {
		t.Fatal(err)
	}
	const foreign = "https://kdsintf.amd.com/vcek/v1/Genoa/crl"
	if err := os.WriteFile(s.path(foreign), b, 0o644); err != nil {
		t.Fatal(err)
	}
	if i, err := s.Get(foreign); err == nil || i != nil {
		t.Error("a file under another's name was taken")
	}
	if err := os.WriteFile(s.path(url), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if i, err := s.Get(url); err == nil || i != nil || errors.Is(err, ErrMissing) {
		t.Errorf("a broken file: %v", err)
	}
	for _, bad := range []*Item{{URL: "http://x", Body: []byte("x")}, {URL: url}, {URL: url, Body: make([]byte, MaxBody+1)}} {
		if err := s.Put(bad); err == nil {
			t.Errorf("%.40s with %d bytes was stored", bad.URL, len(bad.Body))
		}
	}
	if _, err := Open(filepath.Join(dir, "none")); err == nil {
		t.Error("a missing folder was opened")
	}
}

func TestExpires(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	end := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "x"}, NotBefore: end.AddDate(-1, 0, 0), NotAfter: end, IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign, SubjectKeyId: []byte{1}}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	crl, err := x509.CreateRevocationList(rand.Reader, &x509.RevocationList{Number: big.NewInt(1), ThisUpdate: end.AddDate(0, -2, 0), NextUpdate: end.AddDate(0, -1, 0)}, c, key)
	if err != nil {
		t.Fatal(err)
	}
	both := append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: crl})...)
	for name, x := range map[string]struct {
		body []byte
		want time.Time
	}{
		"certificate": {der, end}, "list": {crl, end.AddDate(0, -1, 0)}, "PEM, the earlier of two": {both, end.AddDate(0, -1, 0)},
		"TCB information": {[]byte(`{"tcbInfo":{"nextUpdate":"2030-01-02T03:04:05Z"},"signature":""}`), end},
		"QE identity":     {[]byte(`{"enclaveIdentity":{"nextUpdate":"2030-01-02T03:04:05Z"},"signature":""}`), end},
	} {
		if got, ok := (&Item{Body: x.body}).Expires(); !ok || !got.Equal(x.want) {
			t.Errorf("%s: expected %v, got %v, %t", name, x.want, got, ok)
		}
	}
	for _, b := range []string{"x", "{}", `{"tcbInfo":3}`, "-----BEGIN X-----\nAA==\n-----END X-----\n"} {
		if got, ok := (&Item{Body: []byte(b)}).Expires(); ok {
			t.Errorf("%q: got %v", b, got)
		}
	}
}

// server answers without a network.
type server struct {
	status int
	body   string
	header http.Header
	asked  []string
}

func (s *server) Do(r *http.Request) (*http.Response, error) {
	s.asked = append(s.asked, r.URL.String())
	h := s.header
	if h == nil {
		h = http.Header{}
	}
	return &http.Response{StatusCode: s.status, Status: http.StatusText(s.status), Header: h, Body: io.NopCloser(strings.NewReader(s.body))}, nil
}

func TestFetch(t *testing.T) {
	s := &server{status: 200, body: "list", header: http.Header{"Tcb-Info-Issuer-Chain": {"chain"}, "Server": {"x"}}}
	i, err := Fetch(context.Background(), s, url)
	if err != nil || string(i.Body) != "list" || len(i.Header) != 1 || i.Header["Tcb-Info-Issuer-Chain"] != "chain" || i.Fetched.IsZero() {
		t.Errorf("got %+v, %v", i, err)
	}
	for name, c := range map[string]struct {
		s    *server
		url  string
		want string
	}{
		"another host":       {&server{status: 200, body: "x"}, "https://example.org/crl", "expected an https address at one of"},
		"no https":           {&server{status: 200, body: "x"}, "http://kdsintf.amd.com/x", "expected an https address"},
		"a host's lookalike": {&server{status: 200, body: "x"}, "https://kdsintf.amd.com.example.org/x", "expected an https address"},
		"credentials":        {&server{status: 200, body: "x"}, "https://kdsintf.amd.com@example.org/x", "expected an https address"},
		"throttled":          {&server{status: 429, header: http.Header{"Retry-After": {"10"}}}, url, "come back later"},
		"not found":          {&server{status: 404}, url, "expected status 200"},
		"empty":              {&server{status: 200}, url, "expected 1 to"},
		"too long":           {&server{status: 200, body: strings.Repeat("x", MaxBody+5)}, url, "expected 1 to"},
		"stale":              {&server{status: 200, body: `{"tcbInfo":{"nextUpdate":"2020-01-02T03:04:05Z"}}`}, url, "good until"},
	} {
		i, err := Fetch(context.Background(), c.s, c.url)
		if i != nil || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, %v", name, i, err)
		}
		if strings.Contains(c.want, "address") && len(c.s.asked) > 0 {
			t.Errorf("%s: a request was made to %v", name, c.s.asked)
		}
	}
}

// FuzzParseItem: an error means no item, and an item is what would be stored.
func FuzzParseItem(f *testing.F) {
	f.Add([]byte(`{"url":"https://kdsintf.amd.com/x","body":"AAAA","fetched":"2030-01-02T03:04:05Z"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		i, err := parseItem(b)
		if err != nil {
			if i != nil {
				t.Fatal("an error with an item")
			}
			return
		}
		if i.check() != nil || bytes.Equal(i.Body, nil) {
			t.Fatalf("accepted %+v", i)
		}
		i.Expires()
	})
}
