// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"bytes"
	"slices"

	"holdfast/tpm2"
)

func init() {
	register(&command{code: tpm2.CCLoad, slots: []slot{{kObject, roleUser}}, flags: fDecrypt | fEncrypt | fHandle, run: load})
	register(&command{code: tpm2.CCLoadExternal, flags: fDecrypt | fEncrypt | fHandle, run: loadExternal})
	register(&command{code: tpm2.CCReadPublic, slots: []slot{{kObject, roleNone}}, flags: fEncrypt, run: readPublicCmd})
	register(&command{code: tpm2.CCUnseal, slots: []slot{{kObject, roleUser}}, flags: fEncrypt, run: unseal})
	register(&command{code: tpm2.CCObjectChangeAuth, slots: []slot{{kObject, roleAdmin}, {kObject, roleNone}}, flags: fDecrypt | fEncrypt, run: objectChangeAuth})
	register(&command{code: tpm2.CCFlushContext, flags: fNoSessions | fNotAudited, run: flushContext})
	register(&command{code: tpm2.CCEvictControl, slots: []slot{{kProvision, roleUser}, {kObject, roleNone}}, flags: fNV | fSave | fPP, run: evictControl})
}

// load is TPM2_Load (Part 3, 12.2).
func load(c *call) tpm2.RC {
	private := c.next().Sized(tpm2.MaxPrivate)
	var pub tpm2.Public
	c.sized(func(r *tpm2.Reader) { readPublic(r, &pub, false) })
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	parent := c.object(0)
	if !parent.isStorageParent() || parent.publicOnly {
		return tpm2.RCType.Handle(1)
	}
	if rc := c.objectRoom(); rc != tpm2.RCSuccess {
		return rc
	}
	o := &object{hierarchy: parent.hierarchy, pub: clonePublic(pub), key: &keyCache{}}
	if rc := checkAttributes(parent, &o.pub); rc != tpm2.RCSuccess {
		return rc.Parameter(2)
	}
	if rc := checkSchemes(parent, &o.pub); rc != tpm2.RCSuccess {
		return rc.Parameter(2)
	}
	o.place(parent.qname)
	s, rc := unwrap(parent, o.name, private)
	if rc != tpm2.RCSuccess {
		return rc.Parameter(1)
	}
	o.sens = *s
	// The integrity value binds the Name, so a wrong pair cannot get here but
	// through a duplicate that was wrapped so.
	if rc := checkBinding(o); rc != tpm2.RCSuccess {
		o.wipe()
		return bindingRC(rc, 1)
	}
	if c.outHandle, rc = c.addObject(o); rc != tpm2.RCSuccess {
		return rc
	}
	c.out.Sized(o.name)
	return tpm2.RCSuccess
}

// loadExternal is TPM2_LoadExternal (Part 3, 12.3).
func loadExternal(c *call) tpm2.RC {
	var s tpm2.Sensitive
	r := c.next()
	in := r.Nested(c.t.commandSize())
	private := in.Len() != 0
	if private {
		s.Unmarshal(&in)
	}
	r.Done(&in)
	var pub tpm2.Public
	c.sized(func(r *tpm2.Reader) { readPublic(r, &pub, true) })
	h := readHierarchy(c.next())
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	if rc := c.objectRoom(); rc != tpm2.RCSuccess {
		return rc
	}
	if !c.st.hierarchyEnabled(h) {
		return tpm2.RCHierarchy.Parameter(3)
	}
	a := pub.Attributes
	if private {
		if h != tpm2.RHNull {
			return tpm2.RCHierarchy.Parameter(3)
		}
		if a&(tpm2.ObjectFixedTPM|tpm2.ObjectFixedParent|tpm2.ObjectRestricted) != 0 {
			return tpm2.RCAttributes.Parameter(2)
		}
		if rc := checkExternal(&pub); rc != tpm2.RCSuccess {
			return rc.Parameter(2)
		}
	} else if rc := checkSchemes(nil, &pub); rc != tpm2.RCSuccess {
		return rc.Parameter(2)
	}
	if n := len(pub.AuthPolicy); n != 0 && n != pub.NameAlg.DigestSize() {
		return tpm2.RCSize.Parameter(2)
	}
	o := &object{hierarchy: h, external: true, publicOnly: !private, pub: clonePublic(pub), sens: *cloneSensitive(&s), key: &keyCache{}}
	o.sens.Auth = trimAuth(o.sens.Auth)
	if rc := checkBinding(o); rc != tpm2.RCSuccess {
		o.wipe()
		return bindingRC(rc, 1)
	}
	o.place(tpm2.HandleName(h))
	var rc tpm2.RC
	if c.outHandle, rc = c.addObject(o); rc != tpm2.RCSuccess {
		return rc
	}
	c.out.Sized(o.name)
	return tpm2.RCSuccess
}

// checkExternal checks an external key pair like one without a fixed parent.
func checkExternal(p *tpm2.Public) tpm2.RC {
	if p.NameAlg == tpm2.AlgNull {
		if len(p.AuthPolicy) != 0 {
			return tpm2.RCSize
		}
	} else if rc := checkAttributes(nil, p); rc != tpm2.RCSuccess {
		return rc
	}
	return checkSchemes(nil, p)
}

// readHierarchy reads a TPMI_RH_HIERARCHY+.
func readHierarchy(r *tpm2.Reader) tpm2.Handle {
	h := r.Handle()
	if !isHierarchy(h) {
		r.Fail(tpm2.RCValue)
	}
	return h
}

// readPublicCmd is TPM2_ReadPublic (Part 3, 12.4).
func readPublicCmd(c *call) tpm2.RC {
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	o := c.object(0)
	if o.isSequence() {
		return tpm2.RCSequence
	}
	c.writePublic(o)
	c.out.Sized(o.name)
	c.out.Sized(o.qname)
	return tpm2.RCSuccess
}

// unseal is TPM2_Unseal (Part 3, 12.7).
func unseal(c *call) tpm2.RC {
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	o := c.object(0)
	if o.isSequence() || o.pub.Type != tpm2.AlgKeyedHash {
		return tpm2.RCType.Handle(1)
	}
	if o.pub.Attributes&(tpm2.ObjectDecrypt|tpm2.ObjectSignEncrypt|tpm2.ObjectRestricted) != 0 {
		return tpm2.RCAttributes.Handle(1)
	}
	c.out.Sized(o.sens.Value)
	return tpm2.RCSuccess
}

// objectChangeAuth is TPM2_ObjectChangeAuth (Part 3, 12.8).
func objectChangeAuth(c *call) tpm2.RC {
	auth := trimAuth(c.next().Sized(tpm2.MaxDigest))
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	o, parent := c.object(0), c.object(1)
	if o.isSequence() || o.publicOnly {
		return tpm2.RCType.Handle(1)
	}
	if !parent.isStorageParent() || parent.publicOnly {
		return tpm2.RCType.Handle(2)
	}
	if len(auth) > o.pub.NameAlg.DigestSize() {
		return tpm2.RCSize.Parameter(1)
	}
	qn, err := tpm2.QualifiedName(o.pub.NameAlg, parent.qname, o.name)
	if err != nil || !bytes.Equal(qn, o.qname) {
		return tpm2.RCType.Handle(2) // not its parent
	}
	s := o.sens
	s.Auth = auth
	c.out.Sized(c.t.wrap(parent, o.name, &s))
	return tpm2.RCSuccess
}

// flushContext is TPM2_FlushContext (Part 3, 28.4). The handle is a parameter.
func flushContext(c *call) tpm2.RC {
	h := c.next().Handle()
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	switch h.Type() {
	case tpm2.HTTransient:
		if h > tpm2.HandleTransientLast { // not a TPMI_DH_CONTEXT (Part 2, 9.11)
			return tpm2.RCValue.Parameter(1)
		}
		if c.st.object(h) == nil {
			return tpm2.RCHandle.Parameter(1)
		}
		c.setObject(h, nil)
	case tpm2.HTHMACSession, tpm2.HTPolicySession:
		i := sessionSlot(h)
		if c.st.session(h) == nil && !(i < maxSessions && c.st.volatile.savedSessions[i]) {
			return tpm2.RCHandle.Parameter(1)
		}
		c.st.dropSession(h)
	default:
		return tpm2.RCValue.Parameter(1)
	}
	return tpm2.RCSuccess
}

// evictControl is TPM2_EvictControl (Part 3, 28.5).
func evictControl(c *call) tpm2.RC {
	h := c.next().Handle()
	if c.in.Code() == tpm2.RCSuccess && h.Type() != tpm2.HTPersistent {
		c.in.Fail(tpm2.RCValue)
	}
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	auth, o := c.handle(0), c.object(1)
	if o.handle != 0 {
		// A persistent object: remove it.
		if h != o.handle {
			return tpm2.RCHandle.Handle(2)
		}
		if auth == tpm2.RHOwner && (o.hierarchy == tpm2.RHPlatform || h >= tpm2.HandlePlatformFirst) || auth == tpm2.RHPlatform && h < tpm2.HandlePlatformFirst {
			return tpm2.RCHierarchy.Handle(2)
		}
		c.st.perm.persistent = slices.DeleteFunc(slices.Clone(c.st.perm.persistent), func(x *object) bool { return x.handle == h })
		return tpm2.RCSuccess
	}
	if o.isSequence() || o.publicOnly || o.external || o.hierarchy == tpm2.RHNull || o.pub.Attributes.Has(tpm2.ObjectStClear) {
		return tpm2.RCAttributes.Handle(2)
	}
	if auth == tpm2.RHPlatform != (o.hierarchy == tpm2.RHPlatform) {
		return tpm2.RCHierarchy.Handle(2)
	}
	if auth == tpm2.RHPlatform != (h >= tpm2.HandlePlatformFirst) {
		return tpm2.RCRange.Parameter(1)
	}
	if c.st.persistentObject(h) != nil {
		return tpm2.RCNVDefined
	}
	if len(c.st.perm.persistent) >= c.t.opt.PersistentObjects {
		return tpm2.RCNVSpace
	}
	n := o.clone()
	n.handle = h
	l := append(slices.Clone(c.st.perm.persistent), n)
	slices.SortFunc(l, func(a, b *object) int { return int(int64(a.handle) - int64(b.handle)) })
	c.st.perm.persistent = l
	return tpm2.RCSuccess
}
