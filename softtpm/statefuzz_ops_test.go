// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"bytes"
	"time"

	"holdfast/tpm2"
)

// operations are what a program of FuzzStateful chooses from. A byte of the
// input is a position here, so new ones go to the end.
var operations = []func(g *player){
	(*player).createPrimary, (*player).create, (*player).load, (*player).loadExternal, (*player).flush,
	(*player).evict, (*player).contextSave, (*player).contextLoad, (*player).startSession, (*player).policy,
	(*player).nvDefine, (*player).nvWrite, (*player).nvRead, (*player).nvManage, (*player).pcr,
	(*player).sequence, (*player).sign, (*player).attest, (*player).kem, (*player).hierarchies,
	(*player).power, (*player).protection, (*player).wholeState, (*player).clock, (*player).capability,
	(*player).wild, (*player).use, (*player).move, (*player).credential, (*player).rotate,
	(*player).symmetric, (*player).ecc, (*player).audit, (*player).misc, (*player).pqcSequence,
	(*player).create, (*player).load, (*player).nvWrite, (*player).policy, (*player).flush,
}

// template chooses a template of a kind that is made quickly.
func (g *player) template() tpm2.Public {
	attrs := pick(g, attrsFixed, attrsSign, attrsAK, attrsParent, attrsDecrypt, attrsSign|tpm2.ObjectDecrypt, attrsSign&^(tpm2.ObjectFixedTPM|tpm2.ObjectFixedParent), attrsSign|tpm2.ObjectNoDA,
		attrsFixed|tpm2.ObjectDecrypt|tpm2.ObjectNoDA)
	var p tpm2.Public
	switch g.n(9) {
	case 0, 1:
		p = eccTemplate(attrs, pick(g, ecdsa256, tpm2.NoScheme, tpm2.Scheme{Alg: tpm2.AlgECDAA, Hash: tpm2.AlgSHA256}, tpm2.Scheme{Alg: tpm2.AlgECSchnorr, Hash: tpm2.AlgSHA256}))
	case 2:
		p = sealTemplate()
		if g.bool() {
			p.Attributes |= tpm2.ObjectSignEncrypt | tpm2.ObjectSensitiveDataOrigin
			p.Parms.Scheme = pick(g, tpm2.NoScheme, tpm2.Scheme{Alg: tpm2.AlgHMAC, Hash: tpm2.AlgSHA256})
		}
	case 3:
		p = tpm2.Public{Type: tpm2.AlgSymCipher, NameAlg: tpm2.AlgSHA256, Attributes: attrs | tpm2.ObjectDecrypt, Parms: tpm2.Parms{Symmetric: aes(pick(g, uint16(128), 256))}}
	case 4:
		p = mldsaTemplate(tpm2.MLDSA44, attrs, g.bool())
	case 5:
		p = mlkemTemplate(tpm2.MLKEM512, g.bool())
	case 6:
		p = hashMLDSATemplate(tpm2.MLDSA44, tpm2.AlgSHA256)
	default:
		p = eccTemplate(attrsParent, tpm2.NoScheme)
	}
	if g.byte() > 220 {
		p.Attributes ^= 1 << (g.byte() & 31)
	}
	if g.byte() > 220 {
		p.AuthPolicy = make([]byte, 32)
	}
	if g.byte() > 245 {
		p.NameAlg = pick(g, tpm2.AlgNull, tpm2.AlgSHA1, tpm2.AlgSHA512, tpm2.AlgSHA3_256)
	}
	return p
}

func (g *player) newObject(r *tpm2.Reader, auth byte) {
	if r == nil {
		return
	}
	h := r.Handle()
	g.auths[uint32(h)] = auth
}

func (g *player) createPrimary() {
	h, auth := g.hierarchy(), g.byte()%3
	g.newObject(g.on(tpm2.CCCreatePrimary, 1, writeCreate(string(g.passwords[auth]), "", g.template()), h), auth)
}

func (g *player) create() {
	auth := g.byte() % 3
	data := ""
	t := g.template()
	if t.Type == tpm2.AlgKeyedHash && !t.Attributes.Has(tpm2.ObjectSensitiveDataOrigin) {
		data = string(g.data())
	}
	parent := g.objectWhere(parent)
	if g.byte() > 200 {
		m := writeCreate(string(g.passwords[auth]), data, t)
		g.newObject(g.on(tpm2.CCCreateLoaded, 1, func(w *tpm2.Writer) {
			var all tpm2.Writer
			m(&all)
			w.Raw(all.Bytes()[:all.Len()-6])
		}, parent), auth)
		return
	}
	if r := g.on(tpm2.CCCreate, 1, writeCreate(string(g.passwords[auth]), data, t), parent); r != nil {
		g.addBlob(r.Sized(4096), r.Sized(4096), auth)
	}
}

func (g *player) addBlob(private, public []byte, auth byte) {
	if len(g.blobs) == 8 {
		g.blobs = g.blobs[1:]
	}
	g.blobs = append(g.blobs, blob{bytes.Clone(private), bytes.Clone(public), auth})
}

func (g *player) blob() blob {
	if len(g.blobs) == 0 {
		return blob{}
	}
	return g.blobs[g.n(len(g.blobs))]
}

func (g *player) load() {
	b := g.blob()
	g.newObject(g.on(tpm2.CCLoad, 1, func(w *tpm2.Writer) { w.Sized(b.private); w.Sized(b.public) }, g.objectWhere(parent)), b.auth)
}

func (g *player) loadExternal() {
	b, h := g.blob(), g.hierarchy()
	sensitive := g.bool()
	g.newObject(g.on(tpm2.CCLoadExternal, 0, func(w *tpm2.Writer) {
		if sensitive {
			m := w.Begin()
			(&tpm2.Sensitive{Type: tpm2.AlgKeyedHash, Auth: g.passwords[1], Seed: make([]byte, 32), Value: []byte("hmac key")}).Marshal(w)
			w.End(m)
			p := sealTemplate()
			p.Attributes = tpm2.ObjectUserWithAuth | tpm2.ObjectSignEncrypt
			m = w.Begin()
			p.Marshal(w)
			w.End(m)
		} else {
			w.U16(0)
			w.Sized(b.public)
		}
		w.Handle(h)
	}), 1)
}

func (g *player) flush() {
	h := pick(g, g.object(), g.session())
	g.on(tpm2.CCFlushContext, 0, func(w *tpm2.Writer) { w.Handle(h) })
}

func (g *player) evict() {
	o := g.object()
	to := 0x81000000 | tpm2.Handle(g.n(9))
	if o.Type() == tpm2.HTPersistent {
		to = o
	} else {
		g.auths[uint32(to)] = g.auths[uint32(o)]
	}
	g.on(tpm2.CCEvictControl, 1, func(w *tpm2.Writer) { w.Handle(to) }, pick(g, tpm2.RHOwner, tpm2.RHPlatform), o)
}

func (g *player) contextSave() {
	if r := g.on(tpm2.CCContextSave, 0, nil, pick(g, g.object(), g.session())); r != nil {
		keep(&g.contexts, r.Rest())
	}
}

func (g *player) contextLoad() {
	c := g.from(g.contexts)
	g.newObject(g.on(tpm2.CCContextLoad, 0, func(w *tpm2.Writer) { w.Raw(c) }), g.byte()%3)
}

func (g *player) startSession() {
	kind, bind := g.n(4), tpm2.RHNull
	if g.byte() > 150 {
		bind = pick(g, g.object(), g.index(), tpm2.RHOwner, tpm2.RHLockout)
	}
	hash := pick(g, tpm2.AlgSHA256, tpm2.AlgSHA1, tpm2.AlgSHA384)
	g.on(tpm2.CCStartAuthSession, 0, func(w *tpm2.Writer) {
		w.Sized(make([]byte, 16))
		w.Sized(nil)
		w.U8([]byte{0, 1, 3, 1}[kind])
		w.Alg(tpm2.AlgNull)
		w.Alg(hash)
	}, tpm2.RHNull, bind)
}

func (g *player) policy() {
	s := g.sessionWhere(func(s *session) bool { return s.policy })
	u32 := func(v uint32) func(w *tpm2.Writer) { return func(w *tpm2.Writer) { w.U32(v) } }
	digest := make([]byte, 32)
	ticket := g.from(g.tickets)
	name := g.from(g.values)
	switch g.n(19) {
	case 0:
		g.on(tpm2.CCPolicyPCR, 0, func(w *tpm2.Writer) {
			w.Sized(nil)
			tpm2.MarshalPCRSelections(w, []tpm2.PCRSelection{tpm2.SelectPCRs(tpm2.AlgSHA256, g.n(24))})
		}, s)
	case 1:
		g.on(tpm2.CCPolicyCommandCode, 0, u32(uint32(pick(g, tpm2.CCNVWrite, tpm2.CCUnseal, tpm2.CCSign, tpm2.CCDuplicate, tpm2.CCCertify))), s)
	case 2:
		g.on(tpm2.CCPolicyAuthValue, 0, nil, s)
	case 3:
		g.on(tpm2.CCPolicyPassword, 0, nil, s)
	case 4:
		g.on(tpm2.CCPolicyOR, 0, func(w *tpm2.Writer) { w.U32(2); w.Sized(digest); w.Sized(name) }, s)
	case 5:
		if r := g.on(tpm2.CCPolicySecret, 1, func(w *tpm2.Writer) {
			w.Sized(nil)
			w.Sized(nil)
			w.Sized([]byte("ref"))
			w.U32(uint32(int32(-g.n(3) * 10)))
		}, pick(g, tpm2.RHOwner, g.object(), g.index()), s); r != nil {
			r.Sized(64)
			keep(&g.tickets, r.Rest())
		}
	case 6:
		if r := g.on(tpm2.CCPolicyGetDigest, 0, nil, s); r != nil {
			keep(&g.values, r.Sized(64))
		}
	case 7:
		g.on(tpm2.CCPolicyRestart, 0, nil, s)
	case 8:
		g.on(tpm2.CCPolicyLocality, 0, func(w *tpm2.Writer) { w.U8(g.byte()) }, s)
	case 9:
		g.on(tpm2.CCPolicyNV, 1, func(w *tpm2.Writer) { w.Sized([]byte{0}); w.U16(0); w.U16(uint16(g.n(13))) }, tpm2.RHOwner, g.index(), s)
	case 10:
		g.on(tpm2.CCPolicyCounterTimer, 0, func(w *tpm2.Writer) { w.Sized(make([]byte, 8)); w.U16(8); w.U16(uint16(g.n(13))) }, s)
	case 11:
		g.on(tpm2.CCPolicyNameHash, 0, func(w *tpm2.Writer) { w.Sized(digest) }, s)
	case 12:
		g.on(tpm2.CCPolicyCpHash, 0, func(w *tpm2.Writer) { w.Sized(digest) }, s)
	case 13:
		g.on(tpm2.CCPolicyDuplicationSelect, 0, func(w *tpm2.Writer) { w.Sized(name); w.Sized(name); w.U8(g.byte() & 1) }, s)
	case 14:
		g.on(tpm2.CCPolicyNvWritten, 0, func(w *tpm2.Writer) { w.U8(g.byte() & 1) }, s)
	case 15:
		g.on(tpm2.CCPolicyTemplate, 0, func(w *tpm2.Writer) { w.Sized(digest) }, s)
	case 16:
		g.on(tpm2.CCPolicyTicket, 0, func(w *tpm2.Writer) {
			w.Sized(make([]byte, 8))
			w.Sized(nil)
			w.Sized([]byte("ref"))
			w.Sized(name)
			w.Raw(ticket)
		}, s)
	case 17:
		g.on(tpm2.CCPolicySigned, 0, func(w *tpm2.Writer) { w.Sized(nil); w.Sized(nil); w.Sized(nil); w.U32(0); w.Raw(g.from(g.sigs)) }, g.object(), s)
	case 18:
		g.on(tpm2.CCPolicyAuthorize, 0, func(w *tpm2.Writer) { w.Sized(digest); w.Sized(nil); w.Sized(name); w.Raw(ticket) }, s)
	}
}

func (g *player) nvDefine() {
	h, auth := 0x01000000|tpm2.Handle(g.n(9)), g.byte()%3
	a := pick(g, ownerRW|authRW, ownerRW, authRW, tpm2.NVPPWrite|tpm2.NVPPRead|tpm2.NVPlatformCreate) | pick(g, 0, tpm2.NVOrderly, tpm2.NVClearStClear, tpm2.NVWriteAll, tpm2.NVWriteStClear|tpm2.NVReadStClear, tpm2.NVNoDA, tpm2.NVGlobalLock, tpm2.NVPolicyWrite, tpm2.NVWriteDefine)
	kind := pick(g, tpm2.NTOrdinary, tpm2.NTCounter, tpm2.NTBits, tpm2.NTExtend, tpm2.NTPinPass, tpm2.NTPinFail)
	size := uint16(8)
	if kind == tpm2.NTExtend {
		size = 32
	} else if kind == tpm2.NTOrdinary {
		size = uint16(g.n(256)) * 3
	}
	by := pick(g, tpm2.RHOwner, tpm2.RHPlatform)
	g.on(tpm2.CCNVDefineSpace, 1, func(w *tpm2.Writer) {
		w.Sized(g.passwords[auth])
		m := w.Begin()
		p := nvPublic(h, a.WithType(kind), size)
		p.Marshal(w)
		w.End(m)
	}, by)
	if n := g.p.state.nv(h); n != nil {
		for i, p := range g.passwords {
			if bytes.Equal(p, n.auth) {
				g.auths[uint32(h)] = byte(i)
			}
		}
	}
}

// nvBy is the authorization of an index: itself, owner or platform.
func (g *player) nvBy(h tpm2.Handle) tpm2.Handle { return pick(g, h, tpm2.RHOwner, tpm2.RHPlatform) }

func (g *player) nvWrite() {
	h := g.index()
	by := g.nvBy(h)
	switch g.n(5) {
	case 0, 1:
		data, at := g.data(), uint16(0)
		if g.byte() > 200 {
			at = uint16(g.byte())
		}
		if n := g.p.state.nv(h); n != nil && n.pub.DataSize == 8 {
			data = append(make([]byte, 7), g.byte())
		}
		g.on(tpm2.CCNVWrite, 1, func(w *tpm2.Writer) { w.Sized(data); w.U16(at) }, by, h)
	case 2:
		g.on(tpm2.CCNVIncrement, 1, nil, by, h)
	case 3:
		g.on(tpm2.CCNVExtend, 1, sized(string(g.data())), by, h)
	case 4:
		g.on(tpm2.CCNVSetBits, 1, func(w *tpm2.Writer) { w.U64(1 << (g.byte() & 63)) }, by, h)
	}
}

func (g *player) nvRead() {
	h := g.index()
	switch g.n(3) {
	case 0:
		g.on(tpm2.CCNVRead, 1, func(w *tpm2.Writer) { w.U16(uint16(g.byte())); w.U16(0) }, g.nvBy(h), h)
	case 1:
		if r := g.on(tpm2.CCNVReadPublic, 0, nil, h); r != nil {
			r.Sized(1024)
			keep(&g.values, r.Sized(128))
		}
	case 2:
		g.on(tpm2.CCNVCertify, 2, func(w *tpm2.Writer) { w.Sized(nil); w.Alg(tpm2.AlgNull); w.U16(8); w.U16(0) }, g.object(), g.nvBy(h), h)
	}
}

func (g *player) nvManage() {
	h := g.index()
	switch g.n(6) {
	case 0:
		g.on(tpm2.CCNVUndefineSpace, 1, nil, pick(g, tpm2.RHOwner, tpm2.RHPlatform), h)
	case 1:
		g.on(tpm2.CCNVWriteLock, 1, nil, g.nvBy(h), h)
	case 2:
		g.on(tpm2.CCNVReadLock, 1, nil, g.nvBy(h), h)
	case 3:
		g.on(tpm2.CCNVGlobalWriteLock, 1, nil, pick(g, tpm2.RHOwner, tpm2.RHPlatform))
	case 4:
		g.on(tpm2.CCNVChangeAuth, 1, sized(string(g.passwords[g.n(3)])), h)
	case 5:
		g.on(tpm2.CCNVUndefineSpaceSpecial, 2, nil, h, tpm2.RHPlatform)
	}
}

func (g *player) pcr() {
	pcr := tpm2.Handle(g.n(25))
	switch g.n(7) {
	case 0, 1:
		g.on(tpm2.CCPCRExtend, 1, func(w *tpm2.Writer) { w.U32(1); w.Alg(tpm2.AlgSHA256); w.Raw(make([]byte, 32)) }, pcr)
	case 2:
		g.on(tpm2.CCPCREvent, 1, sized(string(g.data())), pcr)
	case 3:
		g.on(tpm2.CCPCRRead, 0, func(w *tpm2.Writer) {
			tpm2.MarshalPCRSelections(w, []tpm2.PCRSelection{tpm2.SelectPCRs(tpm2.AlgSHA256, int(pcr)%24), tpm2.SelectPCRs(tpm2.AlgSHA1, 1, 2)})
		})
	case 4:
		g.on(tpm2.CCPCRReset, 1, nil, pcr)
	case 5:
		g.on(tpm2.CCPCRAllocate, 1, func(w *tpm2.Writer) {
			tpm2.MarshalPCRSelections(w, []tpm2.PCRSelection{tpm2.SelectPCRs(pick(g, tpm2.AlgSHA1, tpm2.AlgSHA384), g.n(24))})
		}, tpm2.RHPlatform)
	case 6:
		g.on(tpm2.CCPCRSetAuthValue, 1, sized("x"), pcr)
	}
}

func (g *player) sequence() {
	auth := g.byte() % 3
	switch g.n(5) {
	case 0:
		g.newObject(g.on(tpm2.CCHashSequenceStart, 0, func(w *tpm2.Writer) {
			w.Sized(g.passwords[auth])
			w.Alg(pick(g, tpm2.AlgSHA256, tpm2.AlgNull, tpm2.AlgSHA3_512))
		}), auth)
	case 1:
		g.newObject(g.on(tpm2.CCHMACStart, 1, func(w *tpm2.Writer) { w.Sized(g.passwords[auth]); w.Alg(tpm2.AlgNull) }, g.objectWhere(ofType(tpm2.AlgKeyedHash))), auth)
	case 2:
		g.on(tpm2.CCSequenceUpdate, 1, sized(string(g.data())), g.objectWhere(running))
	case 3:
		if r := g.on(tpm2.CCSequenceComplete, 1, func(w *tpm2.Writer) { w.Sized(g.data()); w.Handle(g.hierarchy()) }, g.objectWhere(running)); r != nil {
			keep(&g.values, r.Sized(64))
			keep(&g.tickets, r.Rest())
		}
	case 4:
		g.on(tpm2.CCEventSequenceComplete, 2, sized(string(g.data())), tpm2.Handle(g.n(24)), g.objectWhere(running))
	}
}

func (g *player) scheme(w *tpm2.Writer) {
	if g.byte() < 180 {
		w.Alg(tpm2.AlgNull)
		return
	}
	w.Alg(pick(g, tpm2.AlgECDSA, tpm2.AlgHMAC, tpm2.AlgECSchnorr, tpm2.AlgMLDSA))
	w.Alg(tpm2.AlgSHA256)
}

func (g *player) sign() {
	h := g.objectWhere(signer)
	digest := make([]byte, 32)
	digest[0] = g.byte() & 3
	switch g.n(4) {
	case 0:
		if r := g.on(tpm2.CCSign, 1, func(w *tpm2.Writer) { w.Sized(digest); g.scheme(w); noTicket.Marshal(w) }, h); r != nil {
			keep(&g.sigs, r.Rest())
		}
	case 1:
		if r := g.on(tpm2.CCVerifySignature, 0, func(w *tpm2.Writer) { w.Sized(digest); w.Raw(g.from(g.sigs)) }, h); r != nil {
			keep(&g.tickets, r.Rest())
		}
	case 2:
		if r := g.on(tpm2.CCSignDigest, 1, func(w *tpm2.Writer) {
			w.Sized(nil)
			w.Sized(append(digest, digest...)[:pick(g, 32, 64)])
			noTicket.Marshal(w)
		}, h); r != nil {
			keep(&g.sigs, r.Rest())
		}
	case 3:
		if r := g.on(tpm2.CCVerifyDigestSignature, 0, func(w *tpm2.Writer) { w.Sized(nil); w.Sized(digest); w.Raw(g.from(g.sigs)) }, h); r != nil {
			keep(&g.tickets, r.Rest())
		}
	}
}

func (g *player) attest() {
	null := func(w *tpm2.Writer) { w.Sized([]byte("q")); g.scheme(w) }
	switch g.n(5) {
	case 0:
		g.on(tpm2.CCQuote, 1, func(w *tpm2.Writer) {
			null(w)
			tpm2.MarshalPCRSelections(w, []tpm2.PCRSelection{tpm2.SelectPCRs(tpm2.AlgSHA256, g.n(24))})
		}, g.objectWhere(signer))
	case 1:
		g.on(tpm2.CCCertify, 2, null, g.object(), g.objectWhere(signer))
	case 2:
		g.on(tpm2.CCGetTime, 2, null, tpm2.RHEndorsement, g.objectWhere(signer))
	case 3:
		g.on(tpm2.CCGetSessionAuditDigest, 2, null, tpm2.RHEndorsement, g.objectWhere(signer), g.session())
	case 4:
		g.on(tpm2.CCGetCommandAuditDigest, 2, null, tpm2.RHEndorsement, g.objectWhere(signer))
	}
}

func (g *player) kem() {
	h := g.objectWhere(ofType(tpm2.AlgMLKEM))
	switch g.n(4) {
	case 0:
		if r := g.on(tpm2.CCEncapsulate, 0, nil, h); r != nil {
			r.Sized(64)
			keep(&g.values, r.Sized(2048))
		}
	case 1:
		g.on(tpm2.CCDecapsulate, 1, sized(string(g.from(g.values))), h)
	case 2:
		if r := g.on(tpm2.CCKEMEncrypt, 0, sized(string(g.data()), "label"), h); r != nil {
			keep(&g.values, r.Rest())
		}
	case 3:
		g.on(tpm2.CCKEMDecrypt, 1, func(w *tpm2.Writer) { w.Raw(g.from(g.values)); w.Sized([]byte("label")) }, h)
	}
}

func (g *player) hierarchies() {
	h, auth := g.hierarchy(), g.byte()%3
	switch g.n(10) {
	case 0, 1:
		if g.on(tpm2.CCHierarchyChangeAuth, 1, sized(string(g.passwords[auth])), h) != nil {
			g.auths[uint32(h)] = auth
		}
	case 2:
		if g.on(tpm2.CCClear, 1, nil, pick(g, tpm2.RHLockout, tpm2.RHPlatform)) != nil {
			delete(g.auths, uint32(tpm2.RHOwner))
			delete(g.auths, uint32(tpm2.RHEndorsement))
			delete(g.auths, uint32(tpm2.RHLockout))
		}
	case 3:
		g.on(tpm2.CCClearControl, 1, func(w *tpm2.Writer) { w.U8(g.byte() & 1) }, pick(g, tpm2.RHLockout, tpm2.RHPlatform))
	case 4:
		g.on(tpm2.CCHierarchyControl, 1, func(w *tpm2.Writer) { w.Handle(g.hierarchy()); w.U8(g.byte() & 1) }, pick(g, tpm2.RHPlatform, h))
	case 5:
		g.on(tpm2.CCSetPrimaryPolicy, 1, func(w *tpm2.Writer) { w.Sized(make([]byte, 32)); w.Alg(tpm2.AlgSHA256) }, h)
	case 6:
		g.on(pick(g, tpm2.CCChangeEPS, tpm2.CCChangePPS), 1, nil, tpm2.RHPlatform)
	case 7:
		g.on(tpm2.CCReadOnlyControl, 1, func(w *tpm2.Writer) { w.U8(g.byte() & 1) }, tpm2.RHPlatform)
	case 8:
		g.on(tpm2.CCPCRSetAuthPolicy, 1, func(w *tpm2.Writer) { w.Sized(make([]byte, 32)); w.Alg(tpm2.AlgSHA256); w.Handle(20) }, tpm2.RHPlatform)
	case 9:
		g.on(tpm2.CCPPCommands, 1, func(w *tpm2.Writer) { w.U32(1); w.U32(uint32(tpm2.CCClear)); w.U32(0) }, tpm2.RHPlatform)
	}
}

func (g *player) power() {
	switch g.n(6) {
	case 0:
		g.on(tpm2.CCShutdown, 0, func(w *tpm2.Writer) { w.U16(uint16(g.n(2))) })
	case 1:
		g.on(tpm2.CCShutdown, 0, func(w *tpm2.Writer) { w.U16(uint16(g.n(2))) })
		g.p.Init()
		g.before = nil
		g.startup()
	case 2:
		g.powerCut()
	case 3:
		g.p.HashStart()
		g.p.HashData(g.data())
		g.p.HashEnd()
		g.before = nil
	case 4:
		g.p.SetPhysicalPresence(g.bool())
	case 5:
		g.startup()
	}
	// Whatever happened, the passwords of the platform and the NULL hierarchy may be new.
	if len(g.p.state.clear.platformAuth) == 0 {
		delete(g.auths, uint32(tpm2.RHPlatform))
	}
}

func (g *player) protection() {
	switch g.n(3) {
	case 0:
		g.on(tpm2.CCDictionaryAttackLockReset, 1, nil, tpm2.RHLockout)
	case 1:
		g.on(tpm2.CCDictionaryAttackParameters, 1, func(w *tpm2.Writer) { w.U32(uint32(g.n(5))); w.U32(uint32(g.n(30))); w.U32(uint32(g.n(30))) }, tpm2.RHLockout)
	case 2: // a wrong password for what is protected
		g.raw(tpm2.CCUnseal, []tpm2.Handle{g.object()}, [][]byte{[]byte("wrong")}, nil)
	}
}

func (g *player) wholeState() { g.roundTrip() }

func (g *player) clock() {
	switch g.n(4) {
	case 0:
		g.on(tpm2.CCReadClock, 0, nil)
	case 1:
		to := g.p.state.perm.clock + uint64(g.byte())*1000
		g.on(tpm2.CCClockSet, 1, func(w *tpm2.Writer) { w.U64(to) }, pick(g, tpm2.RHOwner, tpm2.RHPlatform))
	case 2:
		g.on(tpm2.CCClockRateAdjust, 1, func(w *tpm2.Writer) { w.U8(uint8(g.n(7) - 3)) }, tpm2.RHOwner)
	case 3:
		g.now = g.now.Add(time.Duration(g.byte()) * time.Second)
		g.before = nil
	}
}

func (g *player) capability() {
	g.on(tpm2.CCGetCapability, 0, func(w *tpm2.Writer) {
		w.U32(uint32(g.n(11)))
		w.U32(pick(g, uint32(0), 0x100, 0x200, 0x80000000, 0x81000000, 0x01000000, 0x02000000, 0x03000000, 0x40000000))
		w.U32(uint32(g.byte()))
	})
}

// wild is any command with handles that live and bytes of the program.
func (g *player) wild() {
	m := g.p.table.sorted[g.n(len(g.p.table.sorted))]
	var handles []tpm2.Handle
	for range m.slots {
		handles = append(handles, pick(g, g.object(), g.session(), g.index(), g.hierarchy(), tpm2.Handle(g.n(24))))
	}
	data := g.data()
	if g.bool() {
		data = append(append([]byte{0, byte(len(data))}, data...), g.from(g.values)...)
	}
	g.on(m.code, m.authHandles(), func(w *tpm2.Writer) { w.Raw(data) }, handles...)
}

func (g *player) use() {
	h := g.objectWhere(ofType(tpm2.AlgKeyedHash))
	switch g.n(4) {
	case 0:
		g.on(tpm2.CCUnseal, 1, nil, h)
	case 1:
		if r := g.on(tpm2.CCReadPublic, 0, nil, h); r != nil {
			r.Sized(4096)
			keep(&g.values, r.Sized(128))
		}
	case 2:
		auth := g.byte() % 3
		b := g.blob()
		if r := g.on(tpm2.CCObjectChangeAuth, 1, sized(string(g.passwords[auth])), h, g.objectWhere(parent)); r != nil {
			g.addBlob(r.Sized(4096), b.public, auth)
		}
	case 3:
		g.on(tpm2.CCHMAC, 1, func(w *tpm2.Writer) { w.Sized(g.data()); w.Alg(tpm2.AlgSHA256) }, h)
	}
}

// move is duplication, import and rewrapping. Duplicate wants a policy; a
// ready session may be chosen by raw.
func (g *player) move() {
	b := g.blob()
	switch g.n(3) {
	case 0:
		g.on(tpm2.CCDuplicate, 1, func(w *tpm2.Writer) { w.Sized(nil); w.Alg(tpm2.AlgNull) }, g.object(), pick(g, tpm2.RHNull, g.object()))
	case 1:
		if r := g.on(tpm2.CCImport, 1, func(w *tpm2.Writer) {
			w.Sized(nil)
			w.Sized(b.public)
			w.Sized(b.private)
			w.Sized(g.from(g.values))
			w.Alg(tpm2.AlgNull)
		}, g.objectWhere(parent)); r != nil {
			g.addBlob(r.Sized(4096), b.public, b.auth)
		}
	case 2:
		g.on(tpm2.CCRewrap, 1, func(w *tpm2.Writer) { w.Sized(b.private); w.Sized(g.from(g.values)); w.Sized(g.from(g.values)) }, g.object(), pick(g, tpm2.RHNull, g.object()))
	}
}

func (g *player) credential() {
	if g.bool() {
		o, k := g.object(), g.objectWhere(parent)
		var name []byte
		if x := g.p.state.object(o); x != nil {
			name = x.name
		}
		if r := g.on(tpm2.CCMakeCredential, 0, sized("secret", string(name)), k); r != nil {
			all := bytes.Clone(r.Rest())
			g.on(tpm2.CCActivateCredential, 2, func(w *tpm2.Writer) { w.Raw(all) }, o, k)
		}
		return
	}
	g.on(tpm2.CCActivateCredential, 2, sized(string(g.from(g.values)), string(g.from(g.values))), g.object(), g.object())
}

// rotate plays the random oblivious transfer, whose states live in slots.
func (g *player) rotate() {
	switch g.n(4) {
	case 0:
		if r := g.on(tpm2.CCROTMsg1, 0, func(w *tpm2.Writer) { w.U16(13313); w.U32(7) }); r != nil {
			r.Handle()
			g.rot[0] = bytes.Clone(r.Rest())
		}
	case 1:
		if r := g.on(tpm2.CCROTMsg2, 0, func(w *tpm2.Writer) { w.U16(13313); w.Raw(g.rot[0]) }); r != nil {
			r.Handle()
			g.rot[1] = bytes.Clone(r.Rest())
		}
	case 2:
		if r := g.on(tpm2.CCROTMsg3, 0, func(w *tpm2.Writer) { w.Raw(g.rot[1]) }, g.objectWhere(running)); r != nil {
			g.rot[2] = bytes.Clone(r.Rest())
		}
	case 3:
		g.on(tpm2.CCROTMsg4, 0, func(w *tpm2.Writer) { w.Raw(g.rot[2]) }, g.objectWhere(running))
	}
}

func (g *player) symmetric() {
	decrypt := g.byte() & 1
	iv, data := make([]byte, 16), g.data()
	if g.bool() {
		g.on(tpm2.CCEncryptDecrypt2, 1, func(w *tpm2.Writer) { w.Sized(data); w.U8(decrypt); w.Alg(tpm2.AlgNull); w.Sized(iv) }, g.objectWhere(ofType(tpm2.AlgSymCipher)))
		return
	}
	g.on(tpm2.CCEncryptDecrypt, 1, func(w *tpm2.Writer) {
		w.U8(decrypt)
		w.Alg(pick(g, tpm2.AlgNull, tpm2.AlgCFB, tpm2.AlgCBC))
		w.Sized(iv)
		w.Sized(data)
	}, g.object())
}

func (g *player) ecc() {
	h := g.objectWhere(func(o *object) bool { return o.seq == nil && o.pub.Type == tpm2.AlgECC && decrypts(o) })
	p := []byte{0, 0, 0, 0}
	if x := g.p.state.object(g.object()); x != nil && x.pub.Type == tpm2.AlgECC {
		var w tpm2.Writer
		x.pub.Point.Marshal(&w)
		p = w.Bytes()
	}
	whole := func(w *tpm2.Writer) { m := w.Begin(); w.Raw(p); w.End(m) }
	switch g.n(8) {
	case 0:
		g.on(tpm2.CCECDHKeyGen, 0, nil, h)
	case 1:
		g.on(tpm2.CCECDHZGen, 1, whole, h)
	case 2:
		g.on(tpm2.CCECEphemeral, 0, func(w *tpm2.Writer) { w.U16(uint16(tpm2.CurveP256)) })
	case 3:
		g.on(tpm2.CCCommit, 1, func(w *tpm2.Writer) { w.Sized(nil); w.Sized(nil); w.Sized(nil) }, h)
	case 4:
		g.on(tpm2.CCZGen2Phase, 1, func(w *tpm2.Writer) { whole(w); whole(w); w.Alg(tpm2.AlgECDH); w.U16(uint16(g.n(4))) }, h)
	case 5:
		g.on(tpm2.CCECCParameters, 0, func(w *tpm2.Writer) { w.U16(uint16(g.n(7))) })
	case 6:
		if r := g.on(tpm2.CCECCEncrypt, 0, func(w *tpm2.Writer) { w.Sized(g.data()); w.Alg(tpm2.AlgKDF2); w.Alg(tpm2.AlgSHA256) }, h); r != nil {
			keep(&g.values, r.Rest())
		}
	case 7:
		g.on(tpm2.CCECCDecrypt, 1, func(w *tpm2.Writer) { w.Raw(g.from(g.values)); w.Alg(tpm2.AlgKDF2); w.Alg(tpm2.AlgSHA256) }, h)
	}
}

func (g *player) audit() {
	g.on(tpm2.CCSetCommandCodeAuditStatus, 1, func(w *tpm2.Writer) {
		w.Alg(tpm2.AlgNull)
		w.U32(1)
		w.U32(uint32(pick(g, tpm2.CCNVWrite, tpm2.CCPCRExtend, tpm2.CCGetRandom)))
		w.U32(0)
	}, pick(g, tpm2.RHOwner, tpm2.RHPlatform))
}

func (g *player) misc() {
	switch g.n(7) {
	case 0:
		g.on(tpm2.CCGetRandom, 0, func(w *tpm2.Writer) { w.U16(uint16(g.byte())) })
	case 1:
		g.on(tpm2.CCStirRandom, 0, sized("x"))
	case 2:
		if r := g.on(tpm2.CCHash, 0, func(w *tpm2.Writer) { w.Sized(g.data()); w.Alg(tpm2.AlgSHA256); w.Handle(g.hierarchy()) }); r != nil {
			keep(&g.values, r.Sized(64))
			keep(&g.tickets, r.Rest())
		}
	case 3:
		g.on(tpm2.CCSelfTest, 0, func(w *tpm2.Writer) { w.U8(g.byte() & 1) })
	case 4:
		g.on(tpm2.CCIncrementalSelfTest, 0, func(w *tpm2.Writer) { w.U32(1); w.Alg(tpm2.AlgSHA256) })
	case 5:
		g.on(tpm2.CCGetTestResult, 0, nil)
	case 6:
		g.on(tpm2.CCTestParms, 0, func(w *tpm2.Writer) { w.Alg(tpm2.AlgMLKEM); w.Alg(tpm2.AlgNull); w.U16(uint16(g.n(5))) })
	}
}

func (g *player) pqcSequence() {
	auth := g.byte() % 3
	start := func(w *tpm2.Writer) { w.Sized(g.passwords[auth]); w.Sized(nil) }
	switch g.n(5) {
	case 0:
		g.newObject(g.on(tpm2.CCSignSequenceStart, 0, start, g.objectWhere(signer)), auth)
	case 1:
		g.newObject(g.on(tpm2.CCVerifySequenceStart, 0, func(w *tpm2.Writer) { w.Sized(g.passwords[auth]); w.Sized(nil); w.Sized(nil) }, g.objectWhere(signer)), auth)
	case 2:
		g.on(tpm2.CCSequenceUpdate, 1, sized(string(g.data())), g.objectWhere(running))
	case 3:
		if r := g.on(tpm2.CCSignSequenceComplete, 2, sized(string(g.data())), g.objectWhere(running), g.objectWhere(signer)); r != nil {
			keep(&g.sigs, r.Rest())
		}
	case 4:
		if r := g.on(tpm2.CCVerifySequenceComplete, 1, func(w *tpm2.Writer) { w.Raw(g.from(g.sigs)) }, g.objectWhere(running), g.objectWhere(signer)); r != nil {
			keep(&g.tickets, r.Rest())
		}
	}
}
