// SPDX-License-Identifier: Apache-2.0

package demo

// Result is what `holdfast demo --json` prints. Times are in milliseconds.
type Result struct {
	GenuinePlain Genuine      `json:"genuine_plain"`
	GenuineGated Genuine      `json:"genuine_gated"`
	RelayPlain   Relayed      `json:"relay_plain"`
	RelayGated   Relayed      `json:"relay_gated"`
	DecoyGated   Relayed      `json:"relay_with_forwarded_hello_gated"`
	Unprivileged Unprivileged `json:"unprivileged_quote"`
	Crypto       Crypto       `json:"crypto"`
	Programs     []string     `json:"programs"`
	AsPromised   bool         `json:"as_promised"`
	Broken       []string     `json:"broken_promises,omitempty"`
	Seconds      float64      `json:"seconds"`
}

// Genuine is an act without adversary.
type Genuine struct {
	Answered   bool    `json:"answered"`             // curl got the genuine server's answer
	Released   bool    `json:"released"`             // gated: the gate let the request go
	Evidence   string  `json:"evidence,omitempty"`   // gated: on whose word
	Requests   int     `json:"requests"`             // of which the times are medians
	TotalMS    float64 `json:"total_ms"`             // curl's time_total
	AddedMS    float64 `json:"added_ms"`             // gated: more than plain
	FirstMS    float64 `json:"first_ms"`             // the first of the requests, which also opens the evidence channel
	GateUpMS   float64 `json:"gate_up_ms"`           // gated: from `latch run` to the start of curl
	Group      string  `json:"group,omitempty"`      // key exchange, as nginx logged it
	Transcript string  `json:"transcript,omitempty"` // what went wrong, if anything
}

// Relayed is an act in which the adversary owns the router and the key.
type Relayed struct {
	AdversaryReadRequest bool    `json:"adversary_read_request"`
	RequestBytesLeaked   int     `json:"request_bytes_leaked"`
	Handshakes           int     `json:"handshakes_with_adversary"`
	ClientHellos         int     `json:"client_hellos_seen_by_adversary"`
	CurlExit             int     `json:"curl_exit"`
	Answered             bool    `json:"answered"`
	Request              string  `json:"request,omitempty"` // as the adversary saw it
	Reason               string  `json:"reason,omitempty"`  // gated: the code of the refusal
	ReasonText           string  `json:"reason_text,omitempty"`
	TotalMS              float64 `json:"total_ms"`
	Transcript           string  `json:"transcript,omitempty"`
}

// Unprivileged is the attempt of a process without privileges to get a quote
// over a binder of its own.
type Unprivileged struct {
	TPMRefused   bool   `json:"tpm_refused"` // no access to the TPM's socket
	TPMAnswer    string `json:"tpm_answer"`
	KeyRefused   bool   `json:"key_refused"` // with access, but without the attestation key's secret
	KeyAnswer    string `json:"key_answer"`
	AgentRefused bool   `json:"agent_refused"`
	AgentAnswer  string `json:"agent_answer"`
}

// Crypto says what of this run a quantum computer could break.
type Crypto struct {
	AttestationKey string   `json:"attestation_key"`
	Safe           []string `json:"quantum_safe"`
	NotSafe        []string `json:"not_quantum_safe"`
}
