// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"encoding/binary"

	"holdfast/tpm2"
)

// Dictionary attack protection (Part 1, 19.8).

// lockedOut says whether entities of this protection may not be tried now.
func (t *TPM) lockedOut(f failure) bool {
	p := &t.state.perm
	switch f {
	case failLockout:
		return p.lockoutBlocked
	case failDA:
		return p.failedTries >= p.maxTries
	}
	return false
}

// heal counts failedTries down and lets lockoutAuth work again as time passes.
func (t *TPM) heal() {
	p, v := &t.state.perm, &t.state.volatile
	now := t.clk.time
	if p.failedTries == 0 || p.recoveryTime == 0 {
		v.healTimer = now
	} else if step := uint64(p.recoveryTime) * 1000; now-v.healTimer >= step {
		n := (now - v.healTimer) / step
		v.healTimer += n * step
		if n >= uint64(p.failedTries) {
			p.failedTries = 0
		} else {
			p.failedTries -= uint32(n)
		}
	}
	if p.lockoutBlocked && p.lockoutRecovery != 0 && v.started && now-v.lockoutTimer >= uint64(p.lockoutRecovery)*1000 {
		p.lockoutBlocked = false
	}
}

// punish counts a failed authorization and makes that durable before the
// command is answered, so that pulling the plug does not undo it.
func (t *TPM) punish(f failure, rc tpm2.RC) tpm2.RC {
	p := &t.state.perm
	switch f {
	case failDA:
		if p.failedTries == 0 {
			t.state.volatile.healTimer = t.clk.time
		}
		if p.failedTries < 0xFFFFFFFF {
			p.failedTries++
		}
	case failLockout:
		p.lockoutBlocked = true
		t.state.volatile.lockoutTimer = t.clk.time
	case failPIN:
		t.state.countPIN(t.c.failed)
	case failROT:
		if o := t.state.object(t.c.failed); o != nil {
			o.wipe()
			t.c.setObject(t.c.failed, nil)
		}
	}
	if t.save() != nil {
		return tpm2.RCNVUnavailable
	}
	return rc
}

// pinBlocked says whether a PIN index has used up its tries (Part 1, 37.2.8).
func (c *call) pinBlocked(x *nvIndex) bool {
	t := x.pub.Attributes.Type()
	if t != tpm2.NTPinFail && t != tpm2.NTPinPass {
		return false
	}
	if !x.pub.Attributes.Has(tpm2.NVWritten) || len(x.data) != 8 {
		return true // no pinLimit was written (Part 1, 34.2.8)
	}
	return binary.BigEndian.Uint32(x.data) >= binary.BigEndian.Uint32(x.data[4:])
}

// pinUsed does what the successful use of a PIN index's authValue does: it
// counts a PIN Pass index up and resets a PIN Fail index.
func (c *call) pinUsed(h tpm2.Handle) tpm2.RC {
	if h.Type() != tpm2.HTNVIndex {
		return tpm2.RCSuccess
	}
	x := c.st.nv(h)
	if x == nil || !x.pub.Attributes.Has(tpm2.NVWritten) || len(x.data) != 8 || isNVWrite(c.cmd.code) {
		return tpm2.RCSuccess
	}
	count := binary.BigEndian.Uint32(x.data)
	switch x.pub.Attributes.Type() {
	case tpm2.NTPinFail:
		if count == 0 {
			return tpm2.RCSuccess
		}
		count = 0
	case tpm2.NTPinPass:
		count++
	default:
		return tpm2.RCSuccess
	}
	n := *x
	n.data = append([]byte(nil), x.data...)
	binary.BigEndian.PutUint32(n.data, count)
	c.st.setNV(&n)
	c.st.volatile.dirty = true
	return tpm2.RCSuccess
}

// countPIN counts a failed use of a PIN Fail index (Part 1, 37.2.8).
func (s *state) countPIN(h tpm2.Handle) {
	x := s.nv(h)
	if x == nil || !x.pub.Attributes.Has(tpm2.NVWritten) || len(x.data) != 8 {
		return
	}
	count := binary.BigEndian.Uint32(x.data)
	if count == 0xFFFFFFFF {
		return
	}
	n := *x
	n.data = append([]byte(nil), x.data...)
	binary.BigEndian.PutUint32(n.data, count+1)
	s.setNV(&n)
}
