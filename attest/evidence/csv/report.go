// SPDX-License-Identifier: Apache-2.0

// Package csv reads the attestation reports and certificates of Hygon's CSV
// confidential virtual machines. It judges nothing: attest/appraise/csv does.
//
// Start with ParseReport. A report of version 1 is masked: most of it is
// XORed with a nonce of four bytes, anonce, that itself is not signed. Whoever
// changes anonce changes every field that is read, and the signature, which is
// over the masked bytes, stays good. So nothing read from such a report means
// anything until fields of known value (report data and measurement) fit
// under the one anonce; see Report.Version.
//
// Source of the layouts: the public code of csv-rs (openanolis, Apache-2.0),
// librats and the csv-guest kernel driver; no specification is published.
package csv

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"holdfast/attest/evidence"
)

// Sizes of reports in bytes, without the filling that the device adds.
const (
	ReportSizeV1 = 2548
	ReportSizeV2 = 3380
)

// Bits of Report.Policy.
const (
	PolicyNoDebug   = 1 << 0
	PolicyNoKS      = 1 << 1 // no key sharing
	PolicyES        = 1 << 2 // CSV2: encrypted registers
	PolicyNoSend    = 1 << 3 // no migration
	PolicyDomain    = 1 << 4
	PolicyCSV       = 1 << 5
	PolicyCSV3      = 1 << 6
	PolicyASIDReuse = 1 << 7
)

// Report is one report, unmasked.
type Report struct {
	Version          int // 1 (masked) or 2
	UserPubkeyDigest [32]byte
	VMID             [16]byte
	VMVersion        [16]byte
	UserData         [64]byte
	MNonce           [16]byte
	Measure          [32]byte // SM3 over the machine's first memory
	Policy           uint32
	SigUsage         uint32 // of the key that signed; must be UsagePEK
	SigAlgo          uint32
	ANonce           uint32 // version 1
	Build            uint32 // version 2: of the firmware
	RTMRVersion      uint16 // version 2
	RTMR             [5][32]byte
	Signature        Sig
	PEK              *ChipCert
	Serial           string // of the chip; not signed
	MAC              [32]byte

	raw   []byte // as received
	macOf []byte // what MAC is over, as received
}

// Offsets, as in the package's sources.
const (
	offUserData, offMNonce, offMeasure, offPolicy  = 0x40, 0x80, 0x90, 0xb0
	offSigUsage, offSigAlgo, offANonce             = 0xb4, 0xb8, 0xbc
	offSig1, offPEK1, offSerial1, offRsv1, offMAC1 = 0x0c0, 0x150, 0x974, 0x9b4, 0x9d4
	offRTMRVersion, offRTMR, offRsvV2              = 0x0c0, 0x0d0, 0x170
	offSig2, offPEK2, offSerial2, offRsv2, offMAC2 = 0x400, 0x490, 0xcb4, 0xcf4, 0xd14
	signedV1, signedV2                             = 0xb4, 0x400
	digest                                         = 32
)

// ParseReport reads a report of exactly ReportSizeV1 or ReportSizeV2 bytes;
// Trim cuts what the device fills up. It checks no signature.
func ParseReport(b []byte) (*Report, error) {
	const what = "CSV report"
	r := &Report{raw: b}
	switch len(b) {
	case ReportSizeV1:
		r.Version = 1
	case ReportSizeV2:
		r.Version = 2
	default:
		return nil, malformed(what, fmt.Errorf("expected %d bytes (version 1) or %d (version 2), got %d", ReportSizeV1, ReportSizeV2, len(b)))
	}
	clear := b
	if r.Version == 1 {
		r.ANonce = le32(b[offANonce:])
		clear = unmask(b, r.ANonce)
	}
	copy(r.UserPubkeyDigest[:], clear)
	copy(r.VMID[:], clear[0x20:])
	copy(r.VMVersion[:], clear[0x30:])
	copy(r.UserData[:], clear[offUserData:])
	copy(r.MNonce[:], clear[offMNonce:])
	copy(r.Measure[:], clear[offMeasure:])
	r.Policy, r.SigUsage, r.SigAlgo = le32(clear[offPolicy:]), le32(clear[offSigUsage:]), le32(clear[offSigAlgo:])
	at := [5]int{offSig1, offPEK1, offSerial1, offRsv1, offMAC1}
	if r.Version == 2 {
		r.Build = le32(b[offANonce:])
		r.RTMRVersion = binary.LittleEndian.Uint16(b[offRTMRVersion:])
		for i := range r.RTMR {
			copy(r.RTMR[i][:], b[offRTMR+digest*i:])
		}
		if !zero(b[offRTMRVersion+2:offRTMR]) || !zero(b[offRsvV2:offSig2]) {
			return nil, malformed(what, errors.New("a reserved field is not zero"))
		}
		at = [5]int{offSig2, offPEK2, offSerial2, offRsv2, offMAC2}
	}
	var err error
	if r.Signature, err = sig(b[at[0]:]); err != nil {
		return nil, malformed(what, fmt.Errorf("signature: %w", err))
	}
	if r.PEK, err = ParseChipCert(clear[at[1]:at[2]]); err != nil {
		return nil, err
	}
	if r.Serial, err = serial(clear[at[2]:at[3]]); err != nil {
		return nil, malformed(what, err)
	}
	// The 32 bytes between serial number and MAC hold anything in genuine reports.
	copy(r.MAC[:], b[at[4]:])
	r.macOf = b[at[1]:at[4]]
	return r, nil
}

// Bytes is the report as it was read.
func (r *Report) Bytes() []byte { return r.raw }

// Signed is what the PEK signs: in version 1 the masked bytes.
func (r *Report) Signed() []byte {
	if r.Version == 1 {
		return r.raw[:signedV1]
	}
	return r.raw[:signedV2]
}

// MACed is what MAC is over: HMAC-SM3 with MNonce as key. The nonce is in the
// report, so that this shows damage and nothing else.
func (r *Report) MACed() []byte { return r.macOf }

// API is the version of the firmware interface that the guest's owner demanded.
func (r *Report) API() (major, minor uint8) { return uint8(r.Policy >> 16), uint8(r.Policy >> 24) }

// Trim cuts the zeros that the device fills a report up with; extended says
// that version 2 was asked for.
func Trim(b []byte, extended bool) ([]byte, error) {
	n := ReportSizeV1
	if extended {
		n = ReportSizeV2
	}
	if len(b) < n || !zero(b[n:]) {
		return nil, malformed("CSV report", fmt.Errorf("expected %d bytes and then zeros, got %d bytes", n, len(b)))
	}
	return b[:n:n], nil
}

// unmask XORs what the firmware masks of a version 1 report: all but the
// algorithm words, anonce, the signature and the MAC.
func unmask(b []byte, anonce uint32) []byte {
	out := bytes.Clone(b)
	var key [4]byte
	binary.LittleEndian.PutUint32(key[:], anonce)
	for _, part := range [][]byte{out[:offANonce], out[offPEK1:offMAC1]} {
		for i := range part {
			part[i] ^= key[i%4]
		}
	}
	return out
}

// serial reads the chip's serial number: letters and digits, filled with zeros.
func serial(b []byte) (string, error) {
	s := bytes.TrimRight(b, "\x00")
	for _, c := range s {
		if (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return "", fmt.Errorf("serial number: byte %#02x", c)
		}
	}
	if len(s) == 0 {
		return "", errors.New("serial number: none")
	}
	return string(s), nil
}

func malformed(what string, err error) error {
	return fmt.Errorf("%w: %s: %w", evidence.ErrMalformed, what, err)
}
