// SPDX-License-Identifier: Apache-2.0

// Package image turns an enclave file into the list of steps that build the
// enclave: which page goes where, with which permissions, measured or not. It
// reads the two formats in use, `.signed.so` of Intel's SDK (metadata 1.x to
// 3.x) and `.sgxs`, the stream of measured blocks.
//
// Call [ReadSDK] or [ReadSGXS]; then [Image.Measure] gives the MRENCLAVE that
// SGX would report, which for an SDK enclave must equal its SIGSTRUCT's. The
// input is hostile: sizes and offsets are checked before they are used, and
// what an image may ask for is bounded by [MaxSize] and [MaxPages].
//
// Source: linux-sgx, psw/urts (order of loading) and common/inc/internal
// (metadata layout), as collected in the project's design notes.
package image

import (
	"fmt"

	"holdfast/enclave/sgx"
)

// Bounds on what an image may ask for.
const (
	MaxSize  = 1 << 36 // bytes of ELRANGE
	MaxPages = 1 << 20 // pages added, 4 GiB
)

// Page is one EADD, and for measured pages the EEXTENDs that follow it.
type Page struct {
	Offset uint64 // from the enclave's base, page aligned
	Info   sgx.SecInfo
	// Data is the page's content, nil for a page of zeros. Pages with the
	// same content may share it: do not write to it.
	Data *[sgx.PageSize]byte
	// Extend has one bit for each chunk of 256 bytes that is measured; all
	// ones for a normal measured page, 0 for an unmeasured one.
	Extend uint16
}

// Image is an enclave as its file describes it, in loading order.
type Image struct {
	Size         uint64 // of ELRANGE in bytes
	SSAFrameSize uint32 // pages
	MiscSelect   sgx.MiscSelect
	Attributes   sgx.Attributes
	Pages        []Page
	Sig          *sgx.SigStruct // nil for .sgxs
	Metadata     Metadata       // zero for .sgxs
}

// Metadata is what an SDK image says beside the pages.
type Metadata struct {
	Major, Minor uint32
	TCSPolicy    uint32 // 0: a thread of the application keeps its TCS; 1: any free one
	TCSMinPool   uint32
	// DynamicThreads, Heap and Stack tell a runtime with EDMM what it may add
	// after EINIT; layout entries marked post-add.
	PostAdd []Range
}

// Range is a part of ELRANGE.
type Range struct {
	Offset, Size uint64
	Flags        uint64 // SECINFO.FLAGS
	ID           uint16 // the SDK's layout id
}

// Measure computes MRENCLAVE.
func (m *Image) Measure() [32]byte {
	s := sgx.NewMeasurement()
	s.Create(m.SSAFrameSize, m.Size)
	for i := range m.Pages {
		p := &m.Pages[i]
		s.Add(p.Offset, p.Info)
		data := p.Data
		if data == nil {
			data = &zeroPage
		}
		for c := 0; c < 16; c++ {
			if p.Extend&(1<<c) != 0 {
				o := c * sgx.ExtendSize
				s.Extend(p.Offset+uint64(o), (*[sgx.ExtendSize]byte)(data[o:]))
			}
		}
	}
	return s.Sum()
}

var zeroPage [sgx.PageSize]byte

// FormatError says what in an enclave file breaks the format.
type FormatError struct {
	Format  string // ".signed.so" or ".sgxs"
	Problem string
}

func (e *FormatError) Error() string { return "enclave image (" + e.Format + "): " + e.Problem }

func sdkError(format string, a ...any) error {
	return &FormatError{".signed.so", fmt.Sprintf(format, a...)}
}
