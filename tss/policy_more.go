// SPDX-License-Identifier: Apache-2.0

package tss

import (
	"bytes"
	"fmt"

	"holdfast/tpm2"
)

// PolicyDuplicationSelect is TPM2_PolicyDuplicationSelect (Part 3, 23.15):
// Duplicate only, to the parent of this Name, and only the object of that
// Name if includeObject.
func (t *TPM) PolicyDuplicationSelect(s *Session, objectName, parentName []byte, includeObject bool) error {
	return t.policy(tpm2.CCPolicyDuplicationSelect, s, true, func(w *tpm2.Writer) {
		w.Sized(objectName)
		w.Sized(parentName)
		w.Bool(includeObject)
	})
}

// PolicyTemplate is TPM2_PolicyTemplate (Part 3, 23.21).
func (t *TPM) PolicyTemplate(s *Session, templateHash []byte) error {
	return t.policy(tpm2.CCPolicyTemplate, s, true, func(w *tpm2.Writer) { w.Sized(templateHash) })
}

// PolicyParameters is TPM2_PolicyParameters (version 184; Part 3, 23.24): pHash
// is the digest of the command's parameters.
func (t *TPM) PolicyParameters(s *Session, pHash []byte) error {
	return t.policy(tpm2.CCPolicyParameters, s, true, func(w *tpm2.Writer) { w.Sized(pHash) })
}

// PolicyCounterTimer is TPM2_PolicyCounterTimer (Part 3, 23.10): operand is
// compared with the TPMS_TIME_INFO from offset on.
func (t *TPM) PolicyCounterTimer(s *Session, operand []byte, offset uint16, op tpm2.EO) error {
	return t.policy(tpm2.CCPolicyCounterTimer, s, true, func(w *tpm2.Writer) {
		w.Sized(operand)
		w.U16(offset)
		w.U16(uint16(op))
	})
}

// PolicyCapability is TPM2_PolicyCapability (version 184; Part 3, 23.23): operand
// is compared with a value of GetCapability from offset on.
func (t *TPM) PolicyCapability(s *Session, operand []byte, offset uint16, op tpm2.EO, cap tpm2.Cap, property uint32) error {
	return t.policy(tpm2.CCPolicyCapability, s, true, func(w *tpm2.Writer) {
		w.Sized(operand)
		w.U16(offset)
		w.U16(uint16(op))
		w.U32(uint32(cap))
		w.U32(property)
	})
}

// PolicyAuthorizeNV is TPM2_PolicyAuthorizeNV (Part 3, 23.22).
func (t *TPM) PolicyAuthorizeNV(auth, index Ref, s *Session) error {
	if err := s.checkPolicy(); err != nil {
		return err
	}
	c := call{cc: tpm2.CCPolicyAuthorizeNV, refs: [3]Ref{auth, index, {Handle: s.handle}}, handles: 3, auths: 1}
	return t.simple(&c, nil)
}

// NVDefine2 is TPM2_NV_DefineSpace2 (version 184; Part 3, 31.17) for an ordinary
// NV index, the one kind of public area that a TPM2B_NV_PUBLIC_2 has here.
func (t *TPM) NVDefine2(auth Ref, secret []byte, pub tpm2.NVPublic) error {
	c := call{cc: tpm2.CCNVDefineSpace2, refs: [3]Ref{auth}, handles: 1, auths: 1, inSized: true}
	return t.simple(&c, func(w *tpm2.Writer) {
		w.Sized(secret)
		m := w.Begin()
		w.U8(uint8(tpm2.HTNVIndex))
		pub.Marshal(w)
		w.End(m)
	})
}

// NVReadPublic2 is TPM2_NV_ReadPublic2 (version 184; Part 3, 31.18) of such an
// index.
func (t *TPM) NVReadPublic2(index tpm2.Handle) (*Index, error) {
	c := call{cc: tpm2.CCNVReadPublic2, refs: [3]Ref{{Handle: index}}, handles: 1, outSized: true}
	r, err := t.do(&c, nil)
	if err != nil {
		return nil, err
	}
	i := new(Index)
	in := r.Nested(r.Len())
	kind := tpm2.HT(in.U8())
	i.Public.Unmarshal(&in)
	r.Done(&in)
	i.Public.AuthPolicy = bytes.Clone(i.Public.AuthPolicy)
	i.Name = bytes.Clone(r.Sized(tpm2.MaxName))
	if err := r.end(c.cc); err != nil {
		return nil, err
	}
	if kind != tpm2.HTNVIndex || i.Public.Index != index {
		return nil, fmt.Errorf("%v: %w: a public area of type %d for %v", c.cc, ErrResponse, kind, i.Public.Index)
	}
	return i, nil
}
