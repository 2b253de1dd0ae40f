// SPDX-License-Identifier: Apache-2.0

// Package sdk has only tests: they build the SDK (sdk/build.sh) and its samples
// with the samples' own makefiles, sign them, and run application and enclave
// against a monitor.
package sdk
