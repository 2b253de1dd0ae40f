// SPDX-License-Identifier: Apache-2.0

// Package ear writes what an appraisal found as an EAT Attestation Result
// (draft-ietf-rats-ear-04), in JSON, in CBOR or as a signed JWT, so that
// others can use it who do not know the evidence.
//
// Call New with what verification and policy said, then JSON, CBOR or JWT, and Wrap
// for a conceptual message wrapper (RFC 9999). The claims of the
// trustworthiness vector are those of AR4SI (draft-ietf-rats-ar4si).
package ear

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fxamacker/cbor/v2"

	"holdfast/attest/evidence"
	"holdfast/attest/policy"
	"holdfast/attest/verify"
)

// Profile names the EAR profile (draft, section 4).
const Profile = "tag:github.com,2023:veraison/ear"

// Media types (RFC 9782).
const (
	TypeJSON = "application/eat-ucs+json"
	TypeCBOR = "application/eat-ucs+cbor"
	TypeJWT  = "application/eat+jwt"
)

// Tier is a trustworthiness tier, by its number (AR4SI, section 2.3.2).
type Tier int

// Tiers.
const (
	None            Tier = 0
	Affirming       Tier = 2
	Warning         Tier = 32
	Contraindicated Tier = 96
)

var tierNames = map[Tier]string{None: "none", Affirming: "affirming", Warning: "warning", Contraindicated: "contraindicated"}

func (t Tier) String() string { return tierNames[t] }

// tierOf is the tier of a claim's value; negative values are not used here.
func tierOf(claim int) Tier {
	switch {
	case claim == 0:
		return None
	case claim < 32:
		return Affirming
	case claim < 96:
		return Warning
	}
	return Contraindicated
}

// Vector is a trustworthiness vector; 0 makes no claim.
type Vector struct {
	InstanceIdentity int `json:"instance-identity,omitempty" cbor:"0,keyasint,omitempty"`
	Configuration    int `json:"configuration,omitempty" cbor:"1,keyasint,omitempty"`
	Executables      int `json:"executables,omitempty" cbor:"2,keyasint,omitempty"`
	Hardware         int `json:"hardware,omitempty" cbor:"4,keyasint,omitempty"`
	RuntimeOpaque    int `json:"runtime-opaque,omitempty" cbor:"5,keyasint,omitempty"`
}

// Values of claims (AR4SI, section 2.3.4).
const (
	recognized      = 2  // instance, configuration, executables, hardware: known and good
	isolated        = 2  // runtime-opaque: memory is encrypted against the host
	vulnerable      = 32 // hardware: genuine, with known weaknesses
	badInstance     = 96 // recognized, but not trustworthy
	badConfig       = 96
	badExecutables  = 96
	badHardware     = 96 // firmware or hardware that should not be used
	unknownInstance = 97
	unknownHardware = 97
)

// Appraisal is the result about one attester.
type Appraisal struct {
	Status   Tier
	Vector   Vector
	PolicyID string
	// Ours, beside the draft's claims.
	Fault     string           // why the evidence is not genuine
	Failures  []policy.Failure // rules that refuse
	Simulated bool
}

// Result is an EAR.
type Result struct {
	IssuedAt  time.Time
	Build     string              // of the verifier
	Nonce     evidence.ReportData // what the evidence was asked to be for
	Attester  string              // name of the only submodule
	Appraisal Appraisal
}

// Developer is the verifier's name in ear.verifier-id.
const Developer = "holdfast"

// New makes a result. r is nil if and only if err, of verification, is not.
func New(r *verify.Result, err error, failures []policy.Failure, policyID, build string, data evidence.ReportData, now time.Time) *Result {
	out := &Result{IssuedAt: now, Build: build, Nonce: data, Attester: "attester", Appraisal: Appraisal{PolicyID: policyID, Failures: failures}}
	a := &out.Appraisal
	if err != nil || r == nil {
		a.notGenuine(err)
		return out
	}
	out.Attester, a.Simulated = cmp.Or(r.Environment, out.Attester), r.Simulated
	a.Vector = Vector{InstanceIdentity: recognized, Configuration: recognized, Executables: recognized, Hardware: recognized}
	if r.Platform != nil || r.Enclave != nil {
		a.Vector.RuntimeOpaque = isolated
	}
	if r.Simulated || (r.Platform != nil && r.Platform.TDX != nil && r.Platform.TDX.TCBStatus != "UpToDate") {
		a.Vector.Hardware = vulnerable // no hardware, or firmware of which its maker does not say that it is up to date
	}
	for _, f := range failures {
		a.Vector.worsen(f.Rule)
	}
	for _, c := range []int{a.Vector.InstanceIdentity, a.Vector.Configuration, a.Vector.Executables, a.Vector.Hardware, a.Vector.RuntimeOpaque} {
		a.Status = max(a.Status, tierOf(c))
	}
	return out
}

// notGenuine says what can be said of evidence that did not verify: nothing,
// if the verifier lacks something, else the worst.
func (a *Appraisal) notGenuine(err error) {
	a.Status = Contraindicated
	var e *verify.Error
	if !errors.As(err, &e) {
		a.Status, a.Fault = None, "not appraised"
		return
	}
	a.Fault = string(e.Fault)
	switch e.Fault {
	case verify.FaultUnknownType, verify.FaultNoEndorsement, verify.FaultCollateralExpired:
		a.Status = None
	case verify.FaultUnknownKey, verify.FaultForeign:
		a.Vector.InstanceIdentity = unknownInstance
	case verify.FaultTCB, verify.FaultRevoked, verify.FaultQuotingEnclave:
		a.Vector.Hardware = badHardware
	default:
		a.Vector.Hardware = unknownHardware
	}
}

// worsen sets the claim that a refusing rule is about.
func (v *Vector) worsen(rule string) {
	has := func(parts ...string) bool {
		for _, p := range parts {
			if strings.Contains(rule, p) {
				return true
			}
		}
		return false
	}
	switch {
	case has("environments", ".chips", "enrolment", "host-data", "vm-ids", "deny-peks"):
		v.InstanceIdentity = badInstance
	case has("tcb", "firmware", "min-build", "min-api", "collateral", "simulated", "cpu-svn"):
		v.Hardware = badHardware
	case has("measurements", "pcrs", "events", "rtmr", "executables", "id-key", "author-key", "mr-", "enclave.mr", "monitors", "svn"):
		v.Executables = badExecutables
	default:
		v.Configuration = badConfig
	}
}

// The two encodings have the same shape and other labels.

type verifierID struct {
	Developer string `json:"developer" cbor:"0,keyasint"`
	Build     string `json:"build" cbor:"1,keyasint"`
}

type failure struct {
	Rule     string `json:"rule" cbor:"rule"`
	Expected string `json:"expected" cbor:"expected"`
	Got      string `json:"got" cbor:"got"`
}

type ours struct {
	Fault     string    `json:"ear.holdfast.fault,omitempty" cbor:"ear.holdfast.fault,omitempty"`
	Failures  []failure `json:"ear.holdfast.failures,omitempty" cbor:"ear.holdfast.failures,omitempty"`
	Simulated bool      `json:"ear.holdfast.simulated,omitempty" cbor:"ear.holdfast.simulated,omitempty"`
}

type jsonAppraisal struct {
	Status   string  `json:"ear.status"`
	Vector   *Vector `json:"ear.trustworthiness-vector,omitempty"`
	PolicyID string  `json:"ear.appraisal-policy-id,omitempty"`
	ours
}

type jsonResult struct {
	Profile  string                   `json:"eat_profile"`
	IssuedAt int64                    `json:"iat"`
	Verifier verifierID               `json:"ear.verifier-id"`
	Nonce    string                   `json:"eat_nonce"`
	Submods  map[string]jsonAppraisal `json:"submods"`
}

type cborAppraisal struct {
	Status   int     `cbor:"1000,keyasint"`
	Vector   *Vector `cbor:"1001,keyasint,omitempty"`
	PolicyID string  `cbor:"1003,keyasint,omitempty"`
	ours
}

type cborResult struct {
	IssuedAt int64                    `cbor:"6,keyasint"`
	Nonce    []byte                   `cbor:"10,keyasint"`
	Profile  string                   `cbor:"265,keyasint"`
	Submods  map[string]cborAppraisal `cbor:"266,keyasint"`
	Verifier verifierID               `cbor:"1004,keyasint"`
}

func (r *Result) parts() (ours, *Vector, verifierID) {
	a := &r.Appraisal
	o := ours{Fault: a.Fault, Simulated: a.Simulated}
	for _, f := range a.Failures {
		o.Failures = append(o.Failures, failure(f))
	}
	var v *Vector
	if a.Vector != (Vector{}) {
		v = &a.Vector
	}
	return o, v, verifierID{Developer, cmp.Or(r.Build, "devel")}
}

// JSON is the claims set in JSON, unsigned.
func (r *Result) JSON() ([]byte, error) {
	o, v, id := r.parts()
	return json.Marshal(jsonResult{Profile, r.IssuedAt.Unix(), id, base64.RawURLEncoding.EncodeToString(r.Nonce[:]),
		map[string]jsonAppraisal{r.Attester: {r.Appraisal.Status.String(), v, r.Appraisal.PolicyID, o}}})
}

// CBOR is the claims set in deterministic CBOR (RFC 8949, 4.2.1), unsigned.
func (r *Result) CBOR() ([]byte, error) {
	m, err := cbor.CoreDetEncOptions().EncMode()
	if err != nil {
		return nil, err
	}
	o, v, id := r.parts()
	return m.Marshal(cborResult{r.IssuedAt.Unix(), r.Nonce[:], Profile,
		map[string]cborAppraisal{r.Attester: {int(r.Appraisal.Status), v, r.Appraisal.PolicyID, o}}, id})
}

// JWT is the claims set as a JWT signed with ES256 (RFC 7519, RFC 7518 section 3.4).
func (r *Result) JWT(key *ecdsa.PrivateKey) ([]byte, error) {
	if key.Curve.Params().BitSize != 256 {
		return nil, fmt.Errorf("EAR: ES256 signs with a key on P-256, got one of %d bits", key.Curve.Params().BitSize)
	}
	claims, err := r.JSON()
	if err != nil {
		return nil, err
	}
	e := base64.RawURLEncoding
	b := e.AppendEncode(nil, []byte(`{"alg":"ES256","typ":"eat+jwt"}`))
	b = e.AppendEncode(append(b, '.'), claims)
	h := sha256.Sum256(b)
	x, y, err := ecdsa.Sign(rand.Reader, key, h[:])
	if err != nil {
		return nil, err
	}
	sig := make([]byte, 64)
	x.FillBytes(sig[:32])
	y.FillBytes(sig[32:])
	return e.AppendEncode(append(b, '.'), sig), nil
}

// Wrap puts an encoded result into a CMW record.
func Wrap(mediaType string, b []byte) evidence.Record {
	return evidence.Record{Type: mediaType, Value: b, Ind: evidence.AttestationResults}
}
