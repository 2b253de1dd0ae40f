// SPDX-License-Identifier: Apache-2.0

package tss

import (
	"bytes"
	"errors"
	"fmt"

	"holdfast/tpm2"
)

// sessionMagic begins a saved session: "HFSE", version 1.
const sessionMagic = 0x48465345_00000001

// SaveSession takes a session out of the TPM (TPM2_ContextSave) and returns it
// with what this side knows, for LoadSession of another process. Only sessions
// without salt and binding can be saved: they have no key that would lie in a
// file. s is unusable afterwards.
func (t *TPM) SaveSession(s *Session) ([]byte, error) {
	if len(s.key) != 0 {
		return nil, errors.New("tss: a salted or bound session is not saved: its key would lie in the file")
	}
	c, err := t.ContextSave(s.handle)
	if err != nil {
		return nil, err
	}
	s.closed = true
	return encodeSession(s, c)
}

func encodeSession(s *Session, c *tpm2.Context) ([]byte, error) {
	var w tpm2.Writer
	w.U64(sessionMagic)
	w.U8(uint8(s.kind))
	w.Alg(s.Hash)
	w.U8(uint8(s.Attributes))
	w.Bool(s.needsValue)
	w.Bool(s.usesPassword)
	w.Sized(s.nonceTPM)
	c.Marshal(&w)
	return w.Bytes(), w.Err()
}

// LoadSession is the inverse of SaveSession. The TPM takes each saved state
// once.
func (t *TPM) LoadSession(b []byte) (*Session, error) {
	s, c, err := decodeSession(b)
	if err != nil {
		return nil, err
	}
	if s.handle, err = t.ContextLoad(c); err != nil {
		return nil, err
	}
	return s, nil
}

func decodeSession(b []byte) (*Session, *tpm2.Context, error) {
	r := tpm2.NewReader(b)
	if magic := r.U64(); r.Err() != nil || magic != sessionMagic {
		return nil, nil, errors.New("tss: expected a saved session (startauthsession makes them)")
	}
	s := &Session{kind: tpm2.SE(r.U8()), Symmetric: tpm2.NoSym}
	s.Hash = tpm2.UnmarshalHash(r)
	s.Attributes = tpm2.SessionAttributes(r.U8())
	s.needsValue, s.usesPassword = r.Bool(), r.Bool()
	s.nonceTPM = bytes.Clone(r.Sized(tpm2.MaxDigest))
	c := new(tpm2.Context)
	c.Unmarshal(r)
	c.Blob = bytes.Clone(c.Blob)
	r.End()
	if err := r.Err(); err != nil {
		return nil, nil, fmt.Errorf("tss: a saved session: %w", err)
	}
	if s.kind != tpm2.SEHMAC && s.kind != tpm2.SEPolicy && s.kind != tpm2.SETrial || s.needsValue && s.usesPassword {
		return nil, nil, fmt.Errorf("tss: a saved session of kind %d", s.kind)
	}
	return s, c, nil
}

// Trial says whether the session only computes a digest.
func (s *Session) Trial() bool { return s.kind == tpm2.SETrial }
