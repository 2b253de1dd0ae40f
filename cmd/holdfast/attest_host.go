// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/hex"
	"fmt"
	"io"
	"strings"
	"time"

	"holdfast/attest/verify"
)

// appraisedHost is what `attest verify` prints of a confidential virtual machine.
type appraisedHost struct {
	Type        string   `json:"type"`
	Chip        string   `json:"chip"`
	Measurement string   `json:"measurement"`
	Debug       bool     `json:"debug"`
	Collateral  bool     `json:"collateral_checked"`
	Until       string   `json:"good_until,omitempty"`
	Details     []string `json:"details"`
}

func hostFacts(p *verify.Platform) *appraisedHost {
	h := &appraisedHost{Type: p.Type, Chip: hex.EncodeToString(p.Chip), Measurement: hex.EncodeToString(p.Measurement), Debug: p.Debug, Collateral: p.Collateral}
	if !p.Until.IsZero() {
		h.Until = p.Until.UTC().Format(time.RFC3339)
	}
	add := func(format string, args ...any) { h.Details = append(h.Details, fmt.Sprintf(format, args...)) }
	switch {
	case p.SNP != nil:
		x := p.SNP
		add("%s, report signed by its %s, VMPL %d, guest SVN %d, policy %#x", x.Product, x.Signer, x.VMPL, x.GuestSVN, x.Policy)
		add("firmware: bootloader %d, TEE %d, SNP %d, microcode %d", x.TCB.Bootloader, x.TCB.TEE, x.TCB.SNP, x.TCB.Microcode)
		add("host data %x", x.HostData)
	case p.TDX != nil:
		x := p.TDX
		add("platform (FMSPC) %s, module TCB %x, attributes %#x, XFAM %#x", x.FMSPC, x.TEETCBSVN, x.Attributes, x.XFAM)
		if p.Collateral {
			add("Intel's word about the firmware: %s%s (evaluation %d)", x.TCBStatus, advisories(x.Advisories), x.TCBEvaluation)
		}
		for i, r := range x.RTMR {
			add("RTMR %d %x", i, r)
		}
	case p.CSV != nil:
		x := p.CSV
		add("report of version %d, policy %#x, chip's serial number %s", x.Version, x.Policy, x.Serial)
		add("platform endorsement key %x", x.PEK)
		for i, r := range x.RTMR {
			add("RTMR %d %x", i, r)
		}
	}
	return h
}

func advisories(a []string) string {
	if len(a) == 0 {
		return ""
	}
	return ", " + strings.Join(a, ", ")
}

func (h *appraisedHost) print(w io.Writer) {
	debug := ""
	if h.Debug {
		debug = ", DEBUG: its host can read its memory"
	}
	fmt.Fprintf(w, "  %s machine%s\n  measurement %s\n  chip %s\n", h.Type, debug, h.Measurement, h.Chip)
	for _, d := range h.Details {
		fmt.Fprintf(w, "  %s\n", d)
	}
	if h.Collateral {
		fmt.Fprintf(w, "  the vendor's collateral is in date, and nothing is revoked; good until %s\n", h.Until)
	}
}
