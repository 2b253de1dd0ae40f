// SPDX-License-Identifier: Apache-2.0

// Package tpmcrypto holds the cryptographic primitives of the engine, as the
// TPM 2.0 Library specification (Part 1) uses them. Call it with plain byte
// strings: it knows no wire structure, keeps no state, and does no I/O.
//
// Where to look:
//
//	hash.go       hash registry (TPM_ALG_ID to implementation)
//	mac.go kdf.go HMAC, KDFa, KDFe, MGF1, XOR obfuscation
//	sym.go        AES in the five modes; CFB for parameters and objects
//	drbg.go       HMAC_DRBG: the deterministic source for primary keys
//	prime.go rsa*.go  RSA keys, RSAES, OAEP, RSASSA, RSAPSS, raw RSA
//	curve.go ec*.go   NIST curves: keys, ECDSA, ECDH, ECSCHNORR, ECDAA
//	mldsa.go mlkem.go ML-DSA (FIPS 204) and ML-KEM (FIPS 203) from seeds
//
// Promises: functions that handle a private key or a secret do not branch on
// it, except where a comment says so; comparisons of secrets are in constant
// time; errors never hold secret bytes. A failed decryption or verification
// gives an error and no data. Sizes are octets unless a name says bits.
//
// Limits: Go's garbage collector may copy a slice before Zero clears it, and
// library types (crypto/ecdsa, crypto/mlkem) keep private state of their own
// until they are collected.
package tpmcrypto
