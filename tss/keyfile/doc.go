// SPDX-License-Identifier: Apache-2.0

// Package keyfile turns keys of a TPM into the forms that other software reads,
// and back: public keys as SubjectPublicKeyInfo, private ones as PKCS #8, both
// with ML-DSA (RFC 9881) and ML-KEM (RFC 9935) where a private key is its seed,
// and keys that only their TPM can use as TSS2 PRIVATE KEY files. Call
// MarshalPublic, ParsePublic, MarshalPrivate, ParsePrivate, ParseTSS2, and
// Decode for a PEM file of any of these kinds.
//
// Promises: what is malformed, or has bytes behind its end, is an error and no
// key. Private values are never part of an error.
package keyfile
