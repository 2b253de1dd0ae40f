// SPDX-License-Identifier: Apache-2.0

package flow

import "sort"

// A Reason is the code of a refusal: a short string that gate, agent, logs and
// the evidence channel share. It is empty where nothing was refused. Compare
// codes with ==; show people [Reason.Text].
type Reason string

// Codes that the client side finds in the packets or in the application's own
// hello. None of them needs an agent.
const (
	EarlyData        Reason = "early-data"
	TLS12            Reason = "tls12"
	Downgrade        Reason = "downgrade"
	PSKWithoutShare  Reason = "psk-without-share"
	Resumption       Reason = "resumption"
	MPTCP            Reason = "mptcp"
	TFO              Reason = "tfo"
	UDP              Reason = "udp"
	NotTLS           Reason = "not-tls"
	SSLv2            Reason = "sslv2"
	Malformed        Reason = "malformed"
	RecordBoundary   Reason = "record-boundary"
	PlainAfterHello  Reason = "plaintext-after-hello"
	HelloChanged     Reason = "hello-changed"
	SecondRetry      Reason = "second-retry"
	RetryGroup       Reason = "retry-group"
	GroupNotOffered  Reason = "group-not-offered"
	HelloTooLarge    Reason = "hello-too-large"
	Overlap          Reason = "overlap"
	OutOfWindow      Reason = "out-of-window"
	Unexamined       Reason = "unexamined"
	LostCopy         Reason = "lost-copy"
	Urgent           Reason = "urgent"
	DuplicateHello   Reason = "duplicate-hello"
	NoName           Reason = "no-name"
	NoPolicyForName  Reason = "no-policy-for-name"
	ECH              Reason = "ech"
	PlainNotListed   Reason = "plain-not-listed"
	NotGated         Reason = "not-gated"
	Deadline         Reason = "deadline"
	TableFull        Reason = "table-full"
	ReleaseFailed    Reason = "release-failed"
	GateStopping     Reason = "gate-stopping"
	CleartextStart   Reason = "cleartext-start"
	UnsupportedProto Reason = "unsupported-protocol"
)

// Codes about the agent and the channel to it.
const (
	NoAgent         Reason = "no-agent"
	AgentLost       Reason = "agent-lost"
	AgentProtocol   Reason = "agent-protocol"
	WrongService    Reason = "wrong-service"
	NotObserved     Reason = "not-observed"
	NotLocal        Reason = "not-local"
	ForeignHello    Reason = "foreign-hello"
	ShareReused     Reason = "share-reused"
	NotProtected    Reason = "not-protected"
	UnknownIdentity Reason = "unknown-identity"
	IdentityChanged Reason = "identity-changed"
	SocketGone      Reason = "socket-gone"
	AgentLostCopy   Reason = "agent-lost-copy"
	AgentHello      Reason = "agent-hello"
	ReporterFailed  Reason = "reporter-failed"
	Busy            Reason = "busy"
	ClientUnknown   Reason = "client-not-allowed"
	MutualRequired  Reason = "mutual-required"
	NotMutual       Reason = "not-mutual"
	NoClientProof   Reason = "no-client-evidence"
	ClientEvidence  Reason = "client-evidence-invalid"
	ClientUntrusted Reason = "client-untrusted"
	ClientPolicy    Reason = "client-policy"
	OwnReporter     Reason = "own-reporter-failed"
)

// Codes about the evidence that came.
const (
	BinderMismatch     Reason = "binder-mismatch"
	ClaimsInvalid      Reason = "claims-invalid"
	PathInvalid        Reason = "path-invalid"
	EvidenceInvalid    Reason = "evidence-invalid"
	EndorsementMissing Reason = "endorsement-missing"
	Untrusted          Reason = "untrusted"
	Policy             Reason = "policy"
	Grade              Reason = "grade"
)

var texts = map[Reason]string{
	EarlyData:        "the client offers early data (0-RTT), which would leave before any evidence can exist; switch early data off in the client",
	TLS12:            "TLS 1.3 is needed, and one side only speaks TLS 1.2 or older; enable TLS 1.3",
	Downgrade:        "the server chose an older version although the client offers TLS 1.3; someone may be forcing a downgrade",
	PSKWithoutShare:  "the session would resume from a ticket alone, without a fresh key share to attest; disable psk_ke or session tickets",
	Resumption:       "the server resumed an earlier session (psk_dhe_ke) and the policy says resumption: refuse; disable tickets in the client, or set resumption: dhe",
	MPTCP:            "the socket uses Multipath TCP, whose other paths the gate does not see; disable it for this program",
	TFO:              "the first packet carries data (TCP Fast Open); disable it for this program",
	UDP:              "UDP (QUIC, DTLS) is not gated and is refused inside the scope; only DNS to the listed resolvers passes",
	NotTLS:           "the client's first bytes are not a TLS ClientHello; list the destination under plain: if it may be reached without attestation",
	SSLv2:            "the client's first bytes are an SSLv2 hello; that protocol is unsafe and never passed on",
	Malformed:        "a TLS record or handshake message breaks the rules of RFC 8446",
	RecordBoundary:   "the record of the server's hello holds more than the hello; what follows could be taken at the wrong encryption level",
	PlainAfterHello:  "a plaintext handshake message came after the server's hello, where everything must be encrypted",
	HelloChanged:     "the second ClientHello differs from the first where RFC 8446 section 4.1.2 allows no change",
	SecondRetry:      "the server asked for a second retry (HelloRetryRequest), which RFC 8446 forbids",
	RetryGroup:       "the group of the retry request, of the second ClientHello and of the server's share are not the same, or the request changes nothing",
	GroupNotOffered:  "the server answered with a group, version, cipher suite or extension that the client did not offer",
	HelloTooLarge:    "the hello messages are larger than the gate accepts",
	Overlap:          "two packets gave different bytes for the same place of the TCP stream; which of them an end believed cannot be known",
	OutOfWindow:      "a packet with data far outside the expected place of the TCP stream came before the release",
	Unexamined:       "inbound data reached the socket that the gate could not examine before the release",
	LostCopy:         "the kernel could not hand a copy of a packet to the gate (ring full), so the connection cannot be judged",
	Urgent:           "the peer marked data as urgent before the release; TCP takes such bytes out of the stream, so the gate and the client would read different things",
	DuplicateHello:   "another live connection sent the very same ClientHello, so evidence could not be told apart",
	NoName:           "the client's hello carries no server name (SNI), so no policy can be chosen; connect by name",
	NoPolicyForName:  "no policy is configured for this server name; add it under services:, or the destination under plain-tls:",
	ECH:              "the client's hello carries encrypted_client_hello, so the name that it shows need not be the one that it wants and the policy could be the wrong one; switch ECH off in the client",
	PlainNotListed:   "this destination is not listed under plain:, and the connection is not one that the gate can attest",
	NotGated:         "the connection was opened before the gate started, so its beginning is unknown; reconnect",
	Deadline:         "no acceptable evidence came before the deadline",
	TableFull:        "the gate holds as many connections as it is configured for; raise limits.connections",
	ReleaseFailed:    "the kernel did not take the release after several tries",
	GateStopping:     "the gate is shutting down",
	CleartextStart:   "the protocol starts in the clear (STARTTLS or the like) and this policy does not list it",
	UnsupportedProto: "neither TCP nor a protocol that this policy lists",

	NoAgent:         "no agent is configured or reachable for this service",
	AgentLost:       "the connection to the agent ended while the evidence was awaited",
	AgentProtocol:   "the agent broke the rules of the evidence channel",
	WrongService:    "the agent does not serve this service name",
	NotObserved:     "the agent saw no local TLS server answer this ClientHello; the session may end at another machine",
	NotLocal:        "the packet with the server's hello was not sent by a local socket, it was routed through",
	ForeignHello:    "this server key share or random entered the machine as somebody else's hello before: a relay passed it on",
	ShareReused:     "the server used the same key share for another session before",
	NotProtected:    "the answer came from a listener that the agent is not configured to vouch for",
	UnknownIdentity: "the agent could not tell which program owns the listener",
	IdentityChanged: "the owner of the listener changed while the report was made",
	SocketGone:      "the server's socket was closed before the report was ready",
	AgentLostCopy:   "the agent lost a copy of a packet of this session, so it cannot vouch for it",
	AgentHello:      "the agent could not read the hello messages of this session",
	ReporterFailed:  "the security processor could not make the report",
	Busy:            "the agent has too many sessions waiting, or this client has used up its share",
	MutualRequired:  "the service wants evidence of its clients too, and the gate offered none; set grade: mutual for it and a client: section",
	NotMutual:       "the service takes no evidence of its clients; set grade: hello, or clients: at the agent's listener",
	NoClientProof:   "the evidence of this client did not reach the agent in time",
	ClientEvidence:  "the evidence of this client did not verify at the agent, or belongs to another session",
	ClientUntrusted: "the evidence of this client was made by a key or machine that is not enrolled at the agent",
	ClientPolicy:    "the evidence of this client is genuine, but the agent's policy about clients does not accept what it shows",
	OwnReporter:     "this machine's own security processor could not make the report that the service wants of its clients",
	ClientUnknown:   "the agent answers listed clients only, and this one is not listed",

	BinderMismatch:     "the attested session is not this one: share, group or hello messages differ from what the gate saw",
	ClaimsInvalid:      "the claims about the server's program are not in canonical form",
	PathInvalid:        "the session does not belong to the group that the report signs",
	EvidenceInvalid:    "the report did not verify",
	EndorsementMissing: "the agent did not send a certificate chain or event log that the report needs",
	Untrusted:          "the report was made by a key or machine that is not enrolled here",
	Policy:             "the report is genuine, but the policy does not accept what it shows",
	Grade:              "the agent attested the session with a binder grade that the policy does not accept",
}

// Text returns one sentence for people: what was found and, where the reader
// can do something, what to do. Unknown codes return a sentence that says so.
func (r Reason) Text() string {
	if t, ok := texts[r]; ok {
		return t
	}
	return "refused for a reason that this version does not know"
}

// String returns the code, as it stands in logs and on the evidence channel.
func (r Reason) String() string { return string(r) }

// Known reports whether r belongs to the vocabulary of this version. A code
// from the other side that is not known is shown as it came, never trusted.
func (r Reason) Known() bool { _, ok := texts[r]; return ok }

// Reasons returns every code of the vocabulary in alphabetical order, for the
// documentation and for `holdfast latch explain`.
func Reasons() []Reason {
	out := make([]Reason, 0, len(texts))
	for r := range texts {
		out = append(out, r)
	}
	sort.Slice(out, func(i, j int) bool { return out[i] < out[j] })
	return out
}
