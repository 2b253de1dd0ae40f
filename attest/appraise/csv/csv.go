// SPDX-License-Identifier: Apache-2.0

// Package csv verifies the reports of Hygon's CSV confidential virtual
// machines, more strictly than the code that is published for it: the usage
// and algorithm of every key and signature is checked, points must be on the
// curve and signature numbers in range, and the chip is pinned by its key, as
// the serial number in a report is not signed.
//
// Start with New; Check is a verify.Check. The chain is
// HRK (built in) → HSK → CEK → PEK → report. The PEK's second signature, by
// the owner's certificate authority, is not checked: that authority's
// certificate does not come along. Hygon publishes no revocation list; a
// policy can refuse single PEKs by their digest.
package csv

import (
	"crypto/ecdsa"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	_ "embed"
	"errors"
	"fmt"
	"math/big"
	"sync"
	"time"

	"github.com/emmansun/gmsm/sm2"
	"github.com/emmansun/gmsm/sm3"

	"holdfast/attest/collateral"
	"holdfast/attest/evidence"
	"holdfast/attest/evidence/csv"
	"holdfast/attest/trust"
	"holdfast/attest/verify"
)

// hrk is Hygon's root key certificate, as csv-rs carries it (Apache-2.0, see
// testdata/NOTICE). Its self-signature is checked by New.
//
//go:embed hrk.cert
var hrk []byte

// ChainURL is where Hygon's key server has the HSK and CEK of a chip.
func ChainURL(serial string) string { return "https://cert.hygon.cn/hsk_cek?snumber=" + serial }

// Verifier verifies CSV reports. It is safe for concurrent use.
type Verifier struct {
	roots *trust.Roots
	store *collateral.Store
	hrk   *csv.RootCert
	root  *ecdsa.PublicKey

	mu     sync.Mutex
	chains map[[32]byte]*chip // by the hash of HSK ‖ CEK
}

// chip is a verified chain.
type chip struct {
	id  [32]byte // see trust.Platform.Chip
	key *ecdsa.PublicKey
	uid []byte
}

const maxChains = 64

// New makes a Verifier with Hygon's root. store may be nil.
func New(roots *trust.Roots, store *collateral.Store) (*Verifier, error) {
	return newVerifier(roots, store, hrk)
}

func newVerifier(roots *trust.Roots, store *collateral.Store, root []byte) (*Verifier, error) {
	v := &Verifier{roots: roots, store: store, chains: map[[32]byte]*chip{}}
	var err error
	if v.hrk, err = csv.ParseRootCert(root); err != nil {
		return nil, err
	}
	if v.hrk.Usage != csv.UsageHRK || v.hrk.Curve != csv.CurveSM2 || v.hrk.SignerID != v.hrk.KeyID {
		return nil, errors.New("CSV: the root certificate is not that of a root")
	}
	if v.root, err = publicKey(v.hrk.Key); err != nil {
		return nil, fmt.Errorf("CSV: root certificate: %w", err)
	}
	if err := signed(v.root, v.hrk.UID, v.hrk.Signed(), v.hrk.Signature); err != nil {
		return nil, fmt.Errorf("CSV: root certificate: %w", err)
	}
	return v, nil
}

// Check is a verify.Check for evidence.TypeCSV. A report names its chain as
// its one endorsement, or none: then the chain is in the collateral store.
func (v *Verifier) Check(r evidence.Report, endorsement verify.Lookup, data evidence.ReportData, _ time.Time) (*verify.Result, error) {
	rep, err := csv.ParseReport(r.Body)
	if err != nil {
		return nil, &verify.Error{Fault: verify.FaultMalformed, Err: err}
	}
	if rep.SigUsage != csv.UsagePEK || rep.SigAlgo != csv.AlgoSM2SA {
		return nil, verify.Refuse(verify.FaultMalformed, "CSV report: expected a signature by a PEK (usage %#x) with SM2 (%d), got usage %#x and algorithm %d", csv.UsagePEK, csv.AlgoSM2SA, rep.SigUsage, rep.SigAlgo)
	}
	// Under version 1's mask this also pins anonce, if the report data is of known value throughout.
	if subtle.ConstantTimeCompare(rep.UserData[:], data[:]) != 1 {
		return nil, verify.Refuse(verify.FaultReportData, "expected a report over %x, got one over %x", data, rep.UserData)
	}
	c, err := v.chip(rep, r.Needs, endorsement)
	if err != nil {
		return nil, err
	}
	pek, err := v.pek(rep.PEK, c)
	if err != nil {
		return nil, err
	}
	if err := signed(pek, rep.PEK.UID, rep.Signed(), rep.Signature); err != nil {
		return nil, verify.Refuse(verify.FaultSignature, "CSV report: %w", err)
	}
	mac := hmac.New(sm3.New, rep.MNonce[:])
	mac.Write(rep.MACed())
	if !hmac.Equal(mac.Sum(nil), rep.MAC[:]) {
		return nil, verify.Refuse(verify.FaultMalformed, "CSV report: the MAC over certificate and serial number does not fit: the report is damaged or was unmasked by another program")
	}
	p, ok := v.roots.Platform(trust.TypeCSV, c.id[:])
	if !ok {
		return nil, verify.Refuse(verify.FaultForeign, "a genuine report, but the chip %x (serial number %s) is in no record of the trust file", c.id, rep.Serial)
	}
	return &verify.Result{Type: r.Type, Class: verify.ClassMachine, Environment: p.Environment, Signature: verify.SM2SM3, Platform: facts(rep, c)}, nil
}

func facts(rep *csv.Report, c *chip) *verify.Platform {
	x := &verify.CSV{Version: rep.Version, Policy: rep.Policy, VMID: rep.VMID[:], VMVersion: rep.VMVersion[:], UserPubkeyDigest: rep.UserPubkeyDigest[:],
		Serial: rep.Serial, PEK: keyDigest(rep.PEK.Key), Build: rep.Build}
	if rep.Version == 2 {
		for i := range rep.RTMR {
			x.RTMR = append(x.RTMR, rep.RTMR[i][:])
		}
	}
	return &verify.Platform{Type: trust.TypeCSV, Chip: c.id[:], Measurement: rep.Measure[:], Debug: rep.Policy&csv.PolicyNoDebug == 0, CSV: x}
}

// chip finds the verified chain of a report.
func (v *Verifier) chip(rep *csv.Report, needs [][32]byte, endorsement verify.Lookup) (*chip, error) {
	var raw []byte
	switch len(needs) {
	case 1:
		if c := v.known(needs[0]); c != nil {
			return c, nil
		}
		b, err := verify.TakeEndorsement(needs[0], evidence.TypeCSVChain, endorsement)
		if err != nil {
			return nil, err
		}
		raw = b
	case 0:
		i, err := v.store.Get(ChainURL(rep.Serial))
		if err != nil {
			return nil, verify.Refuse(verify.FaultNoEndorsement, "the chain of chip %s came neither with the report nor is it in the store: %w", rep.Serial, err)
		}
		raw = i.Body
	default:
		return nil, verify.Refuse(verify.FaultMalformed, "CSV evidence needs at most one endorsement, its chain; got %d", len(needs))
	}
	h := evidence.Endorsement{Type: evidence.TypeCSVChain, Body: raw}.Hash()
	if c := v.known(h); c != nil {
		return c, nil
	}
	c, err := v.verifyChain(raw)
	if err != nil {
		return nil, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.chains) >= maxChains {
		clear(v.chains)
	}
	v.chains[h] = c
	return c, nil
}

func (v *Verifier) known(h [32]byte) *chip {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.chains[h]
}

// verifyChain checks HRK → HSK → CEK.
func (v *Verifier) verifyChain(raw []byte) (*chip, error) {
	ch, err := csv.ParseChain(raw)
	if err != nil {
		return nil, &verify.Error{Fault: verify.FaultEndorsement, Err: err}
	}
	if ch.HSK.Usage != csv.UsageHSK || ch.HSK.Curve != csv.CurveSM2 {
		return nil, verify.Refuse(verify.FaultCertificate, "HSK: expected usage %#x on curve %d, got %#x on %d", csv.UsageHSK, csv.CurveSM2, ch.HSK.Usage, ch.HSK.Curve)
	}
	if ch.HSK.SignerID != v.hrk.KeyID {
		return nil, verify.Refuse(verify.FaultUnknownRoot, "HSK: expected the signature of root key %x, got that of %x", v.hrk.KeyID, ch.HSK.SignerID)
	}
	if err := signed(v.root, v.hrk.UID, ch.HSK.Signed(), ch.HSK.Signature); err != nil {
		return nil, verify.Refuse(verify.FaultCertificate, "HSK, by the HRK: %w", err)
	}
	hsk, err := publicKey(ch.HSK.Key)
	if err != nil {
		return nil, verify.Refuse(verify.FaultCertificate, "HSK: %w", err)
	}
	cek, err := chipKey("CEK", ch.CEK, csv.UsageCEK, csv.UsageHSK)
	if err != nil {
		return nil, err
	}
	if err := signed(hsk, ch.HSK.UID, ch.CEK.Signed(), ch.CEK.Slots[0].Sig); err != nil {
		return nil, verify.Refuse(verify.FaultCertificate, "CEK, by the HSK: %w", err)
	}
	if ch.CEK.Slots[1].Usage != csv.UsageNone {
		return nil, verify.Refuse(verify.FaultCertificate, "CEK: expected an empty second signature, got usage %#x", ch.CEK.Slots[1].Usage)
	}
	return &chip{keyDigest(ch.CEK.Key), cek, ch.CEK.UID}, nil
}

// pek checks CEK → PEK.
func (v *Verifier) pek(c *csv.ChipCert, by *chip) (*ecdsa.PublicKey, error) {
	k, err := chipKey("PEK", c, csv.UsagePEK, csv.UsageCEK)
	if err != nil {
		return nil, err
	}
	if c.Slots[1].Usage != csv.UsageOCA && c.Slots[1].Usage != csv.UsageNone {
		return nil, verify.Refuse(verify.FaultCertificate, "PEK: expected the owner's second signature or none, got usage %#x", c.Slots[1].Usage)
	}
	if err := signed(by.key, by.uid, c.Signed(), c.Slots[0].Sig); err != nil {
		return nil, verify.Refuse(verify.FaultCertificate, "PEK, by the CEK: %w", err)
	}
	return k, nil
}

// chipKey checks what a CEK or PEK says of itself and of who signed it.
func chipKey(name string, c *csv.ChipCert, usage, signer uint32) (*ecdsa.PublicKey, error) {
	if c.Usage != usage || c.Algo != csv.AlgoSM2SA || c.Curve != csv.CurveSM2 {
		return nil, verify.Refuse(verify.FaultCertificate, "%s: expected usage %#x, algorithm %d, curve %d; got %#x, %d, %d", name, usage, csv.AlgoSM2SA, csv.CurveSM2, c.Usage, c.Algo, c.Curve)
	}
	if s := c.Slots[0]; s.Usage != signer || s.Algo != csv.AlgoSM2SA {
		return nil, verify.Refuse(verify.FaultCertificate, "%s: expected a first signature by usage %#x with algorithm %d, got %#x with %d", name, signer, csv.AlgoSM2SA, s.Usage, s.Algo)
	}
	k, err := publicKey(c.Key)
	if err != nil {
		return nil, verify.Refuse(verify.FaultCertificate, "%s: %w", name, err)
	}
	return k, nil
}

// publicKey demands a point on the curve that is not the one at infinity.
func publicKey(p csv.Point) (*ecdsa.PublicKey, error) {
	return sm2.ParseUncompressedPublicKey(append(append([]byte{4}, p.X[:]...), p.Y[:]...))
}

func keyDigest(p csv.Point) [32]byte {
	return sha256.Sum256(append(append([]byte(nil), p.X[:]...), p.Y[:]...))
}

var errSignature = errors.New("the SM2 signature is not by this key")

// signed checks an SM2 signature with SM3 over message, with the signer's user id.
func signed(key *ecdsa.PublicKey, uid, message []byte, s csv.Sig) error {
	if len(uid) == 0 {
		return errors.New("the signer's certificate has no user id")
	}
	n := key.Curve.Params().N
	r, t := new(big.Int).SetBytes(s.R[:]), new(big.Int).SetBytes(s.S[:])
	if r.Sign() == 0 || t.Sign() == 0 || r.Cmp(n) >= 0 || t.Cmp(n) >= 0 {
		return errors.New("the signature's numbers are out of range")
	}
	h, err := sm2.CalculateSM2Hash(key, message, uid)
	if err != nil {
		return err
	}
	if !sm2.Verify(key, h, r, t) {
		return errSignature
	}
	return nil
}

// Wants lists what a report needs from Hygon: its chain, if that did not come along.
func Wants(r evidence.Report) ([]string, error) {
	rep, err := csv.ParseReport(r.Body)
	if err != nil || len(r.Needs) > 0 {
		return nil, err
	}
	return []string{ChainURL(rep.Serial)}, nil
}
