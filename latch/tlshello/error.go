// SPDX-License-Identifier: Apache-2.0

package tlshello

import (
	"errors"
	"fmt"
)

// A Code names the rule that was broken. The strings are those of the refusal
// reasons of package flow.
type Code string

// Codes of this package.
const (
	NotTLS          Code = "not-tls"               // the first bytes are no TLS handshake record
	SSLv2           Code = "sslv2"                 // an SSLv2 CLIENT-HELLO
	Malformed       Code = "malformed"             // a length, order or value that RFC 8446 forbids
	TLS12           Code = "tls12"                 // TLS 1.3 not offered, or not chosen
	Downgrade       Code = "downgrade"             // an older version with the sentinel of RFC 8446 section 4.1.3
	EarlyData       Code = "early-data"            // the early_data extension
	PSKWithoutShare Code = "psk-without-share"     // psk_ke, offered alone or chosen
	RecordBoundary  Code = "record-boundary"       // a hello's record holds more than the hello
	PlainAfterHello Code = "plaintext-after-hello" // a plaintext handshake record behind ServerHello
	HelloChanged    Code = "hello-changed"         // the second ClientHello is not the first with the allowed changes
	SecondRetry     Code = "second-retry"          // a second HelloRetryRequest
	RetryGroup      Code = "retry-group"           // HelloRetryRequest, second ClientHello and ServerHello disagree about the group
	GroupNotOffered Code = "group-not-offered"     // the server chose what the client did not offer
	HelloTooLarge   Code = "hello-too-large"       // more bytes than the reader accepts
	Overlap         Code = "overlap"               // two segments differ in the same place of the stream
)

// Codes lists every code of this package.
func Codes() []Code {
	return []Code{NotTLS, SSLv2, Malformed, TLS12, Downgrade, EarlyData, PSKWithoutShare, RecordBoundary,
		PlainAfterHello, HelloChanged, SecondRetry, RetryGroup, GroupNotOffered, HelloTooLarge, Overlap}
}

// Error is what every function of this package returns when it refuses.
type Error struct {
	Code Code
	What string // what was expected and what came; never bytes of the message
}

func (e *Error) Error() string { return "tls hello: " + string(e.Code) + ": " + e.What }

// CodeOf returns the code of err, "" for nil, and Malformed for an error that
// is not of this package.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return Malformed
}

func fail(c Code, format string, a ...any) *Error {
	return &Error{Code: c, What: fmt.Sprintf(format, a...)}
}

// An Alert is a plaintext alert record (RFC 8446 section 6) in place of a
// hello: the peer gave up. It is no attack and no fault of the gate, but
// nothing can be attested after it.
type Alert struct {
	Level, Description uint8
}

func (a *Alert) Error() string {
	return fmt.Sprintf("tls hello: the peer sent alert %d (level %d) instead of a hello", a.Description, a.Level)
}
