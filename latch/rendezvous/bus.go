// SPDX-License-Identifier: Apache-2.0

package rendezvous

import (
	"encoding/hex"
	"fmt"
	"strings"

	"holdfast/latch/channel"
)

// A Bus carries messages by subject, at most once, to every subscriber. Its
// methods may be called from any goroutine and do not wait for the network.
type Bus interface {
	// Publish sends data, which is the caller's again when it returns.
	Publish(subject string, data []byte) error
	// Subscribe calls fn for each message, one after the other. A last token ">"
	// of subject stands for one or more tokens. data is fn's to keep.
	Subscribe(subject string, fn func(subject string, data []byte)) error
	// Done is closed when the bus is lost and does not come back by itself.
	Done() <-chan struct{}
	Close() error
}

// Token is the random name of one end.
type Token [channel.TokenSize]byte

func (t Token) String() string { return hex.EncodeToString(t[:]) }

// DefaultPrefix begins the subjects unless the configuration says otherwise.
const DefaultPrefix = "holdfast"

// Last tokens of subjects that are no ClientHello digest.
const (
	tokenReport      = "report"
	tokenEndorsement = "endorsement"
)

func callSubject(prefix string) string { return prefix + ".call" }
func gateSubject(prefix string, gate Token) string {
	return prefix + ".gate." + gate.String()
}

// CheckPrefix accepts what may begin a subject: tokens of letters, digits, "-"
// and "_", with dots between them.
func CheckPrefix(s string) error {
	for _, token := range strings.Split(s, ".") {
		if token == "" || strings.Trim(token, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") != "" {
			return fmt.Errorf("prefix %q: expected tokens of letters, digits, - and _, with dots between them", s)
		}
	}
	if len(s) > 100 {
		return fmt.Errorf("prefix of %d bytes, expected at most 100", len(s))
	}
	return nil
}

// ParseNATS splits nats:HOST:PORT or nats:HOST:PORT/PREFIX.
func ParseNATS(s string) (hostPort, prefix string, err error) {
	rest, ok := strings.CutPrefix(s, "nats:")
	if !ok {
		return "", "", fmt.Errorf("%q: expected nats:HOST:PORT or nats:HOST:PORT/PREFIX", s)
	}
	return ParseAddress(rest)
}

// ParseAddress splits HOST:PORT or HOST:PORT/PREFIX.
func ParseAddress(s string) (hostPort, prefix string, err error) {
	hostPort, prefix, found := strings.Cut(s, "/")
	if !found {
		prefix = DefaultPrefix
	}
	if err := CheckPrefix(prefix); err != nil {
		return "", "", err
	}
	if i := strings.LastIndexByte(hostPort, ':'); i <= 0 || i == len(hostPort)-1 {
		return "", "", fmt.Errorf("%q: expected HOST:PORT or HOST:PORT/PREFIX", s)
	}
	return hostPort, prefix, nil
}
