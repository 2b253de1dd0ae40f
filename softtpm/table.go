// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"fmt"
	"slices"

	"holdfast/tpm2"
)

// kind is a set of entities that a handle may name: the interface types of
// Part 2, 9, as bits.
type kind uint32

const (
	kTransient kind = 1 << iota
	kPersistent
	kPCR
	kNV
	kHMAC
	kPolicy
	kOwner
	kEndorsement
	kPlatform
	kLockout
	kNull
	kACT
	kAC
	kObject    = kTransient | kPersistent
	kHierarchy = kOwner | kEndorsement | kPlatform | kNull // TPMI_RH_HIERARCHY+
	kProvision = kOwner | kPlatform                        // TPMI_RH_PROVISION
	kNVAuth    = kOwner | kPlatform | kNV                  // TPMI_RH_NV_AUTH
	kClear     = kLockout | kPlatform                      // TPMI_RH_CLEAR
	kParent    = kObject | kHierarchy                      // TPMI_DH_PARENT+
	kEntity    = kObject | kPCR | kNV | kOwner | kEndorsement | kPlatform | kLockout
)

// role is the authorization role that a handle needs (Part 1, 19.2).
type role uint8

const (
	roleNone role = iota
	roleUser
	roleAdmin
	roleDup
)

// slot describes one handle of a command's handle area.
type slot struct {
	kinds kind
	role  role
}

// flags of a command.
type flag uint16

const (
	// fNV: TPMA_CC.nv, the command may write NV.
	fNV flag = 1 << iota
	// fSave: after success the permanent state is compared with what is in the
	// Store and saved if it differs.
	fSave
	// fNoSessions: the command takes no session area.
	fNoSessions
	// fDecrypt: the first parameter is a TPM2B that a session may have encrypted.
	fDecrypt
	// fEncrypt: the first response parameter is a TPM2B that a session may ask encrypted.
	fEncrypt
	// fFlushed: TPMA_CC.flushed, a successful command flushes the first handle.
	fFlushed
	// fHandle: the response has a handle.
	fHandle
	// fExtensive: TPMA_CC.extensive, the command may flush many objects.
	fExtensive
	// fPP: the command can be made to need physical presence (PP_Commands).
	fPP
	// fPPAlways: the command always needs physical presence with platform authorization.
	fPPAlways
	// fNotAudited: neither a session nor command audit covers the command
	// and it does not end an exclusive audit session.
	fNotAudited
	// fBeforeStartup: the command runs before TPM2_Startup too.
	fBeforeStartup
	// fReadOnlyOK: the command runs in Read-Only mode too (Part 1, "Read-Only Mode").
	fReadOnlyOK
)

// command is one row of the dispatch table: all that is regular about a
// command, and run, its meaning.
type command struct {
	code  tpm2.CC
	slots []slot
	flags flag
	run   func(c *call) tpm2.RC
}

func (m *command) has(f flag) bool { return m.flags&f != 0 }

// authHandles returns how many handles need authorization. They are the first ones.
func (m *command) authHandles() int {
	n := 0
	for _, s := range m.slots {
		if s.role != roleNone {
			n++
		}
	}
	return n
}

// attributes returns the command's TPMA_CC (Part 2, 8.9).
func (m *command) attributes() tpm2.CCAttributes {
	a := tpm2.CCAttributes(m.code&0xFFFF) | tpm2.CCAttributes(len(m.slots))<<25
	if m.has(fNV) {
		a |= tpm2.CCAttrNV
	}
	if m.has(fExtensive) {
		a |= tpm2.CCAttrExtended
	}
	if m.has(fFlushed) {
		a |= tpm2.CCAttrFlushed
	}
	if m.has(fHandle) {
		a |= tpm2.CCAttrRHandle
	}
	if m.code&tpm2.CCVend != 0 {
		a |= tpm2.CCAttrV
	}
	return a
}

// table is a set of commands by code. A TPM keeps a reference to one.
type table struct {
	byCode map[tpm2.CC]*command
	sorted []*command
}

// commands is the table that every TPM starts with; the cmd_*.go files fill it.
var commands = &table{byCode: map[tpm2.CC]*command{}}

// register adds a command to the table. It is called from init functions only
// and panics on a mistake of the table's author.
func register(m *command) {
	if commands.byCode[m.code] != nil || m.run == nil || len(m.slots) > maxHandles {
		panic(fmt.Sprintf("softtpm: bad table entry for %v", m.code))
	}
	auth := true
	for _, s := range m.slots {
		if s.role != roleNone && !auth {
			panic(fmt.Sprintf("softtpm: %v: handles with authorization come first", m.code))
		}
		auth = auth && s.role != roleNone
	}
	commands.byCode[m.code] = m
	i, _ := slices.BinarySearchFunc(commands.sorted, m.code, func(x *command, c tpm2.CC) int { return int(int64(x.code) - int64(c)) })
	commands.sorted = slices.Insert(commands.sorted, i, m)
}
