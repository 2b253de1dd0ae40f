// SPDX-License-Identifier: Apache-2.0

package tlshello

// Handshake message types (RFC 8446 section 4).
const (
	typeClientHello = 1
	typeServerHello = 2
)

// MaxMessage is the largest handshake message in bytes, header included, that
// the parsers take. A real hello with a hybrid share and a ticket has 2 KB.
const MaxMessage = 1 << 14

// body checks the 4-byte header of a handshake message of type want and
// returns what follows it.
func body(msg []byte, want uint8, name string) ([]byte, error) {
	if len(msg) < 4 {
		return nil, fail(Malformed, "%s: %d bytes, want at least the 4-byte header", name, len(msg))
	}
	if msg[0] != want {
		return nil, fail(Malformed, "%s: handshake type %d, want %d", name, msg[0], want)
	}
	n := int(msg[1])<<16 | int(msg[2])<<8 | int(msg[3])
	if n != len(msg)-4 {
		return nil, fail(Malformed, "%s: header says %d bytes, message has %d", name, n, len(msg)-4)
	}
	if len(msg) > MaxMessage {
		return nil, fail(HelloTooLarge, "%s: %d bytes, at most %d", name, len(msg), MaxMessage)
	}
	return msg[4:], nil
}
