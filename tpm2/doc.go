// SPDX-License-Identifier: Apache-2.0

// Package tpm2 holds the words of the TPM 2.0 Library specification, version
// 185: codes, attributes, structures and their wire form, Names and policy
// digests. It has no state and does no I/O; the engine (softtpm), the client
// (tss) and the verifier (attest/verify) share it.
//
// Start with Reader and Writer: every structure has
//
//	func (x T) Marshal(w *Writer)
//	func (x *T) Unmarshal(r *Reader)
//
// and Encode and Decode do the same for one whole structure in a byte slice.
// A Reader keeps its first error and then returns zero values, so a chain of
// reads needs one check at its end. Nothing here panics on any input, nothing
// uses reflection, and every list and buffer has a bound.
//
// The doc comment of each type names its specification term and section, for
// example TPMT_PUBLIC (Part 2, 12.2.4), so that a search for the term finds it.
// Unions are flat Go structs: the selector says which fields count, and fields
// of other arms stay zero.
//
// Errors on the wire are RC values; RC is a Go error that works with
// errors.Is (position ignored) and says which handle, parameter or session it
// is about.
package tpm2
