// SPDX-License-Identifier: Apache-2.0

package monitor

import "holdfast/enclave/sgx"

// Frame is the number of an EPC page, from 0 to the number of frames minus 1.
type Frame uint32

// NoFrame is no EPC page.
const NoFrame = ^Frame(0)

// Backend is what a platform gives to the core. Its methods are called with the
// monitor's lock held and must not call back.
type Backend interface {
	// Frames is the size of the EPC in pages; it never changes.
	Frames() int
	// Page returns the content of an EPC frame, valid for the life of the
	// backend. Only monitor and enclaves can reach it.
	Page(Frame) *[sgx.PageSize]byte
	// Map makes a page of an enclave reachable for it at a linear address with
	// these permissions, in place of what was there.
	Map(e *Enclave, linear uint64, f Frame, perm sgx.Perm)
	// Unmap takes a page away. Until Shootdown, a thread that is inside may
	// still reach it.
	Unmap(e *Enclave, linear uint64)
	// Shootdown makes every thread of the enclave forget cached translations.
	Shootdown(e *Enclave)
	// Rand fills b with random bytes fit for keys.
	Rand(b []byte) error
	// XSaveSize is the size in bytes of an XSAVE image (standard format) with
	// the features xfrm; 0 if the processor lacks one of them.
	XSaveSize(xfrm uint64) uint64
}

// Outcome is how a leaf ended: well, with an error code in RAX and ZF set, or
// with an exception that the backend must raise.
type Outcome struct {
	// Vector is the exception, 0 for none (a leaf never raises #DE).
	Vector uint8
	// ErrorCode and Address belong to a page fault.
	ErrorCode uint32
	Address   uint64
	// Code is the error code for RAX.
	Code sgx.Code
}

// OK reports whether the leaf was carried out.
func (o Outcome) OK() bool { return o.Vector == 0 && o.Code == sgx.Success }

// Bit 15 of a page fault's error code says that the EPCM refused the access
// (SDM, "Page-Fault Error Codes").
const pfSGX = 1 << 15

var (
	ok = Outcome{}
	gp = Outcome{Vector: sgx.VectorGP}
)

func pf(linear uint64) Outcome {
	return Outcome{Vector: sgx.VectorPF, ErrorCode: pfSGX, Address: linear}
}

func code(c sgx.Code) Outcome { return Outcome{Code: c} }
