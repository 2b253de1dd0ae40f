// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"crypto/x509"
	"encoding/binary"
	"fmt"
	"time"

	"holdfast/attest/evidence"
	"holdfast/attest/evidence/csv"
)

func (l *lines) csv(b *evidence.Bundle) error {
	r, err := csv.ParseReport(b.Report.Body)
	if err != nil {
		return err
	}
	note := "not masked"
	if r.Version == 1 {
		note = fmt.Sprintf("masked with %08x, which is not signed: nothing below is sure before report data and measurement fit", r.ANonce)
	}
	l.add("version", fmt.Sprint(r.Version), note)
	l.add("report data", fmt.Sprintf("%x", r.UserData), "what the report was made for")
	l.add("measurement", fmt.Sprintf("%x", r.Measure), "SM3 of the machine's first memory")
	debug := "its host cannot debug it"
	if r.Policy&csv.PolicyNoDebug == 0 {
		debug = "DEBUG: its host can read its memory"
	}
	l.add("policy", fmt.Sprintf("%#x", r.Policy), debug)
	l.add("VM", fmt.Sprintf("%x", r.VMID), fmt.Sprintf("version %x, owner's key %x", r.VMVersion, r.UserPubkeyDigest))
	for i, v := range r.RTMR {
		if r.Version == 2 {
			l.add(fmt.Sprintf("RTMR %d", i), fmt.Sprintf("%x", v), "")
		}
	}
	l.add("chip", r.Serial, "its serial number, which is not signed")
	l.add("signature", "SM2 with SM3", "by a platform endorsement key of "+string(r.PEK.UID))
	return nil
}

func (l *lines) csvChain(b []byte) error {
	c, err := csv.ParseChain(b)
	if err != nil {
		return err
	}
	l.add("  HSK", fmt.Sprintf("%x", c.HSK.KeyID), fmt.Sprintf("%s, signed by key %x", c.HSK.UID, c.HSK.SignerID))
	l.add("  CEK", string(c.CEK.UID), fmt.Sprintf("usage %#x", c.CEK.Usage))
	return nil
}

// Fields of an SEV-SNP report (AMD 56860, table 23) and of a TD quote's body.
const (
	snpSize = 1184
	tdxBody = 48
	tdxMin  = tdxBody + 584
)

func (l *lines) snp(b *evidence.Bundle) error {
	r := b.Report.Body
	if len(r) != snpSize {
		return fmt.Errorf("SEV-SNP report: expected %d bytes, got %d", snpSize, len(r))
	}
	policy := binary.LittleEndian.Uint64(r[8:])
	debug := "its host cannot debug it"
	if policy&(1<<19) != 0 {
		debug = "DEBUG: its host can read its memory"
	}
	l.add("version", fmt.Sprint(binary.LittleEndian.Uint32(r)), fmt.Sprintf("VMPL %d, guest SVN %d", binary.LittleEndian.Uint32(r[0x30:]), binary.LittleEndian.Uint32(r[4:])))
	l.add("report data", fmt.Sprintf("%x", r[0x50:0x90]), "what the report was made for")
	l.add("measurement", fmt.Sprintf("%x", r[0x90:0xc0]), "of the machine's first memory")
	l.add("policy", fmt.Sprintf("%#x", policy), debug)
	l.add("host data", fmt.Sprintf("%x", r[0xc0:0xe0]), "given by the host at launch")
	t := r[0x180:0x188]
	l.add("firmware", fmt.Sprintf("bootloader %d, TEE %d, SNP %d, microcode %d", t[0], t[1], t[6], t[7]), "REPORTED_TCB")
	l.add("chip", fmt.Sprintf("%x", r[0x1a0:0x1e0]), "CHIP_ID")
	return nil
}

func (l *lines) tdx(b *evidence.Bundle) error {
	q := b.Report.Body
	if len(q) < tdxMin {
		return fmt.Errorf("TDX quote: expected at least %d bytes, got %d", tdxMin, len(q))
	}
	body := q[tdxBody:]
	attributes := binary.LittleEndian.Uint64(body[120:])
	debug := "its host cannot debug it"
	if attributes&0xff != 0 {
		debug = "DEBUG: its host can read its memory"
	}
	l.add("version", fmt.Sprint(binary.LittleEndian.Uint16(q)), fmt.Sprintf("module TCB %x", body[:16]))
	l.add("report data", fmt.Sprintf("%x", body[520:584]), "what the quote was made for")
	l.add("MRTD", fmt.Sprintf("%x", body[136:184]), "of the machine's first memory")
	l.add("attributes", fmt.Sprintf("%#x", attributes), debug)
	for i := range 4 {
		l.add(fmt.Sprintf("RTMR %d", i), fmt.Sprintf("%x", body[328+48*i:376+48*i]), "")
	}
	return nil
}

func (l *lines) certificate(b []byte) error {
	c, err := x509.ParseCertificate(b)
	if err != nil {
		return err
	}
	l.add("  certificate", c.Subject.String(), fmt.Sprintf("by %s, until %s", c.Issuer, c.NotAfter.UTC().Format(time.RFC3339)))
	return nil
}
