// SPDX-License-Identifier: Apache-2.0

// Package tsm makes evidence of SEV-SNP and TDX machines through the kernel's
// configfs-tsm (Linux 6.7 and newer, /sys/kernel/config/tsm/report), with
// Google's go-configfs-tsm. Every report has an entry of its own, so that no
// other request can get between, and the kernel's generation number is
// checked.
//
// Start with Open. The calling process needs root: nobody else can make
// entries, and whoever can make them can have a session attested.
package tsm

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/google/go-configfs-tsm/configfs/configfsi"
	"github.com/google/go-configfs-tsm/configfs/linuxtsm"
	"github.com/google/go-configfs-tsm/report"
	"github.com/google/go-sev-guest/abi"

	"holdfast/attest/evidence"
)

// Folder is where the kernel has the reports.
const Folder = "/sys/kernel/config/tsm/report"

// Kinds of machines, by the kernel's names of their drivers.
const (
	SNP = "sev_guest"
	TDX = "tdx_guest"
)

// Options of a provider.
type Options struct {
	Kind string // SNP or TDX
	// Privilege is the VMPL that a SEV-SNP report is for; nil leaves it to the
	// kernel. A kernel under a SVSM cannot ask below its own.
	Privilege *uint
}

// Provider implements provider.Provider.
type Provider struct {
	o      Options
	client configfsi.Client

	mu          sync.Mutex
	certificate *evidence.Endorsement // of the SEV-SNP report key; nil if the host gives none
	of          [72]byte              // chip and firmware that it is for
}

// Open checks that the machine is of the kind and makes a first report, so
// that a fault is known at start.
func Open(ctx context.Context, o Options) (*Provider, error) {
	info, err := os.Stat(Folder)
	if err != nil {
		return nil, fmt.Errorf("configfs-tsm: %w: expected Linux 6.7 or newer in a confidential virtual machine, with configfs mounted and the module %s", err, o.Kind)
	}
	if info.Mode().Perm()&0o022 != 0 {
		return nil, fmt.Errorf("configfs-tsm: %s has mode %04o: others could make reports; expected a folder that only root can write to", Folder, info.Mode().Perm())
	}
	c, err := linuxtsm.MakeClient()
	if err != nil {
		return nil, fmt.Errorf("configfs-tsm: %w", err)
	}
	return open(ctx, c, o)
}

func open(ctx context.Context, c configfsi.Client, o Options) (*Provider, error) {
	if o.Kind != SNP && o.Kind != TDX {
		return nil, fmt.Errorf("configfs-tsm: expected %s or %s, got %q", SNP, TDX, o.Kind)
	}
	if o.Privilege != nil && (*o.Privilege > 3 || o.Kind != SNP) {
		return nil, fmt.Errorf("configfs-tsm: a privilege level is 0 to 3 and for SEV-SNP only, got %d for %s", *o.Privilege, o.Kind)
	}
	p := &Provider{o: o, client: c}
	if _, err := p.Report(ctx, evidence.ReportData{}); err != nil {
		return nil, err
	}
	return p, nil
}

// Type is evidence.TypeSNP or evidence.TypeTDX.
func (p *Provider) Type() string {
	if p.o.Kind == TDX {
		return evidence.TypeTDX
	}
	return evidence.TypeSNP
}

// retry is the pause before the next try when the kernel is busy: the host
// throttles SEV-SNP reports.
const retry = 10 * time.Millisecond

// Report makes one report over data.
func (p *Provider) Report(ctx context.Context, data evidence.ReportData) (evidence.Report, error) {
	for {
		r, err := p.once(data)
		if err == nil {
			return r, nil
		}
		if !busy(err) {
			return evidence.Report{}, fmt.Errorf("configfs-tsm: %w", err)
		}
		select {
		case <-time.After(retry):
		case <-ctx.Done():
			return evidence.Report{}, fmt.Errorf("configfs-tsm: %w; the last try: %w", context.Cause(ctx), err)
		}
	}
}

// busy reports whether another try may help: the library keeps the errors of
// the kernel as text only.
func busy(err error) bool {
	if errors.Is(err, syscall.EBUSY) || errors.Is(err, syscall.EINTR) || report.GetGenerationErr(err) != nil {
		return true
	}
	return strings.HasSuffix(err.Error(), syscall.EBUSY.Error()) || strings.HasSuffix(err.Error(), syscall.EINTR.Error())
}

func (p *Provider) once(data evidence.ReportData) (out evidence.Report, err error) {
	r, err := report.CreateOpenReport(p.client)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, r.Destroy()) }()
	if p.o.Privilege != nil {
		if err := r.WriteOption("privlevel", []byte(fmt.Sprint(*p.o.Privilege))); err != nil {
			return out, err
		}
	}
	if err := r.WriteOption("inblob", data[:]); err != nil {
		return out, err
	}
	body, err := r.ReadOption("outblob")
	if err != nil {
		return out, err
	}
	driver, err := r.ReadOption("provider")
	if err != nil {
		return out, err
	}
	if got := strings.TrimSpace(string(driver)); got != p.o.Kind {
		return out, fmt.Errorf("expected the driver %s, got %q: the machine is of another kind", p.o.Kind, got)
	}
	out = evidence.Report{Type: p.Type()}
	if p.o.Kind == TDX {
		out.Body, err = trimQuote(body)
		return out, err
	}
	if len(body) != abi.ReportSize {
		return out, fmt.Errorf("expected a SEV-SNP report of %d bytes, got %d", abi.ReportSize, len(body))
	}
	out.Body = body
	if c := p.reportKey(r, body); c != nil {
		out.Needs = [][32]byte{c.Hash()}
	}
	return out, nil
}

// reportKey is the certificate of the key that signed a report, from the
// table that the host may give. It is asked for again when chip or firmware
// changed. No table is no error: the verifier may have the certificate.
func (p *Provider) reportKey(r *report.OpenReport, body []byte) *evidence.Endorsement {
	var of [72]byte
	copy(of[:], body[0x1a0:0x1e0])
	copy(of[64:], body[0x180:0x188])
	p.mu.Lock()
	defer p.mu.Unlock()
	if of == p.of {
		return p.certificate
	}
	p.of, p.certificate = of, nil
	aux, err := r.ReadOption("auxblob")
	if err != nil || len(aux) == 0 {
		return nil
	}
	var t abi.CertTable
	if err := t.Unmarshal(aux); err != nil {
		return nil
	}
	signer, err := abi.ParseSignerInfo(binary.LittleEndian.Uint32(body[0x48:]))
	if err != nil {
		return nil
	}
	guid := abi.VcekGUID
	if signer.SigningKey == abi.VlekReportSigner {
		guid = abi.VlekGUID
	}
	if der, err := t.GetByGUIDString(guid); err == nil && len(der) > 0 {
		p.certificate = &evidence.Endorsement{Type: evidence.TypeCertificate, Body: der}
	}
	return p.certificate
}

// quoteHead is the part of a TDX quote before its signature data: header,
// TD report, and the size of what follows.
const quoteHead = 48 + 584 + 4

// trimQuote cuts the zeros that some hosts fill a quote up with.
func trimQuote(b []byte) ([]byte, error) {
	if len(b) < quoteHead {
		return nil, fmt.Errorf("expected a TDX quote, got %d bytes", len(b))
	}
	n := uint64(quoteHead) + uint64(binary.LittleEndian.Uint32(b[quoteHead-4:]))
	if n > uint64(len(b)) {
		return nil, fmt.Errorf("expected a TDX quote of %d bytes, got %d", n, len(b))
	}
	for _, c := range b[n:] {
		if c != 0 {
			return nil, fmt.Errorf("expected a TDX quote of %d bytes and then zeros, got %d bytes", n, len(b))
		}
	}
	return b[:n:n], nil
}

// Endorsements is the report key's certificate, if the host gives one.
func (p *Provider) Endorsements(context.Context) ([]evidence.Endorsement, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.certificate == nil {
		return nil, nil
	}
	return []evidence.Endorsement{*p.certificate}, nil
}

// Close does nothing: no entry outlives its report.
func (p *Provider) Close() error { return nil }
