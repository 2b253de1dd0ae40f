// SPDX-License-Identifier: Apache-2.0

package tpm2

// ClockInfo is TPMS_CLOCK_INFO (Part 2, 10.11.1).
type ClockInfo struct {
	Clock        uint64 // milliseconds that the TPM was powered
	ResetCount   uint32
	RestartCount uint32
	Safe         bool // no value of Clock greater than this was reported before
}

func (c ClockInfo) Marshal(w *Writer) {
	w.U64(c.Clock)
	w.U32(c.ResetCount)
	w.U32(c.RestartCount)
	w.Bool(c.Safe)
}

func (c *ClockInfo) Unmarshal(r *Reader) {
	*c = ClockInfo{r.U64(), r.U32(), r.U32(), r.Bool()}
}

// TimeInfo is TPMS_TIME_INFO (Part 2, 10.11.6).
type TimeInfo struct {
	Time      uint64 // milliseconds since the last _TPM_Init
	ClockInfo ClockInfo
}

func (t TimeInfo) Marshal(w *Writer) {
	w.U64(t.Time)
	t.ClockInfo.Marshal(w)
}

func (t *TimeInfo) Unmarshal(r *Reader) {
	t.Time = r.U64()
	t.ClockInfo.Unmarshal(r)
}

// CertifyInfo is TPMS_CERTIFY_INFO (Part 2, 10.12.3).
type CertifyInfo struct{ Name, QualifiedName []byte }

// CreationInfo is TPMS_CREATION_INFO (Part 2, 10.12.7).
type CreationInfo struct{ ObjectName, CreationHash []byte }

// QuoteInfo is TPMS_QUOTE_INFO (Part 2, 10.12.4).
type QuoteInfo struct {
	PCRSelect []PCRSelection
	PCRDigest []byte
}

// CommandAuditInfo is TPMS_COMMAND_AUDIT_INFO (Part 2, 10.12.5).
type CommandAuditInfo struct {
	AuditCounter  uint64
	DigestAlg     Alg
	AuditDigest   []byte
	CommandDigest []byte
}

// SessionAuditInfo is TPMS_SESSION_AUDIT_INFO (Part 2, 10.12.6).
type SessionAuditInfo struct {
	Exclusive     bool
	SessionDigest []byte
}

// TimeAttestInfo is TPMS_TIME_ATTEST_INFO (Part 2, 10.12.2).
type TimeAttestInfo struct {
	Time            TimeInfo
	FirmwareVersion uint64
}

// NVCertifyInfo is TPMS_NV_CERTIFY_INFO (Part 2, 10.12.8).
type NVCertifyInfo struct {
	IndexName []byte
	Offset    uint16
	Contents  []byte
}

// NVDigestCertifyInfo is TPMS_NV_DIGEST_CERTIFY_INFO (Part 2, 10.12.9).
type NVDigestCertifyInfo struct{ IndexName, NVDigest []byte }

// Attest is TPMS_ATTEST (Part 2, 10.12.12), the structure that a TPM signs in
// attestation. Type says which body counts; the magic number is checked on
// reading and implied on writing.
type Attest struct {
	Type            Tag
	QualifiedSigner []byte
	ExtraData       []byte // qualifyingData of the caller
	ClockInfo       ClockInfo
	FirmwareVersion uint64

	Certify      CertifyInfo         // STAttestCertify
	Creation     CreationInfo        // STAttestCreation
	Quote        QuoteInfo           // STAttestQuote
	CommandAudit CommandAuditInfo    // STAttestCommandAudit
	SessionAudit SessionAuditInfo    // STAttestSessionAudit
	Time         TimeAttestInfo      // STAttestTime
	NV           NVCertifyInfo       // STAttestNV
	NVDigest     NVDigestCertifyInfo // STAttestNVDigest
}

func (a *Attest) Marshal(w *Writer) {
	w.U32(GeneratedValue)
	w.U16(uint16(a.Type))
	w.Sized(a.QualifiedSigner)
	w.Sized(a.ExtraData)
	a.ClockInfo.Marshal(w)
	w.U64(a.FirmwareVersion)
	switch a.Type {
	case STAttestCertify:
		w.Sized(a.Certify.Name)
		w.Sized(a.Certify.QualifiedName)
	case STAttestCreation:
		w.Sized(a.Creation.ObjectName)
		w.Sized(a.Creation.CreationHash)
	case STAttestQuote:
		MarshalPCRSelections(w, a.Quote.PCRSelect)
		w.Sized(a.Quote.PCRDigest)
	case STAttestCommandAudit:
		w.U64(a.CommandAudit.AuditCounter)
		w.Alg(a.CommandAudit.DigestAlg)
		w.Sized(a.CommandAudit.AuditDigest)
		w.Sized(a.CommandAudit.CommandDigest)
	case STAttestSessionAudit:
		w.Bool(a.SessionAudit.Exclusive)
		w.Sized(a.SessionAudit.SessionDigest)
	case STAttestTime:
		a.Time.Time.Marshal(w)
		w.U64(a.Time.FirmwareVersion)
	case STAttestNV:
		w.Sized(a.NV.IndexName)
		w.U16(a.NV.Offset)
		w.Sized(a.NV.Contents)
	case STAttestNVDigest:
		w.Sized(a.NVDigest.IndexName)
		w.Sized(a.NVDigest.NVDigest)
	default:
		w.unknown("TPMS_ATTEST", uint64(a.Type))
	}
}

// Unmarshal reads a TPMS_ATTEST; RCValue if it does not begin with
// TPM_GENERATED_VALUE or its type is unknown.
func (a *Attest) Unmarshal(r *Reader) {
	*a = Attest{}
	if m := r.U32(); r.err == RCSuccess && m != GeneratedValue {
		r.Fail(RCValue)
	}
	a.Type = Tag(r.U16())
	a.QualifiedSigner = r.Sized(MaxName)
	a.ExtraData = r.Sized(MaxData)
	a.ClockInfo.Unmarshal(r)
	a.FirmwareVersion = r.U64()
	if r.err != RCSuccess {
		*a = Attest{}
		return
	}
	switch a.Type {
	case STAttestCertify:
		a.Certify = CertifyInfo{r.Sized(MaxName), r.Sized(MaxName)}
	case STAttestCreation:
		a.Creation = CreationInfo{r.Sized(MaxName), r.Sized(MaxDigest)}
	case STAttestQuote:
		a.Quote.PCRSelect = UnmarshalPCRSelections(r)
		a.Quote.PCRDigest = r.Sized(MaxDigest)
	case STAttestCommandAudit:
		a.CommandAudit = CommandAuditInfo{r.U64(), r.Alg(), r.Sized(MaxDigest), r.Sized(MaxDigest)}
	case STAttestSessionAudit:
		a.SessionAudit = SessionAuditInfo{r.Bool(), r.Sized(MaxDigest)}
	case STAttestTime:
		a.Time.Time.Unmarshal(r)
		a.Time.FirmwareVersion = r.U64()
	case STAttestNV:
		a.NV = NVCertifyInfo{r.Sized(MaxName), r.U16(), r.Sized(MaxNVBuffer)}
	case STAttestNVDigest:
		a.NVDigest = NVDigestCertifyInfo{r.Sized(MaxName), r.Sized(MaxDigest)}
	default:
		r.Fail(RCValue)
	}
	if r.err != RCSuccess {
		*a = Attest{}
	}
}
