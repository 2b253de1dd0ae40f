// SPDX-License-Identifier: Apache-2.0

// Package tss is a TPM 2.0 client: it builds commands, keeps sessions,
// encrypts parameters and checks every response. It works with any Transport:
// those of tpmio, a go-tpm transport, or an engine in the same process.
//
//	t := tss.New(transport)
//	srk, err := t.CreatePrimary(tss.Owner(nil), tss.SRKTemplate(tss.ECCP256), nil)
//	ak, err := t.Create(srk.Ref(nil), tss.AKTemplate(tss.MLDSA65), &tss.Secret{Auth: secret})
//	key, err := t.Load(srk.Ref(nil), ak.Private, &ak.Public)
//	q, err := t.Quote(key.Ref(secret), nonce, tpm2.NoScheme, selection)
//
// A Ref is an entity of the TPM together with the authorization to use it: a
// password by default, or a Session. Errors of the TPM are of type *Error and
// work with errors.Is against the codes of tpm2. Secrets are erased from the
// package's own buffers after use; what the caller gets belongs to the caller.
//
// A TPM is safe for concurrent use; commands go out one at a time.
package tss

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"holdfast/tpm2"
)

// Transport carries a command to a TPM and brings the response back.
type Transport interface {
	Send(command []byte) (response []byte, err error)
}

// TPM is a client of one TPM.
type TPM struct {
	core  *core
	extra []*Session // added to each command by With
}

type core struct {
	mu sync.Mutex
	t  Transport
	// Reused, so that a command in a hot loop does not allocate. They hold
	// secrets only while mu is held.
	command, params tpm2.Writer
}

// New returns a client over t.
func New(t Transport) *TPM { return &TPM{core: &core{t: t}} }

// Transport returns what New was given.
func (t *TPM) Transport() Transport { return t.core.t }

// Error is a response code other than success, with the command that got it.
type Error struct {
	Command tpm2.CC
	Code    tpm2.RC
}

func (e *Error) Error() string { return fmt.Sprintf("%v: %v", e.Command, e.Code) }

// Unwrap gives errors.Is and errors.As the code.
func (e *Error) Unwrap() error { return e.Code }

// ErrResponse is wrapped by every error that says a response is malformed or
// its integrity check failed: something between us and the TPM is broken, or
// tampers.
var ErrResponse = errors.New("bad response from the TPM")

// Ref is an entity in the handle area of a command.
type Ref struct {
	Handle tpm2.Handle
	Name   []byte // of objects and NV indices; others are named by their handle
	Auth   Auth
}

// Auth says how a command is authorized to use an entity. The zero value is
// an empty password.
type Auth struct {
	value   []byte   // password, or the authValue that a session's HMAC covers
	session *Session // nil: password
}

// Password authorizes with a password. It goes over the transport as it is.
func Password(p []byte) Auth { return Auth{value: p} }

// With authorizes with a session. value is the entity's authValue; a policy
// session uses it only after PolicyAuthValue or PolicyPassword.
func (s *Session) With(value []byte) Auth { return Auth{value: value, session: s} }

// name returns the Name that goes into a cpHash.
func (r *Ref) name() ([]byte, error) {
	switch r.Handle.Type() {
	case tpm2.HTTransient, tpm2.HTPersistent, tpm2.HTNVIndex:
		if r.Name == nil {
			return nil, fmt.Errorf("tss: a session needs the Name of %v, and the Ref has none", r.Handle)
		}
		return r.Name, nil
	}
	return tpm2.HandleName(r.Handle), nil
}

// Hierarchies with a password; nil is the empty one.
func Owner(password []byte) Ref { return Ref{Handle: tpm2.RHOwner, Auth: Password(password)} }

// Endorsement is the endorsement hierarchy.
func Endorsement(password []byte) Ref {
	return Ref{Handle: tpm2.RHEndorsement, Auth: Password(password)}
}

// Platform is the platform hierarchy.
func Platform(password []byte) Ref { return Ref{Handle: tpm2.RHPlatform, Auth: Password(password)} }

// Lockout is the lockout authority.
func Lockout(password []byte) Ref { return Ref{Handle: tpm2.RHLockout, Auth: Password(password)} }

// Null is the null hierarchy.
func Null() Ref { return Ref{Handle: tpm2.RHNull} }

// PCR is PCR number n as an entity.
func PCR(n int) Ref { return Ref{Handle: tpm2.HandlePCRFirst + tpm2.Handle(n)} }

// With returns a client that adds the sessions to each of its commands, for
// parameter encryption or audit; a session is left out where it has nothing to
// do, since the first parameter cannot be encrypted. A command has three sessions at most, those
// that authorize its handles included.
func (t *TPM) With(sessions ...*Session) *TPM {
	return &TPM{core: t.core, extra: append(append([]*Session(nil), t.extra...), sessions...)}
}

// Retries of a command that the TPM put off (TPM_RC_RETRY and the like).
const (
	retries    = 50
	retryPause = 20 * time.Millisecond
)
