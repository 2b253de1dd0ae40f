// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"holdfast/tpm2"
)

// TestPQCGoldenCommands: the eight commands of version 185 as bytes typed from
// the tables of Part 3, and the fixed parts of their responses. The keys are
// 80000000 (ML-DSA-44 with external µ), 80000001 (ML-KEM-512), 80000002
// (HashML-DSA-44 with SHA-256), so that sequences are 80000003.
func TestPQCGoldenCommands(t *testing.T) {
	p := newTPM(t, Options{})
	createPrimaryKey(t, p, tpm2.RHOwner, mldsaTemplate(tpm2.MLDSA44, attrsSign, true))
	createPrimaryKey(t, p, tpm2.RHOwner, mlkemTemplate(tpm2.MLKEM512, false))
	createPrimaryKey(t, p, tpm2.RHOwner, hashMLDSATemplate(tpm2.MLDSA44, tpm2.AlgSHA256))
	const password = "00000009 40000009 0000 00 0000"
	const two = "00000012 40000009 0000 00 0000 40000009 0000 00 0000"
	send := func(command string, want ...string) []byte {
		t.Helper()
		// The size field, typed as ........, is the length.
		b := strings.Join(strings.Fields(command), "")
		b = strings.Replace(b, "........", fmt.Sprintf("%08X", len(b)/2), 1)
		rsp := mustRun(t, p, b)
		if w := unhex(t, strings.Join(want, "")); !bytes.HasPrefix(rsp, w) {
			t.Fatalf("response begins %x, want %x", rsp[:min(len(rsp), 2*len(w)+8)], w)
		}
		return bytes.Clone(rsp)
	}
	hex := func(b []byte) string { return fmt.Sprintf("%X", b) }

	// Encapsulate: handle; sharedSecret, then ciphertext.
	rsp := send("8001 ........ 000001A7 80000001", "0020")
	secret := rsp[2:34]
	if !bytes.Equal(rsp[34:36], []byte{0x03, 0x00}) || len(rsp) != 36+768 {
		t.Fatalf("ciphertext: %x, %d octets in all", rsp[34:36], len(rsp))
	}
	ct := rsp[36:]
	// Decapsulate: @handle; ciphertext; sharedSecret.
	rsp = send("8002 ........ 000001A8 80000001"+password+"0300"+hex(ct), "00000022 0020")
	if !bytes.Equal(rsp[6:38], secret) {
		t.Error("another secret")
	}
	if tail := rsp[38:]; !bytes.Equal(tail, unhex(t, "0000 01 0000")) { // password session: continueSession set
		t.Errorf("session area %x", tail)
	}

	// SignSequenceStart: handle; auth, context; sequence handle.
	send("8001 ........ 000001AA 80000000  0000  0003 637478", "80000003")
	// SequenceUpdate: @sequence; buffer.
	send("8002 ........ 0000015C 80000003"+password+"0003 6D6573", "00000000 0000 01 0000")
	// SignSequenceComplete: @sequence, @key; buffer; TPMT_SIGNATURE sigAlg, size 2420.
	rsp = send("8002 ........ 000001A4 80000003 80000000"+two+"0004 73616765", "00000978 00A1 0974")
	sig := rsp[4 : 4+4+2420]
	// VerifySequenceStart: handle; auth, hint, context; sequence handle.
	send("8001 ........ 000001A9 80000000  0000  0000  0003 637478", "80000003")
	send("8002 ........ 0000015C 80000003"+password+"0007 6D657373616765", "00000000 0000 01 0000")
	// VerifySequenceComplete: @sequence, key; signature; ticket MESSAGE_VERIFIED, hierarchy, no metadata, HMAC.
	send("8002 ........ 000001A3 80000003 80000000"+password+hex(sig), "00000048 8026 40000001 0040")

	// SignDigest: @key; context, digest, validation; the digest is µ.
	mu := strings.Repeat("5A", 64)
	rsp = send("8002 ........ 000001A6 80000000"+password+"0000  0040"+mu+" 8024 40000007 0000", "00000978 00A1 0974")
	sig = rsp[4 : 4+4+2420]
	// VerifyDigestSignature: key; context, digest, signature; for µ a NULL ticket (Errata 2.5): tag, null
	// hierarchy, metadata, empty HMAC.
	send("8001 ........ 000001A5 80000000  0000  0040"+mu+hex(sig), "8027 40000007 0010 0000")
	// HashML-DSA: sigAlg, hash, signature; the ticket's metadata is the hash.
	d := strings.Repeat("A5", 32)
	rsp = send("8002 ........ 000001A6 80000002"+password+"0001 63  0020"+d+" 8024 40000007 0000", "0000097A 00A2 000B 0974")
	send("8001 ........ 000001A5 80000002  0001 63  0020"+d+hex(rsp[4:4+6+2420]), "8027 40000001 000B 0040")
}
