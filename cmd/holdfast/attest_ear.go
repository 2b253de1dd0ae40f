// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"holdfast/attest/ear"
)

// earOutput are the flags of `attest verify` about its result as an EAR.
type earOutput struct{ path, form, key string }

func (o *earOutput) flags(c *cobra.Command) {
	c.Flags().StringVar(&o.path, "ear", "", "also write the result to this file as an EAT Attestation Result (draft-ietf-rats-ear)")
	c.Flags().StringVar(&o.form, "ear-form", "json", "json, cbor, jwt, or one of them in a CMW record: cmw-json, cmw-cbor, cmw-jwt")
	c.Flags().StringVar(&o.key, "ear-key", "", "private key on P-256, PEM, that signs a jwt")
}

// write writes the file, if one is asked for.
func (o *earOutput) write(r *ear.Result) error {
	if o.path == "" {
		return nil
	}
	b, err := o.encode(r)
	if err != nil {
		return usageError(err)
	}
	return replaceFile(o.path, b, 0o644)
}

func (o *earOutput) encode(r *ear.Result) ([]byte, error) {
	form, wrapped := o.form, false
	if len(form) > 4 && form[:4] == "cmw-" {
		form, wrapped = form[4:], true
	}
	var b []byte
	var err error
	var mediaType string
	switch form {
	case "json":
		mediaType = ear.TypeJSON
		b, err = r.JSON()
	case "cbor":
		mediaType = ear.TypeCBOR
		b, err = r.CBOR()
	case "jwt":
		mediaType = ear.TypeJWT
		var key *ecdsa.PrivateKey
		if key, err = o.signer(); err == nil {
			b, err = r.JWT(key)
		}
	default:
		err = fmt.Errorf("--ear-form: expected json, cbor, jwt, cmw-json, cmw-cbor or cmw-jwt, got %q", o.form)
	}
	if err != nil {
		return nil, err
	}
	if wrapped {
		b = ear.Wrap(mediaType, b).JSON()
	}
	if form != "cbor" || wrapped {
		b = append(b, '\n')
	}
	return b, nil
}

func (o *earOutput) signer() (*ecdsa.PrivateKey, error) {
	if o.key == "" {
		return nil, errors.New("--ear-key: a jwt needs a key to sign with")
	}
	raw, err := os.ReadFile(o.key)
	if err != nil {
		return nil, err
	}
	defer clear(raw)
	block, _ := pem.Decode(raw)
	if block == nil {
		return nil, fmt.Errorf("%s: expected PEM", o.key)
	}
	if k, err := x509.ParseECPrivateKey(block.Bytes); err == nil {
		return k, nil
	}
	k, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.key, err)
	}
	ec, ok := k.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("%s: expected a key on P-256, got %T", o.key, k)
	}
	return ec, nil
}
