// SPDX-License-Identifier: Apache-2.0

package tss

import (
	"fmt"
	"time"

	"holdfast/tpm2"
)

// maxSessions is the number of sessions that a command can have (Part 1, 18.5).
const maxSessions = 3

// call describes a command; its parameters come from a function.
type call struct {
	cc        tpm2.CC
	refs      [3]Ref // handle area
	handles   int    // how many of refs there are
	auths     int    // how many of those, from the first, are authorized
	inSized   bool   // the first parameter is a TPM2B and can be encrypted
	outSized  bool   // likewise the first of the response
	outHandle bool   // the response has a handle
	newAuth   []byte // authValue of the first entity after the command, if changed
	changes   bool   // newAuth counts
}

// reply is the parameter area of a response.
type reply struct {
	tpm2.Reader
	handle tpm2.Handle
}

// use is one session of a command.
type use struct {
	s     *Session // nil: password
	ref   *Ref     // the entity that it authorizes, or nil
	value []byte   // authValue
	attr  tpm2.SessionAttributes
	nonce []byte // nonceCaller of this command
}

// end checks that a response was read to its end.
func (r *reply) end(cc tpm2.CC) error {
	r.End()
	if err := r.Err(); err != nil {
		return fmt.Errorf("%v: %w: the parameters do not parse: %v", cc, ErrResponse, err)
	}
	return nil
}

// do sends a command and returns its response parameters, which share the
// response's memory. Every error path leaves the sessions usable.
func (t *TPM) do(c *call, params func(w *tpm2.Writer)) (reply, error) {
	t.core.mu.Lock()
	defer t.core.mu.Unlock()

	var usesArray [maxSessions]use
	uses, err := t.uses(c, usesArray[:0])
	if err != nil {
		return reply{}, err
	}
	p := &t.core.params
	p.Reset(p.Bytes()[:0])
	if params != nil {
		params(p)
	}
	defer func() { clear(p.Bytes()) }()
	if err := p.Err(); err != nil {
		p.Reset(nil)
		return reply{}, fmt.Errorf("%v: %w", c.cc, err)
	}
	ex := exchange{call: c, uses: uses}
	if err := ex.prepare(p.Bytes()); err != nil {
		return reply{}, fmt.Errorf("%v: %w", c.cc, err)
	}
	w := &t.core.command
	w.Reset(w.Bytes()[:0])
	ex.write(w, p.Bytes())
	defer func() { clear(w.Bytes()) }()
	if err := w.Err(); err != nil {
		w.Reset(nil)
		return reply{}, fmt.Errorf("%v: %w", c.cc, err)
	}
	response, err := t.core.send(w.Bytes())
	if err != nil {
		return reply{}, fmt.Errorf("%v: %w", c.cc, err)
	}
	return ex.read(response)
}

// send sends the command, again as long as the TPM asks for patience.
func (c *core) send(command []byte) ([]byte, error) {
	for try := 0; ; try++ {
		response, err := c.t.Send(command)
		if err != nil {
			return nil, err
		}
		if len(response) < tpm2.HeaderSize {
			return nil, fmt.Errorf("%w: %d bytes, expected at least %d", ErrResponse, len(response), tpm2.HeaderSize)
		}
		var h tpm2.Header
		r := tpm2.NewReader(response)
		h.Unmarshal(r)
		if int64(h.Size) != int64(len(response)) {
			return nil, fmt.Errorf("%w: the header says %d bytes, there are %d", ErrResponse, h.Size, len(response))
		}
		switch tpm2.RC(h.Code) {
		case tpm2.RCRetry, tpm2.RCYielded, tpm2.RCTesting:
			if try < retries {
				time.Sleep(retryPause)
				continue
			}
		}
		return response, nil
	}
}

// uses lists the sessions of the command: one for each authorized handle,
// then those of With.
func (t *TPM) uses(c *call, u []use) ([]use, error) {
	for i := 0; i < c.auths; i++ {
		r := &c.refs[i]
		u = append(u, use{s: r.Auth.session, ref: r, value: trimZeros(r.Auth.value)})
	}
	for _, e := range t.extra {
		for i := range u {
			if u[i].s == e {
				goto next // it takes part already
			}
		}
		if !e.Attributes.Has(tpm2.SessionAudit) && !(c.inSized && e.Attributes.Has(tpm2.SessionDecrypt)) &&
			!(c.outSized && e.Attributes.Has(tpm2.SessionEncrypt)) {
			continue // it would have nothing to do, which a TPM refuses
		}
		if len(u) == maxSessions {
			return nil, fmt.Errorf("tss: %v: more than %d sessions", c.cc, maxSessions)
		}
		u = append(u, use{s: e})
	next:
	}
	for i := range u {
		s := u[i].s
		if s == nil {
			u[i].attr = tpm2.SessionContinue
			continue
		}
		if s.closed {
			return nil, fmt.Errorf("tss: %v: the session has ended", c.cc)
		}
		u[i].attr = s.Attributes
		if !c.inSized {
			u[i].attr &^= tpm2.SessionDecrypt
		}
		if !c.outSized {
			u[i].attr &^= tpm2.SessionEncrypt
		}
	}
	return u, nil
}

// trimZeros removes trailing zero bytes, as a TPM does with authValues
// (Part 1, 19.6.5).
func trimZeros(b []byte) []byte {
	for len(b) > 0 && b[len(b)-1] == 0 {
		b = b[:len(b)-1]
	}
	return b
}
