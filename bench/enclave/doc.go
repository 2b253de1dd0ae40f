// SPDX-License-Identifier: Apache-2.0

// Package enclave measures what enclaves cost: the edge calls and exceptions of
// the published evaluation of HyperEnclave (its tables 1 and 2), the marshalling
// buffer (its figure 7), loading, and the monitor's own work per leaf. Only `holdfast bench enclave` and tests use it.
//
// Call [Run] with the modes to measure; [Goals] says which goals the rows meet.
//
// Limits: times of an emulated processor mean nothing, ratios within one run do.
package enclave
