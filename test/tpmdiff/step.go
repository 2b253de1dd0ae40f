// SPDX-License-Identifier: Apache-2.0

//go:build linux

package tpmdiff

import (
	"fmt"
	"strings"

	"holdfast/tpm2"
)

// step is one command of a sequence, or, with code powerCycle, a _TPM_Init.
type step struct {
	id      int // counted from 1; references name it
	cc      tpm2.CC
	handles []handle
	auth    []auth
	params  []param
	twists  []twist

	salt     []byte // StartAuthSession: what the encrypted salt holds
	bindAuth string // StartAuthSession: authValue of the entity that it binds
}

// powerCycle is the code of a step that is no command.
const powerCycle tpm2.CC = 0

// handle is a handle by value, or the one that a step brought.
type handle struct {
	value tpm2.Handle
	step  int
}

// param is one parameter: pieces one after another.
type param []piece

// piece is bytes, or a field of the response to an earlier step.
type piece struct {
	bytes []byte
	step  int
	field string
}

// auth is one session of the authorization area.
type auth struct {
	session int // step that started it; 0: password
	attrs   tpm2.SessionAttributes
	value   string // password, or the entity's authValue
	bad     bool   // spoil the HMAC
}

// twist changes the command after it is formed.
type twist struct {
	kind twistKind
	at   int // position, modulo the length of what is changed
	by   byte
}

type twistKind int

const (
	twistByte     twistKind = iota // exclusive or of a byte of the parameters, before HMACs
	twistCut                       // parameters shortened by at bytes
	twistGrow                      // parameters lengthened by at bytes
	twistSize                      // exclusive or of the header's size
	twistTag                       // exclusive or of the tag
	twistAuthSize                  // exclusive or of the size of the authorization area
	twistAuthByte                  // exclusive or of a byte of the authorization area
)

func (s *step) String() string {
	if s.cc == powerCycle {
		return fmt.Sprintf("%d: _TPM_Init", s.id)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d: %v", s.id, s.cc)
	for _, h := range s.handles {
		if h.step != 0 {
			fmt.Fprintf(&b, " @%d", h.step)
		} else {
			fmt.Fprintf(&b, " %v", h.value)
		}
	}
	for _, a := range s.auth {
		fmt.Fprintf(&b, " [session %d, attributes %02x, value %q, spoilt %v]", a.session, uint8(a.attrs), a.value, a.bad)
	}
	for _, p := range s.params {
		b.WriteString(" (")
		for i, x := range p {
			if i > 0 {
				b.WriteByte(' ')
			}
			switch {
			case x.step != 0:
				fmt.Fprintf(&b, "@%d.%s", x.step, x.field)
			case len(x.bytes) > 80:
				fmt.Fprintf(&b, "%x... of %d", x.bytes[:80], len(x.bytes))
			default:
				fmt.Fprintf(&b, "%x", x.bytes)
			}
		}
		b.WriteByte(')')
	}
	for _, t := range s.twists {
		fmt.Fprintf(&b, " twist%v", t)
	}
	return b.String()
}
