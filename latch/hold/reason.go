// SPDX-License-Identifier: Apache-2.0

package hold

// Code gives the short name of the reason, as in logs and counters; the words
// are those of latch/flow's vocabulary where it has one.
func (r Reason) Code() string {
	if int(r) < len(codes) {
		return codes[r]
	}
	return "unknown"
}

func (r Reason) String() string { return r.Code() }

var codes = [...]string{
	ReasonNone:        "none",
	ReasonNotTLS:      "not-tls",
	ReasonEarlyBytes:  "early-data",
	ReasonTooLong:     "hello-too-large",
	ReasonSYNData:     "tfo",
	ReasonMPTCP:       "mptcp",
	ReasonUDP:         "udp",
	ReasonProtocol:    "unsupported-protocol",
	ReasonNotFromSYN:  "not-gated",
	ReasonServerFirst: "cleartext-start",
	ReasonLostCopy:    "lost-copy",
	ReasonPacket:      "malformed",
	ReasonNotTaken:    "not-taken",
	ReasonUnexamined:  "unexamined",
	ReasonWrongKick:   "wrong-kick",
	ReasonUrgent:      "urgent",
}
