// SPDX-License-Identifier: Apache-2.0

package binder

import "crypto/sha256"

const label = "holdfast/latch/v1"

// Role says whose key share a binder is about.
type Role uint8

// Roles.
const (
	Server Role = 1
	Client Role = 2
)

// Grade says how much of the session a binder covers.
type Grade uint8

// Grades. The numbers stand on the evidence channel, the names in policies.
const (
	Hello Grade = 1 // share and both hellos: binds both randoms and every extension
	Share Grade = 2 // the key share alone, for paths that alter hellos
	// Mutual covers what Hello does, and both sides' shares; the server's binder
	// also names the client's evidence. See MutualCore; Compute is not for it.
	Mutual Grade = 3
)

func (g Grade) String() string {
	switch g {
	case Hello:
		return "hello"
	case Share:
		return "share"
	case Mutual:
		return "mutual"
	}
	return "unknown"
}

// ParseGrade is the inverse of String; ok is false for any other text.
func ParseGrade(s string) (g Grade, ok bool) {
	switch s {
	case "hello":
		return Hello, true
	case "share":
		return Share, true
	case "mutual":
		return Mutual, true
	}
	return 0, false
}

// MaxShare is the largest key share in bytes: the 16-bit length of TLS.
const MaxShare = 1<<16 - 1

// Compute returns the binder of a session: group is the named group of the
// share, share the key exchange field of ServerHello (role Server) or of the
// ClientHello that it answers (role Client), transcript the digest of the
// hello messages, which grade Share ignores. Shares above MaxShare bytes
// cannot occur in TLS; they panic.
func Compute(role Role, grade Grade, group uint16, share []byte, transcript [32]byte) [32]byte {
	if len(share) > MaxShare {
		panic("binder: key share longer than TLS allows")
	}
	var room [2048]byte // holds any share in use today, so nothing is allocated
	b := append(room[:0], label...)
	b = append(b, byte(role), byte(group>>8), byte(group), byte(len(share)>>8), byte(len(share)))
	b = append(b, share...)
	if grade != Share {
		b = append(b, transcript[:]...)
	}
	return sha256.Sum256(b)
}

// Transcript returns SHA-256 over the hello messages in order, each with its
// 4-byte header: CH1, SH, or after a retry CH1, HRR, CH2, SH.
func Transcript(messages ...[]byte) (sum [32]byte) {
	h := sha256.New()
	for _, m := range messages {
		h.Write(m)
	}
	h.Sum(sum[:0])
	return sum
}

// Leaf returns the leaf of a session: the binder together with the digest
// SHA-256(claims) of the claims in canonical form.
func Leaf(binder, claims [32]byte) [32]byte {
	var b [65]byte
	copy(b[1:], binder[:])
	copy(b[33:], claims[:])
	return sha256.Sum256(b[:])
}

var tail = sha256.Sum256([]byte(label + "/tail"))

// ReportData returns what the security processor signs: the root and a
// constant. (Hygon's reports carry a nonce that is not signed; the constant
// half pins it. TPMs sign SHA-256 of these 64 bytes.)
func ReportData(root [32]byte) (d [64]byte) {
	copy(d[:], root[:])
	copy(d[32:], tail[:])
	return d
}
