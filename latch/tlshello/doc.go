// SPDX-License-Identifier: Apache-2.0

// Package tlshello reads the plaintext beginning of a TLS 1.3 connection:
// ClientHello, HelloRetryRequest and ServerHello, from the TCP segments up to
// the fields that bind a session to its server's key share.
//
// Call [ParseClientHello] or [ParseServerHello] for one handshake message.
// [Exchange] follows both directions of a connection and says when the hello
// messages are complete and consistent; [Assembler] turns TCP segments into the
// in-order bytes that Exchange takes.
//
// The parsers are strict (RFC 8446, RFC 6066, RFC 7301): whatever two
// implementations could read in two ways is refused with an [*Error] whose Code
// says why. An error always comes with a nil result. Nothing here does
// cryptography: that the bytes are well formed does not say who sent them.
package tlshello
