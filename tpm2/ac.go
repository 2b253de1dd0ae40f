// SPDX-License-Identifier: Apache-2.0

package tpm2

// Attached components: Part 2, 7.2 (handles) and 16.

// AT is the type of a value about an attached component, TPM_AT (Part 2, 16.1).
type AT uint32

// Types of values.
const (
	ATAny   AT = 0x00000000 // in a command: any
	ATError AT = 0x00000001 // the value is a TPM_AE
	ATPV1   AT = 0x00000002 // the first 32 bits of a pairing value
	ATVend  AT = 0x80000000 // added to a type of the vendor's
)

// AENone is the TPM_AE that says that there was no error (Part 2, 16.2).
const AENone uint32 = 0

// Handles of attached components, and of the NV indices that authorize their
// use, TPM_HC (Part 2, 7.5).
const (
	HandleACFirst   Handle = 0x90000000
	HandleACLast    Handle = 0x9000FFFF
	HandleNVACFirst Handle = 0x01C90000
)

// ACOutput is TPMS_AC_OUTPUT (Part 2, 16.3): one value of a component, or the
// outcome of AC_Send.
type ACOutput struct {
	Type AT
	Data uint32
}

func (o ACOutput) Marshal(w *Writer) {
	w.U32(uint32(o.Type))
	w.U32(o.Data)
}

func (o *ACOutput) Unmarshal(r *Reader) {
	*o = ACOutput{Type: AT(r.U32()), Data: r.U32()}
	if r.err != RCSuccess {
		*o = ACOutput{}
	}
}

// MarshalACOutputs writes a TPML_AC_CAPABILITIES.
func MarshalACOutputs(w *Writer, l []ACOutput) {
	w.U32(uint32(len(l)))
	for _, o := range l {
		o.Marshal(w)
	}
}

// UnmarshalACOutputs reads a TPML_AC_CAPABILITIES.
func UnmarshalACOutputs(r *Reader) []ACOutput {
	var l []ACOutput
	for n := r.Count(maxCapItems); n > 0 && r.err == RCSuccess; n-- {
		l = append(l, ACOutput{AT(r.U32()), r.U32()})
	}
	if r.err != RCSuccess {
		return nil
	}
	return l
}
