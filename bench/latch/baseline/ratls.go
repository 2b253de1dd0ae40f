// SPDX-License-Identifier: Apache-2.0

package baseline

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/binary"
	"errors"
)

var raTLS = Design{
	Name: "ra-tls", Title: "RA-TLS, long-lived key", Attests: true,
	server: func(k *Kit) (Server, error) { return newRAServer(k) },
	client: func(k *Kit) (Client, error) { return &nativeClient{raClientTLS(k)}, nil },
}

// evidenceOID marks the evidence in a certificate: an example arc.
var evidenceOID = asn1.ObjectIdentifier{2, 999, 1}

// newRAServer is TLS with a certificate that carries evidence over its own key.
// The key lives as long as the server and is attested once.
func newRAServer(k *Kit) (*nativeServer, error) {
	r, err := newSerial(k, machine)
	if err != nil {
		return nil, err
	}
	cert, err := selfSigned(func(t *x509.Certificate, spki []byte) error {
		p, err := r.prove(leafOf("ra-tls", spki))
		t.ExtraExtensions = []pkix.Extension{{Id: evidenceOID, Value: p.encode()}}
		return err
	})
	conf := k.serverTLS()
	conf.Certificates = []tls.Certificate{cert}
	return &nativeServer{conf}, err
}

// raClientTLS verifies the evidence in each handshake, in the place of a chain
// of certificates.
func raClientTLS(k *Kit) *tls.Config {
	conf := k.clientTLS()
	conf.InsecureSkipVerify = true // by a certificate authority: the evidence is for this key
	conf.VerifyConnection = func(cs tls.ConnectionState) error {
		c := cs.PeerCertificates[0]
		for _, e := range c.Extensions {
			if e.Id.Equal(evidenceOID) && len(e.Value) >= 4 && int(binary.BigEndian.Uint32(e.Value)) == len(e.Value)-4 {
				p, err := parseProof(e.Value[4:])
				if err != nil {
					return err
				}
				return k.check(machine, p, leafOf("ra-tls", c.RawSubjectPublicKeyInfo))
			}
		}
		return errors.New("RA-TLS: the certificate has no evidence")
	}
	return conf
}
