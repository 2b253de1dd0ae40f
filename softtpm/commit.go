// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"encoding/binary"

	"holdfast/softtpm/internal/tpmcrypto"
	"holdfast/tpm2"
)

// Commit values (Part 1, C.2.2): a TPM keeps no secret per commit, only one
// bit; the secret comes from a nonce and the counter.

// newCommit takes the next commit counter and returns it with its secret
// scalar; TPM_RC_NO_RESULT if none can be made.
func (c *call) newCommit(curve *tpmcrypto.Curve) (count uint16, r []byte, rc tpm2.RC) {
	s := &c.st.reset
	count = uint16(s.commitCounter)
	r, rc = c.commitScalar(curve, s.commitCounter)
	if rc != tpm2.RCSuccess {
		return 0, nil, rc
	}
	i := s.commitCounter % commitBits
	s.commitArray[i/8] |= 1 << (i % 8)
	s.commitCounter++
	return count, r, tpm2.RCSuccess
}

// takeCommit returns the secret scalar of an open commit and closes it;
// TPM_RC_VALUE if count names none.
func (c *call) takeCommit(curve *tpmcrypto.Curve, count uint16) ([]byte, tpm2.RC) {
	s := &c.st.reset
	// The counter is longer than count: find the newest value that ends so.
	full := s.commitCounter&^0xFFFF | uint64(count)
	if full >= s.commitCounter {
		if full < 0x10000 {
			return nil, tpm2.RCValue
		}
		full -= 0x10000
	}
	if s.commitCounter-full > commitBits {
		return nil, tpm2.RCValue
	}
	i := full % commitBits
	if s.commitArray[i/8]>>(i%8)&1 == 0 {
		return nil, tpm2.RCValue
	}
	s.commitArray[i/8] &^= 1 << (i % 8)
	return c.commitScalar(curve, full)
}

func (c *call) commitScalar(curve *tpmcrypto.Curve, count uint64) ([]byte, tpm2.RC) {
	d := tpmcrypto.NewDRBG(tpmcrypto.SHA512, c.st.reset.commitNonce, binary.BigEndian.AppendUint64(nil, count), []byte{byte(curve.ID >> 8), byte(curve.ID)})
	defer d.Close()
	r, err := curve.CommitScalar(d)
	if err != nil {
		return nil, tpm2.RCNoResult
	}
	return r, tpm2.RCSuccess
}
