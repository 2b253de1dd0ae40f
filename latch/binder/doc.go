// SPDX-License-Identifier: Apache-2.0

// Package binder is the format that everything in the latch rests on: how one
// TLS session, and what the agent knows of the program behind it, becomes the
// 64 bytes that a security processor signs. The format is version 1 and final;
// testdata/vectors.json holds test vectors.
//
//	transcript = SHA-256(CH1 [‖ HRR ‖ CH2] ‖ SH)          handshake messages with their 4-byte headers
//	binder     = SHA-256("holdfast/latch/v1" ‖ role u8 ‖ group u16 ‖ len u16 ‖ share ‖ transcript)
//	leaf       = SHA-256(0x00 ‖ binder ‖ SHA-256(claims)) claims in canonical CBOR, see [Claims]
//	node       = SHA-256(0x01 ‖ left ‖ right)             tree of RFC 9162, section 2.1.1
//	report data = root ‖ SHA-256("holdfast/latch/v1/tail") 64 bytes
//
// A mutual session has two binders, one of each role, over both shares; see
// [MutualCore], [MutualClient] and [MutualServer].
//
// Numbers are big-endian. Grade "share" leaves the transcript out of the
// binder. A tree of one leaf has the leaf as its root.
//
// Call [Compute], then [Leaf], then [Tree]; the other side calls
// [RootFromPath] and compares. All functions are pure.
package binder
