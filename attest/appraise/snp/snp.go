// SPDX-License-Identifier: Apache-2.0

// Package snp verifies attestation reports of AMD SEV-SNP machines with
// Google's go-sev-guest and its built-in AMD roots (Milan and Genoa lines),
// and adds what that leaves to the caller: the certificate must name the chip
// and the firmware that the report names, the report must be exactly the
// bytes that its fields stand for, and the chip must be pinned.
//
// Start with New; Check is a verify.Check. It never uses the network: the
// report key's certificate comes as endorsement or from the collateral store,
// the revocation list from the store alone.
package snp

import (
	"bytes"
	"crypto/subtle"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"github.com/google/go-sev-guest/abi"
	"github.com/google/go-sev-guest/kds"
	pb "github.com/google/go-sev-guest/proto/sevsnp"
	sevverify "github.com/google/go-sev-guest/verify"
	sevtrust "github.com/google/go-sev-guest/verify/trust"

	"holdfast/attest/collateral"
	"holdfast/attest/evidence"
	"holdfast/attest/trust"
	"holdfast/attest/verify"
)

// Verifier verifies SEV-SNP reports. It is safe for concurrent use.
type Verifier struct {
	roots *trust.Roots
	store *collateral.Store
	amd   func(line string) (*sevtrust.AMDRootCerts, error) // AMD's roots for a product line
}

// New makes a Verifier. store may be nil; then nothing is known of revocation.
func New(roots *trust.Roots, store *collateral.Store) *Verifier {
	return &Verifier{roots, store, sevtrust.GetDefaultRootCerts}
}

// parse reads a report strictly: 1,184 bytes that are the same when written again.
func parse(b []byte) (*pb.Report, error) {
	if len(b) != abi.ReportSize {
		return nil, fmt.Errorf("SEV-SNP report: expected %d bytes, got %d", abi.ReportSize, len(b))
	}
	r, err := abi.ReportToProto(b)
	if err != nil {
		return nil, fmt.Errorf("SEV-SNP report: %w", err)
	}
	if r.Version < 2 || r.Version > 5 || r.SignatureAlgo != abi.SignEcdsaP384Sha384 {
		return nil, fmt.Errorf("SEV-SNP report: expected version 2 to 5, signed with ECDSA on P-384 (1), got version %d, algorithm %d", r.Version, r.SignatureAlgo)
	}
	again, err := abi.ReportToAbiBytes(r)
	if err != nil || !bytes.Equal(again, b) {
		return nil, errors.New("SEV-SNP report: bytes outside its fields")
	}
	return r, nil
}

// Check is a verify.Check for evidence.TypeSNP. A report names the certificate
// of its VCEK or VLEK as its one endorsement, or none.
func (v *Verifier) Check(r evidence.Report, endorsement verify.Lookup, data evidence.ReportData, now time.Time) (*verify.Result, error) {
	rep, err := parse(r.Body)
	if err != nil {
		return nil, &verify.Error{Fault: verify.FaultMalformed, Err: err}
	}
	if subtle.ConstantTimeCompare(rep.ReportData, data[:]) != 1 {
		return nil, verify.Refuse(verify.FaultReportData, "expected a report over %x, got one over %x", data, rep.ReportData)
	}
	signer, err := abi.ParseSignerInfo(rep.SignerInfo)
	if err != nil || (signer.SigningKey != abi.VcekReportSigner && signer.SigningKey != abi.VlekReportSigner) {
		return nil, verify.Refuse(verify.FaultSignature, "expected a report signed by a VCEK or VLEK, got %v", signer.SigningKey)
	}
	if allZero(rep.ChipId) {
		return nil, verify.Refuse(verify.FaultForeign, "the host masks the chip's identity (MASK_CHIP_ID), so that no trust file can pin it")
	}
	cert, err := v.certificate(rep, signer.SigningKey, r.Needs, endorsement)
	if err != nil {
		return nil, err
	}
	product, err := checkCertificate(rep, cert, signer.SigningKey, now)
	if err != nil {
		return nil, err
	}
	amd, err := v.amd(product)
	if err != nil {
		return nil, verify.Refuse(verify.FaultUnknownRoot, "no AMD root for the product line %q: %w", product, err)
	}
	if err := checkSignature(rep, cert, signer.SigningKey, amd, now); err != nil {
		return nil, err
	}
	checked, until, err := v.revocation(amd, cert, signer.SigningKey, now)
	if err != nil {
		return nil, err
	}
	p, ok := v.roots.Platform(trust.TypeSNP, rep.ChipId)
	if !ok {
		return nil, verify.Refuse(verify.FaultForeign, "a genuine report, but the chip %x is in no record of the trust file", rep.ChipId)
	}
	return &verify.Result{Type: r.Type, Class: verify.ClassMachine, Environment: p.Environment, Signature: "ES384",
		Platform: facts(rep, product, signer.SigningKey, checked, until)}, nil
}

func facts(rep *pb.Report, product string, signer abi.ReportSigner, checked bool, until time.Time) *verify.Platform {
	policy, _ := abi.ParseSnpPolicy(rep.Policy) // ReportToProto has parsed it
	tcb := func(v uint64) verify.SNPTCB {
		t := kds.DecomposeTCBVersion(kds.TCBVersion(v))
		return verify.SNPTCB{Bootloader: t.BlSpl, TEE: t.TeeSpl, SNP: t.SnpSpl, Microcode: t.UcodeSpl}
	}
	return &verify.Platform{Type: trust.TypeSNP, Chip: rep.ChipId, Measurement: rep.Measurement, Debug: policy.Debug, Collateral: checked, Until: until,
		SNP: &verify.SNP{Product: product, Signer: signer.String(), VMPL: rep.Vmpl, GuestSVN: rep.GuestSvn, Policy: rep.Policy, MigrationAgent: policy.MigrateMA,
			SMT: rep.PlatformInfo&1 != 0, HostData: rep.HostData, ReportID: rep.ReportId, IDKeyDigest: rep.IdKeyDigest, AuthorKeyDigest: rep.AuthorKeyDigest,
			TCB: tcb(rep.ReportedTcb), LaunchTCB: tcb(rep.LaunchTcb)}}
}

// certificate finds the certificate of the report key.
func (v *Verifier) certificate(rep *pb.Report, signer abi.ReportSigner, needs [][32]byte, endorsement verify.Lookup) (*x509.Certificate, error) {
	var der []byte
	switch len(needs) {
	case 1:
		b, err := verify.TakeEndorsement(needs[0], evidence.TypeCertificate, endorsement)
		if err != nil {
			return nil, err
		}
		der = b
	case 0:
		i, err := v.stored(rep, signer)
		if err != nil {
			return nil, verify.Refuse(verify.FaultNoEndorsement, "the %v certificate came neither with the report nor is it in the store: %w", signer, err)
		}
		der = i.Body
	default:
		return nil, verify.Refuse(verify.FaultMalformed, "SEV-SNP evidence needs at most one endorsement, the report key's certificate; got %d", len(needs))
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, verify.Refuse(verify.FaultEndorsement, "%v certificate: %w", signer, err)
	}
	return c, nil
}

func (v *Verifier) stored(rep *pb.Report, signer abi.ReportSigner) (*collateral.Item, error) {
	if signer != abi.VcekReportSigner {
		return nil, errors.New("only the host has a VLEK's certificate")
	}
	err := collateral.ErrMissing
	for _, url := range vcekURLs(rep) {
		var i *collateral.Item
		if i, err = v.store.Get(url); err == nil {
			return i, nil
		}
	}
	return nil, err
}

// lines are the product lines that Check can verify.
var lines = []string{"Milan", "Genoa"}

// vcekURLs are where AMD's key server may have a report's VCEK: reports of
// version 2 do not name the product line.
func vcekURLs(rep *pb.Report) []string {
	var out []string
	for _, l := range lines {
		if rep.Cpuid1EaxFms == 0 || kds.ProductLineFromFms(rep.Cpuid1EaxFms) == l {
			out = append(out, kds.VCEKCertURL(l, rep.ChipId, kds.TCBVersion(rep.ReportedTcb)))
		}
	}
	return out
}

// checkCertificate checks that the certificate is for the report's chip and
// firmware, and in date; it returns the product line. The certificate is
// AMD's word, the report's fields are the firmware's.
func checkCertificate(rep *pb.Report, c *x509.Certificate, signer abi.ReportSigner, now time.Time) (string, error) {
	if now.Before(c.NotBefore) || now.After(c.NotAfter) {
		return "", verify.Refuse(verify.FaultExpired, "%v certificate: good from %s to %s, not at %s", signer, c.NotBefore.Format(time.RFC3339), c.NotAfter.Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	}
	exts, err := kds.CertificateExtensions(c, signer)
	if err != nil {
		return "", verify.Refuse(verify.FaultCertificate, "%v certificate: %w", signer, err)
	}
	if signer == abi.VcekReportSigner && !bytes.Equal(exts.HWID, rep.ChipId) {
		return "", verify.Refuse(verify.FaultCertificate, "the certificate is for the chip %x, the report says %x", exts.HWID, rep.ChipId)
	}
	if uint64(exts.TCBVersion) != rep.ReportedTcb {
		return "", verify.Refuse(verify.FaultTCB, "the certificate is for the firmware %#x, the report says %#x", uint64(exts.TCBVersion), rep.ReportedTcb)
	}
	p, err := kds.ParseProductName(exts.ProductName, signer)
	if err != nil {
		return "", verify.Refuse(verify.FaultCertificate, "%v certificate: %w", signer, err)
	}
	return kds.ProductLine(p), nil
}

func checkSignature(rep *pb.Report, c *x509.Certificate, signer abi.ReportSigner, amd *sevtrust.AMDRootCerts, now time.Time) error {
	chain := &pb.CertificateChain{}
	if signer == abi.VcekReportSigner {
		chain.VcekCert = c.Raw
	} else {
		chain.VlekCert = c.Raw
	}
	// The library checks chain and signature in one call; asking for the signature first gives the fault its name.
	raw, err := abi.ReportToAbiBytes(rep)
	if err != nil {
		return &verify.Error{Fault: verify.FaultMalformed, Err: err}
	}
	if err := sevverify.SnpReportSignature(raw, c); err != nil {
		return verify.Refuse(verify.FaultSignature, "SEV-SNP report: %w", err)
	}
	err = sevverify.SnpAttestation(&pb.Attestation{Report: rep, CertificateChain: chain}, &sevverify.Options{DisableCertFetching: true, Getter: noNetwork{}, Now: now,
		TrustedRoots: map[string][]*sevtrust.AMDRootCerts{amd.ProductLine: {amd}}})
	if err != nil {
		return verify.Refuse(verify.FaultCertificate, "%v certificate: %w", signer, err)
	}
	return nil
}

// noNetwork makes a network call of the library an error.
type noNetwork struct{}

func (noNetwork) Get(url string) ([]byte, error) {
	return nil, fmt.Errorf("a verifier uses no network, not even for %s", url)
}

// crlURL is where AMD has the revocation list for a product line and kind of key.
func crlURL(product string, signer abi.ReportSigner) string { return kds.CrlLinkByKey(product, signer) }

// revocation looks for the certificates in AMD's list, if the store has it.
func (v *Verifier) revocation(amd *sevtrust.AMDRootCerts, c *x509.Certificate, signer abi.ReportSigner, now time.Time) (checked bool, until time.Time, err error) {
	until = c.NotAfter
	i, err := v.store.Get(crlURL(amd.ProductLine, signer))
	if errors.Is(err, collateral.ErrMissing) {
		return false, until, nil
	}
	if err != nil {
		return false, until, verify.Refuse(verify.FaultCollateral, "revocation list: %w", err)
	}
	list, err := x509.ParseRevocationList(i.Body)
	if err != nil {
		return false, until, verify.Refuse(verify.FaultCollateral, "revocation list: %w", err)
	}
	issuer, middle := amd.ProductCerts.Ark, amd.ProductCerts.Ask
	if signer == abi.VlekReportSigner {
		middle = amd.ProductCerts.Asvk
	}
	if err := list.CheckSignatureFrom(issuer); err != nil {
		return false, until, verify.Refuse(verify.FaultCollateral, "revocation list: not signed by AMD's root for %s: %w", amd.ProductLine, err)
	}
	if now.After(list.NextUpdate) {
		return false, until, verify.Refuse(verify.FaultCollateralExpired, "revocation list: good until %s, it is %s; `holdfast attest collateral fetch`", list.NextUpdate.Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	}
	for _, e := range list.RevokedCertificateEntries {
		if e.SerialNumber.Cmp(c.SerialNumber) == 0 || e.SerialNumber.Cmp(middle.SerialNumber) == 0 {
			return false, until, verify.Refuse(verify.FaultRevoked, "AMD revoked the certificate with serial number %v on %s", e.SerialNumber, e.RevocationTime.Format(time.DateOnly))
		}
	}
	if list.NextUpdate.Before(until) {
		until = list.NextUpdate
	}
	return true, until, nil
}

// Wants lists what a report needs from AMD: its certificate, if that did not
// come along, and the revocation list.
func Wants(r evidence.Report, endorsement verify.Lookup) ([]string, error) {
	rep, err := parse(r.Body)
	if err != nil {
		return nil, err
	}
	signer, err := abi.ParseSignerInfo(rep.SignerInfo)
	if err != nil {
		return nil, err
	}
	var out []string
	product := ""
	if rep.Cpuid1EaxFms != 0 {
		product = kds.ProductLineFromFms(rep.Cpuid1EaxFms)
	}
	if len(r.Needs) == 0 && signer.SigningKey == abi.VcekReportSigner {
		out = vcekURLs(rep)
	} else if product == "" && len(r.Needs) == 1 {
		if der, err := verify.TakeEndorsement(r.Needs[0], evidence.TypeCertificate, endorsement); err == nil {
			product = productOf(der, signer.SigningKey)
		}
	}
	for _, l := range lines {
		if product == "" || product == l {
			out = append(out, crlURL(l, signer.SigningKey))
		}
	}
	return out, nil
}

func productOf(der []byte, signer abi.ReportSigner) string {
	c, err := x509.ParseCertificate(der)
	if err != nil {
		return ""
	}
	exts, err := kds.CertificateExtensions(c, signer)
	if err != nil {
		return ""
	}
	p, err := kds.ParseProductName(exts.ProductName, signer)
	if err != nil {
		return ""
	}
	return kds.ProductLine(p)
}

func allZero(b []byte) bool { return len(bytes.TrimLeft(b, "\x00")) == 0 }
