// SPDX-License-Identifier: Apache-2.0

package tss

import (
	"bytes"
	"errors"
	"fmt"

	"holdfast/tpm2"
)

// Session is an HMAC or policy session (Part 1, 19). It is used by one
// command at a time; the TPM that made it serializes that.
type Session struct {
	// Attributes of the commands that use the session. StartSession sets
	// continueSession, and with a symmetric algorithm encrypt and decrypt.
	Attributes tpm2.SessionAttributes
	Hash       tpm2.Alg
	Symmetric  tpm2.SymDef

	handle   tpm2.Handle
	kind     tpm2.SE
	key      []byte // sessionKey, empty if neither salted nor bound
	nonceTPM []byte

	boundName, boundValue []byte
	usesPassword          bool // after PolicyPassword
	needsValue            bool // after PolicyAuthValue
	closed                bool
}

// SessionOptions of StartSession. The zero value is an HMAC session with
// SHA-256, without salt, binding or parameter encryption.
type SessionOptions struct {
	Kind      tpm2.SE     // SEHMAC, SEPolicy or SETrial
	Hash      tpm2.Alg    // default AlgSHA256
	Symmetric tpm2.SymDef // for parameter encryption; default none
	// SaltKey is a loaded decryption key (RSA, ECC or ML-KEM) whose public
	// area is SaltPublic: the session key is then known only to its TPM.
	// Check that SaltPublic is the key you mean, for instance by its Name.
	SaltKey    tpm2.Handle
	SaltPublic *tpm2.Public
	// Bind is an entity whose authValue enters the session key; nil for none.
	Bind *Ref
}

// AES128CFB is the usual algorithm for parameter encryption.
var AES128CFB = tpm2.SymDef{Alg: tpm2.AlgAES, KeyBits: 128, Mode: tpm2.AlgCFB}

// AES256CFB is for sessions that must withstand a quantum computer.
var AES256CFB = tpm2.SymDef{Alg: tpm2.AlgAES, KeyBits: 256, Mode: tpm2.AlgCFB}

// StartSession is TPM2_StartAuthSession (Part 3, 11.1). End it with
// FlushContext of its Handle, or by clearing continueSession.
func (t *TPM) StartSession(o SessionOptions) (*Session, error) {
	if o.Hash == 0 {
		o.Hash = tpm2.AlgSHA256
	}
	if !o.Hash.IsHash() {
		return nil, fmt.Errorf("tss: session hash %v is not a hash that this program knows", o.Hash)
	}
	if o.Symmetric.Alg == 0 {
		o.Symmetric = tpm2.NoSym
	}
	s := &Session{Hash: o.Hash, Symmetric: o.Symmetric, kind: o.Kind, Attributes: tpm2.SessionContinue}
	if o.Symmetric.Alg != tpm2.AlgNull {
		s.Attributes |= tpm2.SessionEncrypt | tpm2.SessionDecrypt
	}
	key, bind := tpm2.RHNull, tpm2.RHNull
	var salt, encrypted []byte
	if o.SaltPublic != nil {
		var err error
		if salt, encrypted, err = makeSecret(o.SaltPublic, "SECRET"); err != nil {
			return nil, fmt.Errorf("tss: session salt: %w", err)
		}
		defer clear(salt)
		key = o.SaltKey
	}
	if o.Bind != nil {
		name, err := o.Bind.name()
		if err != nil {
			return nil, err
		}
		bind = o.Bind.Handle
		s.boundName, s.boundValue = name, append([]byte(nil), trimZeros(o.Bind.Auth.value)...)
	}
	nonce, err := newNonce(o.Hash)
	if err != nil {
		return nil, err
	}
	c := call{cc: tpm2.CCStartAuthSession, refs: [3]Ref{{Handle: key}, {Handle: bind}}, handles: 2, inSized: true, outSized: true, outHandle: true}
	if o.SaltPublic != nil && len(t.extra) > 0 {
		if c.refs[0].Name, err = o.SaltPublic.Name(); err != nil {
			return nil, err
		}
	}
	c.refs[1].Name = s.boundName
	r, err := t.do(&c, func(w *tpm2.Writer) {
		w.Sized(nonce)
		w.Sized(encrypted)
		w.U8(uint8(o.Kind))
		o.Symmetric.Marshal(w)
		w.Alg(o.Hash)
	})
	if err != nil {
		return nil, err
	}
	s.handle = r.handle
	s.nonceTPM = append([]byte(nil), r.Sized(tpm2.MaxDigest)...)
	if err := r.end(c.cc); err != nil {
		return nil, err
	}
	if o.SaltPublic != nil || o.Bind != nil {
		secret := append(append([]byte(nil), s.boundValue...), salt...)
		s.key = kdfa(o.Hash, secret, "ATH", s.nonceTPM, nonce, o.Hash.DigestSize()*8)
		clear(secret)
	}
	return s, nil
}

// Handle returns the session's handle.
func (s *Session) Handle() tpm2.Handle { return s.handle }

// NonceTPM returns a copy of the newest nonce of the TPM, which PolicySigned
// signs.
func (s *Session) NonceTPM() []byte { return bytes.Clone(s.nonceTPM) }

// hmacKey returns a copy of the key of the session's HMAC when it authorizes
// ref (or nothing, with nil) whose authValue is value (Part 1, 19.6).
func (s *Session) hmacKey(ref *Ref, value []byte) []byte {
	key := append([]byte(nil), s.key...)
	if ref == nil {
		return key
	}
	switch s.kind {
	case tpm2.SEHMAC:
		if s.boundName != nil && bytes.Equal(s.boundValue, value) {
			if n, err := ref.name(); err == nil && bytes.Equal(n, s.boundName) {
				return key
			}
		}
		return append(key, value...)
	default:
		if s.needsValue {
			return append(key, value...)
		}
	}
	return key
}

// Close flushes the session and erases its key.
func (t *TPM) Close(s *Session) error {
	defer clear(s.key)
	if s.closed {
		return nil
	}
	s.closed = true
	return t.FlushContext(s.handle)
}

// checkPolicy returns an error for a session that is no policy session.
func (s *Session) checkPolicy() error {
	if s.kind != tpm2.SEPolicy && s.kind != tpm2.SETrial {
		return errors.New("tss: not a policy session")
	}
	return nil
}
