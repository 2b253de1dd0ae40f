// SPDX-License-Identifier: Apache-2.0

//go:build linux

package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"go.yaml.in/yaml/v3"

	"holdfast/attest/provider"
	"holdfast/attest/provider/simulated"
	"holdfast/attest/trust"
)

// ProviderConfig names the security processor: exactly one.
type ProviderConfig struct {
	TPM       *TPMConfig       `yaml:"tpm"`
	SNP       *SNPConfig       `yaml:"snp"`
	TDX       *TDXConfig       `yaml:"tdx"`
	CSV       *CSVConfig       `yaml:"csv"`
	Simulated *SimulatedConfig `yaml:"simulated"`
}

// SimulatedConfig describes a processor that does not exist, for tests and
// benchmarks. All that it makes says SIMULATED.
type SimulatedConfig struct {
	Name      string        `yaml:"name"`      // of the environment
	Algorithm string        `yaml:"algorithm"` // ES256 or ML-DSA-65
	Latency   time.Duration `yaml:"latency"`
	Trust     string        `yaml:"trust"` // file to write, for gates: it trusts this agent's simulated root
	Root      string        `yaml:"root"`  // file with the root (holdfast attest simulated); empty: a new one at each start
}

func (c *ProviderConfig) check() error {
	n := 0
	for _, there := range []bool{c.TPM != nil, c.SNP != nil, c.TDX != nil, c.CSV != nil, c.Simulated != nil} {
		if there {
			n++
		}
	}
	switch {
	case n != 1:
		return fmt.Errorf("provider: expected exactly one of tpm, snp, tdx, csv and simulated, got %d", n)
	case c.TPM != nil:
		return c.TPM.check()
	case c.SNP != nil:
		return c.SNP.check()
	case c.Simulated != nil:
		if err := trust.CheckName(c.Simulated.Name); err != nil {
			return fmt.Errorf("provider.simulated.name: %w", err)
		}
	}
	return nil
}

// ParseProvider reads the provider part of a configuration that stands
// elsewhere. Unknown keys are errors.
func ParseProvider(n *yaml.Node) (*ProviderConfig, error) {
	b, err := yaml.Marshal(n)
	if err != nil {
		return nil, fmt.Errorf("provider: %w", err)
	}
	d := yaml.NewDecoder(bytes.NewReader(b))
	d.KnownFields(true)
	c := new(ProviderConfig)
	if err := d.Decode(c); err != nil {
		return nil, fmt.Errorf("provider: %w", err)
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	return c, nil
}

// Opener returns the function that opens the security processor.
func (c *ProviderConfig) Opener() (func(context.Context) (provider.Provider, error), error) {
	return c.opener()
}

// opener returns the function that opens the security processor.
func (c *ProviderConfig) opener() (func(context.Context) (provider.Provider, error), error) {
	switch {
	case c.TPM != nil:
		return c.TPM.open, nil
	case c.SNP != nil:
		return c.SNP.open, nil
	case c.TDX != nil:
		return c.TDX.open, nil
	case c.CSV != nil:
		return c.CSV.open, nil
	}
	return c.Simulated.opener()
}

func (c *SimulatedConfig) opener() (func(context.Context) (provider.Provider, error), error) {
	root, err := c.root()
	if err != nil {
		return nil, fmt.Errorf("provider.simulated: %w", err)
	}
	if c.Trust != "" {
		if err := writeTrust(c.Trust, root); err != nil {
			return nil, fmt.Errorf("provider.simulated.trust: %w", err)
		}
	}
	return func(context.Context) (provider.Provider, error) {
		return simulated.New(root, simulated.Options{Name: c.Name, Algorithm: c.Algorithm, Latency: c.Latency})
	}, nil
}

func (c *SimulatedConfig) root() (*simulated.Root, error) {
	if c.Root == "" {
		return simulated.NewRoot(c.Name, c.Algorithm)
	}
	b, err := readSmall(c.Root)
	if err != nil {
		return nil, err
	}
	defer clear(b)
	return simulated.ParseRoot(b)
}

// writeTrust writes a trust file that holds only the simulated root.
func writeTrust(path string, root *simulated.Root) error {
	rec, err := root.Record()
	if err != nil {
		return err
	}
	roots, err := trust.New(nil, []trust.SimulatedRoot{rec})
	if err != nil {
		return err
	}
	b, err := roots.Encode()
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".trust-*")
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	err = errors.Join(err, f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}
