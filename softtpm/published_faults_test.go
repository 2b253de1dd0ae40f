// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
	"time"

	"holdfast/tpm2"
)

// Faults that were published of other TPMs.

// TestEncryptedParameterBounds: CVE-2023-1017 and CVE-2023-1018, the reference
// code read and wrote two octets behind a command whose session decrypts a
// first parameter that is not there whole.
func TestEncryptedParameterBounds(t *testing.T) {
	for _, c := range []struct {
		params []byte
		want   tpm2.RC
	}{
		{nil, tpm2.RCInsufficient}, {[]byte{0}, tpm2.RCInsufficient}, {[]byte{0, 1}, tpm2.RCSize}, {[]byte{0, 5, 1, 2}, tpm2.RCSize},
		{[]byte{0xFF, 0xFF}, tpm2.RCSize}, {append([]byte{0xFF, 0xFF}, make([]byte, 4000)...), tpm2.RCSize},
		{[]byte{0, 1, 7, 8}, tpm2.RCSize}, {[]byte{0, 0}, 0}, {[]byte{0, 1, 7}, 0},
	} {
		p := newTPM(t, Options{})
		// An HMAC session that is neither salted nor bound: its key is empty.
		rsp := mustRun(t, p, "8001 0000002F 00000176 40000007 40000007 0010 00000000000000000000000000000000 0000 00 0006 0080 0043 000B")
		handle, nonceTPM := rsp[:4], rsp[6:]
		attrs := byte(0x21) // continue, decrypt
		cp := sha256.Sum256(append(binary.BigEndian.AppendUint32(nil, uint32(tpm2.CCStirRandom)), c.params...))
		m := hmac.New(sha256.New, nil)
		m.Write(cp[:])
		m.Write(make([]byte, 16)) // nonceCaller
		m.Write(nonceTPM)
		m.Write([]byte{attrs})
		var w tpm2.Writer
		tpm2.Header{Tag: tpm2.STSessions, Code: uint32(tpm2.CCStirRandom)}.Marshal(&w)
		at := w.Len()
		w.U32(0)
		w.Raw(handle)
		w.Sized(make([]byte, 16))
		w.U8(attrs)
		w.Sized(m.Sum(nil))
		w.PutU32(at, uint32(w.Len()-at-4))
		w.Raw(c.params)
		w.PutU32(2, uint32(w.Len()))
		if rc := rcOf(t, p.Execute(0, w.Bytes())); rc != c.want && rc&0xBF != c.want {
			t.Errorf("%d octets of parameters: %v, want %v", len(c.params), rc, c.want)
		}
		if p.failed {
			t.Fatalf("%x: panic", c.params)
		}
	}
}

// TestSchemeOfAnotherKey: CVE-2025-2884 and CVE-2025-49133, signing with an
// HMAC key took the scheme of an RSA or ECC key and read behind a buffer, or
// ended the process. Every key signs by every scheme here: either it is the
// key's own kind, or TPM_RC_SCHEME.
func TestSchemeOfAnotherKey(t *testing.T) {
	p := newTPM(t, Options{})
	null := tpm2.Scheme{Alg: tpm2.AlgNull}
	keys := []struct {
		name string
		h    tpm2.Handle
		own  []tpm2.Alg
	}{
		{"HMAC", addKey(t, p, hmacKeyObject("key", null, tpm2.ObjectSignEncrypt|tpm2.ObjectUserWithAuth)), []tpm2.Alg{tpm2.AlgHMAC}},
		{"ECC", createPrimaryKey(t, p, tpm2.RHOwner, eccTemplate(attrsSign, tpm2.NoScheme)).h, []tpm2.Alg{tpm2.AlgECDSA, tpm2.AlgECSchnorr, tpm2.AlgSM2}},
		{"RSA", createPrimaryKey(t, p, tpm2.RHOwner, rsaSigner(tpm2.AlgNull)).h, []tpm2.Alg{tpm2.AlgRSASSA, tpm2.AlgRSAPSS}},
		{"ML-DSA", createPrimaryKey(t, p, tpm2.RHOwner, mldsaTemplate(tpm2.MLDSA44, attrsSign, false)).h, nil},
	}
	schemes := []tpm2.Alg{tpm2.AlgHMAC, tpm2.AlgRSASSA, tpm2.AlgRSAPSS, tpm2.AlgECDSA, tpm2.AlgECDAA, tpm2.AlgECSchnorr, tpm2.AlgSM2, tpm2.AlgMLDSA, tpm2.AlgHashMLDSA, tpm2.AlgAES, 0x7777}
	hashes := []tpm2.Alg{tpm2.AlgSHA256, tpm2.AlgSHA512, tpm2.AlgNull, tpm2.AlgAES, 0x7777}
	for _, k := range keys {
		for _, s := range schemes {
			for _, h := range hashes {
				scheme := func(w *tpm2.Writer) {
					w.Alg(s)
					if s == tpm2.AlgMLDSA || s == tpm2.AlgHashMLDSA {
						return
					}
					w.Alg(h)
					if s == tpm2.AlgECDAA {
						w.U16(0)
					}
				}
				own := h == tpm2.AlgSHA256 && slices.Contains(k.own, s)
				for _, q := range []request{
					{cc: tpm2.CCSign, handles: []tpm2.Handle{k.h}, auth: noAuth, params: func(w *tpm2.Writer) { w.Sized(make([]byte, 32)); scheme(w); noTicket.Marshal(w) }},
					{cc: tpm2.CCQuote, handles: []tpm2.Handle{k.h}, auth: noAuth, params: func(w *tpm2.Writer) {
						w.Sized(nil)
						scheme(w)
						tpm2.MarshalPCRSelections(w, nil)
					}},
					{cc: tpm2.CCCertify, handles: []tpm2.Handle{keys[1].h, k.h}, auth: []string{"", ""}, params: func(w *tpm2.Writer) { w.Sized(nil); scheme(w) }},
					{cc: tpm2.CCGetTime, handles: []tpm2.Handle{tpm2.RHEndorsement, k.h}, auth: []string{"", ""}, params: func(w *tpm2.Writer) { w.Sized(nil); scheme(w) }},
				} {
					rc, _ := q.do(t, p)
					name := fmt.Sprintf("%v by a key of %s with %v, %v", q.cc, k.name, s, h)
					if p.failed {
						t.Fatalf("%s: panic", name)
					}
					// A hash that makes another length, or ML-DSA's own scheme, is for other tests.
					if rc == 0 && !own && h == tpm2.AlgSHA256 && s != tpm2.AlgMLDSA {
						t.Errorf("%s succeeded", name)
					}
					if own && rc != 0 {
						t.Errorf("%s: %v", name, rc)
					}
				}
			}
		}
	}
}

// TestOversizeAndNested: sizes that promise more than there is, inside each
// other, and commands beyond the limit.
func TestOversizeAndNested(t *testing.T) {
	now := time.Unix(1000, 0) // the Clock is part of the state
	p := newTPM(t, Options{Now: func() time.Time { return now }})
	before := snapshot(p)
	for n := range 64 {
		for _, cc := range []tpm2.CC{tpm2.CCCreatePrimary, tpm2.CCLoadExternal, tpm2.CCImport, tpm2.CCNVDefineSpace, tpm2.CCContextLoad, tpm2.CCPolicyOR, tpm2.CCPCRRead} {
			q := request{cc: cc, params: func(w *tpm2.Writer) {
				for i := range n {
					w.U16(uint16(0xFFFF - i*0x400)) // each says that nearly everything is inside it
				}
				w.U32(0xFFFFFFFF)
			}}
			m := commands.byCode[cc]
			for range m.slots {
				q.handles = append(q.handles, tpm2.RHOwner)
			}
			if m.authHandles() > 0 {
				q.auth = noAuth
			}
			if rc, _ := q.do(t, p); rc == 0 {
				t.Errorf("%v with %d nested sizes succeeded", cc, n)
			}
		}
	}
	for _, size := range []int{8193, 70000} {
		cmd := make([]byte, size)
		copy(cmd, []byte{0x80, 1, 0, 0, 0, 0, 0, 0, 1, 0x7B})
		binary.BigEndian.PutUint32(cmd[2:], uint32(size))
		if rc := rcOf(t, p.Execute(0, cmd)); rc != tpm2.RCCommandSize {
			t.Errorf("a command of %d octets: %v", size, rc)
		}
	}
	if p.failed || !bytes.Equal(before, snapshot(p)) {
		t.Error("the state changed, or the engine panicked")
	}
}
