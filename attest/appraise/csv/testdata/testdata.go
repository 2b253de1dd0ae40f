// SPDX-License-Identifier: Apache-2.0

// Package testdata holds a public attestation report of a real Hygon chip with
// its certificates (NOTICE says where they are from), for tests and benchmarks.
package testdata

import _ "embed"

// Report is the report; its report data is "user data" and zeros.
//
//go:embed report.cert
var Report []byte

// Chain has the HSK and the CEK that signed it.
//
//go:embed hsk_cek.cert
var Chain []byte
