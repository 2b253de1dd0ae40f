// SPDX-License-Identifier: Apache-2.0

//go:build linux

package tpmdiff

import (
	"holdfast/tpm2"
)

// The parameters that the makers draw: digests, selections, schemes, tickets,
// points, public areas of NV indices.

// digest of SHA-256, or of another length.
func (g *gen) digest() []byte {
	d := make([]byte, 32)
	g.Read(d)
	return g.some(15, d, 64)
}

func (g *gen) selection() param {
	return lit(func(w *tpm2.Writer) {
		if g.one(15) {
			w.U32(uint32(g.Intn(3)))
			w.Alg(g.hash())
			w.U8(uint8(g.Intn(5)))
			w.Raw(g.data(5))
			return
		}
		n := g.Intn(3)
		var l []tpm2.PCRSelection
		for range n {
			l = append(l, tpm2.SelectPCRs(pick(g, []tpm2.Alg{tpm2.AlgSHA256, tpm2.AlgSHA1, tpm2.AlgSHA384}), g.Intn(24), g.Intn(24)))
		}
		tpm2.MarshalPCRSelections(w, l)
	})
}

// sensitive makes a TPM2B_SENSITIVE_CREATE.
func (g *gen) sensitive(k kind, auth string) param {
	return lit(func(w *tpm2.Writer) {
		m := w.Begin()
		w.Sized([]byte(auth))
		if k == sealed {
			w.Sized(append([]byte{1}, g.data(128)...))
		} else {
			w.Sized(g.some(20, nil, 128))
		}
		w.End(m)
	})
}

func (g *gen) sigScheme(k kind) param {
	return lit(func(w *tpm2.Writer) {
		switch {
		case g.one(3):
			w.Alg(tpm2.AlgNull)
		case g.one(6):
			w.Alg(g.alg())
			w.Alg(g.hash())
		case k == hmacKey:
			w.Alg(tpm2.AlgHMAC)
			w.Alg(g.goodHash())
		case k == rsaSign:
			w.Alg(pick(g, []tpm2.Alg{tpm2.AlgRSASSA, tpm2.AlgRSAPSS}))
			w.Alg(g.goodHash())
		default:
			w.Alg(tpm2.AlgECDSA)
			w.Alg(g.goodHash())
		}
	})
}

func (g *gen) nullTicket(tag tpm2.Tag) param {
	return lit(func(w *tpm2.Writer) {
		w.U16(uint16(tag))
		w.U32(uint32(pick(g, []tpm2.Handle{tpm2.RHNull, tpm2.RHNull, tpm2.RHNull, tpm2.RHOwner, tpm2.RHLockout})))
		w.Sized(g.some(10, nil, 64))
	})
}

// ticketOr gives a ticket that a command made, or a NULL one.
func (g *gen) ticketOr(tag tpm2.Tag, of ...tpm2.CC) (param, param) {
	for range 4 {
		if len(g.tickets) == 0 {
			break
		}
		t := pick(g, g.tickets)
		for _, cc := range of {
			if t.of == cc && !g.one(3) {
				return param{t.piece}, t.digest
			}
		}
	}
	return g.nullTicket(tag), nil
}

func (g *gen) symDef(w *tpm2.Writer, mode bool) {
	switch g.Intn(5) {
	case 0, 1:
		w.Alg(tpm2.AlgNull)
	case 2:
		w.Alg(tpm2.AlgXOR)
		w.Alg(g.hash())
	case 3:
		w.Alg(tpm2.AlgAES)
		w.U16(pick(g, []uint16{128, 256, 64}))
		w.Alg(pick(g, []tpm2.Alg{tpm2.AlgCFB, tpm2.AlgCFB, tpm2.AlgCTR, tpm2.AlgNull}))
	default:
		w.Alg(tpm2.AlgAES)
		w.U16(128)
		w.Alg(tpm2.AlgCFB)
	}
}

func (g *gen) operand(w *tpm2.Writer) {
	w.Sized(g.some(2, []byte{0, 0, 0, 1}, 10))
	w.U16(pick(g, []uint16{0, 0, 1, 4, 8, 16, 30, 255, 65535}))
	w.U16(uint16(g.Intn(13)))
}

// sign makes a TPMT_SIGNATURE of nothing in particular.
func (g *gen) junkSignature() param {
	return lit(func(w *tpm2.Writer) {
		w.Alg(pick(g, []tpm2.Alg{tpm2.AlgECDSA, tpm2.AlgRSASSA, tpm2.AlgHMAC, tpm2.AlgNull, tpm2.AlgRSAPSS, tpm2.AlgECDAA}))
		w.Alg(g.goodHash())
		w.Sized(g.data(32))
		w.Sized(g.data(32))
	})
}

// point makes a TPM2B_ECC_POINT: the one of the key from outside, mostly.
func (g *gen) point() param {
	return lit(func(w *tpm2.Writer) {
		m := w.Begin()
		w.Sized(g.some(8, unhex(eccX), 32))
		w.Sized(g.some(8, unhex(eccY), 32))
		w.End(m)
	})
}

func (g *gen) nvPublic() (index, param) {
	x := index{h: pick(g, nvHandles), auth: g.newAuth()}
	if g.one(30) {
		x.h = pick(g, oddHandles)
	}
	t := pick(g, []tpm2.NT{0, 0, 0, 1, 2, 4, 8, 9, 3})
	x.attrs = tpm2.NVAttributes(0).WithType(t)
	for _, a := range []tpm2.NVAttributes{tpm2.NVOwnerRead, tpm2.NVOwnerWrite, tpm2.NVAuthRead, tpm2.NVAuthWrite, tpm2.NVNoDA} {
		if !g.one(4) {
			x.attrs |= a
		}
	}
	for _, a := range []tpm2.NVAttributes{tpm2.NVPPRead, tpm2.NVPPWrite, tpm2.NVPolicyRead, tpm2.NVPolicyWrite, tpm2.NVWriteDefine, tpm2.NVWriteStClear,
		tpm2.NVReadStClear, tpm2.NVGlobalLock, tpm2.NVOrderly, tpm2.NVClearStClear, tpm2.NVWriteAll, tpm2.NVPlatformCreate, tpm2.NVPolicyDelete} {
		if g.one(7) {
			x.attrs |= a
		}
	}
	if g.one(15) {
		x.attrs ^= 1 << g.Intn(32)
	}
	switch t {
	case tpm2.NTCounter, tpm2.NTBits, tpm2.NTPinFail, tpm2.NTPinPass:
		x.size = 8
	case tpm2.NTExtend:
		x.size = 32
	default:
		x.size = pick(g, []uint16{16, 16, 0, 1, 100, 1024, 2048, 2049})
	}
	if g.one(15) {
		x.size = uint16(g.Intn(70))
	}
	p := g.policy()
	x.policy = len(p) > 0
	return x, lit(func(w *tpm2.Writer) {
		m := w.Begin()
		w.Handle(x.h)
		if g.one(12) {
			w.Alg(g.hash())
		} else {
			w.Alg(tpm2.AlgSHA256)
		}
		w.U32(uint32(x.attrs))
		w.Sized(p)
		w.U16(x.size)
		w.End(m)
	})
}

func (g *gen) rsaScheme() param {
	return lit(func(w *tpm2.Writer) {
		a := pick(g, []tpm2.Alg{tpm2.AlgNull, tpm2.AlgNull, tpm2.AlgRSAES, tpm2.AlgOAEP, tpm2.AlgRSASSA})
		w.Alg(a)
		if a == tpm2.AlgOAEP || a == tpm2.AlgRSASSA {
			w.Alg(g.hash())
		}
	})
}

func (g *gen) mode() tpm2.Alg {
	return pick(g, []tpm2.Alg{tpm2.AlgNull, tpm2.AlgNull, tpm2.AlgCFB, tpm2.AlgCBC, tpm2.AlgCTR, tpm2.AlgECB, tpm2.AlgOFB, tpm2.AlgSHA1})
}

func (g *gen) sequence() sequence {
	if len(g.seqs) > 0 && !g.one(25) {
		return pick(g, g.seqs)
	}
	return sequence{h: g.anyObj().h}
}

func (g *gen) code() tpm2.CC {
	if g.one(8) {
		return tpm2.CC(pick(g, []uint32{0, 0x11E, 0x123, 0x15A, 0x175, 0x20000000, 0xFFFFFFFF}))
	}
	return pick(g, commands)
}
