// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"testing"

	"holdfast/tpm2"
)

// Commands in process, without a socket: what the engine adds to the primitive.
func BenchmarkCommands(b *testing.B) {
	p := newTPM(b, Options{})
	sign := func(h tpm2.Handle) request {
		return request{cc: tpm2.CCQuote, handles: []tpm2.Handle{h}, auth: noAuth, params: func(w *tpm2.Writer) {
			w.Sized([]byte("nonce"))
			w.Alg(tpm2.AlgNull)
			tpm2.MarshalPCRSelections(w, []tpm2.PCRSelection{tpm2.SelectPCRs(tpm2.AlgSHA256, 0, 1, 2, 3)})
		}}
	}
	kem := createPrimaryKey(b, p, tpm2.RHOwner, mlkemTemplate(tpm2.MLKEM768, false))
	for _, c := range []struct {
		name string
		q    request
	}{
		{"PCR_Read", request{cc: tpm2.CCPCRRead, params: func(w *tpm2.Writer) {
			tpm2.MarshalPCRSelections(w, []tpm2.PCRSelection{tpm2.SelectPCRs(tpm2.AlgSHA256, 0)})
		}}},
		{"PCR_Extend", request{cc: tpm2.CCPCRExtend, handles: []tpm2.Handle{16}, auth: noAuth, params: func(w *tpm2.Writer) {
			tpm2.MarshalHAs(w, []tpm2.HA{{Alg: tpm2.AlgSHA256, Digest: make([]byte, 32)}})
		}}},
		{"Quote ECDSA P-256", sign(createPrimaryKey(b, p, tpm2.RHOwner, eccTemplate(attrsAK, ecdsa256)).h)},
		{"Quote ML-DSA-65", sign(createPrimaryKey(b, p, tpm2.RHOwner, mldsaTemplate(tpm2.MLDSA65, attrsAK, false)).h)},
		{"Encapsulate ML-KEM-768", request{cc: tpm2.CCEncapsulate, handles: []tpm2.Handle{kem.h}}},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if rc, _ := c.q.send(b, p); rc != 0 {
					b.Fatal(rc)
				}
			}
		})
	}
}
