// SPDX-License-Identifier: Apache-2.0

//go:build linux

package tpmdiff

import (
	"holdfast/tpm2"
)

// maker makes steps with one command.
type maker struct {
	cc     tpm2.CC
	weight int
	make   func(g *gen, s *step)
}

// Of the makers: the sum of their weights, and their commands.
var (
	totalWeight int
	commands    []tpm2.CC
)

func init() {
	for _, m := range makers {
		totalWeight += m.weight
		if m.cc != powerCycle {
			commands = append(commands, m.cc)
		}
	}
}

// on adds handles that need no authorization.
func (s *step) on(h ...handle) *step { s.handles = append(s.handles, h...); return s }

// by adds a handle and its authorization.
func (s *step) by(g *gen, h handle, value string) *step {
	s.handles = append(s.handles, h)
	s.auth = append(s.auth, g.authFor(value))
	return s
}

func (s *step) byObject(g *gen, o object) *step { return s.by(g, o.h, o.auth) }
func (s *step) byPermanent(g *gen, h handle) *step {
	return s.by(g, h, g.auths[h.value])
}

func (s *step) add(p ...param) *step { s.params = append(s.params, p...); return s }

func (s *step) raw(f func(w *tpm2.Writer)) *step { return s.add(lit(f)) }

// onIndex adds the two handles of an NV command: who authorizes, and the index.
func (s *step) onIndex(g *gen) index {
	x := g.index()
	switch g.Intn(4) {
	case 0:
		s.byPermanent(g, g.provision())
	case 1:
		s.by(g, fixed(pick(g, []tpm2.Handle{tpm2.RHOwner, tpm2.RHPlatform, x.h, pick(g, nvHandles)})), "")
	default:
		s.by(g, fixed(x.h), x.auth)
	}
	s.on(fixed(x.h))
	return x
}

var makers = []maker{
	{powerCycle, 2, func(g *gen, s *step) {}},
	{tpm2.CCStartup, 3, func(g *gen, s *step) {
		s.raw(func(w *tpm2.Writer) { w.U16(pick(g, []uint16{0, 0, 1, 1, 2})) })
	}},
	{tpm2.CCShutdown, 2, func(g *gen, s *step) {
		s.raw(func(w *tpm2.Writer) { w.U16(pick(g, []uint16{0, 1, 1, 2})) })
	}},
	{tpm2.CCSelfTest, 1, func(g *gen, s *step) { s.raw(func(w *tpm2.Writer) { w.U8(uint8(g.Intn(3))) }) }},
	{tpm2.CCIncrementalSelfTest, 1, func(g *gen, s *step) {
		s.raw(func(w *tpm2.Writer) { w.U32(1); w.Alg(g.alg()) })
	}},
	{tpm2.CCGetTestResult, 1, func(g *gen, s *step) {}},
	{tpm2.CCStartAuthSession, 30, func(g *gen, s *step) {
		key, salt := fixed(tpm2.RHNull), g.some(30, nil, 32)
		switch o := g.saltKey(); {
		case g.one(20):
			key = g.anyObj().h
		case o != nil && !g.one(3):
			key = o.h
			s.salt, salt = o.salt()
		}
		bind := fixed(tpm2.RHNull)
		switch o := g.anyObj(); {
		case g.one(12):
			bind = g.hierarchy()
			s.bindAuth = g.auths[bind.value]
		case o.h.step != 0 && !o.public && g.one(12):
			bind, s.bindAuth = o.h, o.auth
		case len(g.nv) > 0 && g.one(20):
			x := g.index()
			bind, s.bindAuth = fixed(x.h), x.auth
		}
		s.on(key, bind)
		hash := g.goodHash()
		if g.one(20) {
			hash = g.hash()
		}
		nonce := make([]byte, 16)
		s.add(sized(g.some(15, nonce, 64)), sized(salt))
		s.raw(func(w *tpm2.Writer) { w.U8(pick(g, []uint8{0, 0, 1, 1, 1, 3, 2})) })
		s.raw(func(w *tpm2.Writer) { g.symDef(w, true) })
		s.raw(func(w *tpm2.Writer) { w.Alg(hash) })
	}},
	{tpm2.CCPolicyRestart, 4, func(g *gen, s *step) { s.on(g.policySession()) }},
	{tpm2.CCCreate, 30, func(g *gen, s *step) {
		k := kind(g.Intn(int(aesKey) + 1))
		s.byObject(g, g.parent())
		s.add(g.sensitive(k, g.newAuth()), sized(g.template(k)), sized(g.data(64)), g.selection())
	}},
	{tpm2.CCCreatePrimary, 35, func(g *gen, s *step) {
		k := eccStorage
		switch {
		case g.one(200): // costs swtpm most of a second
			k = rsaSign + kind(g.Intn(3))
		case g.one(2):
			k = kind(g.Intn(int(aesKey) + 1))
		}
		s.byPermanent(g, g.hierarchy())
		s.add(g.sensitive(k, g.newAuth()), sized(g.template(k)), sized(g.data(64)), g.selection())
	}},
	{tpm2.CCCreateLoaded, 10, func(g *gen, s *step) {
		k := kind(g.Intn(int(aesKey) + 1))
		if g.one(2) {
			s.byPermanent(g, g.hierarchy())
		} else {
			s.byObject(g, g.anyObj())
		}
		s.add(g.sensitive(k, g.newAuth()), sized(g.template(k)))
	}},
	{tpm2.CCLoad, 25, func(g *gen, s *step) {
		if len(g.blobs) == 0 {
			s.byObject(g, g.parent()).add(sized(g.data(100)), sized(g.template(eccSign)))
			return
		}
		b := pick(g, g.blobs)
		p := g.parent()
		if !g.one(6) {
			for _, o := range g.objects {
				if o.h == b.parent {
					p = o
				}
			}
		}
		s.byObject(g, p).add(param{b.private}, param{b.public})
	}},
	{tpm2.CCLoadExternal, 25, func(g *gen, s *step) {
		k := kind(g.Intn(int(kinds)))
		sens, area := g.external(k, g.one(4))
		s.add(sized(sens), sized(area))
		s.raw(func(w *tpm2.Writer) {
			w.Handle(pick(g, []tpm2.Handle{tpm2.RHNull, tpm2.RHNull, tpm2.RHNull, tpm2.RHOwner, tpm2.RHPlatform, tpm2.RHLockout}))
		})
	}},
	{tpm2.CCReadPublic, 6, func(g *gen, s *step) { s.on(g.anyObj().h) }},
	{tpm2.CCActivateCredential, 6, func(g *gen, s *step) {
		if len(g.creds) == 0 {
			s.byObject(g, g.anyObj()).byObject(g, g.parent()).add(sized(g.data(50)), sized(g.data(80)))
			return
		}
		c := pick(g, g.creds)
		s.byObject(g, g.anyObj()).byObject(g, c.key).add(field1(c.step, "blob"), field1(c.step, "secret"))
	}},
	{tpm2.CCMakeCredential, 6, func(g *gen, s *step) {
		s.on(g.parent().h).add(sized(g.some(5, []byte("secret"), 64)))
		if o := g.anyObj(); o.made != 0 && !g.one(3) {
			s.add(field1(o.made, "name"))
		} else {
			s.add(sized(g.some(3, append([]byte{0, 11}, g.digest()...), 66)))
		}
	}},
	{tpm2.CCUnseal, 8, func(g *gen, s *step) {
		s.byObject(g, g.obj(func(o object) bool { return o.kind == sealed }))
	}},
	{tpm2.CCObjectChangeAuth, 5, func(g *gen, s *step) {
		s.byObject(g, g.anyObj()).on(g.parent().h).add(sized([]byte(g.newAuth())))
	}},
	{tpm2.CCDuplicate, 8, func(g *gen, s *step) {
		p := g.parent().h
		if g.one(3) {
			p = fixed(tpm2.RHNull)
		}
		s.byObject(g, g.anyObj()).on(p).add(sized(g.some(6, nil, 16)))
		s.raw(func(w *tpm2.Writer) { g.symDef(w, false) })
	}},
	{tpm2.CCRewrap, 4, func(g *gen, s *step) {
		s.byObject(g, g.parent()).on(pick(g, []handle{g.parent().h, fixed(tpm2.RHNull)}))
		if len(g.copies) > 0 {
			c := pick(g, g.copies)
			s.add(field1(c.step, "duplicate"))
			s.add(sized(append([]byte{0, 11}, g.digest()...)), field1(c.step, "seed"))
			return
		}
		s.add(sized(g.data(64)), sized(g.data(34)), sized(g.data(64)))
	}},
	{tpm2.CCImport, 8, func(g *gen, s *step) {
		s.byObject(g, g.parent())
		if len(g.copies) > 0 && !g.one(4) {
			c := pick(g, g.copies)
			s.add(field1(c.step, "encryptionKey"), param{c.blob.public}, field1(c.step, "duplicate"), field1(c.step, "seed"))
		} else { // in the clear: no outer and no inner wrapper
			k := kind(g.Intn(int(kinds)))
			sens, area := g.external(k, false)
			inner := tpm2.NewWriter(nil)
			inner.Sized(sens)
			s.add(sized(nil), sized(area), sized(inner.Bytes()), sized(nil))
		}
		s.raw(func(w *tpm2.Writer) {
			if g.one(4) {
				g.symDef(w, false)
			} else {
				w.Alg(tpm2.AlgNull)
			}
		})
	}},
	{tpm2.CCRSAEncrypt, 6, func(g *gen, s *step) {
		s.on(g.obj(func(o object) bool { return o.kind >= rsaSign }).h).add(sized(g.data(256)), g.rsaScheme(), sized(g.some(4, nil, 10)))
	}},
	{tpm2.CCRSADecrypt, 6, func(g *gen, s *step) {
		s.byObject(g, g.obj(func(o object) bool { return o.kind >= rsaSign })).add(sized(g.data(256)), g.rsaScheme(), sized(g.some(4, nil, 10)))
	}},
	{tpm2.CCECDHKeyGen, 4, func(g *gen, s *step) { s.on(g.obj(func(o object) bool { return o.kind <= eccBoth }).h) }},
	{tpm2.CCECDHZGen, 6, func(g *gen, s *step) {
		s.byObject(g, g.obj(func(o object) bool { return o.kind == eccDecrypt || o.kind == eccBoth })).add(g.point())
	}},
	{tpm2.CCECCParameters, 2, func(g *gen, s *step) { s.raw(func(w *tpm2.Writer) { w.U16(pick(g, []uint16{3, 4, 0, 6})) }) }},
	{tpm2.CCZGen2Phase, 3, func(g *gen, s *step) {
		s.byObject(g, g.obj(func(o object) bool { return o.kind == eccDecrypt })).add(g.point(), g.point())
		s.raw(func(w *tpm2.Writer) {
			w.Alg(pick(g, []tpm2.Alg{tpm2.AlgECDH, tpm2.AlgECDH, tpm2.AlgECDAA, tpm2.AlgNull}))
			w.U16(uint16(g.Intn(3)))
		})
	}},
	{tpm2.CCECEphemeral, 2, func(g *gen, s *step) {
		s.raw(func(w *tpm2.Writer) { w.U16(pick(g, []uint16{3, 3, 4, 0, 9})) })
	}},
	{tpm2.CCCommit, 3, func(g *gen, s *step) {
		s.byObject(g, g.signer()).add(pick(g, []param{g.point(), sized(nil)}), sized(g.some(3, nil, 32)), sized(g.some(3, nil, 32)))
	}},
	{tpm2.CCEncryptDecrypt, 6, func(g *gen, s *step) {
		s.byObject(g, g.obj(func(o object) bool { return o.kind == aesKey }))
		s.raw(func(w *tpm2.Writer) { w.U8(uint8(g.Intn(2))) })
		s.raw(func(w *tpm2.Writer) { w.Alg(g.mode()) })
		s.add(sized(g.some(4, make([]byte, 16), 20)), sized(g.data(1024)))
	}},
	{tpm2.CCEncryptDecrypt2, 6, func(g *gen, s *step) {
		s.byObject(g, g.obj(func(o object) bool { return o.kind == aesKey })).add(sized(g.data(1024)))
		s.raw(func(w *tpm2.Writer) { w.U8(uint8(g.Intn(2))) })
		s.raw(func(w *tpm2.Writer) { w.Alg(g.mode()) })
		s.add(sized(g.some(4, make([]byte, 16), 20)))
	}},
	{tpm2.CCHash, 6, func(g *gen, s *step) {
		s.add(sized(g.data(1025)))
		s.raw(func(w *tpm2.Writer) { w.Alg(g.hash()) })
		s.raw(func(w *tpm2.Writer) { w.Handle(g.hierarchy().value) })
	}},
	{tpm2.CCHMAC, 6, func(g *gen, s *step) {
		s.byObject(g, g.obj(func(o object) bool { return o.kind == hmacKey })).add(sized(g.data(1025)))
		s.raw(func(w *tpm2.Writer) { w.Alg(g.hash()) })
	}},
	{tpm2.CCGetRandom, 2, func(g *gen, s *step) {
		s.raw(func(w *tpm2.Writer) { w.U16(pick(g, []uint16{0, 1, 32, 64, 65, 65535})) })
	}},
	{tpm2.CCStirRandom, 1, func(g *gen, s *step) { s.add(sized(g.data(129))) }},
	{tpm2.CCHMACStart, 4, func(g *gen, s *step) {
		s.byObject(g, g.obj(func(o object) bool { return o.kind == hmacKey })).add(sized([]byte(g.newAuth())))
		s.raw(func(w *tpm2.Writer) { w.Alg(g.hash()) })
	}},
	{tpm2.CCHashSequenceStart, 6, func(g *gen, s *step) {
		s.add(sized([]byte(g.newAuth())))
		s.raw(func(w *tpm2.Writer) { w.Alg(g.hash()) })
	}},
	{tpm2.CCSequenceUpdate, 8, func(g *gen, s *step) {
		q := g.sequence()
		s.by(g, q.h, q.auth).add(sized(g.data(1025)))
	}},
	{tpm2.CCSequenceComplete, 6, func(g *gen, s *step) {
		q := g.sequence()
		s.by(g, q.h, q.auth).add(sized(g.data(1025)))
		s.raw(func(w *tpm2.Writer) { w.Handle(g.hierarchy().value) })
	}},
	{tpm2.CCEventSequenceComplete, 3, func(g *gen, s *step) {
		p := pick(g, []handle{g.pcr(), fixed(tpm2.RHNull)})
		q := g.sequence()
		s.byPermanent(g, p).by(g, q.h, q.auth).add(sized(g.data(1025)))
	}},
	{tpm2.CCCertify, 6, func(g *gen, s *step) {
		k := g.signerOrNull()
		s.byObject(g, g.anyObj()).byObject(g, k).add(sized(g.data(66)), g.sigScheme(k.kind))
	}},
	{tpm2.CCCertifyCreation, 5, func(g *gen, s *step) {
		k := g.signerOrNull()
		s.byObject(g, k)
		if len(g.created) == 0 {
			s.on(g.anyObj().h).add(sized(g.data(66)), sized(g.digest()), g.sigScheme(k.kind), g.nullTicket(tpm2.STCreation))
			return
		}
		c := pick(g, g.created)
		h := g.anyObj().h
		if !g.one(3) {
			h = from(c)
		}
		s.on(h).add(sized(g.data(66)), field1(c, "creationHash"), g.sigScheme(k.kind), field1(c, "creationTicket"))
	}},
	{tpm2.CCQuote, 6, func(g *gen, s *step) {
		k := g.signerOrNull()
		s.byObject(g, k).add(sized(g.data(66)), g.sigScheme(k.kind), g.selection())
	}},
	{tpm2.CCGetSessionAuditDigest, 3, func(g *gen, s *step) {
		k := g.signerOrNull()
		a := fixed(0x02000000)
		if x, ok := g.session(g.one(4)); ok {
			a = from(x.step)
		}
		s.byPermanent(g, fixed(tpm2.RHEndorsement)).byObject(g, k).on(a).add(sized(g.data(66)), g.sigScheme(k.kind))
	}},
	{tpm2.CCGetCommandAuditDigest, 2, func(g *gen, s *step) {
		k := g.signerOrNull()
		s.byPermanent(g, fixed(tpm2.RHEndorsement)).byObject(g, k).add(sized(g.data(66)), g.sigScheme(k.kind))
	}},
	{tpm2.CCGetTime, 4, func(g *gen, s *step) {
		k := g.signerOrNull()
		s.byPermanent(g, fixed(tpm2.RHEndorsement)).byObject(g, k).add(sized(g.data(66)), g.sigScheme(k.kind))
	}},
	{tpm2.CCVerifySignature, 8, func(g *gen, s *step) {
		if len(g.signed) > 0 && !g.one(4) {
			x := pick(g, g.signed)
			k := x.key.h
			if g.one(6) {
				k = g.anyObj().h
			}
			s.on(k).add(sized(g.some(8, x.digest, 32)), param{x.piece})
			return
		}
		s.on(g.signer().h).add(sized(g.digest()), g.junkSignature())
	}},
	{tpm2.CCSign, 14, func(g *gen, s *step) {
		k := g.signer()
		s.byObject(g, k).add(sized(g.digest()), g.sigScheme(k.kind))
		t, digest := g.ticketOr(tpm2.STHashcheck, tpm2.CCHash, tpm2.CCSequenceComplete)
		if digest != nil {
			s.params[0] = digest
		}
		s.add(t)
	}},
	{tpm2.CCSetCommandCodeAuditStatus, 2, func(g *gen, s *step) {
		s.byPermanent(g, g.provision())
		s.raw(func(w *tpm2.Writer) { w.Alg(g.hash()) })
		list := func(w *tpm2.Writer) {
			n := g.Intn(3)
			w.U32(uint32(n))
			for range n {
				w.U32(uint32(g.code()))
			}
		}
		s.raw(list).raw(list)
	}},
	{tpm2.CCPCRExtend, 6, func(g *gen, s *step) {
		s.byPermanent(g, g.pcr())
		s.raw(func(w *tpm2.Writer) {
			n := g.Intn(3)
			w.U32(uint32(n))
			for range n {
				a := pick(g, []tpm2.Alg{tpm2.AlgSHA256, tpm2.AlgSHA256, tpm2.AlgSHA1, tpm2.AlgSHA384, tpm2.AlgNull, 0x07})
				w.Alg(a)
				w.Raw(make([]byte, max(a.DigestSize(), 0)))
			}
		})
	}},
	{tpm2.CCPCREvent, 3, func(g *gen, s *step) { s.byPermanent(g, g.pcr()).add(sized(g.data(1025))) }},
	{tpm2.CCPCRRead, 6, func(g *gen, s *step) { s.add(g.selection()) }},
	{tpm2.CCPCRAllocate, 1, func(g *gen, s *step) { s.byPermanent(g, fixed(tpm2.RHPlatform)).add(g.selection()) }},
	{tpm2.CCPCRSetAuthPolicy, 1, func(g *gen, s *step) {
		s.byPermanent(g, fixed(tpm2.RHPlatform)).add(sized(g.policy()))
		s.raw(func(w *tpm2.Writer) { w.Alg(g.hash()) })
		s.raw(func(w *tpm2.Writer) { w.Handle(g.pcr().value) })
	}},
	{tpm2.CCPCRSetAuthValue, 1, func(g *gen, s *step) { s.byPermanent(g, g.pcr()).add(sized([]byte(g.newAuth()))) }},
	{tpm2.CCPCRReset, 3, func(g *gen, s *step) { s.byPermanent(g, g.pcr()) }},
	{tpm2.CCPolicySigned, 6, func(g *gen, s *step) {
		s.on(g.signer().h, g.policySession())
		s.add(sized(g.some(4, nil, 32)), sized(g.some(6, nil, 32)), sized(g.some(4, nil, 32)))
		s.raw(func(w *tpm2.Writer) { w.U32(pick(g, []uint32{0, 0, 100, 0x80000001, 0xFFFFFFF0})) })
		if len(g.signed) > 0 && g.one(2) {
			s.add(param{pick(g, g.signed).piece})
		} else {
			s.add(g.junkSignature())
		}
	}},
	{tpm2.CCPolicySecret, 10, func(g *gen, s *step) {
		if g.one(3) {
			s.byObject(g, g.anyObj())
		} else if x := g.index(); g.one(3) {
			s.by(g, fixed(x.h), x.auth)
		} else {
			s.byPermanent(g, fixed(pick(g, []tpm2.Handle{tpm2.RHEndorsement, tpm2.RHOwner, tpm2.RHPlatform, tpm2.RHLockout, 16, tpm2.RHNull})))
		}
		s.on(g.policySession())
		s.add(sized(g.some(4, nil, 32)), sized(g.some(6, nil, 32)), sized(g.some(4, nil, 32)))
		s.raw(func(w *tpm2.Writer) { w.U32(pick(g, []uint32{0, 0, 100, 0xFFFFFFF0})) })
	}},
	{tpm2.CCPolicyTicket, 4, func(g *gen, s *step) {
		s.on(g.policySession())
		for _, t := range g.tickets {
			if (t.of == tpm2.CCPolicySecret || t.of == tpm2.CCPolicySigned) && !g.one(4) {
				s.add(field1(t.piece.step, "timeout"), sized(nil), sized(nil), sized(tpm2.HandleName(tpm2.RHEndorsement)), param{t.piece})
				return
			}
		}
		s.add(sized(g.data(8)), sized(g.some(4, nil, 32)), sized(nil), sized(g.some(2, tpm2.HandleName(tpm2.RHOwner), 34)), g.nullTicket(tpm2.STAuthSecret))
	}},
	{tpm2.CCPolicyOR, 6, func(g *gen, s *step) {
		s.on(g.policySession())
		if len(g.policies) > 0 && g.one(2) {
			n := 2 + g.Intn(2)
			p := param{{bytes: []byte{0, 0, 0, byte(n)}}}
			for range n {
				p = append(p, piece{step: pick(g, g.policies), field: "policyDigest"})
			}
			s.add(p)
			return
		}
		s.raw(func(w *tpm2.Writer) {
			n := g.Intn(10)
			w.U32(uint32(n))
			for range n {
				w.Sized(g.some(8, make([]byte, 32), 64))
			}
		})
	}},
	{tpm2.CCPolicyPCR, 6, func(g *gen, s *step) {
		s.on(g.policySession()).add(sized(g.some(3, nil, 32)), g.selection())
	}},
	{tpm2.CCPolicyLocality, 4, func(g *gen, s *step) {
		s.on(g.policySession()).raw(func(w *tpm2.Writer) { w.U8(uint8(pick(g, []int{0, 1, 2, 3, 8, 16, 31, 32, 33, 255}))) })
	}},
	{tpm2.CCPolicyNV, 6, func(g *gen, s *step) {
		s.onIndex(g)
		s.on(g.policySession()).raw(g.operand)
	}},
	{tpm2.CCPolicyCounterTimer, 4, func(g *gen, s *step) { s.on(g.policySession()).raw(g.operand) }},
	{tpm2.CCPolicyCommandCode, 8, func(g *gen, s *step) {
		s.on(g.policySession()).raw(func(w *tpm2.Writer) { w.U32(uint32(g.code())) })
	}},
	{tpm2.CCPolicyPhysicalPresence, 2, func(g *gen, s *step) { s.on(g.policySession()) }},
	{tpm2.CCPolicyCpHash, 3, func(g *gen, s *step) { s.on(g.policySession()).add(sized(g.digest())) }},
	{tpm2.CCPolicyNameHash, 3, func(g *gen, s *step) { s.on(g.policySession()).add(sized(g.digest())) }},
	{tpm2.CCPolicyDuplicationSelect, 3, func(g *gen, s *step) {
		s.on(g.policySession()).add(sized(g.some(3, nil, 66)), sized(g.data(34)))
		s.raw(func(w *tpm2.Writer) { w.U8(uint8(g.Intn(3))) })
	}},
	{tpm2.CCPolicyAuthorize, 3, func(g *gen, s *step) {
		s.on(g.policySession())
		if len(g.policies) > 0 && g.one(2) {
			s.add(field1(pick(g, g.policies), "policyDigest"))
		} else {
			s.add(sized(g.some(3, make([]byte, 32), 64)))
		}
		s.add(sized(nil), sized(g.some(2, append([]byte{0, 11}, g.digest()...), 66)))
		t, _ := g.ticketOr(tpm2.STVerified, tpm2.CCVerifySignature)
		s.add(t)
	}},
	{tpm2.CCPolicyAuthValue, 6, func(g *gen, s *step) { s.on(g.policySession()) }},
	{tpm2.CCPolicyPassword, 6, func(g *gen, s *step) { s.on(g.policySession()) }},
	{tpm2.CCPolicyGetDigest, 8, func(g *gen, s *step) { s.on(g.policySession()) }},
	{tpm2.CCPolicyNvWritten, 3, func(g *gen, s *step) {
		s.on(g.policySession()).raw(func(w *tpm2.Writer) { w.U8(uint8(g.Intn(3))) })
	}},
	{tpm2.CCPolicyTemplate, 3, func(g *gen, s *step) { s.on(g.policySession()).add(sized(g.digest())) }},
	{tpm2.CCPolicyAuthorizeNV, 3, func(g *gen, s *step) { s.onIndex(g); s.on(g.policySession()) }},
	{tpm2.CCHierarchyControl, 2, func(g *gen, s *step) {
		s.byPermanent(g, g.hierarchy())
		s.raw(func(w *tpm2.Writer) { w.Handle(pick(g, append(oddHandles[12:22], tpm2.RHOwner, tpm2.RHPlatformNV))) })
		s.raw(func(w *tpm2.Writer) { w.U8(uint8(g.Intn(2))) })
	}},
	{tpm2.CCSetPrimaryPolicy, 3, func(g *gen, s *step) {
		s.byPermanent(g, fixed(pick(g, []tpm2.Handle{tpm2.RHOwner, tpm2.RHEndorsement, tpm2.RHPlatform, tpm2.RHLockout}))).add(sized(g.policy()))
		s.raw(func(w *tpm2.Writer) {
			w.Alg(pick(g, []tpm2.Alg{tpm2.AlgSHA256, tpm2.AlgSHA256, tpm2.AlgNull, g.hash()}))
		})
	}},
	{tpm2.CCChangePPS, 1, func(g *gen, s *step) { s.byPermanent(g, fixed(tpm2.RHPlatform)) }},
	{tpm2.CCChangeEPS, 1, func(g *gen, s *step) { s.byPermanent(g, fixed(tpm2.RHPlatform)) }},
	{tpm2.CCClear, 2, func(g *gen, s *step) {
		s.byPermanent(g, fixed(pick(g, []tpm2.Handle{tpm2.RHLockout, tpm2.RHPlatform})))
	}},
	{tpm2.CCClearControl, 2, func(g *gen, s *step) {
		s.byPermanent(g, fixed(pick(g, []tpm2.Handle{tpm2.RHLockout, tpm2.RHPlatform}))).raw(func(w *tpm2.Writer) { w.U8(uint8(g.Intn(3))) })
	}},
	{tpm2.CCHierarchyChangeAuth, 4, func(g *gen, s *step) {
		s.byPermanent(g, fixed(pick(g, []tpm2.Handle{tpm2.RHOwner, tpm2.RHEndorsement, tpm2.RHPlatform, tpm2.RHLockout}))).add(sized(g.some(10, []byte(g.newAuth()), 64)))
	}},
	{tpm2.CCDictionaryAttackLockReset, 2, func(g *gen, s *step) { s.byPermanent(g, fixed(tpm2.RHLockout)) }},
	{tpm2.CCDictionaryAttackParameters, 2, func(g *gen, s *step) {
		s.byPermanent(g, fixed(tpm2.RHLockout)).raw(func(w *tpm2.Writer) { w.U32(uint32(g.Intn(20))); w.U32(1000); w.U32(1000) })
	}},
	{tpm2.CCPPCommands, 1, func(g *gen, s *step) {
		s.byPermanent(g, fixed(tpm2.RHPlatform))
		s.raw(func(w *tpm2.Writer) { w.U32(1); w.U32(uint32(g.code())) }).raw(func(w *tpm2.Writer) { w.U32(0) })
	}},
	{tpm2.CCSetAlgorithmSet, 1, func(g *gen, s *step) {
		s.byPermanent(g, fixed(tpm2.RHPlatform)).raw(func(w *tpm2.Writer) { w.U32(0) })
	}},
	{tpm2.CCContextSave, 6, func(g *gen, s *step) {
		if x, ok := g.session(g.one(2)); ok && g.one(3) {
			s.on(from(x.step))
			return
		}
		s.on(g.anyObj().h)
	}},
	{tpm2.CCContextLoad, 6, func(g *gen, s *step) {
		if len(g.contexts) > 0 {
			s.add(field1(pick(g, g.contexts), "rest"))
			return
		}
		s.raw(func(w *tpm2.Writer) { w.U64(1); w.Handle(0x80000000); w.Handle(tpm2.RHOwner); w.Sized(g.data(100)) })
	}},
	{tpm2.CCFlushContext, 14, func(g *gen, s *step) {
		h := handle{value: pick(g, oddHandles)}
		switch {
		case len(g.objects) > 2 || len(g.objects) > 0 && g.one(2):
			h = pick(g, g.objects).h
		case len(g.sessions) > 0:
			h = from(pick(g, g.sessions).step)
		}
		if h.step != 0 {
			s.add(field1(h.step, "handle"))
		} else {
			s.raw(func(w *tpm2.Writer) { w.Handle(h.value) })
		}
	}},
	{tpm2.CCEvictControl, 6, func(g *gen, s *step) {
		s.byPermanent(g, g.provision()).on(g.anyObj().h)
		s.raw(func(w *tpm2.Writer) {
			w.Handle(pick(g, []tpm2.Handle{0x81000001, 0x81000001, 0x81000002, 0x81800001, 0x80000000, 0x81FFFFFF}))
		})
	}},
	{tpm2.CCReadClock, 1, func(g *gen, s *step) {}},
	{tpm2.CCClockSet, 1, func(g *gen, s *step) {
		s.byPermanent(g, g.provision()).raw(func(w *tpm2.Writer) { w.U64(pick(g, []uint64{0, 1 << 30, 1 << 40, 0xFFFF000000000000, 1<<64 - 1})) })
	}},
	{tpm2.CCClockRateAdjust, 1, func(g *gen, s *step) {
		s.byPermanent(g, g.provision()).raw(func(w *tpm2.Writer) { w.U8(uint8(g.Intn(9) - 4)) })
	}},
	{tpm2.CCGetCapability, 5, func(g *gen, s *step) {
		s.raw(func(w *tpm2.Writer) { w.U32(uint32(g.Intn(12))) })
		s.raw(func(w *tpm2.Writer) {
			w.U32(pick(g, []uint32{0, 1, 0x100, 0x200, 0x01000000, 0x02000000, 0x03000000, 0x40000000, 0x80000000, 0x81000000, 0x20000000, 0xFFFFFFFF}))
		})
		s.raw(func(w *tpm2.Writer) { w.U32(pick(g, []uint32{0, 1, 10, 1000})) })
	}},
	{tpm2.CCTestParms, 6, func(g *gen, s *step) {
		k := kind(g.Intn(int(kinds)))
		area := g.area(k, 0, nil, func(*tpm2.Writer) {})
		s.add(param{{bytes: append(append([]byte(nil), area[:2]...), area[10:]...)}})
	}},
	{tpm2.CCNVDefineSpace, 14, func(g *gen, s *step) {
		x, public := g.nvPublic()
		by := g.provision()
		if x.attrs.Has(tpm2.NVPlatformCreate) && !g.one(4) {
			by = fixed(tpm2.RHPlatform)
		}
		s.byPermanent(g, by).add(sized([]byte(x.auth)), public)
	}},
	{tpm2.CCNVUndefineSpace, 5, func(g *gen, s *step) {
		x := g.index()
		by := g.provision()
		if x.attrs.Has(tpm2.NVPlatformCreate) && !g.one(4) {
			by = fixed(tpm2.RHPlatform)
		}
		s.byPermanent(g, by).on(fixed(x.h))
	}},
	{tpm2.CCNVUndefineSpaceSpecial, 2, func(g *gen, s *step) {
		x := g.index()
		s.by(g, fixed(x.h), x.auth).byPermanent(g, fixed(tpm2.RHPlatform))
	}},
	{tpm2.CCNVReadPublic, 5, func(g *gen, s *step) { s.on(fixed(g.index().h)) }},
	{tpm2.CCNVWrite, 12, func(g *gen, s *step) {
		x := s.onIndex(g)
		n := int(x.size)
		if g.one(3) {
			n = g.Intn(n + 2)
		}
		s.add(sized(make([]byte, n)))
		s.raw(func(w *tpm2.Writer) { w.U16(pick(g, []uint16{0, 0, 0, 1, 8, 100, 2048, 65535})) })
	}},
	{tpm2.CCNVIncrement, 4, func(g *gen, s *step) { s.onIndex(g) }},
	{tpm2.CCNVExtend, 4, func(g *gen, s *step) { s.onIndex(g); s.add(sized(g.data(100))) }},
	{tpm2.CCNVSetBits, 4, func(g *gen, s *step) { s.onIndex(g); s.raw(func(w *tpm2.Writer) { w.U64(g.Uint64()) }) }},
	{tpm2.CCNVWriteLock, 3, func(g *gen, s *step) { s.onIndex(g) }},
	{tpm2.CCNVGlobalWriteLock, 1, func(g *gen, s *step) { s.byPermanent(g, g.provision()) }},
	{tpm2.CCNVRead, 12, func(g *gen, s *step) {
		x := s.onIndex(g)
		n := x.size
		if g.one(3) {
			n = pick(g, []uint16{0, 1, 8, 1024, 1025, 65535})
		}
		s.raw(func(w *tpm2.Writer) { w.U16(n) })
		s.raw(func(w *tpm2.Writer) { w.U16(pick(g, []uint16{0, 0, 0, 1, 8, 65535})) })
	}},
	{tpm2.CCNVReadLock, 4, func(g *gen, s *step) { s.onIndex(g) }},
	{tpm2.CCNVChangeAuth, 2, func(g *gen, s *step) {
		x := g.index()
		s.by(g, fixed(x.h), x.auth).add(sized([]byte(g.newAuth())))
	}},
	{tpm2.CCNVCertify, 3, func(g *gen, s *step) {
		k := g.signerOrNull()
		x := g.index()
		s.byObject(g, k).by(g, fixed(x.h), x.auth).on(fixed(x.h)).add(sized(g.data(66)), g.sigScheme(k.kind))
		s.raw(func(w *tpm2.Writer) { w.U16(x.size); w.U16(0) })
	}},
}
