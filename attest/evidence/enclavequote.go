// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math/bits"

	"holdfast/attest/evidence/internal/det"
	"holdfast/enclave/sgx"
	"holdfast/latch/binder"
)

// Media types of the evidence of enclaves.
const (
	TypeEnclaveQuote = "application/vnd.holdfast.enclave-quote+cbor"
	TypeEnclaveKey   = "application/vnd.holdfast.enclave-key+cbor"
)

// Levels of trust of an enclave monitor: who is kept out. A level is a key and
// a pair of PCRs, never a field alone (see EnclavePCRs and the enclave level of
// a pinned attestation key).
const (
	LevelInproc     = "inproc"      // monitor inside the application: nobody; a throw-away key without a TPM
	LevelHosted     = "hosted"      // a daemon: applications, other users, other enclaves; the host's root is trusted
	LevelLateLaunch = "late-launch" // a monitor below the kernel: the kernel too
)

// Modes in which an enclave ran.
const (
	ModeHU = "HU" // a locked-down host process
	ModeGU = "GU" // ring 3 of a virtual machine
	ModeP  = "P"  // ring 0 of a virtual machine
)

// Levels and modes that a quote can name.
var (
	EnclaveLevels = []string{LevelInproc, LevelHosted, LevelLateLaunch}
	EnclaveModes  = []string{ModeHU, ModeGU, ModeP}
)

// EnclavePCRs are the PCRs of a level: monitor takes the measurement of the
// monitor's image before it starts, key the monitor's attestation key (hapk).
// Both end with a separator, after which nothing can be unsealed or added. ok
// is false for a level without a TPM.
func EnclavePCRs(level string) (monitor, key uint8, ok bool) {
	switch level {
	case LevelHosted:
		return 14, 15, true
	case LevelLateLaunch:
		return 12, 13, true
	}
	return 0, 0, false
}

// Kinds of measurement records (Measured.Kind) in these PCRs. The name of a
// KindEnclaveKey record is the level, its digest the hash of the endorsement
// that carries the key.
const (
	KindEnclaveMonitor = "enclave-monitor"
	KindEnclaveKey     = "enclave-key"
)

// Domains go before what is hashed or signed, so that nothing made for one
// purpose serves another.
const (
	enclaveLeafDomain      = "\x00holdfast/enclave/report/v1\x00"
	enclaveStatementDomain = "holdfast/enclave/statement/v1\x00"
	enclaveTPMDomain       = "holdfast/enclave/tpm/v1\x00"
)

// EnclaveKey is the endorsement that carries a monitor's attestation key
// (hapk): CBOR map {1: algorithm, 2: public key, 3: level}. The TPM's quote
// proves it through the record in the key PCR.
type EnclaveKey struct {
	Algorithm string // ES256 or MLDSA65
	Public    []byte
	Level     string
}

// Encode is the endorsement's body.
func (k *EnclaveKey) Encode() []byte {
	var w det.Writer
	w.Map(3)
	w.Uint(1)
	w.Text(k.Algorithm)
	w.Uint(2)
	w.Bytes(k.Public)
	w.Uint(3)
	w.Text(k.Level)
	return w.Out()
}

// Endorsement is the key as an endorsement.
func (k *EnclaveKey) Endorsement() Endorsement { return Endorsement{TypeEnclaveKey, k.Encode()} }

// ParseEnclaveKey reads such a body.
func ParseEnclaveKey(b []byte) (*EnclaveKey, error) {
	k := &EnclaveKey{}
	r := det.NewReader(b)
	needMap(&r, 3)
	r.Key(1)
	k.Algorithm = oneOf(&r, ES256, MLDSA65)
	r.Key(2)
	k.Public = r.Bytes(4096)
	r.Key(3)
	k.Level = oneOf(&r, EnclaveLevels...)
	if r.Err() == nil && len(k.Public) == 0 {
		r.Fail(errors.New("empty key"))
	}
	if err := r.Done(); err != nil {
		return nil, malformed("enclave key", err)
	}
	return k, nil
}

// EnclaveStatement is what the monitor's key signs: that the reports under the
// root were made by enclaves of this monitor. CBOR map {1: level, 2: made, 3:
// root}.
type EnclaveStatement struct {
	Level string
	Made  uint64   // milliseconds since 1970 by the monitor's clock
	Root  [32]byte // of the tree over the leaves
}

// Encode is the statement's bytes.
func (s *EnclaveStatement) Encode() []byte {
	var w det.Writer
	w.Map(3)
	w.Uint(1)
	w.Text(s.Level)
	w.Uint(2)
	w.Uint(s.Made)
	w.Uint(3)
	w.Bytes(s.Root[:])
	return w.Out()
}

// SignedBytes is what the monitor's key signs.
func (s *EnclaveStatement) SignedBytes() []byte {
	return append([]byte(enclaveStatementDomain), s.Encode()...)
}

// TPMData is the report data of the TPM quote that belongs to the statement,
// made under the key whose endorsement has the hash key: the quote is as fresh
// as the statement, and an old one fits no new statement.
func (s *EnclaveStatement) TPMData(key [32]byte) (d ReportData) {
	b := append([]byte(enclaveTPMDomain), key[:]...)
	h := sha256.Sum256(append(b, s.Encode()...))
	copy(d[:], h[:])
	return d
}

// EnclaveQuote is the body of an enclave's report: CBOR map {1: mode, 2:
// REPORT body, 3: index, 4: size, 5: path, 6: statement, 7: signature, 8: TPM
// quote}. Many reports share statement, signature and TPM quote: the path leads
// from this report's leaf to the statement's root (RFC 9162, 2.1.3).
//
// Its report data are those 64 bytes that the enclave gave to EREPORT.
type EnclaveQuote struct {
	Mode      string
	Report    []byte // SGX REPORT without key id and MAC, 384 bytes
	Index     uint64
	Size      uint64
	Path      [][32]byte
	Statement EnclaveStatement
	Signature []byte
	TPM       []byte // body of a TypeTPMQuote; empty at level inproc
}

// EnclaveLeaf is the leaf of a report: SHA-256(0x00 ‖ domain ‖ mode ‖ 0x00 ‖
// REPORT body).
func EnclaveLeaf(mode string, body []byte) [32]byte {
	b := append([]byte(enclaveLeafDomain), mode...)
	return sha256.Sum256(append(append(b, 0), body...))
}

// EnclaveTree is the tree over leaves, 1 to binder.MaxLeaves of them: its root,
// and the path of each leaf.
func EnclaveTree(leaves [][32]byte) (root [32]byte, path func(i int) [][32]byte) {
	t := binder.NewTree(leaves)
	return t.Root(), t.Path
}

// Root is the root to which leaf and path lead.
func (q *EnclaveQuote) Root() ([32]byte, error) {
	return binder.RootFromPath(EnclaveLeaf(q.Mode, q.Report), q.Index, q.Size, q.Path)
}

// Body is the parsed REPORT.
func (q *EnclaveQuote) Body() (*sgx.Report, error) { return sgx.ParseReportBody(q.Report) }

// Encode is the report's body.
func (q *EnclaveQuote) Encode() []byte {
	var w det.Writer
	w.Map(8)
	w.Uint(1)
	w.Text(q.Mode)
	w.Uint(2)
	w.Bytes(q.Report)
	w.Uint(3)
	w.Uint(q.Index)
	w.Uint(4)
	w.Uint(q.Size)
	w.Uint(5)
	w.Array(len(q.Path))
	for i := range q.Path {
		w.Bytes(q.Path[i][:])
	}
	w.Uint(6)
	w.Bytes(q.Statement.Encode())
	w.Uint(7)
	w.Bytes(q.Signature)
	w.Uint(8)
	w.Bytes(q.TPM)
	return w.Out()
}

// ParseEnclaveQuote reads a body of TypeEnclaveQuote. It checks no signature.
func ParseEnclaveQuote(body []byte) (*EnclaveQuote, error) {
	const what = "enclave quote"
	q := &EnclaveQuote{}
	r := det.NewReader(body)
	needMap(&r, 8)
	r.Key(1)
	q.Mode = oneOf(&r, EnclaveModes...)
	r.Key(2)
	q.Report = r.Bytes(sgx.ReportBodySize)
	r.Key(3)
	q.Index = r.Uint(binder.MaxLeaves)
	r.Key(4)
	q.Size = r.Uint(binder.MaxLeaves)
	r.Key(5)
	n := r.Array(bits.Len(binder.MaxLeaves))
	for i := 0; i < n && r.Err() == nil; i++ {
		var p [32]byte
		fixed(&r, p[:])
		q.Path = append(q.Path, p)
	}
	r.Key(6)
	s := det.NewReader(r.Bytes(256))
	needMap(&s, 3)
	s.Key(1)
	q.Statement.Level = oneOf(&s, EnclaveLevels...)
	s.Key(2)
	q.Statement.Made = s.Uint(1 << 62)
	s.Key(3)
	fixed(&s, q.Statement.Root[:])
	if err := s.Done(); err != nil && r.Err() == nil {
		r.Fail(fmt.Errorf("statement: %w", err))
	}
	r.Key(7)
	q.Signature = r.Bytes(8192)
	r.Key(8)
	q.TPM = r.Bytes(32 << 10)
	if r.Err() == nil && len(q.Signature) == 0 {
		r.Fail(errors.New("empty signature"))
	}
	if r.Err() == nil && (len(q.TPM) == 0) != (q.Statement.Level == LevelInproc) {
		r.Fail(fmt.Errorf("level %s with a TPM quote of %d bytes; only %s has none", q.Statement.Level, len(q.TPM), LevelInproc))
	}
	if err := r.Done(); err != nil {
		return nil, malformed(what, err)
	}
	if _, err := q.Body(); err != nil {
		return nil, malformed(what, err)
	}
	return q, nil
}

// oneOf reads a text that must be one of the values.
func oneOf(r *det.Reader, values ...string) string {
	s := r.Text(32)
	for _, v := range values {
		if s == v {
			return s
		}
	}
	if r.Err() == nil {
		r.Fail(fmt.Errorf("expected one of %v, got %.32q", values, s))
	}
	return ""
}
