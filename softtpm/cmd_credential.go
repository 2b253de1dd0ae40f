// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"bytes"

	"holdfast/tpm2"
)

func init() {
	register(&command{code: tpm2.CCMakeCredential, slots: []slot{{kObject, roleNone}}, flags: fDecrypt | fEncrypt, run: makeCredential})
	register(&command{code: tpm2.CCActivateCredential, slots: []slot{{kObject, roleAdmin}, {kObject, roleUser}}, flags: fDecrypt | fEncrypt, run: activateCredential})
}

// isCredentialKey says whether o can protect credentials: an asymmetric
// storage key (Part 1, 24).
func (o *object) isCredentialKey() bool { return o.isStorageParent() && o.pub.Type.IsAsymmetric() }

// makeCredential is TPM2_MakeCredential (Part 3, 12.6).
func makeCredential(c *call) tpm2.RC {
	cred := c.next().Sized(tpm2.MaxDigest)
	name := c.next().Sized(tpm2.MaxName)
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	k := c.object(0)
	if !k.isCredentialKey() {
		return tpm2.RCType.Handle(1)
	}
	if len(cred) > k.pub.NameAlg.DigestSize() {
		return tpm2.RCSize.Parameter(1)
	}
	seed, enc, rc := c.t.shareSecret(k, labelIdentity)
	if rc != tpm2.RCSuccess {
		return rc.Handle(1)
	}
	c.out.Sized(sealCredential(k, seed, name, cred))
	c.out.Sized(enc)
	return tpm2.RCSuccess
}

// activateCredential is TPM2_ActivateCredential (Part 3, 12.5).
func activateCredential(c *call) tpm2.RC {
	blob := c.next().Sized(tpm2.MaxIDObject)
	enc := c.next().Sized(tpm2.MaxEncryptedSecret)
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	o, k := c.object(0), c.object(1)
	if o.isSequence() {
		return tpm2.RCType.Handle(1)
	}
	if !k.isCredentialKey() || k.publicOnly {
		return tpm2.RCType.Handle(2)
	}
	seed, rc := recoverSecret(k, labelIdentity, enc)
	if rc != tpm2.RCSuccess {
		return rc.Parameter(2)
	}
	cred, rc := openCredential(k, seed, o.name, bytes.Clone(blob))
	if rc != tpm2.RCSuccess {
		return rc.Parameter(1)
	}
	c.out.Sized(cred)
	return tpm2.RCSuccess
}
