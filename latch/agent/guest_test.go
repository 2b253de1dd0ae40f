// SPDX-License-Identifier: Apache-2.0

//go:build linux

package agent

import (
	"context"
	"strings"
	"testing"
)

// TestGuestProviders: the configuration chooses the provider, and on a machine
// of another kind it says what is missing.
func TestGuestProviders(t *testing.T) {
	for text, want := range map[string]string{
		"{snp: {privilege: 1}}": "configfs-tsm",
		"{snp: {}}":             "configfs-tsm",
		"{tdx: {}}":             "configfs-tsm",
		"{csv: {device: /dev/null, extended: true}}":  "only its owner can open",
		"{csv: {device: /nonexistent, chain: /x/%s}}": "csv-guest",
	} {
		c, err := ParseConfig([]byte(strings.Replace(goodConfig, "provider:\n  simulated: {name: lab-psp, algorithm: ES256, latency: 3.369ms}", "provider: "+text, 1)))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		open, err := c.Provider.opener()
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		p, err := open(context.Background())
		if p != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: expected an error about %q, got %v, %v", text, want, p, err)
		}
	}
	for _, text := range []string{"{snp: {privilege: 4}}", "{snp: {}, tdx: {}}", "{}", "{tdx: {privilege: 0}}"} {
		if c, err := ParseConfig([]byte(strings.Replace(goodConfig, "provider:\n  simulated: {name: lab-psp, algorithm: ES256, latency: 3.369ms}", "provider: "+text, 1))); err == nil {
			t.Errorf("%s: accepted as %+v", text, c.Provider)
		}
	}
}
