// SPDX-License-Identifier: Apache-2.0

package tss

import (
	"crypto/hmac"
	"encoding/binary"
	"errors"
	"fmt"

	"holdfast/tpm2"
)

// exchange is the session side of one command and its response (Part 1, 18
// and 19): parameter encryption, cpHash, rpHash and HMACs.
type exchange struct {
	*call
	uses    []use
	decrypt *use // encrypts the first command parameter for the TPM to decrypt
	encrypt *use // the TPM encrypts the first response parameter with it
	hmacs   [maxSessions][]byte
}

// prepare makes nonces, encrypts the first parameter in place, and computes
// the HMACs.
func (x *exchange) prepare(params []byte) error {
	sessions := false
	for i := range x.uses {
		u := &x.uses[i]
		if u.s == nil {
			continue
		}
		sessions = true
		if u.attr.Has(tpm2.SessionDecrypt) {
			if x.decrypt != nil {
				return errors.New("tss: two sessions with the decrypt attribute")
			}
			x.decrypt = u
		}
		if u.attr.Has(tpm2.SessionEncrypt) {
			if x.encrypt != nil {
				return errors.New("tss: two sessions with the encrypt attribute")
			}
			x.encrypt = u
		}
		var err error
		if u.nonce, err = newNonce(u.s.Hash); err != nil {
			return err
		}
	}
	if !sessions {
		return nil
	}
	if x.decrypt != nil {
		data, err := firstSized(params)
		if err != nil {
			return err
		}
		u := x.decrypt
		if err := u.s.crypt(data, u.value, u.nonce, u.s.nonceTPM, true); err != nil {
			return err
		}
	}
	var names [3][]byte
	for i := 0; i < x.handles; i++ {
		n, err := x.refs[i].name()
		if err != nil {
			return err
		}
		names[i] = n
	}
	for i := range x.uses {
		u := &x.uses[i]
		if u.s == nil {
			continue
		}
		if u.s.usesPassword {
			x.hmacs[i] = u.value
			continue
		}
		key := u.s.hmacKey(u.ref, u.value)
		if len(key) == 0 && u.s.kind != tpm2.SEHMAC {
			continue // no secret: an empty HMAC
		}
		h := u.s.Hash.New()
		h.Write(binary.BigEndian.AppendUint32(nil, uint32(x.cc)))
		for _, n := range names[:x.handles] {
			h.Write(n)
		}
		h.Write(params)
		cpHash := h.Sum(nil)
		m := hmac.New(u.s.Hash.New, key)
		m.Write(cpHash)
		m.Write(u.nonce)
		m.Write(u.s.nonceTPM)
		if i == 0 && u.ref != nil {
			// The nonces of other sessions that encrypt are bound to the first one.
			if x.decrypt != nil && x.decrypt != u {
				m.Write(x.decrypt.s.nonceTPM)
			}
			if x.encrypt != nil && x.encrypt != u && x.encrypt != x.decrypt {
				m.Write(x.encrypt.s.nonceTPM)
			}
		}
		m.Write([]byte{byte(u.attr)})
		x.hmacs[i] = m.Sum(nil)
		clear(key)
	}
	return nil
}

// write writes the whole command.
func (x *exchange) write(w *tpm2.Writer, params []byte) {
	tag := tpm2.STNoSessions
	if len(x.uses) > 0 {
		tag = tpm2.STSessions
	}
	tpm2.Header{Tag: tag, Code: uint32(x.cc)}.Marshal(w)
	for i := 0; i < x.handles; i++ {
		w.Handle(x.refs[i].Handle)
	}
	if len(x.uses) > 0 {
		at := w.Len()
		w.U32(0)
		for i := range x.uses {
			u := &x.uses[i]
			a := tpm2.AuthCommand{Handle: tpm2.RSPW, Attributes: u.attr, HMAC: u.value}
			if u.s != nil {
				a = tpm2.AuthCommand{Handle: u.s.handle, Nonce: u.nonce, Attributes: u.attr, HMAC: x.hmacs[i]}
			}
			a.Marshal(w)
		}
		w.PutU32(at, uint32(w.Len()-at-4))
	}
	w.Raw(params)
	w.PutU32(2, uint32(w.Len()))
}

// read checks the response and takes over the sessions' new nonces.
func (x *exchange) read(response []byte) (reply, error) {
	bad := func(format string, args ...any) (reply, error) {
		return reply{}, fmt.Errorf("%v: %w: %s", x.cc, ErrResponse, fmt.Sprintf(format, args...))
	}
	r := tpm2.NewReader(response)
	var h tpm2.Header
	h.Unmarshal(r)
	if h.Code != 0 {
		return reply{}, &Error{x.cc, tpm2.RC(h.Code)}
	}
	want := tpm2.STNoSessions
	if len(x.uses) > 0 {
		want = tpm2.STSessions
	}
	if h.Tag != want {
		return bad("tag %#04x, expected %#04x", uint16(h.Tag), uint16(want))
	}
	var out reply
	if x.outHandle {
		out.handle = r.Handle()
	}
	params := []byte(nil)
	if len(x.uses) == 0 {
		params = r.Rest()
	} else {
		n := r.U32()
		if int64(n) > int64(r.Len()) {
			return bad("%d bytes of parameters, %d are there", n, r.Len())
		}
		params = r.Bytes(int(n))
	}
	if err := r.Err(); err != nil {
		return bad("%v", err)
	}
	for i := range x.uses {
		u := &x.uses[i]
		var a tpm2.AuthResponse
		a.Unmarshal(r)
		if err := r.Err(); err != nil {
			return bad("session %d: %v", i+1, err)
		}
		if u.s == nil {
			continue
		}
		if err := x.check(u, &a, params); err != nil {
			return bad("session %d: %v", i+1, err)
		}
		u.s.nonceTPM = append(u.s.nonceTPM[:0], a.Nonce...)
		if !a.Attributes.Has(tpm2.SessionContinue) {
			u.s.closed = true
		}
	}
	if r.Len() != 0 {
		return bad("%d bytes too many", r.Len())
	}
	if x.encrypt != nil {
		data, err := firstSized(params)
		if err != nil {
			return bad("%v", err)
		}
		u := x.encrypt
		if err := u.s.crypt(data, x.valueAfter(u), u.s.nonceTPM, u.nonce, false); err != nil {
			return reply{}, fmt.Errorf("%v: %w", x.cc, err)
		}
	}
	out.Reset(params)
	return out, nil
}

// valueAfter is the authValue of a use's entity after the command.
func (x *exchange) valueAfter(u *use) []byte {
	if x.changes && u.ref == &x.refs[0] {
		return trimZeros(x.newAuth)
	}
	return u.value
}

// check verifies the HMAC of a session in the response.
func (x *exchange) check(u *use, a *tpm2.AuthResponse, params []byte) error {
	value := x.valueAfter(u)
	key := u.s.hmacKey(u.ref, value)
	defer clear(key)
	if u.s.usesPassword || len(key) == 0 && u.s.kind != tpm2.SEHMAC {
		if len(a.HMAC) != 0 {
			return errors.New("an HMAC where none was expected")
		}
		return nil
	}
	h := u.s.Hash.New()
	h.Write([]byte{0, 0, 0, 0}) // response code
	h.Write(binary.BigEndian.AppendUint32(nil, uint32(x.cc)))
	h.Write(params)
	m := hmac.New(u.s.Hash.New, key)
	m.Write(h.Sum(nil))
	m.Write(a.Nonce)
	m.Write(u.nonce)
	m.Write([]byte{byte(a.Attributes)})
	if !hmac.Equal(m.Sum(nil), a.HMAC) {
		return errors.New("the HMAC is wrong")
	}
	return nil
}

// firstSized returns the content of the TPM2B at the start of params.
func firstSized(params []byte) ([]byte, error) {
	if len(params) < 2 {
		return nil, errors.New("tss: no sized parameter to encrypt")
	}
	n := int(binary.BigEndian.Uint16(params))
	if n > len(params)-2 {
		return nil, errors.New("tss: the sized parameter is longer than the parameters")
	}
	return params[2 : 2+n], nil
}
