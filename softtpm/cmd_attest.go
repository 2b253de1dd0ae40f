// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"bytes"

	"holdfast/softtpm/internal/tpmcrypto"
	"holdfast/tpm2"
)

func init() {
	object := slot{kObject | kNull, roleUser}
	register(&command{code: tpm2.CCCertify, slots: []slot{{kObject, roleAdmin}, object}, flags: fDecrypt | fEncrypt, run: certify})
	register(&command{code: tpm2.CCCertifyCreation, slots: []slot{object, {kObject, roleNone}}, flags: fDecrypt | fEncrypt, run: certifyCreation})
	register(&command{code: tpm2.CCQuote, slots: []slot{object}, flags: fDecrypt | fEncrypt, run: quote})
	register(&command{code: tpm2.CCGetTime, slots: []slot{{kEndorsement, roleUser}, object}, flags: fDecrypt | fEncrypt, run: getTime})
	register(&command{code: tpm2.CCGetSessionAuditDigest, slots: []slot{{kEndorsement, roleUser}, object, {kHMAC, roleNone}},
		flags: fDecrypt | fEncrypt, run: getSessionAuditDigest})
	register(&command{code: tpm2.CCGetCommandAuditDigest, slots: []slot{{kEndorsement, roleUser}, object},
		flags: fNV | fDecrypt | fEncrypt, run: getCommandAuditDigest})
	register(&command{code: tpm2.CCNVCertify, slots: []slot{object, {kNVAuth, roleUser}, {kNV, roleNone}}, flags: fDecrypt | fEncrypt, run: nvCertify})
}

// attestScheme checks the signing handle number i (from 0) and its scheme, in
// parameter p. With the null handle the result is unsigned and the key is nil.
func (c *call) attestScheme(i int, in tpm2.Scheme, p int) (*object, tpm2.Scheme, tpm2.RC) {
	o := c.object(i)
	if o == nil {
		return nil, tpm2.NoScheme, tpm2.RCSuccess
	}
	s, rc := selectSignScheme(o, in)
	switch {
	case rc == tpm2.RCKey:
		return nil, s, rc.Handle(i + 1)
	case rc != tpm2.RCSuccess:
		return nil, s, rc.Parameter(p)
	}
	// x509sign does not limit attestation (Part 2, 8.3.3.15).
	return o, s, tpm2.RCSuccess
}

// attestHash is the hash of digests inside an attestation: the scheme's, for
// schemes without one the key's nameAlg (Errata 2.6 and 2.7).
func attestHash(o *object, s tpm2.Scheme) tpm2.Alg {
	if o == nil {
		return tpm2.AlgNull
	}
	if h := signHash(o, s); h.IsHash() {
		return h
	}
	return o.pub.NameAlg
}

// attest fills in what all attestations have in common, signs, and writes the
// TPM2B_ATTEST and the TPMT_SIGNATURE (Part 3, 18.1).
func (c *call) attest(o *object, s tpm2.Scheme, qualifying []byte, a *tpm2.Attest) tpm2.RC {
	a.ExtraData = qualifying
	a.ClockInfo = c.st.clockInfo()
	a.FirmwareVersion = firmwareVersion
	if o == nil {
		a.QualifiedSigner = tpm2.HandleName(tpm2.RHNull)
	} else {
		a.QualifiedSigner = o.qname
	}
	if o == nil || o.hierarchy == tpm2.RHOwner || o.hierarchy == tpm2.RHNull {
		c.obfuscate(o, a)
	}
	m := c.out.Begin()
	a.Marshal(&c.out)
	c.out.End(m)
	if o == nil {
		(&tpm2.Signature{Alg: tpm2.AlgNull}).Marshal(&c.out)
		return tpm2.RCSuccess
	}
	msg := c.out.Bytes()
	if msg == nil {
		return tpm2.RCSize
	}
	sig, rc := c.signMessage(o, s, msg[m:])
	if rc != tpm2.RCSuccess {
		return rc
	}
	sig.Marshal(&c.out)
	return tpm2.RCSuccess
}

// obfuscate adds values that depend on the key to what could tell machines
// apart when the key is not of the privacy administrator (Part 1, 36.7).
func (c *call) obfuscate(o *object, a *tpm2.Attest) {
	var qn []byte
	if o != nil {
		qn = o.qname
	}
	k := tpmcrypto.KDFa(ticketHash, c.st.perm.shProof, "OBFUSCATE", qn, nil, 128)
	r := tpm2.NewReader(k)
	a.FirmwareVersion += r.U64()
	a.ClockInfo.ResetCount += r.U32()
	a.ClockInfo.RestartCount += r.U32()
}

// certify is TPM2_Certify (Part 3, 18.2).
func certify(c *call) tpm2.RC {
	q := c.next().Sized(tpm2.MaxData)
	in := readSigScheme(c.next())
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	x := c.object(0)
	if x.isSequence() {
		return tpm2.RCHandle.Handle(1)
	}
	o, s, rc := c.attestScheme(1, in, 2)
	if rc != tpm2.RCSuccess {
		return rc
	}
	return c.attest(o, s, q, &tpm2.Attest{Type: tpm2.STAttestCertify, Certify: tpm2.CertifyInfo{Name: x.name, QualifiedName: x.qname}})
}

// certifyCreation is TPM2_CertifyCreation (Part 3, 18.3).
func certifyCreation(c *call) tpm2.RC {
	q := c.next().Sized(tpm2.MaxData)
	hash := c.next().Sized(tpm2.MaxDigest)
	in := readSigScheme(c.next())
	var t tpm2.Ticket
	t.UnmarshalTicket(c.next(), tpm2.STCreation)
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	x := c.object(1)
	if x.isSequence() {
		return tpm2.RCHandle.Handle(2)
	}
	if !c.st.checkTicket(t, x.name, hash) {
		return tpm2.RCTicket.Parameter(4)
	}
	o, s, rc := c.attestScheme(0, in, 3)
	if rc != tpm2.RCSuccess {
		return rc
	}
	return c.attest(o, s, q, &tpm2.Attest{Type: tpm2.STAttestCreation, Creation: tpm2.CreationInfo{ObjectName: x.name, CreationHash: hash}})
}

// quote is TPM2_Quote (Part 3, 18.4).
func quote(c *call) tpm2.RC {
	q := c.next().Sized(tpm2.MaxData)
	in := readSigScheme(c.next())
	pcrs := readSelections(c.next())
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	o, s, rc := c.attestScheme(0, in, 2)
	if rc != tpm2.RCSuccess {
		return rc
	}
	h := attestHash(o, s)
	if o != nil && !h.IsHash() {
		return tpm2.RCScheme.Parameter(2)
	}
	sel, values := c.st.selectPCRs(pcrs)
	return c.attest(o, s, q, &tpm2.Attest{Type: tpm2.STAttestQuote, Quote: tpm2.QuoteInfo{PCRSelect: sel, PCRDigest: h.Sum(values...)}})
}

// getTime is TPM2_GetTime (Part 3, 18.7).
func getTime(c *call) tpm2.RC {
	q := c.next().Sized(tpm2.MaxData)
	in := readSigScheme(c.next())
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	o, s, rc := c.attestScheme(1, in, 2)
	if rc != tpm2.RCSuccess {
		return rc
	}
	return c.attest(o, s, q, &tpm2.Attest{Type: tpm2.STAttestTime, Time: tpm2.TimeAttestInfo{Time: c.timeInfo(), FirmwareVersion: firmwareVersion}})
}

// getSessionAuditDigest is TPM2_GetSessionAuditDigest (Part 3, 18.5).
func getSessionAuditDigest(c *call) tpm2.RC {
	q := c.next().Sized(tpm2.MaxData)
	in := readSigScheme(c.next())
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	x := c.st.session(c.handle(2))
	if !x.audit {
		return tpm2.RCType.Handle(3)
	}
	o, s, rc := c.attestScheme(1, in, 2)
	if rc != tpm2.RCSuccess {
		return rc
	}
	return c.attest(o, s, q, &tpm2.Attest{Type: tpm2.STAttestSessionAudit, SessionAudit: tpm2.SessionAuditInfo{
		Exclusive: c.st.volatile.exclusive == x.handle, SessionDigest: x.auditDigest}})
}

// getCommandAuditDigest is TPM2_GetCommandAuditDigest (Part 3, 18.6): the
// digest of command audit, which starts anew when a key signed it.
func getCommandAuditDigest(c *call) tpm2.RC {
	q := c.next().Sized(tpm2.MaxData)
	in := readSigScheme(c.next())
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	o, s, rc := c.attestScheme(1, in, 2)
	if rc != tpm2.RCSuccess {
		return rc
	}
	p := &c.st.perm
	var list tpm2.Writer
	for _, cc := range sortedCCs(p.audited, c.t.table, 0) {
		list.U32(uint32(cc))
	}
	rc = c.attest(o, s, q, &tpm2.Attest{Type: tpm2.STAttestCommandAudit, CommandAudit: tpm2.CommandAuditInfo{
		AuditCounter: p.auditCount, DigestAlg: p.auditHash, AuditDigest: c.st.reset.auditDigest, CommandDigest: p.auditHash.Sum(list.Bytes())}})
	if rc == tpm2.RCSuccess && o != nil {
		c.st.reset.auditDigest = nil
	}
	return rc
}

// nvCertify is TPM2_NV_Certify (Part 3, 31.16): data of an index, or with size
// and offset zero a digest of all of it.
func nvCertify(c *call) tpm2.RC {
	q := c.next().Sized(tpm2.MaxData)
	in := readSigScheme(c.next())
	size, offset := int(c.next().U16()), int(c.next().U16())
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	x := c.nv(2)
	if _, rc := c.nvRead(1, 2); rc != tpm2.RCSuccess {
		return rc
	}
	if size > nvBufferMax {
		return tpm2.RCValue.Parameter(3)
	}
	if offset > len(x.data) || size > len(x.data)-offset {
		return tpm2.RCNVRange
	}
	o, s, rc := c.attestScheme(0, in, 2)
	if rc != tpm2.RCSuccess {
		return rc
	}
	if size == 0 && offset == 0 {
		h := attestHash(o, s)
		if o != nil && !h.IsHash() {
			return tpm2.RCScheme.Parameter(2)
		}
		return c.attest(o, s, q, &tpm2.Attest{Type: tpm2.STAttestNVDigest, NVDigest: tpm2.NVDigestCertifyInfo{IndexName: x.name(), NVDigest: h.Sum(x.data)}})
	}
	return c.attest(o, s, q, &tpm2.Attest{Type: tpm2.STAttestNV, NV: tpm2.NVCertifyInfo{IndexName: x.name(), Offset: uint16(offset),
		Contents: bytes.Clone(x.data[offset : offset+size])}})
}
