// SPDX-License-Identifier: Apache-2.0

package tpm2

// Ticket is one of TPMT_TK_CREATION, TPMT_TK_VERIFIED, TPMT_TK_AUTH and
// TPMT_TK_HASHCHECK (Part 2, 10.7): a proof that this TPM said something before.
type Ticket struct {
	Tag       Tag
	Hierarchy Handle
	Hash      Alg    // metadata of STDigestVerified: the hash algorithm of the digest
	HMAC      []byte // empty in a null ticket
}

func (t Ticket) Marshal(w *Writer) {
	w.U16(uint16(t.Tag))
	w.Handle(t.Hierarchy)
	if t.Tag == STDigestVerified {
		w.Alg(t.Hash)
	}
	w.Sized(t.HMAC)
}

// UnmarshalTicket reads a ticket with one of the given tags; RCTag for another.
func (t *Ticket) UnmarshalTicket(r *Reader, tags ...Tag) {
	*t = Ticket{Tag: Tag(r.U16())}
	ok := false
	for _, g := range tags {
		ok = ok || g == t.Tag
	}
	if r.err == RCSuccess && !ok {
		r.Fail(RCTag)
	}
	t.Hierarchy = r.Handle()
	if r.err == RCSuccess {
		switch t.Hierarchy {
		case RHOwner, RHEndorsement, RHPlatform, RHNull:
		default:
			r.Fail(RCValue)
		}
	}
	if t.Tag == STDigestVerified {
		t.Hash = r.Alg()
		// SHAKE256 of 64 octets is the hash of Ed448ph (Part 1, 44.3.2.1).
		if r.err == RCSuccess && t.Hash != AlgNull && t.Hash != AlgSHAKE256_512 && !t.Hash.IsHash() {
			r.Fail(RCHash)
		}
	}
	t.HMAC = r.Sized(MaxDigest)
	if r.err != RCSuccess {
		*t = Ticket{}
	}
}

// Unmarshal reads a ticket of any kind.
func (t *Ticket) Unmarshal(r *Reader) {
	t.UnmarshalTicket(r, STCreation, STVerified, STAuthSecret, STAuthSigned, STHashcheck, STMessageVerified, STDigestVerified)
}

// UnmarshalVerified reads a TPMT_TK_VERIFIED.
func (t *Ticket) UnmarshalVerified(r *Reader) {
	t.UnmarshalTicket(r, STVerified, STMessageVerified, STDigestVerified)
}
