// SPDX-License-Identifier: Apache-2.0

package tdx

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"strings"
	"time"

	"github.com/google/go-tdx-guest/pcs"

	"holdfast/attest/collateral"
	"holdfast/attest/verify"
)

// Names of headers with the issuers of what Intel signs as JSON (Intel PCS API
// version 4), and the name of the certificate that signs it.
const (
	tcbInfoIssuers    = "Tcb-Info-Issuer-Chain"
	qeIdentityIssuers = "Sgx-Enclave-Identity-Issuer-Chain"
	tcbSigning        = "Intel SGX TCB Signing"
)

// intel is what Intel publishes about one platform, its signatures verified.
type intel struct {
	tcb   pcs.TcbInfo
	qe    pcs.EnclaveIdentity
	until time.Time // when the first piece ends
}

// collateralOf verifies the four pieces of Intel's collateral that a quote
// needs. known is false if one is not in the store.
func (v *Verifier) collateralOf(q *quote, now time.Time) (c *intel, known bool, err error) {
	var items [4]*collateral.Item // in the order of urls
	for i, u := range urls(q) {
		items[i], err = v.store.Get(u)
		if errors.Is(err, collateral.ErrMissing) {
			return nil, false, nil
		}
		if err != nil {
			return nil, false, verify.Refuse(verify.FaultCollateral, "%w", err)
		}
	}
	c = &intel{}
	rootList, err := c.list("Intel's list of revoked authorities", items[3], q.root, now)
	if err != nil {
		return nil, false, err
	}
	if err := revoked(rootList, q.middle); err != nil {
		return nil, false, err
	}
	pckList, err := c.list("Intel's list of revoked PCK certificates", items[2], q.middle, now)
	if err != nil {
		return nil, false, err
	}
	if err := revoked(pckList, q.pck); err != nil {
		return nil, false, err
	}
	if err := c.statement("TCB information", items[0], tcbInfoIssuers, "tcbInfo", &c.tcb, q.root, rootList, now); err != nil {
		return nil, false, err
	}
	if err := c.statement("QE identity", items[1], qeIdentityIssuers, "enclaveIdentity", &c.qe, q.root, rootList, now); err != nil {
		return nil, false, err
	}
	if c.tcb.ID != "TDX" || c.tcb.Version != 3 || len(c.tcb.TcbLevels) == 0 {
		return nil, false, verify.Refuse(verify.FaultCollateral, "TCB information: expected version 3 for TDX with levels, got version %d for %q with %d", c.tcb.Version, c.tcb.ID, len(c.tcb.TcbLevels))
	}
	if c.qe.ID != "TD_QE" || c.qe.Version != 2 || len(c.qe.TcbLevels) == 0 {
		return nil, false, verify.Refuse(verify.FaultCollateral, "QE identity: expected version 2 of TD_QE with levels, got version %d of %q with %d", c.qe.Version, c.qe.ID, len(c.qe.TcbLevels))
	}
	for _, d := range []struct {
		what        string
		issue, next time.Time
	}{{"TCB information", c.tcb.IssueDate, c.tcb.NextUpdate}, {"QE identity", c.qe.IssueDate, c.qe.NextUpdate}} {
		if err := c.good(d.what, d.issue, d.next, now); err != nil {
			return nil, false, err
		}
	}
	return c, true, nil
}

// good refuses what is out of date and keeps the first end.
func (c *intel) good(what string, from, until, now time.Time) error {
	if now.Before(from) {
		return verify.Refuse(verify.FaultCollateral, "%s: made on %s, it is %s: this machine's clock is wrong", what, from.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	}
	if !now.Before(until) {
		return verify.Refuse(verify.FaultCollateralExpired, "%s: good until %s, it is %s; `holdfast attest collateral fetch`", what, until.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	}
	if c.until.IsZero() || until.Before(c.until) {
		c.until = until
	}
	return nil
}

// list reads a revocation list that issuer must have signed.
func (c *intel) list(what string, i *collateral.Item, issuer *x509.Certificate, now time.Time) (*x509.RevocationList, error) {
	l, err := x509.ParseRevocationList(i.Body)
	if err != nil {
		return nil, verify.Refuse(verify.FaultCollateral, "%s: %w", what, err)
	}
	if !bytes.Equal(l.RawIssuer, issuer.RawSubject) {
		return nil, verify.Refuse(verify.FaultCollateral, "%s: expected one of %q, got one of %q", what, issuer.Subject.CommonName, l.Issuer.CommonName)
	}
	if err := l.CheckSignatureFrom(issuer); err != nil {
		return nil, verify.Refuse(verify.FaultCollateral, "%s: %w", what, err)
	}
	if err := c.good(what, l.ThisUpdate, l.NextUpdate, now); err != nil {
		return nil, err
	}
	return l, nil
}

func revoked(l *x509.RevocationList, c *x509.Certificate) error {
	for _, e := range l.RevokedCertificateEntries {
		if e.SerialNumber.Cmp(c.SerialNumber) == 0 {
			return verify.Refuse(verify.FaultRevoked, "Intel revoked the certificate %q with serial number %x on %s", c.Subject.CommonName, c.SerialNumber, e.RevocationTime.Format(time.DateOnly))
		}
	}
	return nil
}

// statement reads {"name": {...}, "signature": "hex"} and verifies that a
// certificate of Intel's for this purpose signed the very bytes of the object;
// nothing is read of it before.
func (c *intel) statement(what string, i *collateral.Item, header, name string, into any, root *x509.Certificate, rootList *x509.RevocationList, now time.Time) error {
	refuse := func(format string, args ...any) error {
		return verify.Refuse(verify.FaultCollateral, "%s: %w", what, fmt.Errorf(format, args...))
	}
	signer, err := signerOf(i.Header[header], root)
	if err != nil {
		return refuse("%s: %w", header, err)
	}
	if now.Before(signer.NotBefore) || now.After(signer.NotAfter) {
		return verify.Refuse(verify.FaultCollateralExpired, "%s: the certificate that signed it is good from %s to %s", what, signer.NotBefore.Format(time.RFC3339), signer.NotAfter.Format(time.RFC3339))
	}
	if err := revoked(rootList, signer); err != nil {
		return err
	}
	raw, sig, err := splitStatement(i.Body, name)
	if err != nil {
		return refuse("%w", err)
	}
	key, ok := signer.PublicKey.(*ecdsa.PublicKey)
	if !ok || key.Curve.Params().BitSize != 256 {
		return refuse("expected a signature by a key on P-256, got %T", signer.PublicKey)
	}
	h := sha256.Sum256(raw)
	if !ecdsa.Verify(key, h[:], new(big.Int).SetBytes(sig[:32]), new(big.Int).SetBytes(sig[32:])) {
		return refuse("not signed by %q", signer.Subject.CommonName)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return refuse("%w", err)
	}
	if signer.NotAfter.Before(c.until) {
		c.until = signer.NotAfter
	}
	return nil
}

// splitStatement takes the two members of an answer of Intel's server: the
// object as it stands there, and the signature R ‖ S of 64 bytes.
func splitStatement(body []byte, name string) (raw json.RawMessage, sig []byte, err error) {
	d := json.NewDecoder(bytes.NewReader(body))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, nil, errors.New("expected a JSON object")
	}
	var hexSig string
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, nil, err
		}
		switch key, _ := t.(string); {
		case key == name && raw == nil:
			err = d.Decode(&raw)
		case key == "signature" && hexSig == "":
			err = d.Decode(&hexSig)
		default:
			return nil, nil, fmt.Errorf("expected the members %s and signature once each, got %.40q", name, key)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	if _, err := d.Token(); err != nil {
		return nil, nil, err
	}
	if rest := body[d.InputOffset():]; len(bytes.TrimSpace(rest)) != 0 {
		return nil, nil, fmt.Errorf("%d bytes after the JSON object", len(rest))
	}
	sig, err = hex.DecodeString(hexSig)
	if err != nil || len(sig) != 64 || !bytes.HasPrefix(raw, []byte("{")) {
		return nil, nil, fmt.Errorf("expected an object and a signature of 64 bytes, got %d bytes", len(sig))
	}
	return raw, sig, nil
}

// signerOf reads the issuers in a header: the signer of TCB information, then
// the root, which must be the quote's.
func signerOf(header string, root *x509.Certificate) (*x509.Certificate, error) {
	text, err := url.QueryUnescape(header)
	if err != nil {
		return nil, err
	}
	var certs []*x509.Certificate
	for rest := []byte(text); len(bytes.TrimSpace(rest)) > 0; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil || block.Type != "CERTIFICATE" {
			return nil, errors.New("expected certificates in PEM")
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		certs = append(certs, c)
	}
	if len(certs) != 2 || !bytes.Equal(certs[1].Raw, root.Raw) {
		return nil, fmt.Errorf("expected a certificate and the root %q, got %d certificates", root.Subject.CommonName, len(certs))
	}
	c := certs[0]
	if c.Subject.CommonName != tcbSigning || c.IsCA {
		return nil, fmt.Errorf("expected the certificate %q, got %q", tcbSigning, c.Subject.CommonName)
	}
	return c, c.CheckSignatureFrom(root)
}

// statusOf says what Intel thinks of the platform that made a quote: the worst
// of the platform's own level, its TDX module's and its quoting enclave's, and
// the advisories of all three.
func (c *intel) statusOf(q *quote) (status string, advisories []string, err error) {
	if !strings.EqualFold(c.tcb.Fmspc, q.exts.FMSPC) || !strings.EqualFold(c.tcb.PceID, q.exts.PCEID) {
		return "", nil, verify.Refuse(verify.FaultCollateral, "TCB information: it is for the platform %s with PCE %s, the certificate for %s with %s", c.tcb.Fmspc, c.tcb.PceID, q.exts.FMSPC, q.exts.PCEID)
	}
	levels := []pcs.TcbLevel{}
	for _, find := range []func(*quote) (*pcs.TcbLevel, error){c.platform, c.module, c.quotingEnclave} {
		l, err := find(q)
		if err != nil {
			return "", nil, err
		}
		if l != nil {
			levels = append(levels, *l)
		}
	}
	status = string(levels[0].TcbStatus)
	for i, l := range levels {
		advisories = append(advisories, l.AdvisoryIDs...)
		if i > 0 {
			status = worse(status, string(l.TcbStatus))
		}
	}
	if status == string(pcs.TcbComponentStatusRevoked) {
		return "", nil, verify.Refuse(verify.FaultTCB, "Intel revoked this level of firmware (TCB status %s, %s)", status, strings.Join(advisories, ", "))
	}
	return status, advisories, nil
}

// worse joins a platform's status with that of one of its parts, as Intel's
// quote verification library does (DCAP QVL, converge TCB status).
func worse(platform, part string) string {
	const (
		revoked    = string(pcs.TcbComponentStatusRevoked)
		outOfDate  = string(pcs.TcbComponentStatusOutOfDate)
		outConfig  = string(pcs.TcbComponentStatusOutOfDateConfigurationNeeded)
		config     = string(pcs.TcbComponentStatusConfigurationNeeded)
		configHard = string(pcs.TcbComponentStatusConfigurationAndSWHardeningNeeded)
		upToDate   = string(pcs.TcbComponentStatusUpToDate)
	)
	switch {
	case platform == revoked || part == revoked:
		return revoked
	case part == upToDate:
		return platform
	case part != outOfDate: // parts have no other levels; should one come, the platform is no better than it
		if platform == upToDate {
			return part
		}
		return outConfig
	case platform == config || platform == configHard || platform == outConfig:
		return outConfig
	}
	return outOfDate
}

// platform finds the level of processor and PCE (Intel PCS, "Get TDX TCB Info":
// the first of which every component is reached).
func (c *intel) platform(q *quote) (*pcs.TcbLevel, error) {
	svn, cpu := q.GetTdQuoteBody().GetTeeTcbSvn(), q.exts.TCB.CPUSvnComponents
	from := 0
	if svn[1] > 0 {
		from = 2 // the module's own version stands in its own levels
	}
	for i := range c.tcb.TcbLevels {
		t := &c.tcb.TcbLevels[i].Tcb
		if q.exts.TCB.PCESvn >= t.Pcesvn && reached(cpu, t.SgxTcbcomponents, 0) && reached(svn, t.TdxTcbcomponents, from) {
			return &c.tcb.TcbLevels[i], nil
		}
	}
	return nil, verify.Refuse(verify.FaultTCB, "the firmware is below every level that Intel lists (CPU %x, PCE %d, TEE_TCB_SVN %x)", cpu, q.exts.TCB.PCESvn, svn)
}

func reached(have []byte, want []pcs.TcbComponent, from int) bool {
	if len(have) != 16 || len(want) != 16 {
		return false
	}
	for i := from; i < 16; i++ {
		if have[i] < want[i].Svn {
			return false
		}
	}
	return true
}

// module checks who signed the TDX module and finds its level; modules of
// version 0 have none of their own.
func (c *intel) module(q *quote) (*pcs.TcbLevel, error) {
	b := q.GetTdQuoteBody()
	svn := b.GetTeeTcbSvn()
	m := pcs.TdxModuleIdentity{ID: "TDX", Mrsigner: c.tcb.TdxModule.Mrsigner, Attributes: c.tcb.TdxModule.Attributes, AttributesMask: c.tcb.TdxModule.AttributesMask}
	if svn[1] > 0 {
		id := fmt.Sprintf("TDX_%02x", svn[1])
		found := false
		for _, x := range c.tcb.TdxModuleIdentities {
			if strings.EqualFold(x.ID, id) {
				m, found = x, true
				break
			}
		}
		if !found {
			return nil, verify.Refuse(verify.FaultTCB, "TDX module: Intel lists none of version %d", svn[1])
		}
	}
	if !bytes.Equal(m.Mrsigner.Bytes, b.GetMrSignerSeam()) || !masked(m.Attributes.Bytes, m.AttributesMask.Bytes, b.GetSeamAttributes()) {
		return nil, verify.Refuse(verify.FaultTCB, "TDX module: expected signer %x and attributes %x, got %x and %x", m.Mrsigner.Bytes, m.Attributes.Bytes, b.GetMrSignerSeam(), b.GetSeamAttributes())
	}
	if svn[1] == 0 {
		return nil, nil
	}
	for i := range m.TcbLevels {
		if uint32(svn[0]) >= m.TcbLevels[i].Tcb.Isvsvn {
			return &m.TcbLevels[i], nil
		}
	}
	return nil, verify.Refuse(verify.FaultTCB, "TDX module: version %d.%d is below every level that Intel lists", svn[1], svn[0])
}

// quotingEnclave checks that the enclave which signed for the attestation key is
// Intel's, and finds its level.
func (c *intel) quotingEnclave(q *quote) (*pcs.TcbLevel, error) {
	r := q.GetSignedData().GetCertificationData().GetQeReportCertificationData().GetQeReport()
	misc := []byte{byte(r.GetMiscSelect()), byte(r.GetMiscSelect() >> 8), byte(r.GetMiscSelect() >> 16), byte(r.GetMiscSelect() >> 24)}
	switch {
	case !bytes.Equal(c.qe.Mrsigner.Bytes, r.GetMrSigner()):
		return nil, verify.Refuse(verify.FaultQuotingEnclave, "expected an enclave signed by %x, got %x", c.qe.Mrsigner.Bytes, r.GetMrSigner())
	case uint32(c.qe.IsvProdID) != r.GetIsvProdId():
		return nil, verify.Refuse(verify.FaultQuotingEnclave, "expected product %d, got %d", c.qe.IsvProdID, r.GetIsvProdId())
	case !masked(c.qe.Miscselect.Bytes, c.qe.MiscselectMask.Bytes, misc):
		return nil, verify.Refuse(verify.FaultQuotingEnclave, "expected MISCSELECT %x, got %x", c.qe.Miscselect.Bytes, misc)
	case !masked(c.qe.Attributes.Bytes, c.qe.AttributesMask.Bytes, r.GetAttributes()):
		return nil, verify.Refuse(verify.FaultQuotingEnclave, "expected attributes %x under the mask %x, got %x", c.qe.Attributes.Bytes, c.qe.AttributesMask.Bytes, r.GetAttributes())
	}
	for i := range c.qe.TcbLevels {
		if r.GetIsvSvn() >= c.qe.TcbLevels[i].Tcb.Isvsvn {
			return &c.qe.TcbLevels[i], nil
		}
	}
	return nil, verify.Refuse(verify.FaultTCB, "quoting enclave: version %d is below every level that Intel lists", r.GetIsvSvn())
}

// masked says whether got under mask is want, all of one size and not empty.
func masked(want, mask, got []byte) bool {
	if len(want) == 0 || len(want) != len(mask) || len(got) != len(mask) {
		return false
	}
	for i := range mask {
		if got[i]&mask[i] != want[i] {
			return false
		}
	}
	return true
}
