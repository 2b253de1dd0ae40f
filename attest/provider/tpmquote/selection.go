// SPDX-License-Identifier: Apache-2.0

package tpmquote

import (
	"fmt"
	"strconv"
	"strings"

	"holdfast/attest/evidence"
	"holdfast/tpm2"
)

// ParseSelection reads PCR selections as tpm2-tools writes them: a bank, a
// colon and numbers, such as sha256:0,7,14; one string for each bank.
func ParseSelection(list []string) ([]tpm2.PCRSelection, error) {
	var out []tpm2.PCRSelection
	for _, s := range list {
		bank, numbers, ok := strings.Cut(s, ":")
		if !ok {
			return nil, fmt.Errorf("PCR selection %q: expected a bank and numbers, such as sha256:0,7,14", s)
		}
		h, err := evidence.ParseHashAlg(bank)
		if err != nil {
			return nil, fmt.Errorf("PCR selection %q: %w", s, err)
		}
		for _, e := range out {
			if e.Hash == h {
				return nil, fmt.Errorf("PCR selection: the bank %s is there twice", bank)
			}
		}
		var pcrs []int
		for _, n := range strings.Split(numbers, ",") {
			i, err := strconv.ParseUint(n, 10, 8)
			if err != nil || i > 23 {
				return nil, fmt.Errorf("PCR selection %q: expected numbers from 0 to 23, got %q", s, n)
			}
			pcrs = append(pcrs, int(i))
		}
		out = append(out, tpm2.SelectPCRs(h, pcrs...))
	}
	return out, nil
}
