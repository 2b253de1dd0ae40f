// SPDX-License-Identifier: Apache-2.0

// Package sigma is the key exchange of remote attestation: SIGn-and-MAc
// (Krawczyk 2003), with an enclave's evidence in the place of its signature and
// the hybrid X25519MLKEM768 in the place of Diffie-Hellman, so that a session
// recorded today does not open for a quantum computer.
//
//	verifier                                  attester
//	M1  nonce, share            ─────────▶
//	                            ◀─────────  M2  share, evidence over H(M1, share), MAC
//	M3  [signature,] MAC        ─────────▶
//
// A verifier calls [NewVerifier], sends M1, gives M2 to [Verifier.Finish] and
// sends M3. An attester calls [Respond] with M1, sends M2, and gives M3 to
// [Attester.Finish]. Both then have [Keys]. No I/O here: messages are bytes.
//
// What the verifier has then: whoever made the evidence also made this share and
// knows the session keys. What evidence is worth is the business of the
// function that the caller gives (attest/verify and attest/policy). The
// attester knows a verifier only if it asks for the signature.
package sigma
