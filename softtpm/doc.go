// SPDX-License-Identifier: Apache-2.0

// Package softtpm is a complete software TPM 2.0. Call New with a Store, then
// Execute with the bytes of a command; the response is what a hardware TPM
// would send. After New and after Init the TPM waits for TPM2_Startup.
//
// Promises: no input makes Execute panic. A command that fails leaves the
// state exactly as it was, but for the counters of dictionary-attack
// protection. A command that changes the permanent state is answered only
// after Store.Save returned. Secrets are compared in constant time and erased
// when what holds them goes away. Nothing grows with use: all slots, lists and
// buffers have limits (Options).
//
// # How a command is written
//
// A file cmd_*.go holds one family (a chapter of Part 3). Its init registers
// each command with all that is regular about it, and a function with its
// meaning:
//
//	func init() {
//		register(&command{
//			code:  tpm2.CCUnseal,
//			slots: []slot{{kObject, roleUser}},
//			flags: fEncrypt,
//			run:   unseal,
//		})
//	}
//
//	// unseal is TPM2_Unseal (Part 3, 12.7).
//	func unseal(c *call) tpm2.RC {
//		if rc := c.done(); rc != tpm2.RCSuccess { // no parameters
//			return rc
//		}
//		o := c.object(0)
//		if ... {
//			return tpm2.RCType.Handle(1)
//		}
//		c.out.Sized(o.sens.Value)
//		return tpm2.RCSuccess
//	}
//
// When run is called, the engine has read and checked the handles (they name
// entities that exist and are of the slot's kinds), has checked the
// authorization that each slot's role asks for, and has decrypted the first
// parameter. run then
//
//   - reads parameters: c.next() for each one, which counts them for error
//     positions; c.sized(f) for a TPM2B that holds a structure; and c.done()
//     at the end, whose error it returns;
//   - reads handles: c.handle(i), c.object(i), c.nv(i), counted from 0;
//   - reports errors as response codes with position: RCValue.Parameter(2),
//     RCType.Handle(1). Positions count from 1;
//   - changes state through c.st, following the rule at type state: assign
//     fields freely, but never alter what a slice, map or pointer leads to;
//     replace it (editSession, setObject, setNV do). The engine takes the old
//     state back if run fails, so checks and changes may come in any order;
//   - writes response parameters to c.out, in order. A response handle goes
//     to c.outHandle and needs fHandle;
//   - keeps no slice of c.in or of c.params: their memory is used again for
//     the next command. Copy with bytes.Clone what goes into the state.
//
// The engine does the rest: response header and sessions, audit, parameter
// encryption, saving (flag fSave, or volatile.dirty for changes of the
// permanent state by commands without it), and erasing of objects that are
// gone.
//
// # Where to look
//
//	tpm.go dispatch.go call.go table.go   life of a TPM and of a command
//	auth.go respond.go paramcrypt.go      sessions and authorization
//	state.go persist.go                   what there is, and how it is saved
//	object.go keycache.go protect.go      objects, keys, wrapping
//	cmd_*.go                              the commands, by chapter of Part 3
package softtpm
