// SPDX-License-Identifier: Apache-2.0

//go:build linux

package agent

import (
	"context"
	"fmt"

	"holdfast/attest/provider"
	"holdfast/attest/provider/csvguest"
	"holdfast/attest/provider/tsm"
)

// SNPConfig is a SEV-SNP machine, through the kernel's configfs-tsm.
type SNPConfig struct {
	Privilege *uint `yaml:"privilege"` // VMPL, 0 to 3; absent: the kernel's
}

// TDXConfig is a TDX machine, through the kernel's configfs-tsm.
type TDXConfig struct{}

// CSVConfig is a Hygon CSV machine.
type CSVConfig struct {
	Device   string `yaml:"device"`   // default /dev/csv-guest, of mode 0600
	Extended bool   `yaml:"extended"` // reports of version 2, which CSV3 has
	Chain    string `yaml:"chain"`    // file with HSK and CEK; %s stands for the serial number
}

func (c *SNPConfig) check() error {
	if c.Privilege != nil && *c.Privilege > 3 {
		return fmt.Errorf("provider.snp.privilege: expected 0 to 3, got %d", *c.Privilege)
	}
	return nil
}

// Interfaces hold no typed nil: a provider comes with no error only.

func (c *SNPConfig) open(ctx context.Context) (provider.Provider, error) {
	p, err := tsm.Open(ctx, tsm.Options{Kind: tsm.SNP, Privilege: c.Privilege})
	if err != nil {
		return nil, fmt.Errorf("provider.snp: %w", err)
	}
	return p, nil
}

func (c *TDXConfig) open(ctx context.Context) (provider.Provider, error) {
	p, err := tsm.Open(ctx, tsm.Options{Kind: tsm.TDX})
	if err != nil {
		return nil, fmt.Errorf("provider.tdx: %w", err)
	}
	return p, nil
}

func (c *CSVConfig) open(ctx context.Context) (provider.Provider, error) {
	p, err := csvguest.Open(ctx, csvguest.Options{Device: c.Device, Extended: c.Extended, Chain: c.Chain})
	if err != nil {
		return nil, fmt.Errorf("provider.csv: %w", err)
	}
	return p, nil
}
