// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"bytes"
	"fmt"
)

// Types of confidential virtual machines.
const (
	TypeSNP = "sev-snp"
	TypeTDX = "tdx"
	TypeCSV = "csv"
)

// chipSizes are the sizes of Platform.Chip in bytes.
var chipSizes = map[string]int{TypeSNP: 64, TypeTDX: 16, TypeCSV: 32}

// Platform pins one chip on which confidential virtual machines run. What runs
// in the machine is the policy's matter (measurement, host data).
type Platform struct {
	Environment string `yaml:"environment"` // name by which policies accept it, as for an AK
	Type        string `yaml:"type"`        // TypeSNP, TypeTDX or TypeCSV
	// Chip is what the vendor's certificate says of the chip: for SEV-SNP the
	// CHIP_ID (64 bytes; the hardware ID of the VCEK), for TDX the PPID (16
	// bytes) of the PCK certificate, for CSV the SHA-256 of the chip
	// endorsement key's point X ‖ Y (32 bytes big-endian each), since a serial
	// number in a report is not signed.
	Chip Hex `yaml:"chip"`
}

func checkPlatforms(platforms []Platform, names map[string]bool) error {
	for i, p := range platforms {
		if err := CheckName(p.Environment); err != nil {
			return fmt.Errorf("platforms[%d]: environment: %w", i, err)
		}
		size, ok := chipSizes[p.Type]
		if !ok {
			return fmt.Errorf("platforms[%d]: type: expected %s, %s or %s, got %q", i, TypeSNP, TypeTDX, TypeCSV, p.Type)
		}
		if len(p.Chip) != size || len(bytes.Trim(p.Chip, "\x00")) == 0 {
			return fmt.Errorf("platforms[%d]: chip: expected %d bytes that are not all zero for %s, got %d", i, size, p.Type, len(p.Chip))
		}
		if names[p.Environment] {
			return fmt.Errorf("platforms[%d]: the environment %q has a record already; one name means one key or chip", i, p.Environment)
		}
		names[p.Environment] = true
		for _, q := range platforms[:i] {
			if q.Type == p.Type && bytes.Equal(q.Chip, p.Chip) {
				return fmt.Errorf("platforms[%d]: this chip is pinned already as %q", i, q.Environment)
			}
		}
	}
	return nil
}

// Platforms lists the pinned chips. Do not change them.
func (r *Roots) Platforms() []Platform { return r.platforms }

// Platform finds a pinned chip.
func (r *Roots) Platform(kind string, chip []byte) (*Platform, bool) {
	for i := range r.platforms {
		if p := &r.platforms[i]; p.Type == kind && bytes.Equal(p.Chip, chip) {
			return p, true
		}
	}
	return nil, false
}
