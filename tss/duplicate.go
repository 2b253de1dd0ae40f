// SPDX-License-Identifier: Apache-2.0

package tss

import (
	"bytes"
	"errors"
	"fmt"

	"holdfast/tpm2"
)

// Duplicate is TPM2_Duplicate (Part 3, 13.1) without an inner wrapper: object
// for newParent, a loaded storage key, or in the clear for TPM_RH_NULL. object
// needs a policy session with PolicyCommandCode(Duplicate). The result in the
// clear is a TPM2B_SENSITIVE; the caller erases it.
func (t *TPM) Duplicate(object Ref, newParent tpm2.Handle) (duplicate, secret []byte, err error) {
	parent := Ref{Handle: newParent}
	if newParent != tpm2.RHNull {
		k, _, err := t.ReadPublic(newParent)
		if err != nil {
			return nil, nil, err
		}
		parent.Name = k.Name
	}
	c := call{cc: tpm2.CCDuplicate, refs: [3]Ref{object, parent}, handles: 2, auths: 1, inSized: true, outSized: true}
	r, err := t.do(&c, func(w *tpm2.Writer) {
		w.Sized(nil)
		tpm2.NoSym.Marshal(w)
	})
	if err != nil {
		return nil, nil, err
	}
	r.Sized(tpm2.MaxData) // key of the inner wrapper: none
	duplicate = bytes.Clone(r.Sized(tpm2.MaxPrivate))
	secret = bytes.Clone(r.Sized(tpm2.MaxEncryptedSecret))
	return duplicate, secret, r.end(c.cc)
}

// Import is TPM2_Import (Part 3, 13.3) without an inner wrapper: it returns
// the private area with which Load takes the object below parent.
func (t *TPM) Import(parent Ref, pub *tpm2.Public, duplicate, secret []byte) (private []byte, err error) {
	c := call{cc: tpm2.CCImport, refs: [3]Ref{parent}, handles: 1, auths: 1, inSized: true, outSized: true}
	r, err := t.do(&c, func(w *tpm2.Writer) {
		w.Sized(nil)
		m := w.Begin()
		pub.Marshal(w)
		w.End(m)
		w.Sized(duplicate)
		w.Sized(secret)
		tpm2.NoSym.Marshal(w)
	})
	if err != nil {
		return nil, err
	}
	return bytes.Clone(r.Sized(tpm2.MaxPrivate)), r.end(c.cc)
}

// WrapForImport encrypts a key made in software so that only the TPM that
// holds parent, a storage key, can import it (Part 1, 23.3.2.3, outer
// wrapper). It needs no TPM. pub must have neither fixedTPM nor fixedParent.
func WrapForImport(parent, pub *tpm2.Public, s *tpm2.Sensitive) (duplicate, secret []byte, err error) {
	if !parent.Attributes.Has(tpm2.ObjectRestricted | tpm2.ObjectDecrypt) {
		return nil, nil, errors.New("tss: import: the parent is not a storage key")
	}
	if pub.Attributes&(tpm2.ObjectFixedTPM|tpm2.ObjectFixedParent|tpm2.ObjectSensitiveDataOrigin) != 0 {
		return nil, nil, errors.New("tss: import: a key made outside of the TPM cannot be fixedTPM, fixedParent or sensitiveDataOrigin")
	}
	name, err := pub.Name()
	if err != nil {
		return nil, nil, fmt.Errorf("tss: import: %w", err)
	}
	plain, err := tpm2.EncodeSized(s)
	if err != nil {
		return nil, nil, fmt.Errorf("tss: import: %w", err)
	}
	defer clear(plain)
	seed, secret, err := makeSecret(parent, "DUPLICATE")
	if err != nil {
		return nil, nil, fmt.Errorf("tss: import: %w", err)
	}
	defer clear(seed)
	duplicate, err = outerWrap(parent, seed, name, plain)
	if err != nil {
		return nil, nil, fmt.Errorf("tss: import: %w", err)
	}
	return duplicate, secret, nil
}

// ExportPolicy is the policy of a key whose private part its user may take out
// of the TPM: PolicyAuthValue and PolicyCommandCode(Duplicate).
func ExportPolicy(alg tpm2.Alg) []byte {
	d := tpm2.NewPolicyDigest(alg)
	d.AuthValue()
	d.CommandCode(tpm2.CCDuplicate)
	return d.Sum()
}

// Export takes the private part of a loaded key out of the TPM. The key has
// the policy ExportPolicy and the given authValue, and is not fixedParent. It
// comes over the transport as it is. The caller erases the result.
func (t *TPM) Export(k *Key, auth []byte) (s *tpm2.Sensitive, err error) {
	if k.Public.Attributes.Has(tpm2.ObjectFixedParent) || !bytes.Equal(k.Public.AuthPolicy, ExportPolicy(k.Public.NameAlg)) {
		return nil, errors.New("tss: export: the key was not made to be exported: it is fixedParent, or its policy is not that of such keys")
	}
	session, err := t.StartSession(SessionOptions{Kind: tpm2.SEPolicy, Hash: k.Public.NameAlg})
	if err != nil {
		return nil, err
	}
	defer func() {
		if e := t.Close(session); e != nil && err == nil {
			s, err = nil, e
		}
	}()
	if err := t.PolicyAuthValue(session); err != nil {
		return nil, err
	}
	if err := t.PolicyCommandCode(session, tpm2.CCDuplicate); err != nil {
		return nil, err
	}
	plain, _, err := t.Duplicate(k.Use(session.With(auth)), tpm2.RHNull)
	if err != nil {
		return nil, err
	}
	s = new(tpm2.Sensitive)
	if err := tpm2.DecodeSized(plain, s); err != nil { // s shares the memory of plain
		clear(plain)
		return nil, fmt.Errorf("%v: %w: %v", tpm2.CCDuplicate, ErrResponse, err)
	}
	return s, nil
}
