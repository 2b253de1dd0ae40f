// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"encoding/binary"

	"holdfast/softtpm/internal/tpmcrypto"
	"holdfast/tpm2"
)

// decryptParameter decrypts the first parameter if a session says so. cpHash
// was computed before, over the encrypted form (Part 1, 21).
func (c *call) decryptParameter() tpm2.RC {
	i := c.sessionWith(tpm2.SessionDecrypt)
	if i < 0 {
		return tpm2.RCSuccess
	}
	if len(c.params) < 2 {
		return tpm2.RCInsufficient.Parameter(1)
	}
	n := int(binary.BigEndian.Uint16(c.params))
	if n > len(c.params)-2 {
		return tpm2.RCSize.Parameter(1)
	}
	u := &c.sess[i]
	s := c.st.session(u.handle)
	cryptParameter(s, u.authUsed, u.nonce, s.nonce, c.params[2:2+n], true)
	return tpm2.RCSuccess
}

// cryptParameter encrypts or decrypts data in place (Part 1, 21.2 and 21.3).
// The key is sessionKey ‖ authValue of the entity that the session authorizes.
func cryptParameter(s *session, auth, newer, older, data []byte, decrypt bool) {
	key := make([]byte, 0, len(s.key)+len(auth))
	key = append(append(key, s.key...), auth...)
	defer tpmcrypto.Zero(key)
	h := tpmcrypto.Hash(s.hash)
	if s.sym.Alg == tpm2.AlgXOR {
		tpmcrypto.XORObfuscate(h, key, newer, older, data)
		return
	}
	n := int(s.sym.KeyBits) / 8
	k := tpmcrypto.KDFa(h, key, "CFB", newer, older, 8*(n+16))
	defer tpmcrypto.Zero(k)
	b, err := tpmcrypto.NewCipher(uint16(s.sym.Alg), k[:n])
	if err != nil {
		// StartAuthSession took only known ciphers and key sizes.
		panic(err)
	}
	if decrypt {
		tpmcrypto.CFBDecrypt(b, k[n:], data)
	} else {
		tpmcrypto.CFBEncrypt(b, k[n:], data)
	}
}
