// SPDX-License-Identifier: Apache-2.0

package tpmcmd

import (
	"encoding/binary"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"holdfast/tpm2"
	"holdfast/tss/keyfile"
)

// maxInput bounds what is read from a file, in bytes.
const maxInput = 64 << 20

// ReadFile reads a file, or standard input for "-".
func ReadFile(path string) ([]byte, error) {
	f := os.Stdin
	if path != "-" {
		var err error
		if f, err = os.Open(path); err != nil {
			return nil, err
		}
		defer f.Close()
	}
	b, err := io.ReadAll(io.LimitReader(f, maxInput+1))
	if err == nil && len(b) > maxInput {
		err = fmt.Errorf("%s is longer than %d bytes", path, maxInput)
	}
	return b, err
}

// WriteFile writes a file with mode 0600, or standard output for "-". Nothing
// is written for an empty path.
func WriteFile(path string, b []byte) error {
	switch path {
	case "":
		return nil
	case "-":
		_, err := os.Stdout.Write(b)
		return err
	}
	if i, err := os.Lstat(path); err == nil && !i.Mode().IsRegular() {
		return os.WriteFile(path, b, 0o600) // a pipe, a device, or a link that the caller chose
	}
	// A file that is there already may be open to others: a new one takes its
	// place, so that the mode is ours from the first byte.
	f, err := os.CreateTemp(filepath.Dir(path), ".holdfast-*")
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// sized reads a file that is one TPM2B, as tpm2-tools keeps public and private
// areas.
func sized(path, what string) ([]byte, error) {
	b, err := ReadFile(path)
	if err != nil {
		return nil, err
	}
	if b, err = unwrap(b, what); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return b, nil
}

// unwrap returns the content of a TPM2B that is all of b.
func unwrap(b []byte, what string) ([]byte, error) {
	if len(b) < 2 {
		return nil, fmt.Errorf("expected a %s, got %d bytes", what, len(b))
	}
	if n := int(binary.BigEndian.Uint16(b)); n != len(b)-2 {
		return nil, fmt.Errorf("expected a %s of %d bytes, as its first two bytes say, got %d", what, n+2, len(b))
	}
	return b[2:], nil
}

// ReadPublic reads a file that holds a TPM2B_PUBLIC.
func ReadPublic(path string) (*tpm2.Public, error) {
	b, err := sized(path, "TPM2B_PUBLIC")
	if err != nil {
		return nil, err
	}
	var p tpm2.Public
	if err := tpm2.Decode(b, &p); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &p, nil
}

// ReadPrivate reads a file that holds a TPM2B_PRIVATE.
func ReadPrivate(path string) ([]byte, error) { return sized(path, "TPM2B_PRIVATE") }

// WriteSized writes content as a TPM2B.
func WriteSized(path string, content []byte) error {
	var w tpm2.Writer
	w.Sized(content)
	if w.Err() != nil {
		return w.Err()
	}
	return WriteFile(path, w.Bytes())
}

// WritePublic writes a public area: tss (TPM2B_PUBLIC), pem or der.
func WritePublic(path, format string, p *tpm2.Public) error {
	switch format {
	case "", "tss":
		b, err := tpm2.Encode(p)
		if err != nil {
			return err
		}
		return WriteSized(path, b)
	case "der", "pem":
		der, err := keyfile.MarshalPublic(p)
		if err != nil {
			return err
		}
		if format == "pem" {
			der = pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
		}
		return WriteFile(path, der)
	}
	return fmt.Errorf("format %q: expected tss, pem or der", format)
}

// Credential files are those of tpm2-tools: magic, version, TPM2B_ID_OBJECT,
// TPM2B_ENCRYPTED_SECRET.
const (
	credentialMagic   = 0xBADCC0DE
	credentialVersion = 1
)

// WriteCredential writes a credential.
func WriteCredential(path string, idObject, secret []byte) error {
	b, err := credential(idObject, secret)
	if err != nil {
		return err
	}
	return WriteFile(path, b)
}

func credential(idObject, secret []byte) ([]byte, error) {
	var w tpm2.Writer
	w.U32(credentialMagic)
	w.U32(credentialVersion)
	w.Sized(idObject)
	w.Sized(secret)
	return w.Bytes(), w.Err()
}

// ReadCredential reads a credential.
func ReadCredential(path string) (idObject, secret []byte, err error) {
	b, err := ReadFile(path)
	if err != nil {
		return nil, nil, err
	}
	if idObject, secret, err = parseCredential(b); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return idObject, secret, nil
}

func parseCredential(b []byte) (idObject, secret []byte, err error) {
	r := tpm2.NewReader(b)
	if m, v := r.U32(), r.U32(); m != credentialMagic || v != credentialVersion {
		return nil, nil, fmt.Errorf("expected a credential file (%#x, version %d), got %#x, version %d", uint32(credentialMagic), credentialVersion, m, v)
	}
	idObject = r.Sized(tpm2.MaxIDObject)
	secret = r.Sized(tpm2.MaxEncryptedSecret)
	r.End()
	if err := r.Err(); err != nil {
		return nil, nil, err
	}
	return idObject, secret, nil
}

// ReadSignature reads a TPMT_SIGNATURE.
func ReadSignature(path string) (*tpm2.Signature, error) {
	b, err := ReadFile(path)
	if err != nil {
		return nil, err
	}
	var s tpm2.Signature
	if err := tpm2.Decode(b, &s); err != nil {
		return nil, fmt.Errorf("%s: expected a TPMT_SIGNATURE: %w", path, err)
	}
	return &s, nil
}
