// SPDX-License-Identifier: Apache-2.0

// Package probe is the enclave that tests load: no SDK, a few commands that use
// what an enclave can do and try what it must not (testdata/probe.s). Nothing but tests
// may use it: the key that signs it is public.
//
// Call [Image] for an image to load, [SGXS], [Files] and [SignedSO] for one as files.
package probe

import (
	"bytes"
	"crypto/rsa"
	"crypto/x509"
	_ "embed" // probe.bin and the key
	"encoding/binary"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"sync"

	"holdfast/enclave/sgx"
	"holdfast/enclave/sgx/image"
)

//go:generate sh -c "as -o probe.o testdata/probe.s && objcopy -O binary -j .text probe.o testdata/probe.bin && rm probe.o"
//go:generate sh -c "as -o p.o testdata/p.s && objcopy -O binary -j .text p.o testdata/p.bin && rm p.o"

// Code is the enclave's first page.
//
//go:embed testdata/probe.bin
var Code []byte

// Commands of testdata/probe.s.
const (
	Put = iota
	Get
	OCall
	UD
	Report
	Seal
	Loop
	Syscall
	Peek
	Jump
	Accept
	Scribble
	Fill
	Check
	AcceptAs
	Ask
	Extend
	Poke
	Transform
	StackCall
	Touch
	Lower
	Flip
	Keys
	Flood
	Collect
	Copy
	Overrun
)

// Offsets in the enclave.
const (
	OffTCS  = 0x10000
	OffSSA  = 0x11000
	OffData = 0x20000
	OffNew  = 0x30000 // nothing is there at first
	OffHeap = 0x40000
)

//go:embed testdata/signer-test-key.pem
var signer []byte

// Signer is a test key that everybody has. It signs with exponent 3 as SGX
// wants it.
var Signer = sync.OnceValues(func() (*rsa.PrivateKey, error) {
	p, _ := pem.Decode(signer)
	k, err := x509.ParsePKCS8PrivateKey(p.Bytes)
	if err != nil {
		return nil, err
	}
	return k.(*rsa.PrivateKey), nil
})

// PCode is the first page of the enclave for P mode.
//
//go:embed testdata/p.bin
var PCode []byte

// Commands of testdata/p.s.
const (
	PUD = iota
	PSandbox
	PHostile
	PCount
	PFault
)

// PImage is the enclave for P mode, with one thread.
func PImage() (*image.Image, error) {
	return Image(1, 8, func(m *image.Image) {
		*m.Pages[0].Data = [sgx.PageSize]byte{}
		copy(m.Pages[0].Data[:], PCode)
	})
}

// Image is the enclave with the given numbers of threads (up to 5) and of heap
// pages, which are not measured; change, if there is one, is called before it
// is signed.
func Image(threads, heap int, change func(*image.Image)) (*image.Image, error) {
	img := &image.Image{Size: 1 << 18, SSAFrameSize: 1, MiscSelect: sgx.MiscExInfo, Attributes: sgx.Attributes{Flags: sgx.FlagMode64, XFRM: 3}}
	add := func(off uint64, info sgx.SecInfo, content []byte) {
		p := new([sgx.PageSize]byte)
		copy(p[:], content)
		img.Pages = append(img.Pages, image.Page{Offset: off, Info: info, Data: p, Extend: 0xffff})
	}
	if len(Code) > sgx.PageSize {
		return nil, errors.New("probe: the code is larger than a page")
	}
	rw := sgx.SecInfo{Perm: sgx.PermR | sgx.PermW, Type: sgx.PageREG}
	add(0, sgx.SecInfo{Perm: sgx.PermR | sgx.PermX, Type: sgx.PageREG}, Code)
	for i := 0; i < threads; i++ {
		o := uint64(i) * 0x3000
		tcs := sgx.TCS{OSSA: OffSSA + o, NSSA: 2, FSLimit: 0xfff, GSLimit: 0xfff}
		add(OffTCS+o, sgx.SecInfo{Type: sgx.PageTCS}, tcs.AppendTo(nil))
		add(OffSSA+o, rw, nil)
		add(OffSSA+o+0x1000, rw, nil)
	}
	add(OffData, rw, nil)
	for img.Size < OffHeap+uint64(heap)*sgx.PageSize {
		img.Size *= 2
	}
	for i := range heap {
		img.Pages = append(img.Pages, image.Page{Offset: OffHeap + uint64(i)*sgx.PageSize, Info: rw})
	}
	if change != nil {
		change(img)
	}
	img.Sig = &sgx.SigStruct{EnclaveHash: img.Measure(), Attributes: sgx.Attributes{Flags: sgx.FlagMode64, XFRM: 3}, MiscSelect: img.MiscSelect, MiscMask: ^sgx.MiscSelect(0),
		AttrMask: sgx.Attributes{Flags: ^sgx.FlagDebug, XFRM: ^uint64(4)}, ISVProdID: 3, ISVSVN: 2}
	k, err := Signer()
	if err != nil {
		return nil, err
	}
	return img, img.Sig.Sign(k)
}

// SGXS writes the image as a .sgxs stream; what is not measured becomes zeros.
func SGXS(m *image.Image) []byte {
	le := binary.LittleEndian
	var b bytes.Buffer
	var x [64]byte
	copy(x[:], "ECREATE\x00")
	le.PutUint32(x[8:], m.SSAFrameSize)
	le.PutUint64(x[12:], m.Size)
	b.Write(x[:])
	for i := range m.Pages {
		p := &m.Pages[i]
		x = [64]byte{}
		copy(x[:], "EADD")
		le.PutUint64(x[8:], p.Offset)
		le.PutUint64(x[16:], p.Info.Flags())
		b.Write(x[:])
		for c := 0; c < sgx.PageSize/sgx.ExtendSize; c++ {
			if p.Extend&(1<<c) == 0 {
				continue
			}
			o := c * sgx.ExtendSize
			x = [64]byte{}
			copy(x[:], "EEXTEND\x00")
			le.PutUint64(x[8:], p.Offset+uint64(o))
			b.Write(x[:])
			b.Write(p.Data[o:][:sgx.ExtendSize])
		}
	}
	return b.Bytes()
}

// Files writes NAME.sgxs and NAME.sig into a folder.
func Files(dir, name string, m *image.Image) error {
	return errors.Join(os.WriteFile(filepath.Join(dir, name+".sgxs"), SGXS(m), 0o644), os.WriteFile(filepath.Join(dir, name+".sig"), m.Sig.AppendTo(nil), 0o644))
}
