// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holdfast/sdk/sign"
)

func init() { enclaveVerbs = append(enclaveVerbs, enclaveSign, enclaveConfig) }

type signOptions struct {
	config, key, out, material, signature, publicKey string
	allowSyscall, resign                             bool
}

func enclaveSign(g *globals) *cobra.Command {
	var o signOptions
	c := &cobra.Command{
		Use:   "sign FILE.so --key KEY.pem --out FILE.signed.so",
		Short: "Make a signed enclave of a shared object: layout, metadata, measurement, signature",
		Long: "Make a signed enclave of a shared object: layout, metadata, measurement, signature.\n" +
			"The key is RSA with 3072 bits and exponent 3 (openssl genrsa -3 3072). Where it stays elsewhere:\n" +
			"--material FILE writes what is to be signed (openssl dgst -sha256 -sign KEY FILE >SIGNATURE); then\n" +
			"--material FILE --signature SIGNATURE --public-key PUBLIC.pem --out FILE.signed.so takes the signature.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := o.draft(cmd, args[0])
			if err != nil {
				return err
			}
			if o.material != "" && o.signature == "" {
				return os.WriteFile(o.material, d.Material(), 0o644)
			}
			if o.out == "" {
				return usageError(errors.New("--out says where the signed enclave goes"))
			}
			b, err := o.finish(d)
			if err != nil {
				return err
			}
			if err := os.WriteFile(o.out, b, 0o644); err != nil {
				return err
			}
			m, err := measure(o.out, b)
			if err != nil {
				return refusedError(err)
			}
			if g.json {
				return printJSON(m)
			}
			return m.print(cmd)
		},
	}
	f := c.Flags()
	f.StringVar(&o.config, "config", "", "configuration in XML (holdfast enclave config shows one)")
	f.StringVar(&o.key, "key", "", "private key in PEM")
	f.StringVar(&o.out, "out", "", "the signed enclave")
	f.StringVar(&o.material, "material", "", "what is to be signed elsewhere")
	f.StringVar(&o.signature, "signature", "", "the signature that was made elsewhere, 384 bytes")
	f.StringVar(&o.publicKey, "public-key", "", "its public key in PEM")
	f.BoolVar(&o.allowSyscall, "allow-syscall", false, "sign although the code contains SYSCALL, SYSENTER or INT 0x80")
	f.BoolVar(&o.resign, "resign", false, "the file is signed already: keep its layout and MRENCLAVE, change the signer")
	return c
}

func (o *signOptions) draft(cmd *cobra.Command, name string) (*sign.Draft, error) {
	file, err := os.ReadFile(name)
	if err != nil {
		return nil, usageError(err)
	}
	date, err := signingDate()
	if err != nil {
		return nil, usageError(err)
	}
	if o.resign {
		d, err := sign.Resign(file, date)
		if err != nil {
			return nil, refusedError(err)
		}
		return d, nil
	}
	c, err := readConfig(o.config)
	if err != nil {
		return nil, err
	}
	d, err := sign.Prepare(file, c, sign.Options{Date: date, AllowSyscall: o.allowSyscall})
	if err != nil {
		return nil, refusedError(fmt.Errorf("%s: %w", name, err))
	}
	for _, w := range d.Warnings {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: warning: %s\n", name, w)
	}
	return d, nil
}

// signingDate is today, or what SOURCE_DATE_EPOCH says, for builds that repeat.
func signingDate() (time.Time, error) {
	s := os.Getenv("SOURCE_DATE_EPOCH")
	if s == "" {
		return time.Now(), nil
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH: expected seconds since 1970, got %q", s)
	}
	return time.Unix(n, 0), nil
}

func (o *signOptions) finish(d *sign.Draft) ([]byte, error) {
	if o.signature == "" {
		if o.key == "" {
			return nil, usageError(errors.New("--key is needed: RSA with 3072 bits and exponent 3, as `openssl genrsa -3 3072` makes it"))
		}
		k, err := readSigner(o.key)
		if err != nil {
			return nil, err
		}
		b, err := d.Sign(k)
		if err != nil {
			return nil, refusedError(err)
		}
		return b, nil
	}
	if o.publicKey == "" || o.material == "" {
		return nil, usageError(errors.New("--signature goes with --public-key and --material"))
	}
	material, err := os.ReadFile(o.material)
	if err != nil {
		return nil, usageError(err)
	}
	sig, err := os.ReadFile(o.signature)
	if err != nil {
		return nil, usageError(err)
	}
	pub, err := readPublic(o.publicKey)
	if err != nil {
		return nil, err
	}
	if err := d.SetDate(material); err != nil {
		return nil, refusedError(err)
	}
	b, err := d.Attach(pub, sig)
	if err != nil {
		return nil, refusedError(err)
	}
	return b, nil
}

func readPEM(name string) (*pem.Block, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, usageError(err)
	}
	p, _ := pem.Decode(b)
	clear(b)
	if p == nil {
		return nil, refusedError(fmt.Errorf("%s: expected a key in PEM", name))
	}
	if strings.Contains(p.Headers["Proc-Type"], "ENCRYPTED") || p.Type == "ENCRYPTED PRIVATE KEY" {
		return nil, refusedError(fmt.Errorf("%s: the key is encrypted: sign in two steps with --material", name))
	}
	return p, nil
}

func readSigner(name string) (*rsa.PrivateKey, error) {
	p, err := readPEM(name)
	if err != nil {
		return nil, err
	}
	defer clear(p.Bytes)
	if k, err := x509.ParsePKCS1PrivateKey(p.Bytes); err == nil {
		return k, nil
	}
	k, err := x509.ParsePKCS8PrivateKey(p.Bytes)
	if r, ok := k.(*rsa.PrivateKey); ok && err == nil {
		return r, nil
	}
	return nil, refusedError(fmt.Errorf("%s: expected an RSA private key (3072 bits, exponent 3), got PEM %q", name, p.Type))
}

func readPublic(name string) (*rsa.PublicKey, error) {
	p, err := readPEM(name)
	if err != nil {
		return nil, err
	}
	if k, err := x509.ParsePKCS1PublicKey(p.Bytes); err == nil {
		return k, nil
	}
	k, err := x509.ParsePKIXPublicKey(p.Bytes)
	if r, ok := k.(*rsa.PublicKey); ok && err == nil {
		return r, nil
	}
	return nil, refusedError(fmt.Errorf("%s: expected an RSA public key, got PEM %q", name, p.Type))
}

func readConfig(name string) (*sign.Config, error) {
	if name == "" {
		return sign.Default(), nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, usageError(err)
	}
	defer f.Close()
	c, err := sign.ParseConfig(f)
	if err != nil {
		return nil, refusedError(fmt.Errorf("%s: %w", name, err))
	}
	return c, nil
}

func enclaveConfig(*globals) *cobra.Command {
	return &cobra.Command{
		Use:   "config [FILE.xml]",
		Short: "Check an enclave's configuration and show all its values; without a file, those that hold by default",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := ""
			if len(args) > 0 {
				name = args[0]
			}
			c, err := readConfig(name)
			if err == nil {
				_, err = io.WriteString(cmd.OutOrStdout(), c.String())
			}
			return err
		},
	}
}
