// SPDX-License-Identifier: Apache-2.0

//go:build linux

package tpmdiff

import (
	"slices"
	"strings"

	"holdfast/tpm2"
)

// learn brings the model up to date after a step that succeeded.
func (g *gen) learn(s *step) {
	switch s.cc {
	case powerCycle:
		g.objects = slices.DeleteFunc(g.objects, func(o object) bool { return o.h.step != 0 })
		g.sessions, g.seqs = nil, nil
	case tpm2.CCStartAuthSession:
		b := joined(s.params)
		p := tpm2.NewReader(b)
		p.Sized(1 << 15)
		p.Sized(1 << 15)
		g.sessions = append(g.sessions, openSession{step: s.id, type_: tpm2.SE(p.U8())})
	case tpm2.CCCreatePrimary, tpm2.CCCreateLoaded:
		k, auth := g.made(s)
		g.objects = append(g.objects, object{h: from(s.id), kind: k, auth: auth, made: s.id})
		if s.cc == tpm2.CCCreatePrimary {
			g.created = append(g.created, s.id)
		}
	case tpm2.CCCreate:
		k, auth := g.made(s)
		g.blobs = append(g.blobs, blob{kind: k, auth: auth, public: piece{step: s.id, field: "public"}, private: piece{step: s.id, field: "private"}, parent: s.handles[0]})
	case tpm2.CCLoad:
		if len(s.params) == 2 && len(s.params[0]) == 1 {
			for _, b := range g.blobs {
				if b.private.step == s.params[0][0].step && b.private.step != 0 {
					g.objects = append(g.objects, object{h: from(s.id), kind: b.kind, auth: b.auth, made: s.id})
					break
				}
			}
		}
	case tpm2.CCLoadExternal:
		sens, area := split(s)
		o := object{h: from(s.id), kind: kindOf(area), public: len(sens) == 0}
		var pub tpm2.Public
		r := tpm2.NewReader(area)
		if pub.UnmarshalNull(r); r.Code() == tpm2.RCSuccess {
			o.nameAlg, o.oaep = pub.NameAlg, tpm2.AlgNull
			if pub.Parms.Scheme.Alg == tpm2.AlgOAEP {
				o.oaep = pub.Parms.Scheme.Hash
			}
		}
		if len(sens) > 4 {
			r := tpm2.NewReader(sens)
			r.U16()
			o.auth = string(r.Sized(1 << 15))
		}
		g.objects = append(g.objects, o)
	case tpm2.CCHMACStart, tpm2.CCHashSequenceStart:
		b := joined(s.params)
		r := tpm2.NewReader(b)
		g.seqs = append(g.seqs, sequence{h: from(s.id), auth: string(r.Sized(1 << 15))})
	case tpm2.CCSequenceComplete, tpm2.CCEventSequenceComplete:
		h := s.handles[len(s.handles)-1]
		g.seqs = slices.DeleteFunc(g.seqs, func(q sequence) bool { return q.h == h })
		if s.cc == tpm2.CCSequenceComplete {
			g.tickets = append(g.tickets, ticket{piece{step: s.id, field: "validationTicket"}, s.cc, field1(s.id, "result")})
		}
	case tpm2.CCHash:
		g.tickets = append(g.tickets, ticket{piece{step: s.id, field: "validationTicket"}, s.cc, field1(s.id, "outHash")})
	case tpm2.CCVerifySignature:
		g.tickets = append(g.tickets, ticket{piece: piece{step: s.id, field: "validationTicket"}, of: s.cc})
	case tpm2.CCPolicySecret, tpm2.CCPolicySigned:
		g.tickets = append(g.tickets, ticket{piece: piece{step: s.id, field: "policyTicket"}, of: s.cc})
	case tpm2.CCSign:
		if len(s.params) > 0 && len(s.params[0]) == 1 && s.params[0][0].step == 0 && len(s.params[0][0].bytes) >= 2 {
			for _, o := range g.objects {
				if o.h == s.handles[0] {
					g.signed = append(g.signed, signature{key: o, digest: s.params[0][0].bytes[2:], piece: piece{step: s.id, field: "restSignature"}})
				}
			}
		}
	case tpm2.CCMakeCredential:
		for _, o := range g.objects {
			if o.h == s.handles[0] {
				g.creds = append(g.creds, credential{s.id, o})
			}
		}
	case tpm2.CCDuplicate:
		for _, o := range g.objects {
			if o.h == s.handles[0] && o.made != 0 {
				g.copies = append(g.copies, copied{s.id, blob{kind: o.kind, auth: o.auth, public: piece{step: o.made, field: "public"}}})
			}
		}
	case tpm2.CCImport:
		if len(s.params) > 1 && len(s.params[1]) == 1 {
			public := s.params[1][0]
			k, auth := sealed, ""
			if public.step == 0 && len(public.bytes) > 2 {
				k = kindOf(public.bytes[2:])
			}
			g.blobs = append(g.blobs, blob{kind: k, auth: auth, public: public, private: piece{step: s.id, field: "private"}, parent: s.handles[0]})
		}
	case tpm2.CCPolicyGetDigest:
		g.policies = append(g.policies, s.id)
	case tpm2.CCContextSave:
		g.contexts = append(g.contexts, s.id)
		g.sessions = slices.DeleteFunc(g.sessions, func(x openSession) bool { return from(x.step) == s.handles[0] })
	case tpm2.CCContextLoad:
		g.objects = append(g.objects, object{h: from(s.id), kind: kind(g.Intn(int(kinds)))})
	case tpm2.CCFlushContext:
		if p := s.params; len(p) == 1 && len(p[0]) == 1 && p[0][0].step != 0 {
			h := from(p[0][0].step)
			g.objects = slices.DeleteFunc(g.objects, func(o object) bool { return o.h == h })
			g.seqs = slices.DeleteFunc(g.seqs, func(q sequence) bool { return q.h == h })
			g.sessions = slices.DeleteFunc(g.sessions, func(x openSession) bool { return from(x.step) == h })
		}
	case tpm2.CCEvictControl:
		r := tpm2.NewReader(joined(s.params))
		p := fixed(r.Handle())
		before := len(g.objects)
		g.objects = slices.DeleteFunc(g.objects, func(o object) bool { return o.h == p })
		if before == len(g.objects) {
			for _, o := range g.objects {
				if o.h == s.handles[1] {
					o.h = p
					g.objects = append(g.objects, o)
					break
				}
			}
		}
	case tpm2.CCHierarchyChangeAuth, tpm2.CCPCRSetAuthValue:
		g.auths[s.handles[0].value] = strings.TrimRight(string(tpm2.NewReader(joined(s.params)).Sized(1<<15)), "\x00")
	case tpm2.CCClear:
		for _, h := range []tpm2.Handle{tpm2.RHOwner, tpm2.RHEndorsement, tpm2.RHLockout} {
			delete(g.auths, h)
		}
	case tpm2.CCNVDefineSpace:
		r := tpm2.NewReader(joined(s.params))
		x := index{auth: string(r.Sized(1 << 15))}
		r.U16()
		x.h = r.Handle()
		r.Alg()
		x.attrs = tpm2.NVAttributes(r.U32())
		x.policy = len(r.Sized(1<<15)) > 0
		x.size = r.U16()
		g.nv = append(g.nv, x)
	case tpm2.CCNVUndefineSpace, tpm2.CCNVUndefineSpaceSpecial:
		for _, h := range s.handles {
			g.nv = slices.DeleteFunc(g.nv, func(x index) bool { return fixed(x.h) == h })
		}
	case tpm2.CCNVChangeAuth:
		for i := range g.nv {
			if fixed(g.nv[i].h) == s.handles[0] {
				g.nv[i].auth = string(tpm2.NewReader(joined(s.params)).Sized(1 << 15))
			}
		}
	}
	for _, a := range s.auth { // sessions that the command ended
		if a.session != 0 && !a.attrs.Has(tpm2.SessionContinue) {
			g.sessions = slices.DeleteFunc(g.sessions, func(x openSession) bool { return x.step == a.session })
		}
	}
}

// made reads kind and authValue from the parameters of a command that creates.
func (g *gen) made(s *step) (kind, string) {
	r := tpm2.NewReader(joined(s.params))
	r.U16()
	auth := string(r.Sized(1 << 15))
	r.Sized(1 << 15)
	return kindOf(r.Sized(1 << 15)), auth
}

// split returns the two TPM2B of LoadExternal.
func split(s *step) (sensitive, area []byte) {
	r := tpm2.NewReader(joined(s.params))
	return r.Sized(1 << 15), r.Sized(1 << 15)
}

// kindOf guesses the kind from a public area.
func kindOf(area []byte) kind {
	r := tpm2.NewReader(area)
	t := r.Alg()
	r.Alg()
	a := tpm2.ObjectAttributes(r.U32())
	storage := a.Has(tpm2.ObjectRestricted | tpm2.ObjectDecrypt)
	signs, decrypts := a.Has(tpm2.ObjectSignEncrypt), a.Has(tpm2.ObjectDecrypt)
	switch t {
	case tpm2.AlgECC:
		switch {
		case storage:
			return eccStorage
		case signs && decrypts:
			return eccBoth
		case signs && a.Has(tpm2.ObjectRestricted):
			return eccAK
		case signs:
			return eccSign
		}
		return eccDecrypt
	case tpm2.AlgRSA:
		switch {
		case storage:
			return rsaStorage
		case signs:
			return rsaSign
		}
		return rsaDecrypt
	case tpm2.AlgSymCipher:
		return aesKey
	}
	switch {
	case signs:
		return hmacKey
	case decrypts:
		return xorKey
	}
	return sealed
}
