// SPDX-License-Identifier: Apache-2.0

package verify

import "fmt"

// Fault names what is wrong with evidence. The strings are stable: logs,
// scripts and tests rely on them.
type Fault string

// Faults, in the order in which Verify looks for them.
const (
	FaultMalformed      Fault = "malformed"           // not the bytes of this type of evidence
	FaultUnknownType    Fault = "unknown-type"        // no verifier for this media type
	FaultNoEndorsement  Fault = "endorsement-missing" // an endorsement that the report needs did not come
	FaultEndorsement    Fault = "endorsement"         // it came, but is wrong, malformed or of the wrong type
	FaultUnknownKey     Fault = "unknown-key"         // the attestation key is not pinned
	FaultUnknownRoot    Fault = "unknown-root"        // no trusted root signed the report key
	FaultMagic          Fault = "magic"               // not made by a TPM: TPM_GENERATED_VALUE is missing
	FaultAttestType     Fault = "attest-type"         // signed by the TPM, but not a quote
	FaultReportData     Fault = "report-data"         // genuine perhaps, but for something else: replayed or misdirected
	FaultQualifiedName  Fault = "qualified-name"      // the key sits elsewhere in the TPM than at enrolment
	FaultPCRDigest      Fault = "pcr-digest"          // the PCR values are not those that the TPM signed
	FaultWeakKey        Fault = "weak-key"            // key type, size, hash or attributes are not acceptable for an AK
	FaultSignature      Fault = "signature"           // not signed by this key
	FaultEventLog       Fault = "event-log"           // the event log does not lead to the quoted PCR values
	FaultEventLogDigest Fault = "event-log-digest"    // an event's data does not fit its digest

	// Of enclaves.
	FaultLevel         Fault = "enclave-level"   // the attestation key is not enrolled for the level that the evidence claims
	FaultEnclaveKey    Fault = "enclave-key"     // the monitor's key is not the one that the TPM's key PCR proves
	FaultNotCapped     Fault = "enclave-cap"     // a PCR of the monitor is not closed, so that another program may still use its secrets
	FaultMonitor       Fault = "enclave-monitor" // the monitor's PCR does not show exactly one monitor
	FaultEnclaveReport Fault = "enclave-report"  // the report is not among those that the monitor signed

	// Of confidential virtual machines.
	FaultCertificate       Fault = "certificate"         // the chain from the vendor's root to the report key does not hold
	FaultExpired           Fault = "certificate-expired" // a certificate of the chain is out of date
	FaultRevoked           Fault = "revoked"             // the vendor revoked a certificate of the chain
	FaultCollateral        Fault = "collateral"          // the vendor's revocation list or TCB information is wrong
	FaultCollateralExpired Fault = "collateral-expired"  // it is out of date; `holdfast attest collateral fetch`
	FaultQuotingEnclave    Fault = "quoting-enclave"     // the enclave that vouches for the attestation key is not the one that Intel names
	FaultTCB               Fault = "tcb"                 // the vendor calls this firmware out of date, or report and certificate disagree about it
	FaultForeign           Fault = "foreign"             // genuine, but the chip is in no record of the trust file
)

// Error is why evidence is not genuine.
type Error struct {
	Fault Fault
	Err   error // what was expected and what came
}

func (e *Error) Error() string { return fmt.Sprintf("evidence refused (%s): %v", e.Fault, e.Err) }
func (e *Error) Unwrap() error { return e.Err }

// Is makes errors.Is(err, &Error{Fault: f}) ask for the fault alone.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Fault == e.Fault && t.Err == nil
}

// Refuse makes an *Error; verifiers of other packages use it.
func Refuse(f Fault, format string, args ...any) error { return fault(f, format, args...) }

// TakeEndorsement asks for the endorsement named hash and checks that it is the one
// and of the wanted media type.
func TakeEndorsement(hash [32]byte, mediaType string, endorsement Lookup) ([]byte, error) {
	e, err := take(hash, endorsement)
	if err != nil {
		return nil, err
	}
	if e.Type != mediaType {
		return nil, fault(FaultEndorsement, "expected %s, got %s", mediaType, e.Type)
	}
	return e.Body, nil
}

func fault(f Fault, format string, args ...any) error {
	return &Error{f, fmt.Errorf(format, args...)}
}
