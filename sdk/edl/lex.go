// SPDX-License-Identifier: Apache-2.0

package edl

import (
	"fmt"
	"strconv"
	"strings"
)

// Pos is a place in an EDL file, counted from 1 (columns in bytes).
type Pos struct {
	File      string
	Line, Col int
}

func (p Pos) String() string { return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Col) }

// Error says what is wrong in an EDL file, and where.
type Error struct {
	Pos     Pos
	Problem string
}

func (e *Error) Error() string { return e.Pos.String() + ": " + e.Problem }

func errorAt(p Pos, format string, a ...any) *Error { return &Error{p, fmt.Sprintf(format, a...)} }

// MaxSource bounds an EDL file, in bytes.
const MaxSource = 4 << 20

type kind uint8

const (
	tokEOF kind = iota
	tokName
	tokNumber
	tokString
	tokPunct
)

type token struct {
	kind kind
	text string // of a string: without its quotes
	num  uint64
	pos  Pos
}

func (t token) String() string {
	switch t.kind {
	case tokEOF:
		return "the end of the file"
	case tokString:
		return strconv.Quote(t.text)
	}
	return "`" + t.text + "'"
}

// keywords cannot name parameters, functions or types.
var keywords = map[string]bool{}

func init() {
	for _, k := range strings.Fields("char short unsigned int float double long void const struct union enum enclave trusted untrusted from import allow public " +
		"transition_using_threads include propagate_errno int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t size_t wchar_t") {
		keywords[k] = true
	}
}

// lex cuts a source into tokens. Comments are those of C; numbers are decimal or
// hexadecimal.
func lex(file, src string) ([]token, error) {
	if len(src) > MaxSource {
		return nil, errorAt(Pos{file, 1, 1}, "the file has %d bytes, more than %d", len(src), MaxSource)
	}
	var out []token
	line, start := 1, 0
	for i := 0; i < len(src); {
		c := src[i]
		pos := Pos{file, line, i - start + 1}
		switch {
		case c == '\n':
			line++
			i++
			start = i
		case c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v':
			i++
		case strings.HasPrefix(src[i:], "//"):
			n := strings.IndexByte(src[i:], '\n')
			if n < 0 {
				n = len(src) - i
			}
			i += n
		case strings.HasPrefix(src[i:], "/*"):
			n := strings.Index(src[i+2:], "*/")
			if n < 0 {
				return nil, errorAt(pos, "this comment has no end")
			}
			text := src[i : i+n+4]
			if k := strings.Count(text, "\n"); k > 0 {
				line += k
				start = i + strings.LastIndexByte(text, '\n') + 1
			}
			i += len(text)
		case isLetter(c):
			j := i
			for j < len(src) && (isLetter(src[j]) || isDigit(src[j])) {
				j++
			}
			out = append(out, token{tokName, src[i:j], 0, pos})
			i = j
		case isDigit(c):
			j := i
			for j < len(src) && (isLetter(src[j]) || isDigit(src[j])) {
				j++
			}
			n, err := number(src[i:j])
			if err != nil {
				return nil, errorAt(pos, "expected a number below 2^64, decimal or with 0x, got `%s'", src[i:j])
			}
			out = append(out, token{tokNumber, src[i:j], n, pos})
			i = j
		case c == '"':
			n := strings.IndexAny(src[i+1:], "\"\n")
			if n < 0 || src[i+1+n] == '\n' {
				return nil, errorAt(pos, "this string does not end on its line")
			}
			out = append(out, token{tokString, src[i+1 : i+1+n], 0, pos})
			i += n + 2
		case strings.IndexByte("{}()[]*,;=", c) >= 0:
			out = append(out, token{tokPunct, src[i : i+1], 0, pos})
			i++
		case c == '#':
			return nil, errorAt(pos, "a preprocessor's line: run the file through a C preprocessor first (holdfast enclave edger8r does when there is one)")
		default:
			return nil, errorAt(pos, "unexpected character %q", c)
		}
	}
	return append(out, token{kind: tokEOF, pos: Pos{file, line, len(src) - start + 1}}), nil
}

// number reads decimal digits, also with leading zeros (which mean nothing here),
// or hexadecimal ones.
func number(s string) (uint64, error) {
	if h, ok := strings.CutPrefix(strings.ToLower(s), "0x"); ok {
		return strconv.ParseUint(h, 16, 64)
	}
	if !isDigits(s) {
		return 0, strconv.ErrSyntax
	}
	return strconv.ParseUint(s, 10, 64)
}

func isDigits(s string) bool {
	for i := range len(s) {
		if !isDigit(s[i]) {
			return false
		}
	}
	return s != ""
}

func isLetter(c byte) bool { return c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z' }
func isDigit(c byte) bool  { return c >= '0' && c <= '9' }
