// SPDX-License-Identifier: Apache-2.0

package tpm2

import (
	"bytes"
	"testing"
)

// TestPolicyPublished: digests that public specifications print.
func TestPolicyPublished(t *testing.T) {
	for _, c := range []struct {
		name string
		alg  Alg
		do   func(*PolicyDigest)
		want string
	}{
		// TCG EK Credential Profile, default EK policy (PolicyA, SHA-256).
		{"EK PolicyA", AlgSHA256, func(p *PolicyDigest) { p.Secret(HandleName(RHEndorsement), nil) },
			"837197674484b3f81a90cc8d46a5d724fd52d76e06520b64f2a1da1b331469aa"},
		// The same profile: PolicyB is PolicyOR over PolicyA and PolicyC.
		{"EK PolicyC SHA-256", AlgSHA256, func(p *PolicyDigest) {
			p.AuthorizeNV(append([]byte{0, 0x0B}, unhex(t, "0c9d717e9c3fe69fda41769450bb145957f8b3610e084dbf65591a5d11ecd83f")...))
		}, "3767e2edd43ff45a3a7e1eaefcef78643dca964632e7aad82c673a30d8633fde"},
		{"EK PolicyB SHA-256", AlgSHA256, func(p *PolicyDigest) {
			p.OR(unhex(t, "837197674484b3f81a90cc8d46a5d724fd52d76e06520b64f2a1da1b331469aa"),
				unhex(t, "3767e2edd43ff45a3a7e1eaefcef78643dca964632e7aad82c673a30d8633fde"))
		}, "ca3d0a99a2b93906f7a3342414efcfb3a385d44cd1fd459089d19b5071c0b7a0"},
		{"AuthValue", AlgSHA256, func(p *PolicyDigest) { p.AuthValue() }, "8fcd2169ab92694e0c633f1ab772842b8241bbc20288981fc7ac1eddc1fddb0e"},
		{"Password", AlgSHA256, func(p *PolicyDigest) { p.Password() }, "8fcd2169ab92694e0c633f1ab772842b8241bbc20288981fc7ac1eddc1fddb0e"},
	} {
		p := NewPolicyDigest(c.alg)
		c.do(p)
		if want := unhex(t, c.want); !bytes.Equal(p.Sum(), want) {
			t.Errorf("%s: %x, want %x", c.name, p.Sum(), want)
		}
	}
	if NewPolicyDigest(AlgNull) != nil || PolicyDigestFrom(AlgSHA256, make([]byte, 31)) != nil {
		t.Error("a policy digest of no hash or the wrong size was made")
	}
}

// TestPolicyEquations: each assertion against its equation in Part 3, written
// out with plain hashes.
func TestPolicyEquations(t *testing.T) {
	h := func(parts ...[]byte) []byte { return AlgSHA256.Sum(parts...) }
	zero, name, ref := make([]byte, 32), []byte{0, 11, 1}, []byte("ref")
	cat := func(b ...byte) []byte { return b }
	sel := []PCRSelection{SelectPCRs(AlgSHA256, 0, 23)}
	for _, c := range []struct {
		name string
		do   func(*PolicyDigest)
		want []byte
	}{
		{"Signed", func(p *PolicyDigest) { p.Signed(name, ref) }, h(h(zero, cat(0, 0, 1, 0x60), name), ref)},
		{"Secret without reference hashes twice", func(p *PolicyDigest) { p.Secret(name, nil) }, h(h(zero, cat(0, 0, 1, 0x51), name))},
		{"PCR", func(p *PolicyDigest) { p.PCR(sel, ref) }, h(zero, cat(0, 0, 1, 0x7F), cat(0, 0, 0, 1, 0, 0x0B, 3, 1, 0, 0x80), ref)},
		{"Locality", func(p *PolicyDigest) { p.Locality(8) }, h(zero, cat(0, 0, 1, 0x6F, 8))},
		{"NV", func(p *PolicyDigest) { p.NV(ref, 7, EOUnsignedLT, name) }, h(zero, cat(0, 0, 1, 0x49), h(ref, cat(0, 7, 0, 5)), name)},
		{"CounterTimer", func(p *PolicyDigest) { p.CounterTimer(ref, 8, EOEq) }, h(zero, cat(0, 0, 1, 0x6D), h(ref, cat(0, 8, 0, 0)))},
		{"CommandCode", func(p *PolicyDigest) { p.CommandCode(CCQuote) }, h(zero, cat(0, 0, 1, 0x6C, 0, 0, 1, 0x58))},
		{"PhysicalPresence", func(p *PolicyDigest) { p.PhysicalPresence() }, h(zero, cat(0, 0, 1, 0x87))},
		{"CpHash", func(p *PolicyDigest) { p.CpHash(ref) }, h(zero, cat(0, 0, 1, 0x6E), ref)},
		{"NameHash", func(p *PolicyDigest) { p.NameHash(ref) }, h(zero, cat(0, 0, 1, 0x70), ref)},
		{"DuplicationSelect with object", func(p *PolicyDigest) { p.DuplicationSelect(name, ref, true) }, h(zero, cat(0, 0, 1, 0x88), name, ref, cat(1))},
		{"DuplicationSelect", func(p *PolicyDigest) { p.DuplicationSelect(name, ref, false) }, h(zero, cat(0, 0, 1, 0x88), ref, cat(0))},
		{"Authorize forgets what was", func(p *PolicyDigest) { p.AuthValue(); p.Authorize(name, ref) }, h(h(zero, cat(0, 0, 1, 0x6A), name), ref)},
		{"AuthorizeNV forgets what was", func(p *PolicyDigest) { p.AuthValue(); p.AuthorizeNV(name) }, h(zero, cat(0, 0, 1, 0x92), name)},
		{"NvWritten", func(p *PolicyDigest) { p.NvWritten(true) }, h(zero, cat(0, 0, 1, 0x8F, 1))},
		{"Template", func(p *PolicyDigest) { p.Template(ref) }, h(zero, cat(0, 0, 1, 0x90), ref)},
		{"Capability", func(p *PolicyDigest) { p.Capability(ref, 1, EOEq, CapTPMProperties, 0x105) },
			h(zero, cat(0, 0, 1, 0x9B), h(ref, cat(0, 1, 0, 0, 0, 0, 0, 6, 0, 0, 1, 5)))},
		{"Parameters", func(p *PolicyDigest) { p.Parameters(ref) }, h(zero, cat(0, 0, 1, 0x9C), ref)},
		{"OR forgets what was", func(p *PolicyDigest) { p.AuthValue(); p.OR(name, ref) }, h(zero, cat(0, 0, 1, 0x71), name, ref)},
	} {
		p := NewPolicyDigest(AlgSHA256)
		c.do(p)
		if !bytes.Equal(p.Sum(), c.want) {
			t.Errorf("%s: %x, want %x", c.name, p.Sum(), c.want)
		}
	}
}
