// SPDX-License-Identifier: Apache-2.0

package tpm2

// CreationData is TPMS_CREATION_DATA (Part 2, 15.1).
type CreationData struct {
	PCRSelect           []PCRSelection
	PCRDigest           []byte
	Locality            Locality
	ParentNameAlg       Alg
	ParentName          []byte
	ParentQualifiedName []byte
	OutsideInfo         []byte
}

func (c *CreationData) Marshal(w *Writer) {
	MarshalPCRSelections(w, c.PCRSelect)
	w.Sized(c.PCRDigest)
	w.U8(uint8(c.Locality))
	w.Alg(c.ParentNameAlg)
	w.Sized(c.ParentName)
	w.Sized(c.ParentQualifiedName)
	w.Sized(c.OutsideInfo)
}

func (c *CreationData) Unmarshal(r *Reader) {
	*c = CreationData{PCRSelect: UnmarshalPCRSelections(r)}
	c.PCRDigest = r.Sized(MaxDigest)
	c.Locality = Locality(r.U8())
	c.ParentNameAlg = r.Alg()
	c.ParentName = r.Sized(MaxName)
	c.ParentQualifiedName = r.Sized(MaxName)
	c.OutsideInfo = r.Sized(MaxData)
	if r.err != RCSuccess {
		*c = CreationData{}
	}
}

// IDObject is TPMS_ID_OBJECT (Part 2, 12.4.2): a credential, encrypted and with
// its integrity value.
type IDObject struct {
	IntegrityHMAC []byte
	EncIdentity   []byte // encrypted TPM2B_DIGEST, no size field of its own
}

func (o *IDObject) Marshal(w *Writer) {
	w.Sized(o.IntegrityHMAC)
	w.Raw(o.EncIdentity)
}

// Unmarshal reads the structure to the end of r, since encIdentity has no size field.
func (o *IDObject) Unmarshal(r *Reader) {
	o.IntegrityHMAC = r.Sized(MaxDigest)
	o.EncIdentity = r.Rest()
	if r.err == RCSuccess && len(o.EncIdentity) > 2+MaxDigest {
		r.Fail(RCSize)
	}
	if r.err != RCSuccess {
		*o = IDObject{}
	}
}

// Bounds of opaque TPM2B buffers, in bytes.
const (
	MaxEncryptedSecret = MaxKEM                        // TPM2B_ENCRYPTED_SECRET
	MaxIDObject        = 2 + MaxDigest + 2 + MaxDigest // TPM2B_ID_OBJECT
	MaxPrivate         = 1536                          // TPM2B_PRIVATE
)

// NVPublic is TPMS_NV_PUBLIC (Part 2, 13.5).
type NVPublic struct {
	Index      Handle
	NameAlg    Alg
	Attributes NVAttributes
	AuthPolicy []byte
	DataSize   uint16
}

func (p *NVPublic) Marshal(w *Writer) {
	w.Handle(p.Index)
	w.Alg(p.NameAlg)
	p.Attributes.Marshal(w)
	w.Sized(p.AuthPolicy)
	w.U16(p.DataSize)
}

// Unmarshal reads the public area; RCValue if the handle is not an NV index.
func (p *NVPublic) Unmarshal(r *Reader) {
	*p = NVPublic{Index: r.Handle()}
	if r.err == RCSuccess && p.Index.Type() != HTNVIndex {
		r.Fail(RCValue)
	}
	p.NameAlg = unmarshalHash(r)
	p.Attributes.Unmarshal(r)
	p.AuthPolicy = r.Sized(MaxDigest)
	p.DataSize = r.U16()
	if r.err != RCSuccess {
		*p = NVPublic{}
	}
}

// Name returns the Name of the index: nameAlg ‖ H(TPMS_NV_PUBLIC).
func (p *NVPublic) Name() ([]byte, error) {
	b, err := Encode(p)
	if err != nil {
		return nil, err
	}
	return nameOf(p.NameAlg, b)
}

// Context is TPMS_CONTEXT (Part 2, 14.5): a saved object or session.
type Context struct {
	Sequence    uint64
	SavedHandle Handle
	Hierarchy   Handle
	Blob        []byte
}

func (c *Context) Marshal(w *Writer) {
	w.U64(c.Sequence)
	w.Handle(c.SavedHandle)
	w.Handle(c.Hierarchy)
	w.Sized(c.Blob)
}

func (c *Context) Unmarshal(r *Reader) {
	*c = Context{r.U64(), r.Handle(), r.Handle(), r.Sized(maxStruct)}
	if r.err != RCSuccess {
		*c = Context{}
	}
}

// AuthCommand is TPMS_AUTH_COMMAND (Part 2, 10.13.2): one session of a command.
type AuthCommand struct {
	Handle     Handle // session, or RSPW for a password
	Nonce      []byte
	Attributes SessionAttributes
	HMAC       []byte // or the password
}

func (a *AuthCommand) Marshal(w *Writer) {
	w.Handle(a.Handle)
	w.Sized(a.Nonce)
	a.Attributes.Marshal(w)
	w.Sized(a.HMAC)
}

func (a *AuthCommand) Unmarshal(r *Reader) {
	a.Handle = r.Handle()
	a.Nonce = r.Sized(MaxDigest)
	a.Attributes.Unmarshal(r)
	a.HMAC = r.Sized(MaxDigest)
}

// AuthResponse is TPMS_AUTH_RESPONSE (Part 2, 10.13.3).
type AuthResponse struct {
	Nonce      []byte
	Attributes SessionAttributes
	HMAC       []byte
}

func (a *AuthResponse) Marshal(w *Writer) {
	w.Sized(a.Nonce)
	a.Attributes.Marshal(w)
	w.Sized(a.HMAC)
}

func (a *AuthResponse) Unmarshal(r *Reader) {
	a.Nonce = r.Sized(MaxDigest)
	a.Attributes.Unmarshal(r)
	a.HMAC = r.Sized(MaxDigest)
}

// Header is the header of a command (Code is a CC) or response (Code is an RC)
// (Part 1, 18).
type Header struct {
	Tag  Tag
	Size uint32
	Code uint32
}

// HeaderSize is the size of a Header in bytes.
const HeaderSize = 10

func (h Header) Marshal(w *Writer) {
	w.U16(uint16(h.Tag))
	w.U32(h.Size)
	w.U32(h.Code)
}

func (h *Header) Unmarshal(r *Reader) { *h = Header{Tag(r.U16()), r.U32(), r.U32()} }
