// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"holdfast/cmd/holdfast/tpmcmd"
	"holdfast/tpm2"
	"holdfast/tss"
)

func init() {
	tpmCommands = append(tpmCommands, tpmECCEncrypt, tpmECCDecrypt, tpmCertifyX509, tpmReadOnly, tpmSetCapability, tpmACTSetTimeout)
}

// kdf2 is the key derivation of ECC encryption.
func kdf2(hash string) (tpm2.Scheme, error) {
	h, err := tpmcmd.Hash(hash)
	if err != nil {
		return tpm2.Scheme{}, usageError(err)
	}
	return tpm2.Scheme{Alg: tpm2.AlgKDF2, Hash: h}, nil
}

const eccHelp = `
The file holds what the command of the TPM has: a point and two buffers, each behind its length (u16, big-endian).
The keys of encryption come from KDF2 with the hash of -g.`

func tpmECCEncrypt(f *tpmFlags) *cobra.Command {
	var o objectFlags
	var hash string
	cmd := &cobra.Command{Use: "eccencrypt", Short: "Encrypt up to 1024 octets for the holder of an ECC key", Args: cobra.NoArgs, Long: "Encrypt data for the holder of an ECC key.\n" + eccHelp}
	o.register(cmd, "", "file with the data", "file for the encrypted data")
	cmd.Flags().StringVarP(&hash, "hash-algorithm", "g", "sha256", "hash algorithm of KDF2")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		kdf, err := kdf2(hash)
		if err != nil {
			return err
		}
		data, err := tpmcmd.ReadFile(o.input)
		if err != nil {
			return err
		}
		defer clear(data)
		if len(data) > tpm2.MaxBuffer {
			return usageError(fmt.Errorf("%d octets of data: expected at most %d", len(data), tpm2.MaxBuffer))
		}
		return o.run(cmd, f, func(t *tss.TPM, r tss.Ref, _ *tpm2.Public) error {
			e, err := t.ECCEncrypt(r, data, kdf)
			if err != nil {
				return err
			}
			b, err := tpm2.Encode(e)
			if err != nil {
				return err
			}
			return f.secret(o.output, "encrypted", b)
		})
	}
	return cmd
}

func tpmECCDecrypt(f *tpmFlags) *cobra.Command {
	var o objectFlags
	var hash string
	cmd := &cobra.Command{Use: "eccdecrypt", Short: "Decrypt by an ECC key", Args: cobra.NoArgs, Long: "Decrypt what eccencrypt wrote.\n" + eccHelp}
	o.register(cmd, authHelp, "file with the encrypted data", "file for the data")
	cmd.Flags().StringVarP(&hash, "hash-algorithm", "g", "sha256", "hash algorithm of KDF2")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		kdf, err := kdf2(hash)
		if err != nil {
			return err
		}
		in, err := tpmcmd.ReadFile(o.input)
		if err != nil {
			return err
		}
		var e tss.ECCCiphertext
		if err := tpm2.Decode(in, &e); err != nil {
			return fmt.Errorf("%s: expected what eccencrypt writes: %w", o.input, err)
		}
		return o.run(cmd, f, func(t *tss.TPM, r tss.Ref, _ *tpm2.Public) error {
			data, err := t.ECCDecrypt(r, &e, kdf)
			if err != nil {
				return err
			}
			defer clear(data)
			return f.secret(o.output, "data", data)
		})
	}
	return cmd
}

func tpmCertifyX509(f *tpmFlags) *cobra.Command {
	var c certifyFlags
	var partial, added string
	cmd := &cobra.Command{
		Use: "certifyx509", Short: "Let a key sign an X.509 certificate of an object", Args: cobra.NoArgs,
		Long: "Let a key sign an X.509 certificate of an object. The input is DER: a sequence of signature algorithm (optional), issuer, validity,\n" +
			"subject and extensions; the TPM adds version, serial number, algorithm and key, which go to -o.",
	}
	c.register(cmd)
	cmd.Flags().StringVarP(&partial, "input", "i", "-", "file with the partial certificate")
	cmd.Flags().StringVarP(&added, "output", "o", "", "file for what the TPM adds")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		der, err := tpmcmd.ReadFile(partial)
		if err != nil {
			return err
		}
		return c.run(cmd, f, func(t *tss.TPM, object, key tss.Ref, scheme tpm2.Scheme) error {
			a, digest, sig, err := t.CertifyX509(object, key, scheme, der)
			if err != nil {
				return err
			}
			s, err := tpm2.Encode(sig)
			if err != nil {
				return err
			}
			if added == "" && c.signature == "" {
				return f.printResult(map[string]hexBytes{"added": a, "digest": digest, "signature": s}, func() { fmt.Printf("added: %x\ndigest: %x\nsignature: %x\n", a, digest, s) })
			}
			return errors.Join(tpmcmd.WriteFile(added, a), tpmcmd.WriteFile(c.signature, s))
		})
	}
	return cmd
}

// byHierarchy is a command with a hierarchy's authorization.
func (f *tpmFlags) byHierarchy(cmd *cobra.Command, usual string, run func(t *tss.TPM, auth tss.Ref, args []string) error) {
	var who, auth string
	cmd.Flags().StringVarP(&who, "hierarchy", "C", usual, "o(wner), e(ndorsement), p(latform) or l(ockout)")
	cmd.Flags().StringVarP(&auth, "auth", "P", "", "its authorization")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		h, err := tpmcmd.Hierarchy(who)
		if err != nil {
			return usageError(err)
		}
		value, err := tpmcmd.Value(auth)
		if err != nil {
			return usageError(err)
		}
		return f.with(cmd.Context(), func(t *tss.TPM) error { return run(t, tss.Ref{Handle: h, Auth: tss.Password(value)}, args) })
	}
}

func tpmReadOnly(f *tpmFlags) *cobra.Command {
	cmd := &cobra.Command{Use: "readonly on|off", Short: "Refuse commands that change what the TPM keeps, until off or the next start", Args: cobra.ExactArgs(1)}
	f.byHierarchy(cmd, "p", func(t *tss.TPM, auth tss.Ref, args []string) error {
		if args[0] != "on" && args[0] != "off" {
			return usageError(fmt.Errorf("%q: expected on or off", args[0]))
		}
		return t.ReadOnlyControl(auth, args[0] == "on")
	})
	return cmd
}

func tpmSetCapability(f *tpmFlags) *cobra.Command {
	cmd := &cobra.Command{Use: "setcapability NAME VALUE", Short: "Set what can be set of a TPM: buffer-size 4096 or 8192, of ours", Args: cobra.ExactArgs(2)}
	f.byHierarchy(cmd, "p", func(t *tss.TPM, auth tss.Ref, args []string) error {
		n, err := strconv.ParseUint(args[1], 0, 32)
		if args[0] != "buffer-size" || err != nil {
			return usageError(fmt.Errorf("%s %s: expected buffer-size and a number", args[0], args[1]))
		}
		return t.SetCapability(auth, tpm2.CapBufferSize, binary.BigEndian.AppendUint32(nil, uint32(n)))
	})
	return cmd
}

func tpmACTSetTimeout(f *tpmFlags) *cobra.Command {
	var auth string
	cmd := &cobra.Command{Use: "actsettimeout TIMER SECONDS", Short: "Start an authenticated countdown timer (0 to 15); 0 ends it with its signal, stop ends the signal", Args: cobra.ExactArgs(2)}
	cmd.Flags().StringVarP(&auth, "auth", "P", "", "authorization of the timer")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		timer, err := strconv.ParseUint(args[0], 0, 4)
		if err != nil {
			return usageError(fmt.Errorf("timer %q: expected 0 to 15", args[0]))
		}
		seconds := uint64(0xFFFFFFFF)
		if args[1] != "stop" {
			if seconds, err = strconv.ParseUint(args[1], 0, 32); err != nil {
				return usageError(fmt.Errorf("%q: expected a number of seconds, or stop", args[1]))
			}
		}
		value, err := tpmcmd.Value(auth)
		if err != nil {
			return usageError(err)
		}
		return f.with(cmd.Context(), func(t *tss.TPM) error {
			return t.ACTSetTimeout(tss.Ref{Handle: tpm2.RHACT0 + tpm2.Handle(timer), Auth: tss.Password(value)}, uint32(seconds))
		})
	}
	return cmd
}
