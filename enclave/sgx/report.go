// SPDX-License-Identifier: Apache-2.0

package sgx

import "fmt"

// Report is REPORT, what EREPORT writes (SDM, "REPORT"; 432 bytes, aligned to
// 512). The first 384 bytes are the body, over which the MAC goes.
type Report struct {
	CPUSVN       [16]byte
	MiscSelect   MiscSelect
	ISVExtProdID [16]byte
	Attributes   Attributes
	MREnclave    [32]byte
	MRSigner     [32]byte
	ConfigID     [64]byte
	ISVProdID    uint16
	ISVSVN       uint16
	ConfigSVN    uint16
	ISVFamilyID  [16]byte
	ReportData   [64]byte
	KeyID        [32]byte
	MAC          [16]byte // AES-128-CMAC(report key of the target, body)
}

// Sizes in bytes.
const (
	ReportSize     = 432
	ReportBodySize = 384
	ReportDataSize = 64
)

// ParseReport reads a REPORT. It says nothing of who made it.
func ParseReport(b []byte) (*Report, error) {
	if err := wantSize("REPORT", b, ReportSize); err != nil {
		return nil, err
	}
	r, err := ParseReportBody(b[:ReportBodySize])
	if err != nil {
		return nil, err
	}
	copy(r.KeyID[:], b[384:])
	copy(r.MAC[:], b[416:])
	return r, nil
}

// ParseReportBody reads the body alone, as it stands in a quote.
func ParseReportBody(b []byte) (*Report, error) {
	const name = "REPORT"
	if err := wantSize(name, b, ReportBodySize); err != nil {
		return nil, err
	}
	if err := wantZero(name, b, [2]int{20, 32}, [2]int{96, 128}, [2]int{160, 192}, [2]int{262, 304}); err != nil {
		return nil, err
	}
	r := &Report{
		MiscSelect: MiscSelect(le.Uint32(b[16:])), Attributes: parseAttributes(b[48:]),
		ISVProdID: le.Uint16(b[256:]), ISVSVN: le.Uint16(b[258:]), ConfigSVN: le.Uint16(b[260:]),
	}
	copy(r.CPUSVN[:], b[0:])
	copy(r.ISVExtProdID[:], b[32:])
	copy(r.MREnclave[:], b[64:])
	copy(r.MRSigner[:], b[128:])
	copy(r.ConfigID[:], b[192:])
	copy(r.ISVFamilyID[:], b[304:])
	copy(r.ReportData[:], b[320:])
	return r, nil
}

// AppendBody appends the 384 bytes that the MAC covers.
func (r *Report) AppendBody(b []byte) []byte {
	var p [ReportBodySize]byte
	copy(p[0:], r.CPUSVN[:])
	le.PutUint32(p[16:], uint32(r.MiscSelect))
	copy(p[32:], r.ISVExtProdID[:])
	r.Attributes.appendTo(p[48:48])
	copy(p[64:], r.MREnclave[:])
	copy(p[128:], r.MRSigner[:])
	copy(p[192:], r.ConfigID[:])
	le.PutUint16(p[256:], r.ISVProdID)
	le.PutUint16(p[258:], r.ISVSVN)
	le.PutUint16(p[260:], r.ConfigSVN)
	copy(p[304:], r.ISVFamilyID[:])
	copy(p[320:], r.ReportData[:])
	return append(b, p[:]...)
}

// AppendTo appends the 432 bytes of the structure.
func (r *Report) AppendTo(b []byte) []byte {
	b = r.AppendBody(b)
	b = append(b, r.KeyID[:]...)
	return append(b, r.MAC[:]...)
}

// TargetInfo is TARGETINFO, for whom EREPORT makes a report (SDM; 512 bytes).
type TargetInfo struct {
	MREnclave  [32]byte
	Attributes Attributes
	ConfigSVN  uint16
	MiscSelect MiscSelect
	ConfigID   [64]byte
}

// TargetInfoSize is the size of TARGETINFO in bytes.
const TargetInfoSize = 512

// ParseTargetInfo reads a TARGETINFO.
func ParseTargetInfo(b []byte) (*TargetInfo, error) {
	const name = "TARGETINFO"
	if err := wantSize(name, b, TargetInfoSize); err != nil {
		return nil, err
	}
	if err := wantZero(name, b, [2]int{48, 50}, [2]int{56, 64}, [2]int{128, TargetInfoSize}); err != nil {
		return nil, err
	}
	t := &TargetInfo{Attributes: parseAttributes(b[32:]), ConfigSVN: le.Uint16(b[50:]), MiscSelect: MiscSelect(le.Uint32(b[52:]))}
	copy(t.MREnclave[:], b)
	copy(t.ConfigID[:], b[64:])
	return t, nil
}

// AppendTo appends the 512 bytes of the structure.
func (t *TargetInfo) AppendTo(b []byte) []byte {
	var p [TargetInfoSize]byte
	copy(p[0:], t.MREnclave[:])
	t.Attributes.appendTo(p[32:32])
	le.PutUint16(p[50:], t.ConfigSVN)
	le.PutUint32(p[52:], uint32(t.MiscSelect))
	copy(p[64:], t.ConfigID[:])
	return append(b, p[:]...)
}

// TargetOf returns the TARGETINFO that addresses the enclave of a report.
func TargetOf(r *Report) *TargetInfo {
	return &TargetInfo{r.MREnclave, r.Attributes, r.ConfigSVN, r.MiscSelect, r.ConfigID}
}

// KeyName names what EGETKEY derives.
type KeyName uint16

// Key names.
const (
	KeyEInitToken    KeyName = 0
	KeyProvision     KeyName = 1
	KeyProvisionSeal KeyName = 2
	KeyReport        KeyName = 3
	KeySeal          KeyName = 4
)

// KeyPolicy chooses what goes into a seal key.
type KeyPolicy uint16

// Bits of KeyPolicy; all but the first two need KSS.
const (
	PolicyMREnclave    KeyPolicy = 1 << 0
	PolicyMRSigner     KeyPolicy = 1 << 1
	PolicyNoISVProdID  KeyPolicy = 1 << 2
	PolicyConfigID     KeyPolicy = 1 << 3
	PolicyISVFamilyID  KeyPolicy = 1 << 4
	PolicyISVExtProdID KeyPolicy = 1 << 5

	policyKnown = PolicyMREnclave | PolicyMRSigner | PolicyNoISVProdID | PolicyConfigID | PolicyISVFamilyID | PolicyISVExtProdID
	// PolicyKSS are the bits that need the KSS attribute.
	PolicyKSS = PolicyNoISVProdID | PolicyConfigID | PolicyISVFamilyID | PolicyISVExtProdID
)

// KeyRequest is KEYREQUEST (SDM; 512 bytes, aligned to 512).
type KeyRequest struct {
	Name      KeyName
	Policy    KeyPolicy
	ISVSVN    uint16
	CPUSVN    [16]byte
	AttrMask  Attributes
	KeyID     [32]byte
	MiscMask  MiscSelect
	ConfigSVN uint16
}

// KeyRequestSize is the size of KEYREQUEST in bytes.
const KeyRequestSize = 512

// ParseKeyRequest reads a KEYREQUEST. An unknown key name is no layout error:
// EGETKEY answers it with SGX_INVALID_KEYNAME.
func ParseKeyRequest(b []byte) (*KeyRequest, error) {
	const name = "KEYREQUEST"
	if err := wantSize(name, b, KeyRequestSize); err != nil {
		return nil, err
	}
	if err := wantZero(name, b, [2]int{6, 8}, [2]int{78, KeyRequestSize}); err != nil {
		return nil, err
	}
	k := &KeyRequest{
		Name: KeyName(le.Uint16(b)), Policy: KeyPolicy(le.Uint16(b[2:])), ISVSVN: le.Uint16(b[4:]), AttrMask: parseAttributes(b[24:]),
		MiscMask: MiscSelect(le.Uint32(b[72:])), ConfigSVN: le.Uint16(b[76:]),
	}
	if k.Policy&^policyKnown != 0 {
		return nil, &LayoutError{name, "KEYPOLICY", fmt.Sprintf("reserved bits in %#x", uint16(k.Policy))}
	}
	copy(k.CPUSVN[:], b[8:])
	copy(k.KeyID[:], b[40:])
	return k, nil
}

// AppendTo appends the 512 bytes of the structure.
func (k *KeyRequest) AppendTo(b []byte) []byte {
	var p [KeyRequestSize]byte
	le.PutUint16(p[0:], uint16(k.Name))
	le.PutUint16(p[2:], uint16(k.Policy))
	le.PutUint16(p[4:], k.ISVSVN)
	copy(p[8:], k.CPUSVN[:])
	k.AttrMask.appendTo(p[24:24])
	copy(p[40:], k.KeyID[:])
	le.PutUint32(p[72:], uint32(k.MiscMask))
	le.PutUint16(p[76:], k.ConfigSVN)
	return append(b, p[:]...)
}
