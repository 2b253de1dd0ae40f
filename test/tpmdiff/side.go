// SPDX-License-Identifier: Apache-2.0

//go:build linux

package tpmdiff

import (
	"bytes"
	"crypto/aes"
	"crypto/hmac"
	"encoding/binary"
	"fmt"
	"strings"

	"holdfast/tpm2"
)

// machine is a TPM under test.
type machine interface {
	// fresh makes it a new TPM, as after manufacture, switched on.
	fresh() error
	// init is a power cycle.
	init() error
	send(command []byte) ([]byte, error)
}

// side is one TPM with what the client knows of it.
type side struct {
	machine
	results  map[int]*result
	sessions map[int]*session
}

// result is a response.
type result struct {
	rc     tpm2.RC
	handle tpm2.Handle
	fields map[string][]byte // by the names of outputs
}

// session is the client's half of a session.
type session struct {
	key       []byte // sessionKey, of salt and bound entity
	bind      handle
	bindAuth  string
	handle    tpm2.Handle
	hash      tpm2.Alg
	policy    bool
	sym       tpm2.SymDef
	nonceTPM  []byte
	needsAuth bool // after PolicyAuthValue
	password  bool // after PolicyPassword
}

func (s *side) fresh() error {
	s.results, s.sessions = map[int]*result{}, map[int]*session{}
	return s.machine.fresh()
}

// missing is the handle that stands for one that never came.
const missing tpm2.Handle = 0x80FFFFFE

func (s *side) handle(h handle) tpm2.Handle {
	if h.step == 0 {
		return h.value
	}
	if r := s.results[h.step]; r != nil && r.handle != 0 {
		return r.handle
	}
	return missing
}

func (s *side) bytes(p param) []byte {
	var b []byte
	for _, x := range p {
		if x.step == 0 {
			b = append(b, x.bytes...)
			continue
		}
		if x.field == "handle" {
			b = binary.BigEndian.AppendUint32(b, uint32(s.handle(handle{step: x.step})))
			continue
		}
		if r := s.results[x.step]; r != nil {
			b = append(b, r.fields[x.field]...)
		}
	}
	return b
}

// run sends a step, again if the TPM says TPM_RC_RETRY, and keeps the response.
func (s *side) run(st *step) (*result, error) {
	if st.cc == powerCycle {
		clear(s.sessions)
		r := &result{}
		s.results[st.id] = r
		return r, s.machine.init()
	}
	command, used, err := s.form(st)
	if err != nil {
		return nil, err
	}
	response, err := s.send(command)
	for n := 0; err == nil && n < 3 && len(response) == 10 && tpm2.RC(binary.BigEndian.Uint32(response[6:])) == tpm2.RCRetry; n++ {
		response, err = s.send(command)
	}
	if err != nil {
		return nil, fmt.Errorf("%v: command %x: %w", st, command, err)
	}
	r, err := s.parse(st, used, response)
	if err != nil {
		return nil, fmt.Errorf("%v: response %x: %w", st, response, err)
	}
	s.results[st.id] = r
	s.learn(st, r)
	return r, nil
}

// use is a session as a command used it.
type use struct {
	auth
	s     *session // nil: password, or a session that is not there
	nonce []byte
	value []byte // authValue that enters the keys
}

// form makes the bytes of a command.
func (s *side) form(st *step) ([]byte, []use, error) {
	var params []byte
	for _, p := range st.params {
		params = append(params, s.bytes(p)...)
	}
	for _, t := range st.twists {
		switch {
		case t.kind == twistByte && len(params) > 0:
			params[t.at%len(params)] ^= t.by
		case t.kind == twistCut:
			params = params[:max(0, len(params)-t.at)]
		case t.kind == twistGrow:
			params = append(params, make([]byte, t.at)...)
		}
	}
	var w tpm2.Writer
	tag := tpm2.STNoSessions
	if len(st.auth) > 0 {
		tag = tpm2.STSessions
	}
	tpm2.Header{Tag: tag, Code: uint32(st.cc)}.Marshal(&w)
	for _, h := range st.handles {
		w.Handle(s.handle(h))
	}
	var used []use
	if len(st.auth) > 0 {
		var err error
		used, err = s.authorize(st, params, &w)
		if err != nil {
			return nil, nil, err
		}
	}
	w.Raw(params)
	b := bytes.Clone(w.Bytes())
	binary.BigEndian.PutUint32(b[2:], uint32(len(b)))
	for _, t := range st.twists {
		switch t.kind {
		case twistSize:
			b[5] ^= t.by
		case twistTag:
			b[t.at&1] ^= t.by
		case twistAuthSize:
			if at := 10 + 4*len(st.handles) + 3; at < len(b) {
				b[at] ^= t.by
			}
		case twistAuthByte:
			if n := len(b) - len(params) - (10 + 4*len(st.handles) + 4); n > 0 {
				b[10+4*len(st.handles)+4+t.at%n] ^= t.by
			}
		}
	}
	return b, used, nil
}

// authorize writes the authorization area, and encrypts the first parameter
// in params if a session says so (Part 1, 18 and 19).
func (s *side) authorize(st *step, params []byte, w *tpm2.Writer) ([]use, error) {
	var used []use
	for i, a := range st.auth {
		u := use{auth: a, s: s.sessions[a.session]}
		if u.s != nil {
			u.nonce = u.s.hash.Sum([]byte{byte(st.id), byte(i)})[:16]
			if i < len(st.handles) && (!u.s.policy || u.s.needsAuth) {
				u.value = bytes.TrimRight([]byte(a.value), "\x00")
			}
		}
		used = append(used, u)
	}
	var nonces []byte // of other sessions that encrypt, in the first one's HMAC
	for i, u := range used {
		if u.s == nil || !u.attrs.Has(tpm2.SessionDecrypt) {
			continue
		}
		if i > 0 {
			nonces = append(nonces, u.s.nonceTPM...)
		}
		if n := int(binary.BigEndian.Uint16(append(bytes.Clone(params), 0, 0))); len(params) >= 2 && n <= len(params)-2 {
			u.s.crypt(u.paramKey(i, len(st.handles)), u.nonce, u.s.nonceTPM, params[2:2+n], true)
		}
		break
	}
	for i, u := range used {
		if u.s != nil && u.attrs.Has(tpm2.SessionEncrypt) {
			if i > 0 && !u.attrs.Has(tpm2.SessionDecrypt) {
				nonces = append(nonces, u.s.nonceTPM...)
			}
			break
		}
	}
	mark := w.Len()
	w.U32(0)
	for i, u := range used {
		if u.session == 0 {
			(&tpm2.AuthCommand{Handle: tpm2.RSPW, Attributes: u.attrs, HMAC: []byte(u.auth.value)}).Marshal(w)
			continue
		}
		out := tpm2.AuthCommand{Handle: tpm2.HandleHMACFirst + 99, Attributes: u.attrs}
		if u.s != nil {
			out.Handle, out.Nonce = u.s.handle, u.nonce
			switch {
			case u.s.policy && u.s.password:
				out.HMAC = []byte(u.auth.value)
			case len(u.s.key)+len(u.value) > 0:
				h, err := s.cpHash(st, u.s.hash, params)
				if err != nil {
					return nil, err
				}
				key := append(bytes.Clone(u.s.key), u.value...)
				if u.s.boundTo(st, i, u.auth.value) {
					key = u.s.key
				}
				m := hmac.New(u.s.hash.New, key)
				m.Write(h)
				m.Write(u.nonce)
				m.Write(u.s.nonceTPM)
				if i == 0 {
					m.Write(nonces)
				}
				m.Write([]byte{byte(u.attrs)})
				out.HMAC = m.Sum(nil)
			}
			if u.bad {
				out.HMAC = append(bytes.Clone(out.HMAC), 1)
			}
		}
		out.Marshal(w)
	}
	w.PutU32(mark, uint32(w.Len()-mark-4))
	return used, nil
}

// boundTo says whether the session is bound to the entity that it authorizes
// in step st, whose authValue is then not in the HMAC key.
func (s *session) boundTo(st *step, i int, value string) bool {
	return !s.policy && i < len(st.handles) && st.handles[i] == s.bind &&
		strings.TrimRight(value, "\x00") == strings.TrimRight(s.bindAuth, "\x00")
}

// paramKey is the key of parameter encryption: sessionKey and the authValue of
// the entity that the session authorizes (Part 1, 19.2).
func (u *use) paramKey(i, handles int) []byte {
	k := bytes.Clone(u.s.key)
	if i < handles {
		k = append(k, bytes.TrimRight([]byte(u.auth.value), "\x00")...)
	}
	return k
}

// crypt encrypts or decrypts a parameter in place (Part 1, 21).
func (s *session) crypt(key, newer, older, data []byte, encrypt bool) {
	switch s.sym.Alg {
	case tpm2.AlgXOR:
		mask := kdfa(s.hash, key, "XOR", newer, older, len(data)*8)
		for i := range data {
			data[i] ^= mask[i]
		}
	case tpm2.AlgAES:
		n := int(s.sym.KeyBits) / 8
		k := kdfa(s.hash, key, "CFB", newer, older, (n+16)*8)
		b, err := aes.NewCipher(k[:n])
		if err != nil {
			return
		}
		shift, stream := k[n:], make([]byte, 16)
		for len(data) > 0 {
			b.Encrypt(stream, shift)
			m := min(16, len(data))
			next := bytes.Clone(shift)
			for i := range m {
				next[i] = data[i]
				data[i] ^= stream[i]
				if encrypt {
					next[i] = data[i]
				}
			}
			shift, data = next, data[m:]
		}
	}
}

// kdfa is KDFa (Part 1, 11.4.10.2), written here again so that no fault of the
// engine's can hide.
func kdfa(hash tpm2.Alg, key []byte, label string, u, v []byte, bits int) []byte {
	var out []byte
	for i := uint32(1); len(out) < bits/8; i++ {
		m := hmac.New(hash.New, key)
		m.Write(binary.BigEndian.AppendUint32(nil, i))
		m.Write(append([]byte(label), 0))
		m.Write(u)
		m.Write(v)
		m.Write(binary.BigEndian.AppendUint32(nil, uint32(bits)))
		out = m.Sum(out)
	}
	return out[:bits/8]
}

// cpHash asks the TPM for the names of the handles.
func (s *side) cpHash(st *step, hash tpm2.Alg, params []byte) ([]byte, error) {
	w := tpm2.NewWriter(nil)
	w.U32(uint32(st.cc))
	for _, h := range st.handles {
		n, err := s.name(s.handle(h))
		if err != nil {
			return nil, err
		}
		w.Raw(n)
	}
	return hash.Sum(w.Bytes(), params), nil
}

func (s *side) name(h tpm2.Handle) ([]byte, error) {
	var cc tpm2.CC
	switch h.Type() {
	case tpm2.HTTransient, tpm2.HTPersistent:
		cc = tpm2.CCReadPublic
	case tpm2.HTNVIndex:
		cc = tpm2.CCNVReadPublic
	default:
		return tpm2.HandleName(h), nil
	}
	w := tpm2.NewWriter(nil)
	tpm2.Header{Tag: tpm2.STNoSessions, Size: 14, Code: uint32(cc)}.Marshal(w)
	w.Handle(h)
	b, err := s.send(w.Bytes())
	if err != nil || len(b) <= 10 {
		return nil, err
	}
	r := tpm2.NewReader(b[10:])
	r.Sized(1 << 15)
	return r.Sized(1 << 15), nil
}

// parse takes a response apart, as the command's outputs say.
func (s *side) parse(st *step, used []use, response []byte) (*result, error) {
	r := tpm2.NewReader(response)
	var h tpm2.Header
	h.Unmarshal(r)
	if r.Code() != 0 || int(h.Size) != len(response) {
		return nil, fmt.Errorf("a header that says %d bytes", h.Size)
	}
	out := &result{rc: tpm2.RC(h.Code), fields: map[string][]byte{}}
	if out.rc != tpm2.RCSuccess {
		if len(response) != 10 {
			return nil, fmt.Errorf("an error with more than a header")
		}
		return out, nil
	}
	spec := outputs[st.cc]
	if len(spec) > 0 && spec[0] == "handle" {
		out.handle = r.Handle()
		spec = spec[1:]
	}
	params := r
	if h.Tag == tpm2.STSessions {
		n := int(r.U32())
		params = tpm2.NewReader(r.Bytes(n))
		s.sessionsAfter(st, used, params, r)
		params.Reset(params.Rest())
	}
	for _, f := range spec {
		out.fields[f] = field(f, params)
	}
	if params.Code() != 0 || params.Len() != 0 {
		return nil, fmt.Errorf("parameters that end elsewhere than expected: %v, %d bytes left", params.Code(), params.Len())
	}
	return out, nil
}

// sessionsAfter reads the session area of a response: new nonces, sessions
// that ended, and the decryption of the first parameter.
func (s *side) sessionsAfter(st *step, used []use, params, area *tpm2.Reader) {
	whole := params.Rest() // shares memory with the response, which is ours
	for i, u := range used {
		var a tpm2.AuthResponse
		a.Unmarshal(area)
		if u.s == nil {
			continue
		}
		u.s.nonceTPM = bytes.Clone(a.Nonce)
		if u.attrs.Has(tpm2.SessionEncrypt) && len(whole) >= 2 {
			if n := int(binary.BigEndian.Uint16(whole)); n <= len(whole)-2 {
				u.s.crypt(u.paramKey(i, len(st.handles)), a.Nonce, u.nonce, whole[2:2+n], false)
			}
		}
		if u.s.policy && i < len(st.handles) {
			u.s.needsAuth, u.s.password = false, false
		}
		if !u.attrs.Has(tpm2.SessionContinue) {
			delete(s.sessions, u.session)
		}
	}
	params.Reset(whole)
}

// learn keeps what later commands need to know of sessions.
func (s *side) learn(st *step, r *result) {
	if r.rc != tpm2.RCSuccess {
		return
	}
	switch st.cc {
	case tpm2.CCStartAuthSession:
		p := tpm2.NewReader(s.bytes(param{{bytes: joined(st.params)}}))
		nonceCaller := p.Sized(1 << 15)
		p.Sized(1 << 15)
		x := &session{handle: r.handle, policy: p.U8() != 0, nonceTPM: bytes.Clone(r.fields["nonceTPM"][2:])}
		x.sym.Unmarshal(p)
		x.hash = p.Alg()
		if x.hash.IsHash() {
			null := fixed(tpm2.RHNull)
			if st.handles[0] != null || st.handles[1] != null { // Part 1, 19.6.8
				secret := append(bytes.TrimRight([]byte(st.bindAuth), "\x00"), st.salt...)
				x.key = kdfa(x.hash, secret, "ATH", x.nonceTPM, nonceCaller, 8*x.hash.DigestSize())
				x.bind, x.bindAuth = st.handles[1], st.bindAuth
			}
			s.sessions[st.id] = x
		}
	case tpm2.CCPolicyAuthValue, tpm2.CCPolicyPassword, tpm2.CCPolicyRestart:
		if x := s.sessions[st.handles[0].step]; x != nil {
			x.needsAuth, x.password = st.cc == tpm2.CCPolicyAuthValue, st.cc == tpm2.CCPolicyPassword
		}
	}
}

// joined puts the literal bytes of parameters together.
func joined(params []param) []byte {
	var b []byte
	for _, p := range params {
		for _, x := range p {
			b = append(b, x.bytes...)
		}
	}
	return b
}
