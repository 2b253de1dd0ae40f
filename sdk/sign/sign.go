// SPDX-License-Identifier: Apache-2.0

package sign

import (
	"bytes"
	"crypto/rsa"
	"errors"
	"fmt"
	"strings"
	"time"

	"holdfast/enclave/sgx"
	"holdfast/enclave/sgx/image"
)

// Draft is an enclave that is laid out and measured, and not signed yet.
type Draft struct {
	Sig      *sgx.SigStruct
	Warnings []string
	file     []byte
	meta     int // where the metadata lies in it
}

// Options of Prepare.
type Options struct {
	Date time.Time
	// AllowSyscall takes images with instructions that enter the kernel.
	AllowSyscall bool
}

// Prepare lays out and measures the unsigned enclave in file, which is copied.
func Prepare(file []byte, c *Config, o Options) (*Draft, error) {
	s, err := openSource(bytes.Clone(file))
	if err != nil {
		return nil, err
	}
	found, odd, err := s.kernelEntries()
	if err != nil {
		return nil, err
	}
	d := &Draft{file: s.file, meta: int(s.note)}
	if len(found) > 0 && !o.AllowSyscall {
		return nil, fmt.Errorf("sign: the enclave would try to enter the kernel, which ends it: %s. Call OCALLs instead; or sign with --allow-syscall if this code is never reached, or an exception handler serves it", strings.Join(found, ", "))
	}
	if odd > 0 {
		d.Warnings = append(d.Warnings, fmt.Sprintf("%d places within other instructions read as SYSCALL, SYSENTER or INT 0x80 to a program that jumps there", odd))
	}
	p, err := s.lay(c, metaData)
	if err != nil {
		return nil, err
	}
	d.Sig = c.sigStruct(o.Date)
	if err := d.fill(s, c, p); err != nil {
		return nil, err
	}
	return d, d.measure()
}

// fill writes the metadata: TCS template, layout, patches with their contents.
func (d *Draft) fill(s *source, c *Config, p *plan) error {
	m := make([]byte, metaData, metaSize)
	add := func(b []byte) uint32 {
		at := len(m)
		m = append(m, b...)
		for len(m)%8 != 0 {
			m = append(m, 0)
		}
		return uint32(at)
	}
	dir := func(n int, at uint32, size int) {
		le.PutUint32(m[metaDirs+8*n:], at)
		le.PutUint32(m[metaDirs+8*n+4:], uint32(size))
	}
	add(p.tcsTemplate(s))
	var layout, patches []byte
	for _, e := range p.entries {
		layout = append(layout, e[:]...)
	}
	dir(1, add(layout), len(layout))
	gd := add(p.global(s, c, s.file[s.globalAt:s.globalAt+globalSize]))
	zero := add(make([]byte, 8))
	// What of the file's head depends on sections, which are not loaded.
	for _, q := range []struct {
		dst       uint64
		src, size uint32
	}{{s.globalAt, gd, globalSize}, {60, zero, 2}, {40, zero, 8}, {62, zero, 2}} {
		patches = le.AppendUint64(patches, q.dst)
		patches = le.AppendUint32(patches, q.src)
		patches = le.AppendUint32(patches, q.size)
		patches = append(patches, make([]byte, 16)...)
	}
	dir(0, add(patches), len(patches))
	if len(m) > metaSize {
		return fmt.Errorf("sign: metadata of %d bytes does not fit its %d", len(m), metaSize)
	}
	le.PutUint64(m, metaMagic)
	le.PutUint64(m[8:], metaVersion)
	le.PutUint32(m[16:], metaSize)
	le.PutUint32(m[20:], uint32(c.Get(TCSPolicy)))
	le.PutUint32(m[24:], 1)    // pages of an SSA frame
	le.PutUint32(m[28:], 2632) // bytes of processor state that fit it
	le.PutUint32(m[32:], uint32(c.Get(MiscSelect)))
	le.PutUint32(m[36:], uint32(c.Get(TCSMinPool)))
	le.PutUint64(m[40:], p.size)
	le.PutUint64(m[48:], uint64(d.Sig.Attributes.Flags))
	le.PutUint64(m[56:], d.Sig.Attributes.XFRM)
	copy(m[64:], d.Sig.AppendTo(nil))
	room := s.file[s.note : s.note+s.room]
	clear(room)
	copy(room, m)
	return nil
}

// measure sets MRENCLAVE, by the reader that loaders use.
func (d *Draft) measure() error {
	img, err := image.ReadSDK(d.file)
	if err != nil {
		return fmt.Errorf("sign: %w", err)
	}
	d.Sig.EnclaveHash = img.Measure()
	return nil
}

// sigStruct has all but measurement and signature.
func (c *Config) sigStruct(date time.Time) *sgx.SigStruct {
	s := &sgx.SigStruct{
		Date: sgx.DateOf(date), SWDefined: uint32(c.Get(HW)),
		MiscSelect: sgx.MiscSelect(c.Get(MiscSelect)), MiscMask: sgx.MiscSelect(c.Get(MiscMask)),
		Attributes: sgx.Attributes{Flags: sgx.FlagMode64, XFRM: xfrmLegacy},
		AttrMask:   sgx.Attributes{Flags: ^(sgx.FlagDebug | flagsIgnore), XFRM: xfrmLegacy | ^uint64(xfrmKnown) | xfrmPKRU | xfrmAMX},
		ISVProdID:  uint16(c.Get(ProdID)), ISVSVN: uint16(c.Get(ISVSVN)),
	}
	for _, f := range []struct {
		p    parameter
		flag sgx.Flags
	}{{ProvisionKey, sgx.FlagProvisionKey}, {LaunchKey, sgx.FlagEInitTokenKey}, {EnableKSS, sgx.FlagKSS}} {
		if c.Get(f.p) != 0 {
			s.Attributes.Flags |= f.flag
		}
	}
	if c.Get(DisableDebug) != 0 {
		s.AttrMask.Flags |= sgx.FlagDebug
	}
	le.PutUint64(s.ISVFamilyID[0:], c.Get(ISVFamilyIDLow))
	le.PutUint64(s.ISVFamilyID[8:], c.Get(ISVFamilyIDHigh))
	le.PutUint64(s.ISVExtProdID[0:], c.Get(ISVExtProdIDLow))
	le.PutUint64(s.ISVExtProdID[8:], c.Get(ISVExtProdIDHigh))
	return s
}

// Material is what the key's owner signs (RSA, PKCS #1 v1.5, SHA-256): the 256
// bytes of SIGSTRUCT that the signature covers.
func (d *Draft) Material() []byte {
	b := d.Sig.AppendTo(nil)
	return append(bytes.Clone(b[:128]), b[900:1028]...)
}

// Sign signs with the author's key, RSA with 3072 bits and exponent 3.
func (d *Draft) Sign(key *rsa.PrivateKey) ([]byte, error) {
	if err := d.Sig.Sign(key); err != nil {
		return nil, err
	}
	return d.finish()
}

// Attach takes a signature over Material, 384 bytes, most significant first, as
// `openssl dgst -sha256 -sign` writes it. It must verify.
func (d *Draft) Attach(key *rsa.PublicKey, signature []byte) ([]byte, error) {
	if err := d.Sig.SetSignature(key, signature); err != nil {
		return nil, err
	}
	return d.finish()
}

// finish writes SIGSTRUCT and looks at the result as a loader does.
func (d *Draft) finish() ([]byte, error) {
	copy(d.file[d.meta+64:], d.Sig.AppendTo(nil))
	img, err := image.ReadSDK(d.file)
	if err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	if img.Measure() != img.Sig.EnclaveHash {
		return nil, errors.New("sign: the signed file does not measure as its signature says")
	}
	if err := img.Sig.Verify(); err != nil {
		return nil, err
	}
	return d.file, nil
}

// SetDate sets the signing date to the one of a Material, so that its signature
// fits.
func (d *Draft) SetDate(material []byte) error {
	if len(material) != 256 {
		return fmt.Errorf("sign: the signing material has %d bytes, expected 256", len(material))
	}
	d.Sig.Date = sgx.Date(le.Uint32(material[20:]))
	if !bytes.Equal(d.Material(), material) {
		return errors.New("sign: the signing material is not that of this enclave with this configuration: make it anew with --gendata")
	}
	return nil
}

// Resign takes an enclave that is signed already: layout, metadata and MRENCLAVE
// stay; what the signature says of them too.
func Resign(file []byte, date time.Time) (*Draft, error) {
	d := &Draft{file: bytes.Clone(file)}
	img, err := image.ReadSDK(d.file)
	if err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	mr := img.Measure()
	if mr != img.Sig.EnclaveHash {
		return nil, errors.New("sign: the file is not what was signed: its MRENCLAVE differs from the one in SIGSTRUCT. Sign the unsigned file instead")
	}
	old := img.Sig.AppendTo(nil)
	at := bytes.Index(d.file, old)
	if at < 64 || bytes.Contains(d.file[at+1:], old) {
		return nil, errors.New("sign: SIGSTRUCT stands in several places of the file")
	}
	d.meta, d.Sig = at-64, img.Sig
	d.Sig.Date = sgx.DateOf(date)
	return d, nil
}
