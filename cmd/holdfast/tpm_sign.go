// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"crypto/subtle"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"holdfast/cmd/holdfast/tpmcmd"
	"holdfast/tpm2"
	"holdfast/tss"
	"holdfast/tss/keyfile"
)

func init() {
	tpmCommands = append(tpmCommands, tpmSign, tpmVerify, tpmQuote, tpmCheckQuote, tpmCertify)
}

// signatureHash is the hash that a key signs with, or the one that was asked for.
func signatureHash(p *tpm2.Public, asked string) (tpm2.Alg, error) {
	if p.Parms.Scheme.HasHash() {
		return p.Parms.Scheme.Hash, nil
	}
	return tpmcmd.Hash(asked)
}

// signatureScheme is the scheme of the key, or the one that was asked for, or
// a usual one.
func signatureScheme(p *tpm2.Public, asked, hash string) (tpm2.Scheme, error) {
	h, err := tpmcmd.Hash(hash)
	if err != nil {
		return tpm2.NoScheme, err
	}
	switch {
	case asked != "":
		s, err := tpmcmd.Scheme(asked)
		return s, err
	case p.Parms.Scheme.Alg != tpm2.AlgNull:
		return tpm2.NoScheme, nil
	case p.Type == tpm2.AlgRSA:
		return tpm2.Scheme{Alg: tpm2.AlgRSASSA, Hash: h}, nil
	case p.Type == tpm2.AlgECC:
		return tpm2.Scheme{Alg: tpm2.AlgECDSA, Hash: h}, nil
	}
	return tpm2.NoScheme, nil
}

func tpmSign(f *tpmFlags) *cobra.Command {
	var key, auth, hash, scheme, output, context, format string
	var isDigest bool
	cmd := &cobra.Command{Use: "sign [FILE]", Short: "Sign a file (ML-DSA keys sign the message itself)", Args: cobra.MaximumNArgs(1)}
	fl := cmd.Flags()
	fl.StringVarP(&key, "key-context", "c", "", "the key: a handle or a context file")
	fl.StringVarP(&auth, "auth", "p", "", "its authorization")
	fl.StringVarP(&hash, "hash-algorithm", "g", "sha256", "hash algorithm, if the key has none")
	fl.StringVarP(&scheme, "scheme", "s", "", "scheme, if the key has none: rsassa, rsapss or ecdsa")
	fl.BoolVarP(&isDigest, "digest", "d", false, "the file is a digest (for ML-DSA keys that allow it: the external mu)")
	fl.StringVarP(&output, "signature", "o", "", "file for the signature")
	fl.StringVarP(&format, "format", "f", "tss", "tss (TPMT_SIGNATURE), or plain as other software has it (ECDSA in DER)")
	fl.StringVar(&context, "context", "", "context string of ML-DSA")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if format != "tss" && format != "plain" {
			return usageError(fmt.Errorf("-f %q: expected tss or plain", format))
		}
		in := "-"
		if len(args) > 0 {
			in = args[0]
		}
		data, err := tpmcmd.ReadFile(in)
		if err != nil {
			return err
		}
		return f.with(cmd.Context(), func(t *tss.TPM) error {
			o, err := tpmcmd.Open(t, key, auth)
			if err != nil {
				return err
			}
			defer o.Close()
			if o.Public == nil {
				return usageError(errors.New("-c: expected a key"))
			}
			s, err := signData(t, o, data, isDigest, scheme, hash, context)
			if err != nil {
				return err
			}
			b, err := tpm2.Encode(s)
			if format == "plain" {
				b, err = keyfile.PlainSignature(s)
			}
			if err != nil {
				return err
			}
			if output != "" {
				return tpmcmd.WriteFile(output, b)
			}
			return f.printResult(map[string]any{"scheme": s.Alg.String(), "signature": hexBytes(b)}, func() { fmt.Printf("%x\n", b) })
		})
	}
	return cmd
}

// signsMessages says whether TPM2_Sign is not for a scheme, but the commands of
// version 185 are.
func signsMessages(a tpm2.Alg) bool {
	return a == tpm2.AlgMLDSA || a == tpm2.AlgHashMLDSA || a == tpm2.AlgEdDSA || a == tpm2.AlgHashEdDSA
}

func signData(t *tss.TPM, o *tpmcmd.Object, data []byte, isDigest bool, scheme, hash, context string) (*tpm2.Signature, error) {
	if signsMessages(o.Public.Type) || signsMessages(o.Public.Parms.Scheme.Alg) {
		if o.Public.Parms.Scheme.Alg == tpm2.AlgEdDSA && !isDigest && len(data) > tpm2.MaxBuffer {
			return nil, usageError(fmt.Errorf("a message of %d bytes: an EdDSA key signs at most %d in a TPM, which must hold all of it; use a key of hash_eddsa", len(data), tpm2.MaxBuffer))
		}
		if isDigest {
			return t.SignDigest(o.Ref, []byte(context), data, tss.NullHashcheck)
		}
		return t.SignMessage(o.Ref, []byte(context), data)
	}
	sch, err := signatureScheme(o.Public, scheme, hash)
	if err != nil {
		return nil, usageError(err)
	}
	ticket := tss.NullHashcheck
	digest := data
	if !isDigest {
		h := sch.Hash
		if sch.Alg == tpm2.AlgNull {
			if h, err = signatureHash(o.Public, hash); err != nil {
				return nil, usageError(err)
			}
		}
		// By the TPM, whose ticket lets a restricted key sign.
		if digest, ticket, err = t.Hash(data, h, tpm2.RHOwner); err != nil {
			return nil, err
		}
	}
	return t.Sign(o.Ref, digest, sch, ticket)
}

func tpmVerify(f *tpmFlags) *cobra.Command {
	var key, hash, message, digest, signature, context, ticket string
	cmd := &cobra.Command{Use: "verifysignature", Aliases: []string{"verify"}, Short: "Verify a signature by the TPM", Args: cobra.NoArgs}
	fl := cmd.Flags()
	fl.StringVarP(&key, "key-context", "c", "", "the key: a handle or a context file")
	fl.StringVarP(&hash, "hash-algorithm", "g", "sha256", "hash algorithm, if the key has none")
	fl.StringVarP(&message, "message", "m", "", "file with the message")
	fl.StringVarP(&digest, "digest", "d", "", "file with the digest, instead of the message")
	fl.StringVarP(&signature, "signature", "s", "", "file with the TPMT_SIGNATURE")
	fl.StringVar(&context, "context", "", "context string of ML-DSA")
	fl.StringVarP(&ticket, "ticket", "t", "", "file for the ticket, for policyauthorize")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if (message == "") == (digest == "") {
			return usageError(errors.New("expected one of --message and --digest"))
		}
		s, err := tpmcmd.ReadSignature(signature)
		if err != nil {
			return err
		}
		data, err := tpmcmd.ReadFile(message + digest)
		if err != nil {
			return err
		}
		return f.with(cmd.Context(), func(t *tss.TPM) error {
			o, err := tpmcmd.Open(t, key, "")
			if err != nil {
				return err
			}
			defer o.Close()
			var k tpm2.Ticket
			switch {
			case signsMessages(s.Alg):
				if digest != "" {
					k, err = t.VerifyDigestSignature(o.Ref, []byte(context), data, s)
				} else {
					k, err = t.VerifyMessageTicket(o.Ref, []byte(context), data, s)
				}
			default:
				if digest == "" {
					data = s.Hash.Sum(data)
				}
				k, err = t.VerifySignature(o.Ref, data, s)
			}
			if err != nil {
				return refusedError(err)
			}
			b, err := tpm2.Encode(k)
			if err := errors.Join(err, tpmcmd.WriteFile(ticket, b)); err != nil {
				return err
			}
			return f.printResult(map[string]bool{"verified": true}, func() { fmt.Println("the signature is good") })
		})
	}
	return cmd
}

func tpmQuote(f *tpmFlags) *cobra.Command {
	var key, auth, list, qualification, message, signature, values, scheme, hash string
	cmd := &cobra.Command{Use: "quote", Short: "Sign PCRs by an attestation key", Args: cobra.NoArgs}
	fl := cmd.Flags()
	fl.StringVarP(&key, "key-context", "c", "", "the key: a handle or a context file")
	fl.StringVarP(&auth, "auth", "p", "", "its authorization")
	fl.StringVarP(&list, "pcr-list", "l", "", "PCRs, such as sha256:0,7,16")
	fl.StringVarP(&qualification, "qualification", "q", "", "qualifying data: a file or hexadecimal digits")
	fl.StringVarP(&message, "message", "m", "", "file for the TPMS_ATTEST")
	fl.StringVarP(&signature, "signature", "s", "", "file for the TPMT_SIGNATURE")
	fl.StringVarP(&values, "pcr", "o", "", "file for the values of the PCRs, one after another")
	fl.StringVar(&scheme, "scheme", "", "scheme, if the key has none")
	fl.StringVarP(&hash, "hash-algorithm", "g", "sha256", "hash algorithm, if the key has none")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		sel, err := tpmcmd.PCRs(list)
		if err != nil {
			return usageError(err)
		}
		q, err := tpmcmd.Bytes(qualification)
		if err != nil {
			return usageError(err)
		}
		return f.with(cmd.Context(), func(t *tss.TPM) error {
			o, err := tpmcmd.Open(t, key, auth)
			if err != nil {
				return err
			}
			defer o.Close()
			if o.Public == nil {
				return usageError(errors.New("-c: expected a key"))
			}
			sch, err := signatureScheme(o.Public, scheme, hash)
			if err != nil {
				return usageError(err)
			}
			a, err := t.Quote(o.Ref, q, sch, sel)
			if err != nil {
				return err
			}
			at, sig, err := a.Parse(tpm2.STAttestQuote)
			if err != nil {
				return err
			}
			banks, all, err := readPCRs(t, sel)
			if err != nil {
				return err
			}
			err = errors.Join(tpmcmd.WriteFile(message, a.Attest), tpmcmd.WriteFile(signature, a.Signature), tpmcmd.WriteFile(values, bytes.Join(all, nil)))
			if err != nil {
				return err
			}
			return f.printResult(map[string]any{"quoted": hexBytes(a.Attest), "signature": hexBytes(a.Signature), "scheme": sig.Alg.String(),
				"pcr_digest": hexBytes(at.Quote.PCRDigest), "pcrs": banks}, func() {
				fmt.Printf("scheme: %v\npcr-digest: %x\n", sig.Alg, at.Quote.PCRDigest)
			})
		})
	}
	return cmd
}

func tpmCheckQuote(f *tpmFlags) *cobra.Command {
	var public, message, signature, values, qualification string
	cmd := &cobra.Command{Use: "checkquote", Short: "Check a quote with a public key (needs no TPM)", Args: cobra.NoArgs}
	fl := cmd.Flags()
	fl.StringVarP(&public, "public", "u", "", "file with the public area of the key")
	fl.StringVarP(&message, "message", "m", "", "file with the TPMS_ATTEST")
	fl.StringVarP(&signature, "signature", "s", "", "file with the TPMT_SIGNATURE")
	fl.StringVarP(&values, "pcr", "f", "", "file with the values of the PCRs, to be compared with the quote")
	fl.StringVarP(&qualification, "qualification", "q", "", "qualifying data that the quote must have: a file or hexadecimal digits")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		pub, err := tpmcmd.ReadPublic(public)
		if err != nil {
			return err
		}
		m, err := tpmcmd.ReadFile(message)
		if err != nil {
			return err
		}
		sig, err := tpmcmd.ReadSignature(signature)
		if err != nil {
			return err
		}
		q, err := tpmcmd.Bytes(qualification)
		if err != nil {
			return usageError(err)
		}
		at, err := checkQuote(pub, m, sig, q)
		if err != nil {
			return refusedError(err)
		}
		if values != "" {
			v, err := tpmcmd.ReadFile(values)
			if err != nil {
				return err
			}
			h := pub.NameAlg // of keys without a scheme's hash (version 185, errata 2.6)
			if s := pub.Parms.Scheme; s.HasHash() {
				h = s.Hash
			} else if sig.Hash != 0 {
				h = sig.Hash
			}
			if d := h.Sum(v); subtle.ConstantTimeCompare(d, at.Quote.PCRDigest) != 1 {
				return refusedError(fmt.Errorf("the quote has PCR digest %x, the values give %x", at.Quote.PCRDigest, d))
			}
		}
		var list []string
		for _, s := range at.Quote.PCRSelect {
			list = append(list, fmt.Sprintf("%v:%v", s.Hash, s.PCRs()))
		}
		return f.printResult(map[string]any{"verified": true, "pcrs": list, "pcr_digest": hexBytes(at.Quote.PCRDigest), "qualification": hexBytes(at.ExtraData),
			"clock": at.ClockInfo.Clock, "reset_count": at.ClockInfo.ResetCount, "restart_count": at.ClockInfo.RestartCount, "firmware_version": at.FirmwareVersion},
			func() {
				fmt.Printf("the quote is good\npcrs: %v\npcr-digest: %x\nqualification: %x\nreset-count: %d\n", list, at.Quote.PCRDigest, at.ExtraData, at.ClockInfo.ResetCount)
			})
	}
	return cmd
}

// checkQuote verifies that the key, which must be restricted, signed a quote
// with this qualifying data.
func checkQuote(pub *tpm2.Public, attest []byte, sig *tpm2.Signature, qualification []byte) (*tpm2.Attest, error) {
	if !pub.Attributes.Has(tpm2.ObjectRestricted | tpm2.ObjectSignEncrypt) {
		return nil, errors.New("the key is not restricted to statements of a TPM, so its signature proves nothing")
	}
	if err := tss.CheckSignature(pub, attest, sig); err != nil {
		return nil, err
	}
	var at tpm2.Attest
	if err := tpm2.Decode(attest, &at); err != nil {
		return nil, fmt.Errorf("quote: %w", err)
	}
	if at.Type != tpm2.STAttestQuote {
		return nil, fmt.Errorf("a statement of type %#04x, expected a quote", uint16(at.Type))
	}
	if !bytes.Equal(at.ExtraData, qualification) {
		return nil, fmt.Errorf("the qualifying data is %x, expected %x", at.ExtraData, qualification)
	}
	return &at, nil
}

func tpmCertify(f *tpmFlags) *cobra.Command {
	var c certifyFlags
	var qualification, message string
	cmd := &cobra.Command{Use: "certify", Short: "Let a key state that an object is in the TPM", Args: cobra.NoArgs}
	c.register(cmd)
	cmd.Flags().StringVarP(&qualification, "qualification", "q", "", "qualifying data: a file or hexadecimal digits")
	cmd.Flags().StringVarP(&message, "attestation", "o", "", "file for the TPMS_ATTEST")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		q, err := tpmcmd.Bytes(qualification)
		if err != nil {
			return usageError(err)
		}
		return c.run(cmd, f, func(t *tss.TPM, object, key tss.Ref, scheme tpm2.Scheme) error {
			a, err := t.Certify(object, key, q, scheme)
			if err != nil {
				return err
			}
			return errors.Join(tpmcmd.WriteFile(message, a.Attest), tpmcmd.WriteFile(c.signature, a.Signature))
		})
	}
	return cmd
}

// certifyFlags are those of commands in which a key certifies an object.
type certifyFlags struct{ object, objectAuth, key, auth, signature string }

func (c *certifyFlags) register(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVarP(&c.object, "certifiedkey-context", "c", "", "the object: a handle or a context file")
	fl.StringVarP(&c.objectAuth, "certifiedkey-auth", "P", "", "its authorization")
	fl.StringVarP(&c.key, "signingkey-context", "C", "", "the key that signs")
	fl.StringVarP(&c.auth, "signingkey-auth", "p", "", "its authorization")
	fl.StringVarP(&c.signature, "signature", "s", "", "file for the TPMT_SIGNATURE")
}

// run opens both and calls do with the key's scheme.
func (c *certifyFlags) run(cmd *cobra.Command, f *tpmFlags, do func(t *tss.TPM, object, key tss.Ref, scheme tpm2.Scheme) error) error {
	return f.with(cmd.Context(), func(t *tss.TPM) error {
		o, err := tpmcmd.Open(t, c.object, c.objectAuth)
		if err != nil {
			return err
		}
		defer o.Close()
		k, err := tpmcmd.Open(t, c.key, c.auth)
		if err != nil {
			return err
		}
		defer k.Close()
		if k.Public == nil {
			return usageError(errors.New("-C: expected a key"))
		}
		if o.Public == nil {
			return usageError(errors.New("-c: expected an object, not a hierarchy"))
		}
		scheme, err := signatureScheme(k.Public, "", "sha256")
		if err != nil {
			return err
		}
		return do(t, o.Ref, k.Ref, scheme)
	})
}
