// SPDX-License-Identifier: Apache-2.0

//go:build linux

package agent

import (
	"encoding/hex"
	"net/netip"
	"path"
	"testing"

	"go.yaml.in/yaml/v3"
)

// FuzzNames: executables and listeners are read as they stand in the
// configuration, or refused with nothing beside.
func FuzzNames(f *testing.F) {
	for _, s := range []string{"/usr/sbin/nginx", "sha256:00", "tcp:127.0.0.1:1", "tcp:[::1]:1", "unix:/x", "unix:x", "sha256:0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		x, err := ParseExecutable(s)
		switch {
		case err != nil && x != Executable{}:
			t.Fatalf("%q: %+v beside %v", s, x, err)
		case err == nil && x.Path == "" && s != "sha256:"+hex.EncodeToString(x.Digest[:]),
			err == nil && x.Path != "" && (s != x.Path || !path.IsAbs(s)):
			t.Fatalf("%q became %+v", s, x)
		}
		network, addr, err := ParseListen(s)
		switch {
		case err != nil && network+addr != "":
			t.Fatalf("%q: %q, %q beside %v", s, network, addr, err)
		case err == nil && s != network+":"+addr:
			t.Fatalf("%q became %q, %q", s, network, addr)
		case err == nil && network == "tcp":
			if _, err := netip.ParseAddrPort(addr); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// FuzzProvider: an error means no provider, and what is accepted names exactly
// one security processor.
func FuzzProvider(f *testing.F) {
	f.Add([]byte("tpm: {address: 'device:/dev/tpmrm0', key: /k, secret: /s, pcrs: ['sha256:7']}"))
	f.Add([]byte("snp: {}"))
	f.Add([]byte("simulated: {name: a, algorithm: ES256, latency: 3ms}"))
	f.Add([]byte("{snp: {}, tdx: {}}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var n yaml.Node
		if yaml.Unmarshal(b, &n) != nil {
			return
		}
		c, err := ParseProvider(&n)
		if (c == nil) != (err != nil) {
			t.Fatalf("%+v, %v", c, err)
		}
		if err != nil {
			return
		}
		there := 0
		for _, p := range []bool{c.TPM != nil, c.SNP != nil, c.TDX != nil, c.CSV != nil, c.Simulated != nil} {
			if p {
				there++
			}
		}
		if there != 1 {
			t.Fatalf("%d processors: %+v", there, c)
		}
	})
}
