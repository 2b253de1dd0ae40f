// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"bytes"

	"holdfast/softtpm/internal/tpmcrypto"
	"holdfast/tpm2"
)

// Duplication: Part 3, 13, and Part 1, 23.3.

func init() {
	register(&command{code: tpm2.CCDuplicate, slots: []slot{{kObject, roleDup}, {kObject | kNull, roleNone}}, flags: fDecrypt | fEncrypt, run: duplicate})
	register(&command{code: tpm2.CCRewrap, slots: []slot{{kObject | kNull, roleUser}, {kObject | kNull, roleNone}}, flags: fDecrypt | fEncrypt, run: rewrap})
	register(&command{code: tpm2.CCImport, slots: []slot{{kObject, roleUser}}, flags: fDecrypt | fEncrypt, run: importCommand})
}

// readInnerSymmetric reads the TPMT_SYM_DEF_OBJECT+ of the inner wrapper.
func readInnerSymmetric(r *tpm2.Reader) (s tpm2.SymDef) {
	s.UnmarshalObject(r)
	if r.Code() == tpm2.RCSuccess {
		symImplemented(r, s)
		if s.Alg != tpm2.AlgNull && s.Mode != tpm2.AlgCFB {
			r.Fail(tpm2.RCMode)
		}
	}
	return s
}

// newParent checks the handle of a new storage parent; nil stands for
// TPM_RH_NULL.
func (c *call) newParent(i int) (*object, tpm2.RC) {
	if c.handle(i) == tpm2.RHNull {
		return nil, tpm2.RCSuccess
	}
	o := c.object(i)
	if !o.isStorageParent() {
		return nil, tpm2.RCType.Handle(i + 1)
	}
	return o, tpm2.RCSuccess
}

// duplicate is TPM2_Duplicate (Part 3, 13.1).
func duplicate(c *call) tpm2.RC {
	key := bytes.Clone(c.next().Sized(tpm2.MaxData))
	sym := readInnerSymmetric(c.next())
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	o := c.object(0)
	a := o.pub.Attributes
	if o.isSequence() || o.pub.NameAlg == tpm2.AlgNull {
		return tpm2.RCType.Handle(1)
	}
	if a.Has(tpm2.ObjectFixedParent) {
		return tpm2.RCAttributes.Handle(1)
	}
	parent, rc := c.newParent(1)
	if rc != tpm2.RCSuccess {
		return rc
	}
	if a.Has(tpm2.ObjectEncryptedDuplication) {
		if sym.Alg == tpm2.AlgNull {
			return tpm2.RCSymmetric.Parameter(2)
		}
		if parent == nil {
			return tpm2.RCHierarchy.Handle(2)
		}
	}
	size := int(sym.KeyBits) / 8
	var made []byte // encryptionKeyOut: only a key that the TPM made
	switch {
	case sym.Alg == tpm2.AlgNull:
		if len(key) != 0 {
			return tpm2.RCSize.Parameter(1)
		}
	case len(key) == 0:
		key = c.t.random(size)
		made = key
	case len(key) != size:
		return tpm2.RCSize.Parameter(1)
	}
	// The authValue gets its full size, so that its length does not show.
	s := cloneSensitive(&o.sens)
	s.Auth = append(s.Auth, make([]byte, max(0, o.pub.NameAlg.DigestSize()-len(s.Auth)))...)
	blob, err := tpm2.EncodeSized(s)
	tpmcrypto.Zero(s.Auth)
	tpmcrypto.Zero(s.Seed)
	tpmcrypto.Zero(s.Value)
	if err != nil {
		return tpm2.RCFailure
	}
	if sym.Alg != tpm2.AlgNull {
		blob = wrapInner(sym.Alg, key, o.pub.NameAlg, o.name, blob)
	}
	var encSeed []byte
	if parent != nil {
		if blob, encSeed, rc = c.t.wrapOuter(parent, o.name, blob); rc != tpm2.RCSuccess {
			return rc.Handle(2)
		}
	}
	c.out.Sized(made)
	c.out.Sized(blob)
	c.out.Sized(encSeed)
	return tpm2.RCSuccess
}

// wrapInner adds the inner wrapper: E(key, IV 0, TPM2B H(sensitive ‖ name) ‖
// sensitive) (Part 1, 23.3.2.3). sensitive is a TPM2B_SENSITIVE.
func wrapInner(cipher tpm2.Alg, key []byte, alg tpm2.Alg, name, sensitive []byte) []byte {
	var w tpm2.Writer
	w.Sized(alg.Sum(sensitive, name))
	w.Raw(sensitive)
	out := w.Bytes()
	protection{cipher: uint16(cipher), sym: key}.cfb(make([]byte, ivSize), out, false)
	return out
}

// unwrapInner is the inverse of wrapInner; TPM_RC_INTEGRITY if the digest is
// wrong. It decrypts in place.
func unwrapInner(cipher tpm2.Alg, key []byte, alg tpm2.Alg, name, blob []byte) ([]byte, tpm2.RC) {
	protection{cipher: uint16(cipher), sym: key}.cfb(make([]byte, ivSize), blob, true)
	r := tpm2.NewReader(blob)
	digest := r.Sized(tpm2.MaxDigest)
	sensitive := r.Rest()
	if r.Code() != tpm2.RCSuccess || !tpmcrypto.Equal(digest, alg.Sum(sensitive, name)) {
		return nil, tpm2.RCIntegrity
	}
	return sensitive, tpm2.RCSuccess
}

// wrapOuter adds the outer wrapper: a fresh seed, encrypted to the new parent,
// gives keys for encryption (IV 0) and integrity (Part 1, 23.3.2.4).
func (t *TPM) wrapOuter(parent *object, name, blob []byte) (out, encSeed []byte, rc tpm2.RC) {
	seed, encSeed, rc := t.shareSecret(parent, labelDuplicate)
	if rc != tpm2.RCSuccess {
		return nil, nil, rc
	}
	defer tpmcrypto.Zero(seed)
	p := newProtection(parent.pub.NameAlg, seed, parent.pub.Parms.Symmetric, name)
	defer p.wipe()
	enc := bytes.Clone(blob)
	p.cfb(make([]byte, ivSize), enc, false)
	var w tpm2.Writer
	w.Sized(p.integrity(enc, name))
	w.Raw(enc)
	return w.Bytes(), encSeed, tpm2.RCSuccess
}

// unwrapOuter is the inverse of wrapOuter; TPM_RC_INTEGRITY if the HMAC is
// wrong. The result is fresh memory.
func unwrapOuter(parent *object, seed, name, blob []byte) ([]byte, tpm2.RC) {
	r := tpm2.NewReader(blob)
	mac := r.Sized(tpm2.MaxDigest)
	enc := bytes.Clone(r.Rest())
	if rc := r.Code(); rc != tpm2.RCSuccess {
		return nil, rc
	}
	p := newProtection(parent.pub.NameAlg, seed, parent.pub.Parms.Symmetric, name)
	defer p.wipe()
	if !tpmcrypto.Equal(p.integrity(enc, name), mac) {
		return nil, tpm2.RCIntegrity
	}
	p.cfb(make([]byte, ivSize), enc, true)
	return enc, tpm2.RCSuccess
}

// rewrap is TPM2_Rewrap (Part 3, 13.2): another outer wrapper, the inner one
// stays closed.
func rewrap(c *call) tpm2.RC {
	blob := bytes.Clone(c.next().Sized(tpm2.MaxPrivate))
	name := bytes.Clone(c.next().Sized(tpm2.MaxName))
	encSeed := c.next().Sized(tpm2.MaxEncryptedSecret)
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	if (c.handle(0) == tpm2.RHNull) != (len(encSeed) == 0) {
		return tpm2.RCHandle.Handle(1)
	}
	old, rc := c.newParent(0)
	if rc != tpm2.RCSuccess {
		return rc
	}
	if old != nil {
		seed, rc := recoverSecret(old, labelDuplicate, encSeed)
		if rc != tpm2.RCSuccess {
			return tpm2.RCValue.Parameter(3)
		}
		defer tpmcrypto.Zero(seed)
		if blob, rc = unwrapOuter(old, seed, name, blob); rc != tpm2.RCSuccess {
			return rc.Parameter(1)
		}
		defer tpmcrypto.Zero(blob)
	}
	next, rc := c.newParent(1)
	if rc != tpm2.RCSuccess {
		return rc
	}
	var newSeed []byte
	out := blob
	if next != nil {
		if out, newSeed, rc = c.t.wrapOuter(next, name, blob); rc != tpm2.RCSuccess {
			return rc.Handle(2)
		}
		if len(out) > tpm2.MaxPrivate {
			return tpm2.RCValue.Parameter(1)
		}
	}
	c.out.Sized(out)
	c.out.Sized(newSeed)
	return tpm2.RCSuccess
}

// importCommand is TPM2_Import (Part 3, 13.3).
func importCommand(c *call) tpm2.RC {
	key := bytes.Clone(c.next().Sized(tpm2.MaxData))
	var pub tpm2.Public
	c.sized(func(r *tpm2.Reader) { readPublic(r, &pub, false) })
	blob := bytes.Clone(c.next().Sized(tpm2.MaxPrivate))
	encSeed := c.next().Sized(tpm2.MaxEncryptedSecret)
	sym := readInnerSymmetric(c.next())
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	a := pub.Attributes
	if a&(tpm2.ObjectFixedTPM|tpm2.ObjectFixedParent) != 0 {
		return tpm2.RCAttributes.Parameter(2)
	}
	parent := c.object(0)
	if !parent.isStorageParent() || parent.publicOnly {
		return tpm2.RCType.Handle(1)
	}
	if len(key) != int(sym.KeyBits)/8 {
		return tpm2.RCSize.Parameter(1)
	}
	if sym.Alg == tpm2.AlgNull && a.Has(tpm2.ObjectEncryptedDuplication) {
		return tpm2.RCAttributes.Parameter(1)
	}
	o := &object{hierarchy: parent.hierarchy, pub: clonePublic(pub), key: &keyCache{}}
	o.place(parent.qname)
	if len(encSeed) != 0 {
		if parent.pub.Type == tpm2.AlgSymCipher {
			return tpm2.RCType.Handle(1)
		}
		seed, rc := recoverSecret(parent, labelDuplicate, encSeed)
		if rc != tpm2.RCSuccess {
			return rc.Parameter(4)
		}
		defer tpmcrypto.Zero(seed)
		if blob, rc = unwrapOuter(parent, seed, o.name, blob); rc != tpm2.RCSuccess {
			return rc.Parameter(3)
		}
	} else if a.Has(tpm2.ObjectEncryptedDuplication) {
		return tpm2.RCAttributes.Parameter(4)
	}
	defer tpmcrypto.Zero(blob)
	if sym.Alg != tpm2.AlgNull {
		var rc tpm2.RC
		if blob, rc = unwrapInner(sym.Alg, key, pub.NameAlg, o.name, blob); rc != tpm2.RCSuccess {
			return rc.Parameter(3)
		}
	}
	var s tpm2.Sensitive
	if err := tpm2.DecodeSized(blob, &s); err != nil {
		return rcOfError(err).Parameter(3)
	}
	o.sens = *cloneSensitive(&s)
	defer o.wipe()
	o.sens.Auth = trimAuth(o.sens.Auth)
	// The object must be one that Load will take.
	for _, rc := range []tpm2.RC{checkAttributes(parent, &o.pub), checkSchemes(parent, &o.pub)} {
		if rc != tpm2.RCSuccess {
			return rc.Parameter(2)
		}
	}
	if rc := checkBinding(o); rc != tpm2.RCSuccess {
		return bindingRC(rc, 3)
	}
	c.out.Sized(c.t.wrap(parent, o.name, &o.sens))
	return tpm2.RCSuccess
}
