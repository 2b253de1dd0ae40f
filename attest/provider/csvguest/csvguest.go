// SPDX-License-Identifier: Apache-2.0

// Package csvguest makes evidence of Hygon CSV machines through the driver
// /dev/csv-guest. That driver is not in the mainline kernel and not part of
// configfs-tsm.
//
// Start with Open. The driver makes its device open to everybody, which lets
// everybody on the machine make reports over data of their own: Open refuses
// such a device. Close it to others first (chmod 600, or a udev rule).
package csvguest

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/emmansun/gmsm/sm3"

	"holdfast/attest/evidence"
	"holdfast/attest/evidence/csv"
)

// Device is where the driver is.
const Device = "/dev/csv-guest"

// Options of a provider.
type Options struct {
	Device string // default Device
	// Extended asks for reports of version 2, which are not masked. It needs
	// CSV3 with firmware of build 2337 or newer.
	Extended bool
	// Chain is a file with HSK ‖ CEK of the chip, as Hygon's key server
	// gives it; %s in the name stands for the chip's serial number. Empty: the
	// verifier has it.
	Chain string
}

// bufferSize is what the driver wants: a page, in and out.
const bufferSize = 4096

// device is the driver, or a test's.
type device interface {
	// report takes the request at the start of b and puts the report there.
	report(b *[bufferSize]byte) error
	Close() error
}

// Provider implements provider.Provider.
type Provider struct {
	o   Options
	dev device

	mu    sync.Mutex
	chain *evidence.Endorsement
	of    string // serial number that chain is for
}

// Open opens the device and makes a first report, so that a fault is known at start.
func Open(ctx context.Context, o Options) (*Provider, error) {
	if o.Device == "" {
		o.Device = Device
	}
	info, err := os.Stat(o.Device)
	if err != nil {
		return nil, fmt.Errorf("CSV: %w: expected the driver csv-guest in a CSV machine", err)
	}
	if info.Mode()&os.ModeCharDevice == 0 || info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("CSV: %s: expected a device that only its owner can open, got mode %v: others could have sessions of their own attested (chmod 600)", o.Device, info.Mode())
	}
	d, err := openDevice(o.Device)
	if err != nil {
		return nil, fmt.Errorf("CSV: %w", err)
	}
	return open(ctx, d, o)
}

func open(ctx context.Context, d device, o Options) (*Provider, error) {
	p := &Provider{o: o, dev: d}
	if _, err := p.Report(ctx, evidence.ReportData{}); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return p, nil
}

// Type is evidence.TypeCSV.
func (p *Provider) Type() string { return evidence.TypeCSV }

// request is what the firmware takes: data ‖ nonce ‖ SM3(data ‖ nonce), and for
// version 2 a mark and a flag.
func request(data evidence.ReportData, nonce [16]byte, extended bool) []byte {
	b := append(append([]byte(nil), data[:]...), nonce[:]...)
	h := sm3.Sum(b)
	b = append(b, h[:]...)
	if extended {
		b = append(b, "ATTESTATION_EXT\x00"...)
		b = binary.LittleEndian.AppendUint32(b, 1)
	}
	return b
}

// Report makes one report over data, with a fresh nonce, and checks that the
// firmware answered this request. The driver makes one report at a time.
func (p *Provider) Report(ctx context.Context, data evidence.ReportData) (evidence.Report, error) {
	if err := ctx.Err(); err != nil {
		return evidence.Report{}, context.Cause(ctx)
	}
	var nonce [16]byte
	rand.Read(nonce[:])
	var b [bufferSize]byte
	copy(b[:], request(data, nonce, p.o.Extended))
	if err := p.dev.report(&b); err != nil {
		return evidence.Report{}, fmt.Errorf("CSV: %w", err)
	}
	body, err := csv.Trim(b[:], p.o.Extended)
	if err != nil {
		return evidence.Report{}, fmt.Errorf("CSV: %w", err)
	}
	r, err := csv.ParseReport(body)
	if err != nil {
		return evidence.Report{}, fmt.Errorf("CSV: %w", err)
	}
	mac := hmac.New(sm3.New, r.MNonce[:])
	mac.Write(r.MACed())
	if subtle.ConstantTimeCompare(r.UserData[:], data[:]) != 1 || r.MNonce != nonce || !hmac.Equal(mac.Sum(nil), r.MAC[:]) {
		return evidence.Report{}, errors.New("CSV: the firmware's answer is to another request, or damaged")
	}
	out := evidence.Report{Type: evidence.TypeCSV, Body: append([]byte(nil), body...)}
	c, err := p.chainOf(r.Serial)
	if err != nil {
		return evidence.Report{}, err
	}
	if c != nil {
		out.Needs = [][32]byte{c.Hash()}
	}
	return out, nil
}

// chainOf reads the chain of a chip; again if the machine moved to another.
func (p *Provider) chainOf(serial string) (*evidence.Endorsement, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.o.Chain == "" || p.of == serial {
		return p.chain, nil
	}
	name := strings.ReplaceAll(p.o.Chain, "%s", serial)
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("CSV: chain of chip %s: %w", serial, err)
	}
	if _, err := csv.ParseChain(b); err != nil {
		return nil, fmt.Errorf("CSV: %s: %w", name, err)
	}
	p.chain, p.of = &evidence.Endorsement{Type: evidence.TypeCSVChain, Body: b}, serial
	return p.chain, nil
}

// Endorsements is the chip's chain, if a file of it is configured.
func (p *Provider) Endorsements(context.Context) ([]evidence.Endorsement, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.chain == nil {
		return nil, nil
	}
	return []evidence.Endorsement{*p.chain}, nil
}

// Close closes the device.
func (p *Provider) Close() error { return p.dev.Close() }
