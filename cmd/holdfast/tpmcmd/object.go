// SPDX-License-Identifier: Apache-2.0

package tpmcmd

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"holdfast/tpm2"
	"holdfast/tss"
)

// Object is an entity that a command line names, ready for use. Close it.
type Object struct {
	tss.Ref
	Public *tpm2.Public // nil for hierarchies
	t      *tss.TPM
	flush  bool
	policy *tss.Session
	file   string // where the policy session came from and goes back to
}

// Open finds the entity that spec names: a hierarchy, a persistent or other
// handle, or a file with a saved context. auth is as in tpm2-tools: a value
// (see Value), pcr:SELECTION for a policy of PCRs, or pcr:SELECTION=VALUE
// for one of PCRs and the authorization value, session:FILE for a session of
// startauthsession, or session:FILE+VALUE with the authorization value. The
// session goes back to its file on Close. The policy of an EK is
// satisfied with auth as the password of the endorsement hierarchy.
func Open(t *tss.TPM, spec, auth string) (*Object, error) {
	o := &Object{t: t}
	if err := o.find(spec); err != nil {
		return nil, err
	}
	if err := o.authorize(auth); err != nil {
		return nil, errors.Join(err, o.Close())
	}
	return o, nil
}

func (o *Object) find(spec string) error {
	if spec == "" {
		return errors.New("no object is named; give a context file, a handle or a hierarchy")
	}
	if h, ok := hierarchies[spec]; ok {
		o.Ref = tss.Ref{Handle: h}
		return nil
	}
	if h, err := Handle(spec); err == nil {
		switch h.Type() {
		case tpm2.HTTransient, tpm2.HTPersistent:
			k, _, err := o.t.ReadPublic(h)
			if err != nil {
				return err
			}
			o.Ref, o.Public = tss.Ref{Handle: h, Name: k.Name}, &k.Public
		default:
			o.Ref = tss.Ref{Handle: h}
		}
		return nil
	}
	b, err := ReadFile(spec)
	if err != nil {
		return err
	}
	var c tpm2.Context
	if err := tpm2.Decode(b, &c); err != nil {
		return fmt.Errorf("%s: expected a saved context of `holdfast tpm`: %w", spec, err)
	}
	h, err := o.t.ContextLoad(&c)
	if err != nil {
		return fmt.Errorf("%s: %w", spec, err)
	}
	o.Ref, o.flush = tss.Ref{Handle: h}, true
	k, _, err := o.t.ReadPublic(h)
	if err != nil {
		return errors.Join(err, o.Close())
	}
	o.Name, o.Public = k.Name, &k.Public
	return nil
}

// authorize prepares the authorization.
func (o *Object) authorize(auth string) error {
	if sel, ok := strings.CutPrefix(auth, "pcr:"); ok {
		return o.pcrPolicy(sel)
	}
	if spec, ok := strings.CutPrefix(auth, "session:"); ok {
		return o.session(spec)
	}
	value, err := Value(auth)
	if err != nil {
		return err
	}
	if o.isEK() {
		s, err := o.t.StartSession(tss.SessionOptions{Kind: tpm2.SEPolicy, Hash: o.Public.NameAlg})
		if err != nil {
			return err
		}
		o.policy, o.Auth = s, s.With(nil)
		return o.t.PolicySecret(tss.Endorsement(value), s, nil)
	}
	o.Auth = tss.Password(value)
	return nil
}

// isEK says whether the object's only policy is PolicySecret(endorsement).
func (o *Object) isEK() bool {
	if o.Public == nil || o.Public.Attributes.Has(tpm2.ObjectUserWithAuth) || !o.Public.NameAlg.IsHash() {
		return false
	}
	d := tpm2.NewPolicyDigest(o.Public.NameAlg)
	d.Secret(tpm2.HandleName(tpm2.RHEndorsement), nil)
	return bytes.Equal(d.Sum(), o.Public.AuthPolicy)
}

func (o *Object) pcrPolicy(spec string) error {
	if o.Public == nil {
		return errors.New("a policy of PCRs is for objects only")
	}
	list, value, withValue := strings.Cut(spec, "=")
	sel, err := PCRs(list)
	if err != nil {
		return err
	}
	s, err := o.t.StartSession(tss.SessionOptions{Kind: tpm2.SEPolicy, Hash: o.Public.NameAlg})
	if err != nil {
		return err
	}
	o.policy = s
	if err := o.t.PolicyPCR(s, nil, sel); err != nil {
		return err
	}
	var v []byte
	if withValue {
		if v, err = Value(value); err != nil {
			return err
		}
		if err := o.t.PolicyAuthValue(s); err != nil {
			return err
		}
	}
	o.Auth = s.With(v)
	return nil
}

// session authorizes with a session from a file.
func (o *Object) session(spec string) error {
	file, value, _ := strings.Cut(spec, "+")
	v, err := Value(value)
	if err != nil {
		return err
	}
	s, err := LoadSession(o.t, file)
	if err != nil {
		return err
	}
	if s.Trial() {
		return errors.Join(fmt.Errorf("%s: a trial session authorizes nothing; make one with --policy-session", file), SaveSession(o.t, s, file))
	}
	if h := o.Handle; o.Name == nil && h.Type() == tpm2.HTNVIndex {
		i, err := o.t.NVReadPublic(h)
		if err != nil {
			return errors.Join(err, SaveSession(o.t, s, file))
		}
		o.Name = i.Name
	}
	o.policy, o.file, o.Auth = s, file, s.With(v)
	return nil
}

// LoadSession takes up the session in a file.
func LoadSession(t *tss.TPM, file string) (*tss.Session, error) {
	b, err := ReadFile(file)
	if err != nil {
		return nil, err
	}
	s, err := t.LoadSession(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return s, nil
}

// SaveSession puts a session into a file.
func SaveSession(t *tss.TPM, s *tss.Session, file string) error {
	b, err := t.SaveSession(s)
	if err != nil {
		return err
	}
	return WriteFile(file, b)
}

// Close ends the policy session, or puts it back into its file, and unloads
// what Open loaded.
func (o *Object) Close() error {
	var err error
	switch {
	case o.file != "":
		err = SaveSession(o.t, o.policy, o.file)
		o.policy, o.file = nil, ""
	case o.policy != nil:
		err = o.t.Close(o.policy)
		o.policy = nil
	}
	if o.flush {
		o.flush = false
		err = errors.Join(err, o.t.FlushContext(o.Handle))
	}
	return err
}

// Save saves the context of a loaded object in a file and unloads it.
func Save(t *tss.TPM, h tpm2.Handle, path string) error {
	if path != "" {
		c, err := t.ContextSave(h)
		if err != nil {
			return err
		}
		b, err := tpm2.Encode(c)
		if err != nil {
			return err
		}
		if err := WriteFile(path, b); err != nil {
			return err
		}
	}
	return t.FlushContext(h)
}
