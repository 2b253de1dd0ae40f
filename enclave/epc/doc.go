// SPDX-License-Identifier: Apache-2.0

// Package epc is what the backends of the enclave monitor share: the memory of
// the EPC, which page of it each enclave sees where, and the interface through
// which enclave code is run. A backend (package host, package kvm) makes a
// [Platform] and gives it a [Runner].
//
// Call a backend's New for a platform, hold [Platform.Mu] for every call of
// [Platform.Monitor], take a [Thread] for each thread control structure and let
// enclave code run with [Thread.Run] until it needs the monitor.
//
// Promises: what the monitor maps or unmaps reaches every thread of the enclave
// before it runs again; pages of the EPC are in no core dump and in no child.
//
// Limits: the host's kernel and its administrator can read the EPC.
package epc
