// SPDX-License-Identifier: Apache-2.0

package csv

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// Usages of keys and signatures.
const (
	UsageHRK  = 0x0000 // Hygon root key
	UsageHSK  = 0x0013 // Hygon signing key, signed by the HRK
	UsageNone = 0x1000 // an empty signature slot
	UsageOCA  = 0x1001 // owner's certificate authority
	UsagePEK  = 0x1002 // platform endorsement key: signs reports
	UsagePDH  = 0x1003
	UsageCEK  = 0x1004 // chip endorsement key, signed by the HSK
)

// Values that a verifier demands.
const (
	CurveSM2  = 3 // SM2 on the 256 bit curve of GB/T 32918.5
	AlgoSM2SA = 4 // SM2 signature with SM3
)

// Sizes in bytes.
const (
	RootCertSize = 832  // HRK and HSK
	ChipCertSize = 2084 // CEK and PEK
	ChainSize    = RootCertSize + ChipCertSize

	coordSize  = 72 // a coordinate or signature half: 32 bytes little-endian, then zeros
	scalarSize = 32
	maxUID     = 254
)

// Point is a public key's point, big-endian.
type Point struct{ X, Y [scalarSize]byte }

// Sig is a signature's two numbers, big-endian.
type Sig struct{ R, S [scalarSize]byte }

// RootCert is the certificate of an HRK or HSK.
type RootCert struct {
	Version   uint32
	KeyID     [16]byte
	SignerID  [16]byte // KeyID of the key that signed
	Usage     uint32
	Curve     uint32
	Key       Point
	UID       []byte // user id of SM2 signatures by this key, at most 254 bytes
	Signature Sig

	raw []byte
}

// Offsets in a RootCert and a ChipCert.
const (
	rootUsage, rootCurve, rootX, rootUIDLen, rootUID, rootSig = 36, 64, 68, 212, 214, 576

	chipUsage, chipAlgo, chipCurve, chipX, chipUIDLen, chipUID = 8, 12, 16, 20, 164, 166
	chipSig1, chipSig2, chipSigSize                            = 1044, 1564, 520
)

// Signed is what the signature of c is over.
func (c *RootCert) Signed() []byte { return c.raw[:rootSig] }

// Bytes is the certificate as it was read.
func (c *RootCert) Bytes() []byte { return c.raw }

// ParseRootCert reads the 832 bytes of an HRK or HSK. It checks no signature.
func ParseRootCert(b []byte) (*RootCert, error) {
	const what = "CSV root certificate"
	if len(b) != RootCertSize {
		return nil, malformed(what, fmt.Errorf("expected %d bytes, got %d", RootCertSize, len(b)))
	}
	c := &RootCert{Version: le32(b), Usage: le32(b[rootUsage:]), Curve: le32(b[rootCurve:]), raw: b}
	copy(c.KeyID[:], b[4:])
	copy(c.SignerID[:], b[20:])
	var err error
	if c.Key, err = point(b[rootX:]); err != nil {
		return nil, malformed(what, err)
	}
	if c.UID, err = uid(b[rootUIDLen:], b[rootUID:]); err != nil {
		return nil, malformed(what, err)
	}
	if c.Signature, err = sig(b[rootSig:]); err != nil {
		return nil, malformed(what, err)
	}
	if !zero(b[rootSig+2*coordSize:]) {
		return nil, malformed(what, errUnsigned)
	}
	return c, nil
}

// Slot is one of the two signatures of a ChipCert.
type Slot struct {
	Usage uint32 // of the key that signed; UsageNone: empty
	Algo  uint32
	Sig   Sig
}

// ChipCert is the certificate of a CEK or PEK.
type ChipCert struct {
	Version  uint32
	APIMajor uint8
	APIMinor uint8
	Usage    uint32
	Algo     uint32
	Curve    uint32
	Key      Point
	UID      []byte
	Slots    [2]Slot

	raw []byte
}

// Signed is what both signatures of c are over.
func (c *ChipCert) Signed() []byte { return c.raw[:chipSig1] }

// Bytes is the certificate as it was read, unmasked.
func (c *ChipCert) Bytes() []byte { return c.raw }

// ParseChipCert reads the 2,084 bytes of a CEK or PEK. It checks no signature.
func ParseChipCert(b []byte) (*ChipCert, error) {
	const what = "CSV chip certificate"
	if len(b) != ChipCertSize {
		return nil, malformed(what, fmt.Errorf("expected %d bytes, got %d", ChipCertSize, len(b)))
	}
	c := &ChipCert{Version: le32(b), APIMajor: b[4], APIMinor: b[5], Usage: le32(b[chipUsage:]), Algo: le32(b[chipAlgo:]), Curve: le32(b[chipCurve:]), raw: b}
	var err error
	if c.Key, err = point(b[chipX:]); err != nil {
		return nil, malformed(what, err)
	}
	if c.UID, err = uid(b[chipUIDLen:], b[chipUID:]); err != nil {
		return nil, malformed(what, err)
	}
	for i, at := range []int{chipSig1, chipSig2} {
		s := b[at : at+chipSigSize]
		c.Slots[i].Usage, c.Slots[i].Algo = le32(s), le32(s[4:])
		if (c.Slots[i].Usage == UsageNone && !zero(s[4:])) || !zero(s[8+2*coordSize:]) {
			return nil, malformed(what, errUnsigned)
		}
		if c.Slots[i].Sig, err = sig(s[8:]); err != nil {
			return nil, malformed(what, fmt.Errorf("signature %d: %w", i+1, err))
		}
	}
	return c, nil
}

// Chain is what Hygon's key server gives for a chip: HSK and CEK.
type Chain struct {
	HSK *RootCert
	CEK *ChipCert
}

// ParseChain reads HSK ‖ CEK. It checks no signature.
func ParseChain(b []byte) (*Chain, error) {
	if len(b) != ChainSize {
		return nil, malformed("CSV chain", fmt.Errorf("expected HSK and CEK in %d bytes, got %d", ChainSize, len(b)))
	}
	hsk, err := ParseRootCert(b[:RootCertSize])
	if err != nil {
		return nil, err
	}
	cek, err := ParseChipCert(b[RootCertSize:])
	if err != nil {
		return nil, err
	}
	return &Chain{hsk, cek}, nil
}

// errUnsigned: nothing may hide where no signature reaches.
var errUnsigned = errors.New("bytes that are not signed are not zero")

func le32(b []byte) uint32 { return binary.LittleEndian.Uint32(b) }

// number reads a little-endian number of 32 bytes that is filled with zeros to 72.
func number(b []byte) (out [scalarSize]byte, err error) {
	if !zero(b[scalarSize:coordSize]) {
		return out, errors.New("a number of more than 32 bytes")
	}
	copy(out[:], b)
	slices.Reverse(out[:])
	return out, nil
}

func point(b []byte) (p Point, err error) {
	if p.X, err = number(b); err == nil {
		p.Y, err = number(b[coordSize:])
	}
	return p, err
}

func sig(b []byte) (s Sig, err error) {
	if s.R, err = number(b); err == nil {
		s.S, err = number(b[coordSize:])
	}
	return s, err
}

func uid(length, b []byte) ([]byte, error) {
	n := int(binary.LittleEndian.Uint16(length))
	if n > maxUID {
		return nil, fmt.Errorf("user id: expected at most %d bytes, got %d", maxUID, n)
	}
	return b[:n:n], nil
}

func zero(b []byte) bool { return len(bytes.TrimLeft(b, "\x00")) == 0 }
