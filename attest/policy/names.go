// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"sort"
	"strings"

	"holdfast/attest/trust"
)

// profilePQ demands that neither the evidence nor the key exchange rests on
// something that a quantum computer breaks.
const profilePQ = "pq-only"

var enrolmentMethods = []string{trust.MethodActivation, trust.MethodImported}

// group is an entry of IANA's TLS Supported Groups registry.
type group struct {
	name string
	pq   bool // has an ML-KEM part
}

// groupNames are the groups of TLS 1.3 that a policy can name.
var groupNames = map[uint16]group{
	0x0017: {"secp256r1", false},
	0x0018: {"secp384r1", false},
	0x0019: {"secp521r1", false},
	0x001d: {"x25519", false},
	0x001e: {"x448", false},
	0x0029: {"curveSM2", false},
	0x0100: {"ffdhe2048", false},
	0x0101: {"ffdhe3072", false},
	0x0102: {"ffdhe4096", false},
	0x0103: {"ffdhe6144", false},
	0x0104: {"ffdhe8192", false},
	0x0200: {"MLKEM512", true},
	0x0201: {"MLKEM768", true},
	0x0202: {"MLKEM1024", true},
	0x11eb: {"SecP256r1MLKEM768", true},
	0x11ec: {"X25519MLKEM768", true},
	0x11ed: {"SecP384r1MLKEM1024", true},
	0x11ee: {"curveSM2MLKEM768", true},
}

// suite is an entry of IANA's TLS Cipher Suites registry.
type suite struct{ name string }

var suiteNames = map[uint16]suite{
	0x1301: {"TLS_AES_128_GCM_SHA256"},
	0x1302: {"TLS_AES_256_GCM_SHA384"},
	0x1303: {"TLS_CHACHA20_POLY1305_SHA256"},
	0x1304: {"TLS_AES_128_CCM_SHA256"},
	0x1305: {"TLS_AES_128_CCM_8_SHA256"},
}

func (g group) label() string { return g.name }
func (s suite) label() string { return s.name }

// byName turns a list of names into a set of code points.
func byName[T interface{ label() string }](key string, list []string, known map[uint16]T) (map[uint16]bool, error) {
	if list == nil {
		return nil, nil
	}
	out := make(map[uint16]bool, len(list))
next:
	for _, s := range list {
		for code, k := range known {
			if k.label() == s {
				out[code] = true
				continue next
			}
		}
		return nil, fmt.Errorf("%s: expected IANA's names such as %s, got %q", key, labels(known), s)
	}
	return out, nil
}

func labels[T interface{ label() string }](known map[uint16]T) string {
	var out []string
	for _, k := range known {
		out = append(out, k.label())
	}
	sort.Strings(out)
	return strings.Join(out, ", ")
}

// label names a code point for a failure.
func codeName[T interface{ label() string }](known map[uint16]T, code uint16) string {
	if k, ok := known[code]; ok {
		return k.label()
	}
	return fmt.Sprintf("%#04x", code)
}
