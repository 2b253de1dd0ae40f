// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"holdfast/tpm2"
)

const (
	maxHandles     = 3 // in a handle area
	maxSessionArea = 3 // sessions of one command
)

// call is one command under way. A command's run function reads its handles
// with handle, object and nv, its parameters with next and done, and writes
// response parameters to out; it returns RCSuccess or the response code with
// its position. It may change st freely (see state): the engine puts the old
// state back if the command fails.
type call struct {
	t        *TPM
	st       *state
	cmd      *command
	locality uint8

	handles [maxHandles]tpm2.Handle
	in      tpm2.Reader // parameters, decrypted
	param   int         // number of the parameter being read, from 1
	out     tpm2.Writer // response parameters

	outHandle tpm2.Handle // response handle, if the command has fHandle

	params []byte // parameters as received, for cpHash
	sess   [maxSessionArea]sessionUse
	nSess  int

	// fail says which dictionary-attack counter a failed authorization moves,
	// after the state was restored.
	fail   failure
	failed tpm2.Handle // index of failPIN, object of failROT

	cp      cpHashes
	noAudit bool // the command asks not to be audited (GetSessionAuditDigest and the like)
}

// failure is the kind of a failed authorization.
type failure uint8

const (
	failNone failure = iota
	failDA
	failLockout
	failPIN // a PIN Fail index counts its own failures
	failROT // an oblivious transfer that failed is over
)

// next returns the reader for the next parameter and counts it, so that an
// error names it.
func (c *call) next() *tpm2.Reader {
	if c.in.Code() == tpm2.RCSuccess {
		c.param++
	}
	return &c.in
}

// done ends the reading of parameters: RCSuccess, or the first error with its
// parameter number. Bytes after the last parameter are TPM_RC_SIZE (Part 1,
// 18.9.2).
func (c *call) done() tpm2.RC {
	if rc := c.in.Code(); rc != tpm2.RCSuccess {
		return rc.Parameter(c.param)
	}
	if c.in.Len() != 0 {
		return tpm2.RCSize
	}
	return tpm2.RCSuccess
}

// handle returns handle number i, from 0.
func (c *call) handle(i int) tpm2.Handle { return c.handles[i] }

// object returns the object of handle number i, from 0; nil if that handle is
// no object (a hierarchy, say).
func (c *call) object(i int) *object { return c.st.object(c.handles[i]) }

// nv returns the NV index of handle number i, from 0; nil if it is none.
func (c *call) nv(i int) *nvIndex { return c.st.nv(c.handles[i]) }

// now returns Time in milliseconds since _TPM_Init.
func (c *call) now() uint64 { return c.t.clk.time }

// sized reads a TPM2B that holds a structure: u reads it and must use it whole.
// An empty TPM2B is TPM_RC_SIZE, as Part 2 says for "size=" fields.
func (c *call) sized(u func(r *tpm2.Reader)) {
	r := c.next()
	in := r.Nested(c.t.commandSize())
	if r.Code() == tpm2.RCSuccess && in.Len() == 0 {
		r.Fail(tpm2.RCSize)
		return
	}
	u(&in)
	r.Done(&in)
}
