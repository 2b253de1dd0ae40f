// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"holdfast/attest/provider/tpmquote"
	"holdfast/attest/trust"
	"holdfast/tpm2"
	"holdfast/tss"
	"holdfast/tss/ekcert"
)

func init() { attestVerbs = append(attestVerbs, newAttestEnroll) }

// enrolment are the flags of `attest enroll`.
type enrolment struct {
	device                                 reportDevice
	key, secret, trust, name, machine, ecc string
	policyPCRs                             []string
	persist                                string
	ekCA                                   string
	ekCRL                                  []string
}

func newAttestEnroll(g *globals) *cobra.Command {
	var e enrolment
	c := &cobra.Command{
		Use:   "enroll --tpm SPEC --name ENVIRONMENT --key FILE --secret FILE --trust FILE",
		Short: "Once for each machine: make an attestation key, prove that it is in the TPM, write its record",
		Long: `Once for each machine: make an attestation key, prove that it is in the TPM,
write its record.

The key is made in the TPM, with a random secret as its authorization value,
and with --policy-pcrs also bound to the present values of these PCRs. By
credential activation (TPM2_MakeCredential in software against the endorsement
key, TPM2_ActivateCredential in the TPM) the key is shown to be in the same
TPM as the endorsement key. Then the record is appended to the trust file.

  --key     what the Attester loads; encrypted by the TPM       mode 0600
  --secret  what the key's use demands; keep it on this machine mode 0600
  --trust   the public record; carry it to every Verifier       mode 0644

Both sides of the enrolment run here, so the record is as good as this machine
is now: run it before the machine leaves your hands. The endorsement key's
certificate is recorded by its digest if the TPM has one. With --ek-ca it must
be there, and an authority in that file must vouch for it: then the record says
that the key is in a TPM of that maker, not only in some TPM, by the digest of the
root, and a policy can ask for it (enrolment: {ek-roots: [SHA-256]}). With --ek-crl
a revoked certificate is refused, and so is a chain in which the list of an
authority is missing or out of date.`,
		Args: exactArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ak, err := e.run(cmd.Context())
			if err != nil {
				return err
			}
			out := map[string]any{"environment": ak.Environment, "method": ak.Method, "enrolled": ak.Enrolled, "machine": ak.Machine,
				"ek_type": ak.EK.Type, "ek_name": hex.EncodeToString(ak.EK.Name), "ek_certificate_sha256": hex.EncodeToString(ak.EK.CertificateSHA256), "ek_root_sha256": hex.EncodeToString(ak.EK.RootSHA256),
				"key": e.key, "secret": e.secret, "trust": e.trust}
			if g.json {
				return printJSON(out)
			}
			cert := "the TPM has no certificate for it"
			if len(ak.EK.CertificateSHA256) > 0 {
				cert = fmt.Sprintf("certificate sha256:%x", []byte(ak.EK.CertificateSHA256))
			}
			if len(ak.EK.RootSHA256) > 0 {
				cert += fmt.Sprintf(", of the maker with root sha256:%x", []byte(ak.EK.RootSHA256))
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "enrolled %s by %s\n  endorsement key %s, Name %x, %s\n  key file %s, secret %s\n  record appended to %s: carry it to the Verifiers\n",
				ak.Environment, ak.Method, ak.EK.Type, []byte(ak.EK.Name), cert, e.key, e.secret, e.trust)
			return err
		},
	}
	e.device.flags(c)
	f := c.Flags()
	f.StringVar(&e.name, "name", "", "the environment's name, by which policies accept it")
	f.StringVar(&e.key, "key", "", "key file to write")
	f.StringVar(&e.secret, "secret", "", "secret file to write")
	f.StringVar(&e.trust, "trust", "", "trust file to append the record to; made if missing")
	f.StringVar(&e.machine, "machine", "", "identifier of the machine, for the record")
	f.StringVar(&e.ecc, "ecc", "", "P-256: make an ECDSA key instead of ML-DSA-65, for TPMs without post-quantum keys")
	f.StringSliceVar(&e.policyPCRs, "policy-pcrs", nil, "the key quotes only while these PCRs have their present values, such as sha256:11")
	f.StringVar(&e.ekCA, "ek-ca", "", "PEM file with the authorities of the TPM's maker: the endorsement key's certificate must chain to one")
	f.StringArrayVar(&e.ekCRL, "ek-crl", nil, "file with revocation lists of these authorities, in PEM or DER; with it each authority in the chain must have one, in date")
	f.StringVar(&e.persist, "persist", "", "also store the key in the TPM at this handle, such as 0x81010010")
	return c
}

func (e *enrolment) run(ctx context.Context) (*trust.AK, error) {
	for _, f := range []struct{ flag, value string }{{"--name", e.name}, {"--key", e.key}, {"--secret", e.secret}, {"--trust", e.trust}} {
		if f.value == "" {
			return nil, usageError(fmt.Errorf("attest enroll: %s is needed", f.flag))
		}
	}
	if err := trust.CheckName(e.name); err != nil {
		return nil, usageError(fmt.Errorf("--name: %w", err))
	}
	kind := tpmquote.MLDSA65
	if e.ecc != "" {
		if e.ecc != "P-256" {
			return nil, usageError(fmt.Errorf("--ecc: expected P-256, got %q", e.ecc))
		}
		kind = tpmquote.ES256
	}
	handle, err := e.handle()
	if err != nil {
		return nil, err
	}
	for _, path := range []string{e.key, e.secret} {
		if _, err := os.Lstat(path); err == nil {
			return nil, usageError(fmt.Errorf("%s exists: an enrolment makes a new key; remove the old one first", path))
		}
	}
	makers, err := e.makers()
	if err != nil {
		return nil, err
	}
	all, err := e.records()
	if err != nil {
		return nil, err
	}
	conn, err := e.device.open(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	secret, err := tpmquote.NewSecret()
	if err != nil {
		return nil, err
	}
	defer clear(secret)
	key, ak, err := e.enroll(tss.New(conn), kind, secret, handle, makers)
	if err != nil {
		return nil, refusedError(err)
	}
	all.AKs = append(all.AKs, *ak)
	roots, err := trust.Build(all)
	if err != nil {
		return nil, refusedError(fmt.Errorf("%s: %w", e.trust, err))
	}
	return ak, e.write(key, secret, roots)
}

func (e *enrolment) handle() (tpm2.Handle, error) {
	if e.persist == "" {
		return 0, nil
	}
	h, err := strconv.ParseUint(e.persist, 0, 32)
	if err != nil || tpm2.Handle(h).Type() != tpm2.HTPersistent {
		return 0, usageError(fmt.Errorf("--persist: expected a handle such as 0x81010010, got %q", e.persist))
	}
	return tpm2.Handle(h), nil
}

// makers reads the authorities of --ek-ca and the lists of --ek-crl; nil if
// nobody asked for them.
func (e *enrolment) makers() (*ekcert.Makers, error) {
	if e.ekCA == "" {
		if len(e.ekCRL) > 0 {
			return nil, usageError(errors.New("--ek-crl: needs --ek-ca, whose authorities signed the lists"))
		}
		return nil, nil
	}
	b, err := readLimited(e.ekCA, 1<<20)
	if err != nil {
		return nil, err
	}
	makers, err := ekcert.ParseMakers(b)
	if err != nil {
		return nil, usageError(fmt.Errorf("--ek-ca %s: %w", e.ekCA, err))
	}
	for _, f := range e.ekCRL {
		if b, err = readLimited(f, 16<<20); err != nil {
			return nil, err
		}
		if err := makers.AddLists(b); err != nil {
			return nil, usageError(fmt.Errorf("--ek-crl %s: %w", f, err))
		}
	}
	return makers, nil
}

// checkEK checks the endorsement key's certificate.
func checkEK(id tpmquote.Identity, makers *ekcert.Makers) error {
	var ek tpm2.Public
	if err := tpm2.Decode(id.EK, &ek); err != nil {
		return fmt.Errorf("endorsement key: %w", err)
	}
	_, err := makers.Check(id.Certificate, &ek, time.Now())
	if err != nil && id.Certificate == nil {
		return fmt.Errorf("--ek-ca: %w for its endorsement key (%s); holdfast tpm provision makes one for tests", err, id.EKType)
	}
	if err != nil {
		return fmt.Errorf("--ek-ca: %w", err)
	}
	return nil
}

// records are those that the trust file has already.
func (e *enrolment) records() (trust.Records, error) {
	r, err := trust.Load(e.trust)
	if errors.Is(err, os.ErrNotExist) {
		return trust.Records{}, nil
	}
	if err != nil {
		return trust.Records{}, usageError(err)
	}
	for _, a := range r.AKs() {
		if a.Environment == e.name {
			return trust.Records{}, usageError(fmt.Errorf("%s: %q is enrolled already; remove that record, or take another name", e.trust, e.name))
		}
	}
	return r.Records(), nil
}

// enroll runs both sides.
func (e *enrolment) enroll(t *tss.TPM, kind tpmquote.Kind, secret []byte, handle tpm2.Handle, roots *ekcert.Makers) (*tpmquote.KeyFile, *trust.AK, error) {
	key, err := tpmquote.CreateKey(t, tpmquote.NewKeyOptions{Kind: kind, Secret: secret, PolicyPCRs: e.policyPCRs})
	if err != nil {
		return nil, nil, err
	}
	a, err := tpmquote.NewAttester(t, key, secret, nil)
	if err != nil {
		return nil, nil, err
	}
	defer a.Close()
	if roots != nil { // before the challenge: a TPM of another maker is not asked for anything
		if err := checkEK(a.Identity, roots); err != nil {
			return nil, nil, err
		}
	}
	v, challenge, err := tpmquote.NewChallenge(a.Identity)
	if err != nil {
		return nil, nil, err
	}
	answer, err := a.Answer(challenge)
	if err != nil {
		return nil, nil, err
	}
	v.Roots = roots
	ak, err := v.Complete(answer, e.name, e.machine, time.Now())
	if err != nil {
		return nil, nil, err
	}
	if handle != 0 {
		if err := tpmquote.MakePersistent(t, key, handle, nil, nil); err != nil {
			return nil, nil, err
		}
	}
	return key, &ak, nil
}

// write stores what the enrolment made; the record last, so that a Verifier
// never trusts a key that the machine lost.
func (e *enrolment) write(key *tpmquote.KeyFile, secret []byte, roots *trust.Roots) error {
	text := tpmquote.FormatSecret(secret)
	defer clear(text)
	if err := writeNew(e.secret, text, 0o600); err != nil {
		return err
	}
	b, err := key.Encode()
	if err == nil {
		err = writeNew(e.key, b, 0o600)
	}
	if err != nil {
		return errors.Join(err, os.Remove(e.secret))
	}
	if b, err = roots.Encode(); err == nil {
		err = replaceFile(e.trust, b, 0o644)
	}
	if err != nil {
		return errors.Join(err, os.Remove(e.secret), os.Remove(e.key))
	}
	return nil
}
