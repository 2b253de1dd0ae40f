// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"holdfast/cmd/holdfast/tpmcmd"
	"holdfast/tpm2"
	"holdfast/tss"
)

func init() { tpmCommands = append(tpmCommands, tpmEncrypt, tpmDecrypt) }

const encryptHelp = `
ML-KEM keys: the vendor commands KEM_Encrypt and KEM_Decrypt of our TPM (ML-KEM, then AES-256-GCM), up to 1024 octets.
The file holds two buffers, each behind its length (u16, big-endian): the sealed data, and the ciphertext of the KEM.
RSA keys: RSA_Encrypt and RSA_Decrypt with OAEP and SHA-256, up to the key's size less 66 octets; the file is the ciphertext.
Who encrypted a file is not known in either case.`

// oaepLabel makes the label of OAEP, which a TPM wants to end with a zero.
func oaepLabel(label string) []byte {
	if label == "" {
		return nil
	}
	return append([]byte(label), 0)
}

var oaep = tpm2.Scheme{Alg: tpm2.AlgOAEP, Hash: tpm2.AlgSHA256}

func tpmEncrypt(f *tpmFlags) *cobra.Command {
	var o objectFlags
	var label string
	cmd := &cobra.Command{Use: "encrypt", Short: "Encrypt data for the holder of an ML-KEM or RSA key", Args: cobra.NoArgs, Long: "Encrypt data for the holder of a key.\n" + encryptHelp}
	o.register(cmd, "", "file with the data", "file for the encrypted data")
	cmd.Flags().StringVarP(&label, "label", "l", "", "text that decrypt must be given too")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		data, err := tpmcmd.ReadFile(o.input)
		if err != nil {
			return err
		}
		defer clear(data)
		return o.run(cmd, f, func(t *tss.TPM, r tss.Ref, p *tpm2.Public) error {
			if p.Type == tpm2.AlgRSA {
				ct, err := t.RSAEncrypt(r, data, oaep, oaepLabel(label))
				if err != nil {
					return err
				}
				return f.secret(o.output, "encrypted", ct)
			}
			if len(data) > tpm2.MaxBuffer {
				return usageError(fmt.Errorf("%d octets of data: expected at most %d; encrypt a key instead, and the data with that", len(data), tpm2.MaxBuffer))
			}
			sealed, ct, err := t.KEMEncrypt(r, data, []byte(label))
			if err != nil {
				return err
			}
			var w tpm2.Writer
			w.Sized(sealed)
			w.Sized(ct)
			if err := w.Err(); err != nil {
				return err
			}
			return f.secret(o.output, "encrypted", w.Bytes())
		})
	}
	return cmd
}

func tpmDecrypt(f *tpmFlags) *cobra.Command {
	var o objectFlags
	var label string
	cmd := &cobra.Command{Use: "decrypt", Short: "Decrypt data with an ML-KEM or RSA key", Args: cobra.NoArgs, Long: "Decrypt what encrypt wrote.\n" + encryptHelp}
	o.register(cmd, authHelp, "file with the encrypted data", "file for the data")
	cmd.Flags().StringVarP(&label, "label", "l", "", "text that encrypt was given")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		in, err := tpmcmd.ReadFile(o.input)
		if err != nil {
			return err
		}
		return o.run(cmd, f, func(t *tss.TPM, r tss.Ref, p *tpm2.Public) error {
			var data []byte
			if p.Type == tpm2.AlgRSA {
				data, err = t.RSADecrypt(r, in, oaep, oaepLabel(label))
			} else {
				b := tpm2.NewReader(in)
				sealed, ct := b.Sized(len(in)), b.Sized(len(in))
				b.End()
				if err := b.Err(); err != nil {
					return fmt.Errorf("%s: expected the two buffers that encrypt writes: %w", o.input, err)
				}
				data, err = t.KEMDecrypt(r, sealed, ct, []byte(label))
			}
			if err != nil {
				return err
			}
			defer clear(data)
			return f.secret(o.output, "data", data)
		})
	}
	return cmd
}
