// SPDX-License-Identifier: Apache-2.0

// Package pager hands out the pages of the EPC and, when there are none left,
// moves pages of enclaves out of it and back: EBLOCK, ETRACK, EWB and ELDU in
// the order that the SDM asks for. What leaves is encrypted by the monitor, and
// its version stays inside in a VA page, so that nobody can give an old or
// altered page back.
//
// Call [New], then [Pager.Alloc] for each page and [Enclave.Add] for those that
// may leave. When an enclave misses a page ([Enclave.Absent]), [Enclave.In]
// brings it back; when a thread left an enclave, say [Pager.Left].
//
// All methods want the monitor's lock held; Alloc and In may release it while
// they wait for threads to leave, so read nothing across them that others
// change. Pages leave first in, first out: a backend without accessed bits
// knows no better.
package pager
