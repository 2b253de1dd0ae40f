// SPDX-License-Identifier: Apache-2.0

package tlshello

// Named groups (IANA TLS Supported Groups; RFC 8446 section 4.2.7,
// RFC 7919, draft-ietf-tls-ecdhe-mlkem, draft-ietf-tls-mlkem).
const (
	P256               uint16 = 0x0017
	P384               uint16 = 0x0018
	P521               uint16 = 0x0019
	X25519             uint16 = 0x001d
	X448               uint16 = 0x001e
	FFDHE2048          uint16 = 0x0100
	FFDHE3072          uint16 = 0x0101
	FFDHE4096          uint16 = 0x0102
	FFDHE6144          uint16 = 0x0103
	FFDHE8192          uint16 = 0x0104
	MLKEM512           uint16 = 0x0200
	MLKEM768           uint16 = 0x0201
	MLKEM1024          uint16 = 0x0202
	SecP256r1MLKEM768  uint16 = 0x11eb
	X25519MLKEM768     uint16 = 0x11ec
	SecP384r1MLKEM1024 uint16 = 0x11ed
)

// A Group describes a named group: its registered name, the sizes of the key
// exchange fields in bytes, and whether a quantum computer leaves it standing.
type Group struct {
	ID             uint16
	Name           string
	Client, Server int  // bytes of the share in ClientHello and ServerHello
	PQ             bool // contains ML-KEM
}

var groups = [...]Group{
	{P256, "secp256r1", 65, 65, false},
	{P384, "secp384r1", 97, 97, false},
	{P521, "secp521r1", 133, 133, false},
	{X25519, "x25519", 32, 32, false},
	{X448, "x448", 56, 56, false},
	{FFDHE2048, "ffdhe2048", 256, 256, false},
	{FFDHE3072, "ffdhe3072", 384, 384, false},
	{FFDHE4096, "ffdhe4096", 512, 512, false},
	{FFDHE6144, "ffdhe6144", 768, 768, false},
	{FFDHE8192, "ffdhe8192", 1024, 1024, false},
	{MLKEM512, "MLKEM512", 800, 768, true},
	{MLKEM768, "MLKEM768", 1184, 1088, true},
	{MLKEM1024, "MLKEM1024", 1568, 1568, true},
	{SecP256r1MLKEM768, "SecP256r1MLKEM768", 65 + 1184, 65 + 1088, true},
	{X25519MLKEM768, "X25519MLKEM768", 1184 + 32, 1088 + 32, true},
	{SecP384r1MLKEM1024, "SecP384r1MLKEM1024", 97 + 1568, 97 + 1568, true},
}

// GroupByID returns what is known of a named group; ok is false for one that
// this package does not know (GREASE, private use, newer than this version).
func GroupByID(id uint16) (g Group, ok bool) {
	for i := range groups {
		if groups[i].ID == id {
			return groups[i], true
		}
	}
	return Group{}, false
}

// grease reports whether v is one of the reserved values of RFC 8701.
func grease(v uint16) bool { return v&0x0f0f == 0x0a0a && v>>8 == v&0xff }
