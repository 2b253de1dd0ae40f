// SPDX-License-Identifier: Apache-2.0

package tss

import (
	"bytes"
	"fmt"

	"holdfast/tpm2"
)

// Secret is what the caller gives to a new object.
type Secret struct {
	Auth []byte // authValue
	Data []byte // data to seal, or a symmetric key
}

// Key is an object that is loaded in the TPM.
type Key struct {
	Handle tpm2.Handle
	Name   []byte
	Public tpm2.Public
}

// Ref refers to the key with a password.
func (k *Key) Ref(password []byte) Ref {
	return Ref{Handle: k.Handle, Name: k.Name, Auth: Password(password)}
}

// Use refers to the key with any authorization.
func (k *Key) Use(a Auth) Ref { return Ref{Handle: k.Handle, Name: k.Name, Auth: a} }

// Created is what Create and CreatePrimary say about the new object.
type Created struct {
	Private      []byte // content of the TPM2B_PRIVATE; Create only
	Public       tpm2.Public
	CreationData []byte // TPMS_CREATION_DATA
	CreationHash []byte
	Ticket       tpm2.Ticket
}

// Primary is a new primary object, which is loaded.
type Primary struct {
	Key
	Created
}

// marshalCreate writes the parameters that Create and CreatePrimary share.
func marshalCreate(w *tpm2.Writer, s *Secret, pub *tpm2.Public, outside []byte, sel []tpm2.PCRSelection) {
	if s == nil {
		s = &Secret{}
	}
	m := w.Begin()
	(&tpm2.SensitiveCreate{UserAuth: s.Auth, Data: s.Data}).Marshal(w)
	w.End(m)
	m = w.Begin()
	pub.Marshal(w)
	w.End(m)
	w.Sized(outside)
	tpm2.MarshalPCRSelections(w, sel)
}

// readPublic reads a TPM2B_PUBLIC; the result has memory of its own.
func readPublic(r *tpm2.Reader) tpm2.Public {
	var p tpm2.Public
	in := r.Nested(r.Len())
	raw := bytes.Clone(in.Rest())
	in.Reset(raw)
	p.Unmarshal(&in)
	r.Done(&in)
	return p
}

func (c *Created) read(r *reply) {
	c.CreationData = bytes.Clone(r.Sized(r.Len()))
	c.CreationHash = bytes.Clone(r.Sized(tpm2.MaxDigest))
	c.Ticket.UnmarshalTicket(&r.Reader, tpm2.STCreation)
	c.Ticket.HMAC = bytes.Clone(c.Ticket.HMAC)
}

// CreatePrimary is TPM2_CreatePrimary (Part 3, 24.1) in the hierarchy parent.
// The Name that the TPM reports is checked against the public area.
func (t *TPM) CreatePrimary(parent Ref, template tpm2.Public, s *Secret) (*Primary, error) {
	return t.CreatePrimaryWith(parent, template, s, nil, nil)
}

// CreatePrimaryWith is CreatePrimary with outside information and the PCRs
// that the creation data records.
func (t *TPM) CreatePrimaryWith(parent Ref, template tpm2.Public, s *Secret, outside []byte, sel []tpm2.PCRSelection) (*Primary, error) {
	c := call{cc: tpm2.CCCreatePrimary, refs: [3]Ref{parent}, handles: 1, auths: 1, inSized: true, outSized: true, outHandle: true}
	r, err := t.do(&c, func(w *tpm2.Writer) { marshalCreate(w, s, &template, outside, sel) })
	if err != nil {
		return nil, err
	}
	p := &Primary{}
	p.Handle = r.handle
	p.Created.Public = readPublic(&r.Reader)
	p.Key.Public = p.Created.Public
	p.Created.read(&r)
	p.Name = bytes.Clone(r.Sized(tpm2.MaxName))
	if err := r.end(c.cc); err != nil {
		return nil, err
	}
	if err := checkName(c.cc, &p.Key.Public, p.Name); err != nil {
		return nil, err
	}
	return p, nil
}

// checkName compares the Name that a TPM reports with the public area.
func checkName(cc tpm2.CC, pub *tpm2.Public, name []byte) error {
	want, err := pub.Name()
	if err != nil {
		return fmt.Errorf("%v: %w", cc, err)
	}
	if !bytes.Equal(want, name) {
		return fmt.Errorf("%v: %w: the Name is not that of the public area", cc, ErrResponse)
	}
	return nil
}

// Create is TPM2_Create (Part 3, 12.1) under the loaded parent.
func (t *TPM) Create(parent Ref, template tpm2.Public, s *Secret) (*Created, error) {
	return t.CreateWith(parent, template, s, nil, nil)
}

// CreateWith is Create with outside information and the PCRs that the creation
// data records.
func (t *TPM) CreateWith(parent Ref, template tpm2.Public, s *Secret, outside []byte, sel []tpm2.PCRSelection) (*Created, error) {
	c := call{cc: tpm2.CCCreate, refs: [3]Ref{parent}, handles: 1, auths: 1, inSized: true, outSized: true}
	r, err := t.do(&c, func(w *tpm2.Writer) { marshalCreate(w, s, &template, outside, sel) })
	if err != nil {
		return nil, err
	}
	out := &Created{Private: bytes.Clone(r.Sized(r.Len()))}
	out.Public = readPublic(&r.Reader)
	out.read(&r)
	return out, r.end(c.cc)
}

// Load is TPM2_Load (Part 3, 12.2).
func (t *TPM) Load(parent Ref, private []byte, pub *tpm2.Public) (*Key, error) {
	c := call{cc: tpm2.CCLoad, refs: [3]Ref{parent}, handles: 1, auths: 1, inSized: true, outSized: true, outHandle: true}
	r, err := t.do(&c, func(w *tpm2.Writer) {
		w.Sized(private)
		m := w.Begin()
		pub.Marshal(w)
		w.End(m)
	})
	return t.loaded(&c, r, err, pub)
}

func (t *TPM) loaded(c *call, r reply, err error, pub *tpm2.Public) (*Key, error) {
	if err != nil {
		return nil, err
	}
	k := &Key{Handle: r.handle, Name: bytes.Clone(r.Sized(tpm2.MaxName)), Public: *pub}
	if err := r.end(c.cc); err != nil {
		return nil, err
	}
	if err := checkName(c.cc, pub, k.Name); err != nil {
		return nil, err
	}
	return k, nil
}

// LoadExternal is TPM2_LoadExternal (Part 3, 12.3); sensitive may be nil.
func (t *TPM) LoadExternal(hierarchy tpm2.Handle, sensitive *tpm2.Sensitive, pub *tpm2.Public) (*Key, error) {
	c := call{cc: tpm2.CCLoadExternal, inSized: true, outSized: true, outHandle: true}
	r, err := t.do(&c, func(w *tpm2.Writer) {
		m := w.Begin()
		if sensitive != nil {
			sensitive.Marshal(w)
		}
		w.End(m)
		m = w.Begin()
		pub.Marshal(w)
		w.End(m)
		w.Handle(hierarchy)
	})
	return t.loaded(&c, r, err, pub)
}

// ReadPublic is TPM2_ReadPublic (Part 3, 12.4).
func (t *TPM) ReadPublic(h tpm2.Handle) (k *Key, qualifiedName []byte, err error) {
	c := call{cc: tpm2.CCReadPublic, refs: [3]Ref{{Handle: h}}, handles: 1, outSized: true}
	r, err := t.do(&c, nil)
	if err != nil {
		return nil, nil, err
	}
	k = &Key{Handle: h, Public: readPublic(&r.Reader)}
	k.Name = bytes.Clone(r.Sized(tpm2.MaxName))
	qualifiedName = bytes.Clone(r.Sized(tpm2.MaxName))
	if err := r.end(c.cc); err != nil {
		return nil, nil, err
	}
	if err := checkName(c.cc, &k.Public, k.Name); err != nil {
		return nil, nil, err
	}
	return k, qualifiedName, nil
}

// FlushContext is TPM2_FlushContext (Part 3, 28.4).
func (t *TPM) FlushContext(h tpm2.Handle) error {
	return t.simple(&call{cc: tpm2.CCFlushContext}, func(w *tpm2.Writer) { w.Handle(h) })
}

// ContextSave is TPM2_ContextSave (Part 3, 28.2).
func (t *TPM) ContextSave(h tpm2.Handle) (*tpm2.Context, error) {
	c := call{cc: tpm2.CCContextSave, refs: [3]Ref{{Handle: h}}, handles: 1}
	r, err := t.do(&c, nil)
	if err != nil {
		return nil, err
	}
	out := new(tpm2.Context)
	out.Unmarshal(&r.Reader)
	out.Blob = bytes.Clone(out.Blob)
	return out, r.end(c.cc)
}

// ContextLoad is TPM2_ContextLoad (Part 3, 28.3).
func (t *TPM) ContextLoad(ctx *tpm2.Context) (tpm2.Handle, error) {
	c := call{cc: tpm2.CCContextLoad, outHandle: true}
	r, err := t.do(&c, func(w *tpm2.Writer) { ctx.Marshal(w) })
	if err != nil {
		return 0, err
	}
	return r.handle, r.end(c.cc)
}

// EvictControl is TPM2_EvictControl (Part 3, 28.5): makes object persistent
// at a handle, or with object's handle equal to persistent removes it.
func (t *TPM) EvictControl(auth Ref, object Ref, persistent tpm2.Handle) error {
	c := call{cc: tpm2.CCEvictControl, refs: [3]Ref{auth, object}, handles: 2, auths: 1}
	return t.simple(&c, func(w *tpm2.Writer) { w.Handle(persistent) })
}

// Unseal is TPM2_Unseal (Part 3, 12.7). The result is the caller's to erase.
func (t *TPM) Unseal(item Ref) ([]byte, error) {
	c := call{cc: tpm2.CCUnseal, refs: [3]Ref{item}, handles: 1, auths: 1, outSized: true}
	r, err := t.do(&c, nil)
	if err != nil {
		return nil, err
	}
	return r.Sized(tpm2.MaxSymData), r.end(c.cc)
}

// ObjectChangeAuth is TPM2_ObjectChangeAuth (Part 3, 12.8); it returns the new
// private area, the loaded object stays as it is.
func (t *TPM) ObjectChangeAuth(object, parent Ref, newAuth []byte) (private []byte, err error) {
	c := call{cc: tpm2.CCObjectChangeAuth, refs: [3]Ref{object, parent}, handles: 2, auths: 1, inSized: true, outSized: true}
	r, err := t.do(&c, func(w *tpm2.Writer) { w.Sized(newAuth) })
	if err != nil {
		return nil, err
	}
	return bytes.Clone(r.Sized(r.Len())), r.end(c.cc)
}

// MakeCredential is TPM2_MakeCredential (Part 3, 12.6); the function of the
// same name does it without a TPM.
func (t *TPM) MakeCredential(ek tpm2.Handle, name, secret []byte) (idObject, encryptedSecret []byte, err error) {
	c := call{cc: tpm2.CCMakeCredential, refs: [3]Ref{{Handle: ek}}, handles: 1, inSized: true, outSized: true}
	r, err := t.do(&c, func(w *tpm2.Writer) {
		w.Sized(secret)
		w.Sized(name)
	})
	if err != nil {
		return nil, nil, err
	}
	idObject = bytes.Clone(r.Sized(tpm2.MaxIDObject))
	encryptedSecret = bytes.Clone(r.Sized(tpm2.MaxEncryptedSecret))
	return idObject, encryptedSecret, r.end(c.cc)
}

// ActivateCredential is TPM2_ActivateCredential (Part 3, 12.5): key is the
// object that the credential names, ek the decryption key.
func (t *TPM) ActivateCredential(key, ek Ref, idObject, encryptedSecret []byte) ([]byte, error) {
	c := call{cc: tpm2.CCActivateCredential, refs: [3]Ref{key, ek}, handles: 2, auths: 2, inSized: true, outSized: true}
	r, err := t.do(&c, func(w *tpm2.Writer) {
		w.Sized(idObject)
		w.Sized(encryptedSecret)
	})
	if err != nil {
		return nil, err
	}
	return r.Sized(tpm2.MaxDigest), r.end(c.cc)
}
