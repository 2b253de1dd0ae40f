// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"holdfast/softtpm/internal/tpmcrypto"
	"holdfast/tpm2"
)

// object is a loaded object or sequence. It does not change after it has been
// put into a slot (see state); only its cache of an expanded key may fill in.
type object struct {
	handle     tpm2.Handle // of persistent objects, 0 for transient ones
	hierarchy  tpm2.Handle // RHOwner, RHEndorsement, RHPlatform, RHNull
	pub        tpm2.Public
	sens       tpm2.Sensitive
	publicOnly bool // no sensitive area
	external   bool // came by LoadExternal
	primary    bool
	name       []byte
	qname      []byte
	seq        *sequence // not nil: this is a sequence, not a key
	rot        *transfer // not nil: this is an oblivious transfer under way (and seq is not nil)

	key *keyCache
}

// isSequence says whether o is a hash, HMAC, event or signature sequence.
func (o *object) isSequence() bool { return o.seq != nil }

// isParent says whether o is a storage parent: restricted decryption key that
// is not of a type without children (Part 1, 23.3).
func (o *object) isParent() bool {
	a := o.pub.Attributes
	return o.seq == nil && a.Has(tpm2.ObjectRestricted|tpm2.ObjectDecrypt) && !a.Has(tpm2.ObjectSignEncrypt) && o.pub.NameAlg != tpm2.AlgNull
}

// isDerivationParent says whether o is a parent of derived objects.
func (o *object) isDerivationParent() bool { return o.isParent() && o.pub.Type == tpm2.AlgKeyedHash }

// isStorageParent says whether o can wrap children.
func (o *object) isStorageParent() bool { return o.isParent() && o.pub.Type != tpm2.AlgKeyedHash }

// wipe erases what is secret in o.
func (o *object) wipe() {
	tpmcrypto.Zero(o.sens.Auth)
	tpmcrypto.Zero(o.sens.Seed)
	tpmcrypto.Zero(o.sens.Value)
	if o.key != nil {
		o.key.wipe()
	}
	if o.seq != nil {
		o.seq.wipe()
	}
	if o.rot != nil {
		o.rot.close()
	}
}

// clone returns a deep copy of the secret parts, so that both copies can be
// wiped apart.
func (o *object) clone() *object {
	n := *o
	n.sens.Auth = append([]byte(nil), o.sens.Auth...)
	n.sens.Seed = append([]byte(nil), o.sens.Seed...)
	n.sens.Value = append([]byte(nil), o.sens.Value...)
	n.key = &keyCache{}
	return &n
}

// trimAuth removes trailing zero bytes, which do not count in authorization
// values (Part 1, 19.6.4.3).
func trimAuth(a []byte) []byte {
	for len(a) > 0 && a[len(a)-1] == 0 {
		a = a[:len(a)-1]
	}
	return a
}

// addObject puts o in a free slot and returns its handle; TPM_RC_OBJECT_MEMORY if all are taken.
func (c *call) addObject(o *object) (tpm2.Handle, tpm2.RC) {
	for i := 0; i < c.t.opt.Objects; i++ {
		if c.st.volatile.objects[i] == nil {
			if o.key == nil {
				o.key = &keyCache{}
			}
			c.st.volatile.objects[i] = o
			return tpm2.HandleTransientFirst + tpm2.Handle(i), tpm2.RCSuccess
		}
	}
	return 0, tpm2.RCObjectMemory
}

// objectRoom says whether a slot is free, so that costly commands can fail early.
func (c *call) objectRoom() tpm2.RC {
	for i := 0; i < c.t.opt.Objects; i++ {
		if c.st.volatile.objects[i] == nil {
			return tpm2.RCSuccess
		}
	}
	return tpm2.RCObjectMemory
}

// setObject replaces the transient object with handle h; nil frees the slot.
func (c *call) setObject(h tpm2.Handle, o *object) {
	c.st.volatile.objects[h-tpm2.HandleTransientFirst] = o
}

// object returns the object with handle h, nil if there is none or its
// hierarchy is disabled.
func (s *state) object(h tpm2.Handle) *object {
	switch h.Type() {
	case tpm2.HTTransient:
		if i := h - tpm2.HandleTransientFirst; i < maxObjects {
			return s.volatile.objects[i]
		}
	case tpm2.HTPersistent:
		for _, o := range s.perm.persistent {
			if o.handle == h {
				if !s.hierarchyEnabled(o.hierarchy) || h >= tpm2.HandlePlatformFirst && !s.volatile.phEnable {
					return nil
				}
				return o
			}
		}
	}
	return nil
}
