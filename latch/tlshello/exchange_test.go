// SPDX-License-Identifier: Apache-2.0

package tlshello

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// transcript loads a recording: the chunks, and each direction in one piece.
func transcript(t testing.TB, name string) (chunks []chunk, c, s []byte) {
	f, err := os.Open(filepath.Join("testdata", name+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		who, text, _ := strings.Cut(sc.Text(), " ")
		if who != "c" && who != "s" {
			continue
		}
		b, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		chunks = append(chunks, chunk{who == "c", b})
		if who == "c" {
			c = append(c, b...)
		} else {
			s = append(s, b...)
		}
	}
	if len(chunks) == 0 {
		t.Fatalf("%s: empty transcript", name)
	}
	return chunks, c, s
}

var transcripts = []struct {
	name  string
	code  Code // "" = complete
	group uint16
	retry bool
	psk   bool
	alpn  string
}{
	{name: "x25519-go-go", group: X25519, alpn: "h2"},
	{name: "x25519mlkem768-go-go", group: X25519MLKEM768, alpn: "h2"},
	{name: "p256-go-go", group: P256, alpn: "h2"},
	{name: "retry-p384-go-go", group: P384, retry: true, alpn: "h2"},
	{name: "x25519-openssl-go", group: X25519, alpn: "http/1.1"},
	{name: "retry-p256-openssl-go", group: P256, retry: true},
	{name: "x25519-go-openssl", group: X25519, alpn: "h2"},
	{name: "retry-p521-go-openssl", group: P521, retry: true, alpn: "h2"},
	{name: "resumed-go-go", group: X25519MLKEM768, psk: true},
	{name: "resumed-openssl-openssl", group: X25519, psk: true},
	{name: "earlydata-openssl-openssl", code: EarlyData},
	{name: "pskwithoutshare-openssl-openssl", code: PSKWithoutShare},
	{name: "tls12server-go-go", code: TLS12},
	{name: "tls12client-go-go", code: TLS12},
}

// feed runs a recording through an exchange chunk by chunk.
func feed(x *Exchange, chunks []chunk) error {
	var c, s []byte
	for _, k := range chunks {
		var err error
		if k.client {
			c = append(c, k.data...)
			err = x.Client(c)
		} else {
			s = append(s, k.data...)
			err = x.Server(s)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func TestTranscripts(t *testing.T) {
	for _, tc := range transcripts {
		t.Run(tc.name, func(t *testing.T) {
			chunks, _, s := transcript(t, tc.name)
			var x Exchange
			err := feed(&x, chunks)
			if CodeOf(err) != tc.code {
				t.Fatalf("got %v, want code %q", err, tc.code)
			}
			ch, sh := x.Hello()
			if tc.code != "" {
				if _, ok := x.Transcript(); ok || ch != nil || sh != nil {
					t.Fatal("a refused exchange must give nothing")
				}
				return
			}
			if x.Phase() != Complete || sh == nil {
				t.Fatalf("phase %v", x.Phase())
			}
			if sh.Group != tc.group || sh.PSK != tc.psk || (x.retries() == 1) != tc.retry || string(ch.ServerName) != "service.test" {
				t.Errorf("group %#x psk %v retry %v name %q", sh.Group, sh.PSK, x.retries() == 1, ch.ServerName)
			}
			if tc.alpn != "" && (len(ch.ALPN) == 0 || string(ch.ALPN[0]) != tc.alpn) {
				t.Errorf("ALPN %q", ch.ALPN)
			}
			// The end is where the last plaintext handshake record ends.
			if end := x.ServerEnd(); !bytes.HasSuffix(s[:end], sh.Raw) || (s[end] != recordCCS && s[end] != recordData) {
				t.Errorf("server end %d", end)
			}
		})
	}
}
