// SPDX-License-Identifier: Apache-2.0

package tpmquote

import (
	"bytes"
	"fmt"

	"holdfast/tpm2"
	"holdfast/tss"
)

// loadKey loads the attestation key, or finds it if it is persistent. owned
// says that the caller flushes it.
func loadKey(t *tss.TPM, k *KeyFile, endorsementAuth []byte) (key *tss.Key, owned bool, err error) {
	pub, err := k.public()
	if err != nil {
		return nil, false, err
	}
	if k.Persistent != 0 {
		key, _, err := t.ReadPublic(k.Persistent)
		if err != nil {
			return nil, false, fmt.Errorf("attestation key: nothing usable at %v: %w", k.Persistent, err)
		}
		if want, err := pub.Name(); err != nil || !bytes.Equal(want, key.Name) {
			return nil, false, fmt.Errorf("attestation key: the key at %v has the Name %x, the key file says %x", k.Persistent, key.Name, want)
		}
		return key, false, nil
	}
	parent, err := t.CreatePrimary(tss.Endorsement(endorsementAuth), parentTemplate(k.Kind), nil)
	if err != nil {
		return nil, false, fmt.Errorf("attestation key: making its storage key: %w", err)
	}
	defer t.FlushContext(parent.Handle)
	key, err = t.Load(parent.Ref(nil), k.Private, pub)
	if err != nil {
		return nil, false, fmt.Errorf("attestation key: loading it (was it made by this TPM?): %w", err)
	}
	return key, true, nil
}

// MakePersistent stores the key in the TPM at a handle from 0x81010000 (the
// endorsement hierarchy's) and notes it in k.
func MakePersistent(t *tss.TPM, k *KeyFile, at tpm2.Handle, ownerAuth, endorsementAuth []byte) error {
	if at.Type() != tpm2.HTPersistent || at >= tpm2.HandlePlatformFirst {
		return fmt.Errorf("persistent handle: expected 0x81000000 to 0x817fffff, got %v", at)
	}
	key, owned, err := loadKey(t, k, endorsementAuth)
	if err != nil {
		return err
	}
	if owned {
		defer t.FlushContext(key.Handle)
	}
	if err := t.EvictControl(tss.Owner(ownerAuth), key.Ref(nil), at); err != nil {
		return fmt.Errorf("attestation key: making it persistent at %v: %w", at, err)
	}
	k.Persistent = at
	return nil
}
