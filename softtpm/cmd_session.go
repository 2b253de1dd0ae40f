// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"bytes"

	"holdfast/softtpm/internal/tpmcrypto"
	"holdfast/tpm2"
)

func init() {
	register(&command{code: tpm2.CCStartAuthSession, slots: []slot{{kObject | kNull, roleNone}, {kEntity | kNull, roleNone}},
		flags: fDecrypt | fEncrypt | fHandle, run: startAuthSession})
}

// startAuthSession is TPM2_StartAuthSession (Part 3, 11.1).
func startAuthSession(c *call) tpm2.RC {
	nonceCaller := c.next().Sized(tpm2.MaxDigest)
	encSalt := c.next().Sized(tpm2.MaxEncryptedSecret)
	kind := tpm2.SE(c.next().U8())
	if c.in.Code() == tpm2.RCSuccess && kind != tpm2.SEHMAC && kind != tpm2.SEPolicy && kind != tpm2.SETrial {
		c.in.Fail(tpm2.RCValue)
	}
	var sym tpm2.SymDef
	r := c.next()
	sym.Unmarshal(r)
	if r.Code() == tpm2.RCSuccess {
		symImplemented(r, sym)
	}
	hash := readHash(c.next())
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	if len(nonceCaller) < 16 || len(nonceCaller) > hash.DigestSize() {
		return tpm2.RCSize.Parameter(1)
	}
	if (sym.Alg == tpm2.AlgAES || sym.Alg == tpm2.AlgSM4) && sym.Mode != tpm2.AlgCFB {
		return tpm2.RCMode.Parameter(4)
	}
	salt, rc := c.sessionSalt(encSalt)
	if rc != tpm2.RCSuccess {
		return rc
	}
	defer tpmcrypto.Zero(salt)

	s := &session{hash: hash, sym: sym, policy: kind != tpm2.SEHMAC, trial: kind == tpm2.SETrial,
		nonce: c.t.random(hash.DigestSize()), startTime: c.now(), epoch: c.st.volatile.timeEpoch}
	if s.policy {
		s.policyAssert = newAsserts(hash)
	}
	var bindAuth []byte
	if b := c.handle(1); b != tpm2.RHNull {
		if o := c.st.object(b); o != nil && (o.publicOnly || o.isSequence()) {
			return tpm2.RCHandle.Handle(2)
		}
		// A session bound to a PIN index would use its authValue without being
		// counted.
		if x := c.st.nv(b); x != nil && (x.pub.Attributes.Type() == tpm2.NTPinPass || x.pub.Attributes.Type() == tpm2.NTPinFail) {
			return tpm2.RCHandle.Handle(2)
		}
		auth, da := c.st.authValue(b)
		if da != failNone && c.t.lockedOut(da) {
			return tpm2.RCLockout
		}
		bindAuth = auth
		if !s.policy {
			s.bound, s.bindName, s.bindAuth = true, bytes.Clone(c.st.name(b)), bytes.Clone(auth)
			s.bindDA, s.bindLockout = da == failDA, da == failLockout
		}
	}
	if c.handle(0) != tpm2.RHNull || c.handle(1) != tpm2.RHNull {
		key := append(append(make([]byte, 0, len(bindAuth)+len(salt)), bindAuth...), salt...)
		// Also when the bound entity's authValue is empty (Part 1, 19.6.8).
		h := tpmcrypto.Hash(hash)
		s.key = tpmcrypto.KDFa(h, key, "ATH", s.nonce, nonceCaller, 8*h.Size())
		tpmcrypto.Zero(key)
	}
	i, rc := c.freeSession()
	if rc != tpm2.RCSuccess {
		return rc
	}
	s.handle = tpm2.HandleHMACFirst + tpm2.Handle(i)
	if s.policy {
		s.handle = tpm2.HandlePolicyFirst + tpm2.Handle(i)
	}
	c.st.volatile.sessions[i] = s
	c.outHandle = s.handle
	c.out.Sized(s.nonce)
	return tpm2.RCSuccess
}

// sessionSalt decrypts the salt with tpmKey.
func (c *call) sessionSalt(enc []byte) ([]byte, tpm2.RC) {
	if c.handle(0) == tpm2.RHNull {
		if len(enc) != 0 {
			return nil, tpm2.RCValue.Parameter(2)
		}
		return nil, tpm2.RCSuccess
	}
	k := c.object(0)
	if k.isSequence() || k.publicOnly {
		return nil, tpm2.RCHandle.Handle(1)
	}
	if !k.pub.Attributes.Has(tpm2.ObjectDecrypt) {
		return nil, tpm2.RCAttributes.Handle(1)
	}
	if !k.pub.Type.IsAsymmetric() {
		return nil, tpm2.RCKey.Handle(1)
	}
	salt, rc := recoverSecret(k, labelSecret, enc)
	if rc == tpm2.RCKey {
		return nil, rc.Handle(1)
	}
	return salt, rc.Parameter(2)
}

// freeSession returns a slot for a new session: a free place among the loaded
// ones and one that no saved session owns (Part 1, 30.5).
func (c *call) freeSession() (int, tpm2.RC) {
	loaded, free := 0, -1
	for i := range c.st.volatile.sessions {
		switch {
		case c.st.volatile.sessions[i] != nil:
			loaded++
		case !c.st.volatile.savedSessions[i] && free < 0:
			free = i
		}
	}
	if loaded >= c.t.opt.Sessions {
		return 0, tpm2.RCSessionMemory
	}
	if free < 0 {
		return 0, tpm2.RCSessionHandles
	}
	return free, tpm2.RCSuccess
}
