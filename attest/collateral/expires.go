// SPDX-License-Identifier: Apache-2.0

package collateral

import (
	"bytes"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"time"
)

// Expires says until when an item is good by what its vendor signed: the next
// update of a revocation list or of Intel's JSON, the end of the certificate
// that ends first. ok is false for what has no date, such as Hygon's chains.
// It checks no signature.
func (i *Item) Expires() (until time.Time, ok bool) {
	body := i.Body
	if block, _ := pem.Decode(body); block != nil {
		return pemExpires(body)
	}
	if crl, err := x509.ParseRevocationList(body); err == nil {
		return crl.NextUpdate, !crl.NextUpdate.IsZero()
	}
	if c, err := x509.ParseCertificate(body); err == nil {
		return c.NotAfter, true
	}
	var intel map[string]json.RawMessage
	if json.Unmarshal(body, &intel) != nil {
		return time.Time{}, false
	}
	for _, name := range []string{"tcbInfo", "enclaveIdentity"} {
		var inner struct {
			NextUpdate time.Time `json:"nextUpdate"`
		}
		if raw, there := intel[name]; there && json.Unmarshal(raw, &inner) == nil && !inner.NextUpdate.IsZero() {
			return inner.NextUpdate, true
		}
	}
	return time.Time{}, false
}

func pemExpires(body []byte) (until time.Time, ok bool) {
	for len(bytes.TrimSpace(body)) > 0 {
		var block *pem.Block
		if block, body = pem.Decode(body); block == nil {
			return time.Time{}, false
		}
		var end time.Time
		if c, err := x509.ParseCertificate(block.Bytes); err == nil {
			end = c.NotAfter
		} else if crl, err := x509.ParseRevocationList(block.Bytes); err == nil {
			end = crl.NextUpdate
		} else {
			return time.Time{}, false
		}
		if !ok || end.Before(until) {
			until, ok = end, true
		}
	}
	return until, ok
}
