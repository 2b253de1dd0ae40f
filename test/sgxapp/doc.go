// SPDX-License-Identifier: Apache-2.0

// Package sgxapp has only tests: they build libsgx_urts.so (sdk/urts) and an
// application that is linked against a stub of it, and run the application
// against a monitor, as a built SGX application would: with LD_LIBRARY_PATH alone.
package sgxapp
