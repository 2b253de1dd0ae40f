// SPDX-License-Identifier: Apache-2.0

// Package enclavevm runs the enclave tests in modes GU and P: in a machine that
// QEMU emulates, with AMD's virtualization, on the distribution's kernel and its
// KVM. Nothing imports it.
//
// Beside them it goes the way of a user: holdfast enclave monitor --mode gu and
// p, run, quote, and attest verify. The tests are those of enclave/kvm and enclave/urts; the latter take their
// mode from HOLDFAST_TEST_ENCLAVE_MODE.
package enclavevm
