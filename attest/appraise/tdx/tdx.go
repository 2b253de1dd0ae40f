// SPDX-License-Identifier: Apache-2.0

// Package tdx verifies quotes of Intel TDX machines with Google's
// go-tdx-guest, and adds what that leaves to the caller: the quote must be
// exactly the bytes that its fields stand for, its root must be Intel's, and
// the chip must be pinned.
//
// Start with New; Check is a verify.Check. It never uses the network. With
// Intel's collateral in the store (TCB information, identity of the quoting
// enclave, revocation lists) the Result says what Intel thinks of the platform's
// firmware: a policy takes nothing but UpToDate unless it names another status, and a
// revoked level never gets there. Without collateral the Result says so, and a
// policy refuses it unless it says otherwise.
//
// The library checks chain and signatures; the collateral is checked here
// (intel.go), since the library knows no status but UpToDate and gives its
// refusals no names. A test compares the two.
package tdx

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
	"encoding/binary"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/go-tdx-guest/abi"
	"github.com/google/go-tdx-guest/pcs"
	pb "github.com/google/go-tdx-guest/proto/tdx"
	tdxverify "github.com/google/go-tdx-guest/verify"

	"holdfast/attest/collateral"
	"holdfast/attest/evidence"
	"holdfast/attest/trust"
	"holdfast/attest/verify"
)

// intelRoot is the SHA-256 of Intel's SGX Root CA certificate, DER.
const intelRoot = "44a0196b2b99f889b8e149e95b807a350e7424964399e885a7cbb8ccfab674d3"

// RootCRLURL is where Intel has the revocation list of its root.
const RootCRLURL = "https://certificates.trustedservices.intel.com/IntelSGXRootCA.der"

// Verifier verifies TDX quotes. It is safe for concurrent use.
type Verifier struct {
	roots *trust.Roots
	store *collateral.Store
	root  string // intelRoot, but for a test's own chain: nothing outside of this package can set it
}

// New makes a Verifier. store may be nil; then nothing is known of Intel's
// collateral.
func New(roots *trust.Roots, store *collateral.Store) *Verifier {
	return &Verifier{roots, store, intelRoot}
}

// quote is a parsed quote with the chain that it carries.
type quote struct {
	*pb.QuoteV4
	pck, middle, root *x509.Certificate
	exts              *pcs.PckExtensions
}

// parse reads a quote strictly: version 4, the same bytes when written again.
func parse(b []byte) (*quote, error) {
	any, err := abi.QuoteToProto(b)
	if err != nil {
		return nil, fmt.Errorf("TDX quote: %w", err)
	}
	q, ok := any.(*pb.QuoteV4)
	if !ok {
		return nil, fmt.Errorf("TDX quote: expected version 4, got %T", any)
	}
	if len(q.ExtraBytes) > 0 {
		return nil, fmt.Errorf("TDX quote: %d bytes follow its end", len(q.ExtraBytes))
	}
	again, err := abi.QuoteToAbiBytes(q)
	if err != nil || !bytes.Equal(again, b) {
		return nil, errors.New("TDX quote: bytes outside its fields")
	}
	out := &quote{QuoteV4: q}
	if err := out.chain(); err != nil {
		return nil, fmt.Errorf("TDX quote: PCK chain: %w", err)
	}
	return out, nil
}

// chain reads the certificates inside the quote.
func (q *quote) chain() error {
	rest := q.GetSignedData().GetCertificationData().GetQeReportCertificationData().GetPckCertificateChainData().GetPckCertChain()
	for _, to := range []**x509.Certificate{&q.pck, &q.middle, &q.root} {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil || block.Type != "CERTIFICATE" {
			return errors.New("expected three certificates")
		}
		var err error
		if *to, err = x509.ParseCertificate(block.Bytes); err != nil {
			return err
		}
	}
	if len(bytes.Trim(rest, "\x00\n")) != 0 {
		return errors.New("bytes after the third certificate")
	}
	var err error
	q.exts, err = pcs.PckCertificateExtensions(q.pck)
	return err
}

// Check is a verify.Check for evidence.TypeTDX.
func (v *Verifier) Check(r evidence.Report, _ verify.Lookup, data evidence.ReportData, now time.Time) (*verify.Result, error) {
	q, err := parse(r.Body)
	if err != nil {
		return nil, &verify.Error{Fault: verify.FaultMalformed, Err: err}
	}
	if len(r.Needs) != 0 {
		return nil, verify.Refuse(verify.FaultMalformed, "a TDX quote carries its chain and needs no endorsements, got %d", len(r.Needs))
	}
	body := q.GetTdQuoteBody()
	if subtle.ConstantTimeCompare(body.GetReportData(), data[:]) != 1 {
		return nil, verify.Refuse(verify.FaultReportData, "expected a quote over %x, got one over %x", data, body.GetReportData())
	}
	if sum := sha256.Sum256(q.root.Raw); hex.EncodeToString(sum[:]) != v.root {
		return nil, verify.Refuse(verify.FaultUnknownRoot, "expected Intel's SGX Root CA with SHA-256 %s, got %x", v.root, sum)
	}
	until, err := q.dates(now)
	if err != nil {
		return nil, err
	}
	c, err := v.check(q, now)
	if err != nil {
		return nil, err
	}
	x := &verify.TDX{FMSPC: q.exts.FMSPC}
	if c != nil {
		if x.TCBStatus, x.Advisories, err = c.statusOf(q); err != nil {
			return nil, err
		}
		x.TCBEvaluation = c.tcb.TcbEvaluationDataNumber
		if c.until.Before(until) {
			until = c.until
		}
	}
	chip, err := hex.DecodeString(q.exts.PPID)
	if err != nil {
		return nil, verify.Refuse(verify.FaultCertificate, "PCK certificate: PPID: %w", err)
	}
	p, ok := v.roots.Platform(trust.TypeTDX, chip)
	if !ok {
		return nil, verify.Refuse(verify.FaultForeign, "a genuine quote, but the chip with PPID %x is in no record of the trust file", chip)
	}
	x.TEETCBSVN, x.MRSeam, x.MRConfigID, x.MROwner, x.MROwnerConf = body.GetTeeTcbSvn(), body.GetMrSeam(), body.GetMrConfigId(), body.GetMrOwner(), body.GetMrOwnerConfig()
	x.RTMR, x.Attributes, x.XFAM = body.GetRtmrs(), binary.LittleEndian.Uint64(body.GetTdAttributes()), binary.LittleEndian.Uint64(body.GetXfam())
	return &verify.Result{Type: r.Type, Class: verify.ClassMachine, Environment: p.Environment, Signature: "ES256",
		Platform: &verify.Platform{Type: trust.TypeTDX, Chip: chip, Measurement: body.GetMrTd(), Debug: x.Attributes&attributeDebug != 0, Collateral: c != nil, Until: until, TDX: x}}, nil
}

// attributeDebug is bit 0 of TD attributes: the TD runs in debug mode (Intel
// TDX Module Base Specification, TD attributes, TUD group). The other bits of that
// group have no meaning yet; they count as debug too.
const attributeDebug = 0xff

// dates refuses certificates out of date and returns when the first one ends.
func (q *quote) dates(now time.Time) (until time.Time, err error) {
	for _, c := range []*x509.Certificate{q.pck, q.middle, q.root} {
		if now.Before(c.NotBefore) || now.After(c.NotAfter) {
			return until, verify.Refuse(verify.FaultExpired, "%s: good from %s to %s, not at %s", c.Subject.CommonName, c.NotBefore.Format(time.RFC3339), c.NotAfter.Format(time.RFC3339), now.UTC().Format(time.RFC3339))
		}
		if until.IsZero() || c.NotAfter.Before(until) {
			until = c.NotAfter
		}
	}
	return until, nil
}

// check has the library verify chain and signatures, then looks at Intel's
// collateral, if the store has it.
func (v *Verifier) check(q *quote, now time.Time) (*intel, error) {
	pool := x509.NewCertPool()
	pool.AddCert(q.root)
	if err := tdxverify.TdxQuote(q.QuoteV4, &tdxverify.Options{Now: now, TrustedRoots: pool, Getter: noNetwork{}}); err != nil {
		return nil, verify.Refuse(nameOf(err), "TDX quote: %w", err)
	}
	if caOf(q.pck) == "" {
		return nil, verify.Refuse(verify.FaultCertificate, "PCK certificate: expected an issuer of the platform or processor kind, got %q", q.pck.Issuer.CommonName)
	}
	c, known, err := v.collateralOf(q, now)
	if err != nil || !known {
		return nil, err
	}
	return c, nil
}

// caOf tells which of Intel's certificate authorities issued a PCK certificate.
func caOf(pck *x509.Certificate) string {
	switch pck.Issuer.CommonName {
	case "Intel SGX PCK Platform CA":
		return "platform"
	case "Intel SGX PCK Processor CA":
		return "processor"
	}
	return ""
}

// urls are the four pieces of collateral of a quote.
func urls(q *quote) []string {
	return []string{pcs.TcbInfoURL(q.exts.FMSPC), pcs.QeIdentityURL(), pcs.PckCrlURL(caOf(q.pck)), RootCRLURL}
}

// Wants lists what a quote needs from Intel.
func Wants(r evidence.Report) ([]string, error) {
	q, err := parse(r.Body)
	if err != nil {
		return nil, err
	}
	if caOf(q.pck) == "" {
		return nil, fmt.Errorf("PCK certificate: unknown issuer %q", q.pck.Issuer.CommonName)
	}
	return urls(q), nil
}

// noNetwork makes a network call of the library an error.
type noNetwork struct{}

// Get implements trust.HTTPSGetter.
func (noNetwork) Get(url string) (map[string][]string, []byte, error) {
	return nil, nil, fmt.Errorf("a verifier uses no network, not even for %s", url)
}

// nameOf finds the fault in the library's text: its errors are not wrapped, so
// that text is all there is. The version of the library is pinned, and a test
// has each of these texts.
func nameOf(err error) verify.Fault {
	s := err.Error()
	for _, part := range []string{tdxverify.ErrHashVerificationFail.Error(), tdxverify.ErrSHA56VerificationFail.Error(), "QE report"} {
		if strings.Contains(s, part) {
			return verify.FaultSignature
		}
	}
	return verify.FaultCertificate
}
