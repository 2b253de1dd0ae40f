// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"encoding/binary"

	"holdfast/softtpm/internal/tpmcrypto"
	"holdfast/tpm2"
)

// ticketHash is the hash of all tickets and saved contexts.
const ticketHash = tpmcrypto.SHA512

// ticketHMAC is HMAC(proof of the hierarchy, tag ‖ parts) (Part 2, 10.7).
func (s *state) ticketHMAC(hierarchy tpm2.Handle, tag tpm2.Tag, parts ...[]byte) []byte {
	var b [2]byte
	binary.BigEndian.PutUint16(b[:], uint16(tag))
	return tpmcrypto.HMAC(ticketHash, s.proof(hierarchy), append([][]byte{b[:]}, parts...)...)
}

// ticket makes a ticket over parts; in the null hierarchy the null ticket. A
// creation ticket is made there too, with the proof that lasts until the next TPM
// Reset: without one, CertifyCreation could not be used on keys of that hierarchy.
func (s *state) ticket(hierarchy tpm2.Handle, tag tpm2.Tag, parts ...[]byte) tpm2.Ticket {
	t := tpm2.Ticket{Tag: tag, Hierarchy: hierarchy}
	if hierarchy != tpm2.RHNull || tag == tpm2.STCreation {
		t.HMAC = s.ticketHMAC(hierarchy, tag, parts...)
	}
	return t
}

// checkTicket says whether t is a ticket of this TPM over parts. Null tickets never are.
func (s *state) checkTicket(t tpm2.Ticket, parts ...[]byte) bool {
	return (t.Hierarchy != tpm2.RHNull || t.Tag == tpm2.STCreation) && len(t.HMAC) != 0 && tpmcrypto.Equal(t.HMAC, s.ticketHMAC(t.Hierarchy, t.Tag, parts...))
}

// algBytes is a TPM_ALG_ID on the wire.
func algBytes(a tpm2.Alg) []byte { return binary.BigEndian.AppendUint16(nil, uint16(a)) }

// hashCheck makes a TPMT_TK_HASHCHECK: digest of alg is of a message that does
// not begin with TPM_GENERATED_VALUE (Part 2, 10.7.6).
func (s *state) hashCheck(hierarchy tpm2.Handle, alg tpm2.Alg, digest []byte) tpm2.Ticket {
	return s.ticket(hierarchy, tpm2.STHashcheck, algBytes(alg), digest)
}

// checkHashCheck says whether t is such a ticket of this TPM.
func (s *state) checkHashCheck(t tpm2.Ticket, alg tpm2.Alg, digest []byte) bool {
	return t.Tag == tpm2.STHashcheck && s.checkTicket(t, algBytes(alg), digest)
}

// verifiedTicket makes a TPMT_TK_VERIFIED of one of its three tags (version
// 185, Part 2, 10.7.4); hash counts for STDigestVerified.
func (s *state) verifiedTicket(hierarchy tpm2.Handle, tag tpm2.Tag, digest, keyName []byte, hash tpm2.Alg) tpm2.Ticket {
	if tag != tpm2.STDigestVerified {
		return s.ticket(hierarchy, tag, digest, keyName)
	}
	t := s.ticket(hierarchy, tag, digest, keyName, algBytes(hash))
	t.Hash = hash
	return t
}

// checkVerified says whether t is such a ticket of this TPM.
func (s *state) checkVerified(t tpm2.Ticket, digest, keyName []byte) bool {
	if t.Tag != tpm2.STDigestVerified {
		return s.checkTicket(t, digest, keyName)
	}
	return s.checkTicket(t, digest, keyName, algBytes(t.Hash))
}
