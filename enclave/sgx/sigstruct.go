// SPDX-License-Identifier: Apache-2.0

package sgx

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"time"
)

// SigStruct is SIGSTRUCT, the enclave author's signature (SDM, "SIGSTRUCT";
// 1808 bytes). The numbers of the RSA key and signature are 384 bytes,
// little-endian, as on the wire.
type SigStruct struct {
	Vendor       uint32 // 0x8086 for Intel's own enclaves, else 0
	Date         Date
	SWDefined    uint32
	Modulus      [384]byte
	Signature    [384]byte
	MiscSelect   MiscSelect
	MiscMask     MiscSelect
	ISVFamilyID  [16]byte
	Attributes   Attributes
	AttrMask     Attributes
	EnclaveHash  [32]byte
	ISVExtProdID [16]byte
	ISVProdID    uint16
	ISVSVN       uint16
	Q1, Q2       [384]byte
}

// SigStructSize is the size of SIGSTRUCT in bytes.
const SigStructSize = 1808

// Date is the signing date in BCD, 0xYYYYMMDD.
type Date uint32

// DateOf converts a time (in UTC) to a Date.
func DateOf(t time.Time) Date {
	y, m, d := t.UTC().Date()
	return Date(bcd(y/100)<<24 | bcd(y%100)<<16 | bcd(int(m))<<8 | bcd(d))
}

func bcd(n int) uint32 { return uint32(n/10<<4 | n%10) }

func (d Date) String() string {
	return fmt.Sprintf("%04x-%02x-%02x", uint32(d)>>16, uint32(d)>>8&0xff, uint32(d)&0xff)
}

var (
	sigHeader  = [16]byte{0x06, 0, 0, 0, 0xe1, 0, 0, 0, 0, 0, 1}
	sigHeader2 = [16]byte{0x01, 0x01, 0, 0, 0x60, 0, 0, 0, 0x60, 0, 0, 0, 0x01}
)

const sigExponent = 3

// ParseSigStruct reads a SIGSTRUCT and checks the layout as EINIT does: the
// constants, the exponent, the reserved fields. It does not verify; see
// [SigStruct.Verify].
func ParseSigStruct(b []byte) (*SigStruct, error) {
	const name = "SIGSTRUCT"
	if err := wantSize(name, b, SigStructSize); err != nil {
		return nil, err
	}
	switch {
	case !bytes.Equal(b[:16], sigHeader[:]):
		return nil, &LayoutError{name, "HEADER", fmt.Sprintf("expected %x, got %x", sigHeader, b[:16])}
	case !bytes.Equal(b[24:40], sigHeader2[:]):
		return nil, &LayoutError{name, "HEADER2", fmt.Sprintf("expected %x, got %x", sigHeader2, b[24:40])}
	case le.Uint32(b[512:]) != sigExponent:
		return nil, &LayoutError{name, "EXPONENT", fmt.Sprintf("expected 3, got %d", le.Uint32(b[512:]))}
	}
	if err := wantZero(name, b, [2]int{44, 128}, [2]int{908, 912}, [2]int{992, 1008}, [2]int{1028, 1040}); err != nil {
		return nil, err
	}
	s := &SigStruct{
		Vendor: le.Uint32(b[16:]), Date: Date(le.Uint32(b[20:])), SWDefined: le.Uint32(b[40:]),
		MiscSelect: MiscSelect(le.Uint32(b[900:])), MiscMask: MiscSelect(le.Uint32(b[904:])),
		Attributes: parseAttributes(b[928:]), AttrMask: parseAttributes(b[944:]),
		ISVProdID: le.Uint16(b[1024:]), ISVSVN: le.Uint16(b[1026:]),
	}
	copy(s.Modulus[:], b[128:])
	copy(s.Signature[:], b[516:])
	copy(s.ISVFamilyID[:], b[912:])
	copy(s.EnclaveHash[:], b[960:])
	copy(s.ISVExtProdID[:], b[1008:])
	copy(s.Q1[:], b[1040:])
	copy(s.Q2[:], b[1424:])
	return s, nil
}

// AppendTo appends the 1808 bytes of the structure.
func (s *SigStruct) AppendTo(b []byte) []byte {
	var p [SigStructSize]byte
	copy(p[0:], sigHeader[:])
	le.PutUint32(p[16:], s.Vendor)
	le.PutUint32(p[20:], uint32(s.Date))
	copy(p[24:], sigHeader2[:])
	le.PutUint32(p[40:], s.SWDefined)
	copy(p[128:], s.Modulus[:])
	le.PutUint32(p[512:], sigExponent)
	copy(p[516:], s.Signature[:])
	le.PutUint32(p[900:], uint32(s.MiscSelect))
	le.PutUint32(p[904:], uint32(s.MiscMask))
	copy(p[912:], s.ISVFamilyID[:])
	s.Attributes.appendTo(p[928:928])
	s.AttrMask.appendTo(p[944:944])
	copy(p[960:], s.EnclaveHash[:])
	copy(p[1008:], s.ISVExtProdID[:])
	le.PutUint16(p[1024:], s.ISVProdID)
	le.PutUint16(p[1026:], s.ISVSVN)
	copy(p[1040:], s.Q1[:])
	copy(p[1424:], s.Q2[:])
	return append(b, p[:]...)
}

// signedDigest is SHA-256 over the signed ranges, bytes 0..127 and 900..1027.
func (s *SigStruct) signedDigest() [32]byte {
	b := s.AppendTo(make([]byte, 0, SigStructSize))
	h := sha256.New()
	h.Write(b[:128])
	h.Write(b[900:1028])
	var d [32]byte
	h.Sum(d[:0])
	return d
}

// MRSigner is SHA-256 over the 384 bytes of the modulus.
func (s *SigStruct) MRSigner() [32]byte { return sha256.Sum256(s.Modulus[:]) }
