// SPDX-License-Identifier: Apache-2.0

//go:build linux

package tpmdiff

import (
	"testing"

	"holdfast/tpm2"
)

// rare are the commands that need several steps that fit together, which the
// generator seldom finds. TestRareAlike has them.
var rare = []tpm2.CC{tpm2.CCDuplicate, tpm2.CCRewrap, tpm2.CCImport, tpm2.CCRSADecrypt, tpm2.CCZGen2Phase, tpm2.CCCommit, tpm2.CCPolicyTicket,
	tpm2.CCPolicyAuthorizeNV, tpm2.CCNVUndefineSpaceSpecial, tpm2.CCNVChangeAuth, tpm2.CCNVCertify, tpm2.CCNVRead}

// TestRareAlike: sequences made by hand with the commands of rare, all of
// which succeed on both TPMs.
func TestRareAlike(t *testing.T) {
	p := newPair(t)
	owner, null, platform := fixed(tpm2.RHOwner), fixed(tpm2.RHNull), fixed(tpm2.RHPlatform)
	password := func(value string) auth { return auth{attrs: tpm2.SessionContinue, value: value} }
	by := func(session int) auth { return auth{session: session, attrs: tpm2.SessionContinue} }
	command := func(cc tpm2.CC, handles []handle, auths []auth, params ...param) *step {
		return &step{cc: cc, handles: handles, auth: auths, params: params}
	}
	number := func(n uint16) param { return lit(func(w *tpm2.Writer) { w.U16(n) }) }
	empty := sized(nil)
	noSelection := lit(func(w *tpm2.Writer) { w.U32(0) })
	noSecret := sized([]byte{0, 0, 0, 0})
	none := lit(func(w *tpm2.Writer) { w.Alg(tpm2.AlgNull) })
	policyOf := func(cc tpm2.CC) []byte {
		d := tpm2.NewPolicyDigest(tpm2.AlgSHA256)
		d.CommandCode(cc)
		return d.Sum()
	}
	start := func() *step {
		return command(tpm2.CCStartAuthSession, []handle{null, null}, nil, sized(make([]byte, 16)), empty,
			lit(func(w *tpm2.Writer) { w.U8(uint8(tpm2.SEPolicy)); w.Alg(tpm2.AlgNull); w.Alg(tpm2.AlgSHA256) }))
	}
	assert := func(session int, cc tpm2.CC) *step {
		return command(tpm2.CCPolicyCommandCode, []handle{from(session)}, nil, lit(func(w *tpm2.Writer) { w.U32(uint32(cc)) }))
	}
	ecc := func(attrs tpm2.ObjectAttributes, policy []byte, sym tpm2.SymDef, scheme tpm2.Scheme) param {
		b, err := tpm2.Encode(&tpm2.Public{Type: tpm2.AlgECC, NameAlg: tpm2.AlgSHA256, Attributes: attrs, AuthPolicy: policy,
			Parms: tpm2.Parms{Symmetric: sym, Scheme: scheme, Curve: tpm2.CurveP256, KDF: tpm2.NoScheme}})
		if err != nil {
			t.Fatal(err)
		}
		return sized(b)
	}
	const made = tpm2.ObjectSensitiveDataOrigin | tpm2.ObjectUserWithAuth | tpm2.ObjectNoDA
	const fixedHere = made | tpm2.ObjectFixedTPM | tpm2.ObjectFixedParent
	index := func(h tpm2.Handle, attrs tpm2.NVAttributes, policy []byte, size uint16) param {
		return lit(func(w *tpm2.Writer) {
			m := w.Begin()
			(&tpm2.NVPublic{Index: h, NameAlg: tpm2.AlgSHA256, Attributes: attrs | tpm2.NVNoDA, AuthPolicy: policy, DataSize: size}).Marshal(w)
			w.End(m)
		})
	}
	field := func(step int, name string) param { return field1(step, name) }

	// A key leaves and comes back, in the clear and under a new parent.
	storage := ecc(fixedHere|tpm2.ObjectRestricted|tpm2.ObjectDecrypt, nil, tpm2.SymDef{Alg: tpm2.AlgAES, KeyBits: 128, Mode: tpm2.AlgCFB}, tpm2.NoScheme)
	movable := ecc(made|tpm2.ObjectSignEncrypt, policyOf(tpm2.CCDuplicate), tpm2.NoSym, tpm2.NoScheme)
	steps(t, p, nil,
		command(tpm2.CCCreatePrimary, []handle{owner}, []auth{password("")}, noSecret, storage, empty, noSelection),
		command(tpm2.CCCreate, []handle{from(1)}, []auth{password("")}, noSecret, movable, empty, noSelection),
		command(tpm2.CCLoad, []handle{from(1)}, []auth{password("")}, field(2, "private"), field(2, "public")),
		start(), assert(4, tpm2.CCDuplicate),
		command(tpm2.CCDuplicate, []handle{from(3), null}, []auth{by(4)}, empty, none),
		command(tpm2.CCImport, []handle{from(1)}, []auth{password("")}, empty, field(2, "public"), field(6, "duplicate"), field(6, "seed"), none),
		assert(4, tpm2.CCDuplicate),
		command(tpm2.CCDuplicate, []handle{from(3), from(1)}, []auth{by(4)}, empty, none),
		command(tpm2.CCRewrap, []handle{from(1), from(1)}, []auth{password("")}, field(9, "duplicate"), field(3, "name"), field(9, "seed")),
		command(tpm2.CCImport, []handle{from(1)}, []auth{password("")}, empty, field(2, "public"), field(10, "duplicate"), field(10, "seed"), none),
		command(tpm2.CCLoad, []handle{from(1)}, []auth{password("")}, field(11, "private"), field(2, "public")),
	)

	// RSA without padding, and what needs ephemeral keys.
	number256 := make([]byte, 256)
	number256[255] = 2
	point := lit(func(w *tpm2.Writer) {
		m := w.Begin()
		w.Sized(unhex(eccX))
		w.Sized(unhex(eccY))
		w.End(m)
	})
	steps(t, p, nil,
		external(rsaDecrypt),
		command(tpm2.CCRSADecrypt, []handle{from(1)}, []auth{password("")}, sized(number256), none, empty),
		external(eccDecrypt),
		command(tpm2.CCECEphemeral, nil, nil, number(uint16(tpm2.CurveP256))),
		command(tpm2.CCZGen2Phase, []handle{from(3)}, []auth{password("")}, point, point, number(uint16(tpm2.AlgECDH)), field(4, "u16counter")),
		command(tpm2.CCCreatePrimary, []handle{owner}, []auth{password("")}, noSecret,
			ecc(fixedHere|tpm2.ObjectSignEncrypt, nil, tpm2.NoSym, tpm2.Scheme{Alg: tpm2.AlgECDAA, Hash: tpm2.AlgSHA256}), empty, noSelection),
		command(tpm2.CCCommit, []handle{from(6)}, []auth{password("")}, point, empty, empty),
	)

	// NV indices that only a policy can change or remove, one that holds a
	// policy, and one that is certified.
	const rw = tpm2.NVAuthRead | tpm2.NVAuthWrite
	changed, special, held := fixed(0x01500001), fixed(0x01500002), fixed(0x01500003)
	policy := append([]byte{0, byte(tpm2.AlgSHA256)}, make([]byte, 32)...)
	steps(t, p, nil,
		command(tpm2.CCNVDefineSpace, []handle{owner}, []auth{password("")}, empty, index(changed.value, rw, policyOf(tpm2.CCNVChangeAuth), 8)),
		start(), assert(2, tpm2.CCNVChangeAuth),
		command(tpm2.CCNVChangeAuth, []handle{changed}, []auth{by(2)}, sized([]byte("new"))),
		command(tpm2.CCNVWrite, []handle{changed, changed}, []auth{password("new")}, sized([]byte("contents")), number(0)),
		command(tpm2.CCNVRead, []handle{changed, changed}, []auth{password("new")}, number(8), number(0)),
		command(tpm2.CCNVCertify, []handle{null, changed, changed}, []auth{password(""), password("new")}, empty, none, number(8), number(0)),
		command(tpm2.CCNVDefineSpace, []handle{platform}, []auth{password("")}, empty,
			index(special.value, tpm2.NVPPRead|tpm2.NVPPWrite|tpm2.NVPlatformCreate|tpm2.NVPolicyDelete, policyOf(tpm2.CCNVUndefineSpaceSpecial), 8)),
		assert(2, tpm2.CCNVUndefineSpaceSpecial),
		command(tpm2.CCNVUndefineSpaceSpecial, []handle{special, platform}, []auth{by(2), password("")}),
		command(tpm2.CCNVDefineSpace, []handle{owner}, []auth{password("")}, empty, index(held.value, rw, nil, 34)),
		command(tpm2.CCNVWrite, []handle{held, held}, []auth{password("")}, sized(policy), number(0)),
		command(tpm2.CCPolicyAuthorizeNV, []handle{held, held, from(2)}, []auth{password("")}),
	)

	// A ticket of PolicySecret in another session.
	steps(t, p, nil,
		start(),
		command(tpm2.CCPolicySecret, []handle{owner, from(1)}, []auth{password("")}, field(1, "nonceTPM"), empty, empty,
			lit(func(w *tpm2.Writer) { w.U32(0xFFFF0000) })),
		start(),
		command(tpm2.CCPolicyTicket, []handle{from(3)}, nil, field(2, "timeout"), empty, empty, sized(tpm2.HandleName(tpm2.RHOwner)), field(2, "policyTicket")),
	)
	for _, cc := range rare {
		if p.succeeded[cc] == 0 {
			t.Errorf("%v never succeeded", cc)
		}
	}
}
