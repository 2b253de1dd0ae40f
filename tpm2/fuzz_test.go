// SPDX-License-Identifier: Apache-2.0

package tpm2

import (
	"bytes"
	"reflect"
	"testing"
)

// publicNull and the types below give second readers and lists a Decode of their own.
type publicNull struct{ Public }

func (p *publicNull) Unmarshal(r *Reader) { p.Public.UnmarshalNull(r) }

type signatureNull struct{ Signature }

func (s *signatureNull) Unmarshal(r *Reader) { s.Signature.UnmarshalNull(r) }

type selections struct{ l []PCRSelection }

func (s *selections) Marshal(w *Writer)   { MarshalPCRSelections(w, s.l) }
func (s *selections) Unmarshal(r *Reader) { s.l = UnmarshalPCRSelections(r) }

type digests struct{ l [][]byte }

func (d *digests) Marshal(w *Writer)   { MarshalDigests(w, d.l) }
func (d *digests) Unmarshal(r *Reader) { d.l = UnmarshalDigests(r, 0) }

type has struct{ l []HA }

func (d *has) Marshal(w *Writer)   { MarshalHAs(w, d.l) }
func (d *has) Unmarshal(r *Reader) { d.l = UnmarshalHAs(r) }

type acOutputs struct{ l []ACOutput }

func (o *acOutputs) Marshal(w *Writer)   { MarshalACOutputs(w, o.l) }
func (o *acOutputs) Unmarshal(r *Reader) { o.l = UnmarshalACOutputs(r) }

// structures lists one maker per wire structure.
var structures = []func() both{
	func() both { return &Public{} },
	func() both { return &publicNull{} },
	func() both { return &Sensitive{} },
	func() both { return &SensitiveCreate{} },
	func() both { return &Signature{} },
	func() both { return &signatureNull{} },
	func() both { return &Attest{} },
	func() both { return &Ticket{} },
	func() both { return &CreationData{} },
	func() both { return &IDObject{} },
	func() both { return &NVPublic{} },
	func() both { return &Context{} },
	func() both { return &CapabilityData{} },
	func() both { return &SymDef{} },
	func() both { return &selections{} },
	func() both { return &digests{} },
	func() both { return &has{} },
	func() both { return &AuthCommand{} },
	func() both { return &AuthResponse{} },
	func() both { return &SetCapabilityData{} },
	func() both { return &ACOutput{} },
	func() both { return &acOutputs{} },
}

// FuzzStructures: whatever is accepted encodes to the same bytes; whatever is
// refused leaves no half-read value in structures that own their memory.
func FuzzStructures(f *testing.F) {
	f.Add(uint8(0), unhex(f, "00A1 000C 00050072 0000 0002 01 0000"))
	f.Add(uint8(0), unhex(f, "0001 000B 00030072 0000 0006 0080 0043 0010 0800 00000000 0000"))
	f.Add(uint8(4), unhex(f, "0018 000C 0001 11 0001 22"))
	f.Add(uint8(6), unhex(f, "FF544347 8018 0000 0000 0000000000001000 00000001 00000002 01 0000000100020003 00000001 000B 03 0F0080 0000"))
	f.Add(uint8(7), unhex(f, "8027 40000001 000C 0001 AA"))
	f.Add(uint8(8), unhex(f, "00000000 0001 EE 01 000B 0001 AA 0001 BB 0002 CCDD"))
	f.Add(uint8(12), unhex(f, "00000006 00000001 00000131 0000007F"))
	f.Fuzz(func(t *testing.T, which uint8, b []byte) {
		v := structures[int(which)%len(structures)]()
		if err := Decode(b, v); err != nil {
			// A structure followed by rubbish was read before it was refused.
			switch v.(type) {
			case *Public, *Signature, *Attest, *CapabilityData:
				var r Reader
				r.Reset(b)
				if v.Unmarshal(&r); r.Err() != nil && !reflect.ValueOf(v).Elem().IsZero() {
					t.Fatalf("%T: refused %x, yet holds %+v", v, b, v)
				}
			}
			return
		}
		out, err := Encode(v)
		if err != nil {
			t.Fatalf("accepted %x, cannot encode: %v", b, err)
		}
		if !bytes.Equal(out, b) {
			t.Fatalf("%T: accepted %x, encodes to %x", v, b, out)
		}
	})
}

// TestRefusedIsEmpty: a refused Public, Signature or Attest is the zero value.
func TestRefusedIsEmpty(t *testing.T) {
	for _, c := range []struct {
		b string
		v both
	}{
		{"00A1 000C 00050072 0000 0002 01 0005 00", &Public{}},
		{"0018 000C 0001 11 0001", &Signature{}},
		{"FF544347 8018 0000 0000 0000000000001000 00000001 00000002 01 0000000100020003 00000001 000B 03 0F00", &Attest{}},
	} {
		if Decode(unhex(t, c.b), c.v) == nil {
			t.Errorf("%T: accepted", c.v)
		}
		if !reflect.ValueOf(c.v).Elem().IsZero() {
			t.Errorf("%T: refused, yet holds %+v", c.v, c.v)
		}
	}
}
