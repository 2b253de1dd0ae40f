// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"holdfast/cmd/holdfast/tpmcmd"
	"holdfast/tpm2"
	"holdfast/tss"
	"holdfast/tss/keyfile"
)

func init() { tpmCommands = append(tpmCommands, tpmImport, tpmExport) }

// importFlags are those of `holdfast tpm import`.
type importFlags struct {
	input, parent, parentAuth, auth  string
	public, private, context, output string
	exportable                       bool
}

func tpmImport(f *tpmFlags) *cobra.Command {
	var i importFlags
	cmd := &cobra.Command{
		Use: "import", Short: "Bring a key from a PEM file into the TPM", Args: cobra.NoArgs,
		Long: `Bring a key from a PEM file into the TPM. The file holds
  a private key (PKCS #8, PKCS #1 or SEC 1; ML-DSA and ML-KEM as seed): it comes below the parent -C, encrypted on its way;
  a public key: it is loaded for verifying and encrypting;
  a TSS2 PRIVATE KEY: it is loaded below its own parent, or -C, which must then be the same key.`,
	}
	fl := cmd.Flags()
	fl.StringVarP(&i.input, "input", "i", "-", "the PEM file")
	fl.StringVarP(&i.parent, "parent-context", "C", "", "parent: a handle or a context file")
	fl.StringVarP(&i.parentAuth, "parent-auth", "P", "", "authorization of the parent, or of its hierarchy for a TSS2 file that names that")
	fl.StringVarP(&i.auth, "key-auth", "p", "", "authorization value of the new key")
	fl.StringVarP(&i.public, "public", "u", "", "file for the public area")
	fl.StringVarP(&i.private, "private", "r", "", "file for the private area, encrypted by the TPM")
	fl.StringVarP(&i.context, "key-context", "c", "", "file for the saved context")
	fl.StringVarP(&i.output, "output", "o", "", "file for the key as TSS2 PRIVATE KEY; the parent is then a persistent handle")
	fl.BoolVar(&i.exportable, "exportable", false, "let whoever knows the key's authorization value take it out again (export --private)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		file, err := tpmcmd.ReadFile(i.input)
		if err != nil {
			return err
		}
		defer clear(file)
		kind, der, err := keyfile.Decode(file)
		if err != nil {
			return fmt.Errorf("%s: %w", i.input, err)
		}
		defer clear(der)
		auth, err := tpmcmd.Value(i.auth)
		if err != nil {
			return usageError(err)
		}
		run := i.privateKey
		switch kind {
		case keyfile.PEMPrivate, "RSA PRIVATE KEY", "EC PRIVATE KEY":
		case keyfile.PEMPublic:
			run = i.publicKey
		case keyfile.PEMTSS2:
			run = i.tss2
		default:
			return fmt.Errorf("%s: a PEM block of type %q; expected PUBLIC KEY, PRIVATE KEY, RSA PRIVATE KEY, EC PRIVATE KEY or TSS2 PRIVATE KEY", i.input, kind)
		}
		return f.with(cmd.Context(), func(t *tss.TPM) error {
			p, err := run(t, der, auth)
			if err != nil {
				return err
			}
			return f.printKey(p, nil)
		})
	}
	return cmd
}

func (i *importFlags) publicKey(t *tss.TPM, der, _ []byte) (*tpm2.Public, error) {
	if i.private != "" || i.output != "" || i.exportable {
		return nil, usageError(errors.New("-r, -o and --exportable are for private keys; the file has a public one"))
	}
	p, err := keyfile.ParsePublic(der)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", i.input, err)
	}
	k, err := t.LoadExternal(tpm2.RHOwner, nil, p)
	if err != nil {
		return nil, err
	}
	if i.public != "" {
		if err := tpmcmd.WritePublic(i.public, "tss", p); err != nil {
			return nil, errors.Join(err, t.FlushContext(k.Handle))
		}
	}
	return p, tpmcmd.Save(t, k.Handle, i.context)
}

func (i *importFlags) privateKey(t *tss.TPM, der, auth []byte) (*tpm2.Public, error) {
	if i.parent == "" {
		return nil, usageError(errors.New("a private key needs a parent: -C"))
	}
	p, s, err := keyfile.ParsePrivate(der)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", i.input, err)
	}
	defer clear(s.Value)
	s.Auth = auth
	if i.exportable {
		p.AuthPolicy = tss.ExportPolicy(p.NameAlg)
	}
	parent, err := tpmcmd.Open(t, i.parent, i.parentAuth)
	if err != nil {
		return nil, err
	}
	defer parent.Close()
	if parent.Public == nil {
		return nil, usageError(errors.New("-C: expected a storage key, not a hierarchy"))
	}
	duplicate, secret, err := tss.WrapForImport(parent.Public, p, s)
	if err != nil {
		return nil, err
	}
	private, err := t.Import(parent.Ref, p, duplicate, secret)
	if err != nil {
		return nil, err
	}
	if i.output != "" {
		if parent.Handle.Type() != tpm2.HTPersistent {
			return nil, usageError(errors.New("-o: a TSS2 file names its parent by a persistent handle; expected one after -C"))
		}
		k := &keyfile.TSS2{Type: keyfile.Loadable, EmptyAuth: len(auth) == 0, Parent: parent.Handle, Public: *p, Private: private}
		if err := writeTSS2(i.output, k); err != nil {
			return nil, err
		}
	}
	return p, i.keep(t, parent, p, private)
}

// keep writes the areas and loads the key if its context is wanted.
func (i *importFlags) keep(t *tss.TPM, parent *tpmcmd.Object, p *tpm2.Public, private []byte) error {
	if i.public != "" {
		if err := tpmcmd.WritePublic(i.public, "tss", p); err != nil {
			return err
		}
	}
	if i.private != "" {
		if err := tpmcmd.WriteSized(i.private, private); err != nil {
			return err
		}
	}
	if i.context == "" {
		return nil
	}
	k, err := t.Load(parent.Ref, private, p)
	if err != nil {
		return err
	}
	return tpmcmd.Save(t, k.Handle, i.context)
}

func (i *importFlags) tss2(t *tss.TPM, der, _ []byte) (*tpm2.Public, error) {
	if i.output != "" || i.exportable || i.auth != "" {
		return nil, usageError(errors.New("-o, -p and --exportable are for private keys in the clear; the file has a TSS2 PRIVATE KEY"))
	}
	k, err := keyfile.ParseTSS2(der)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", i.input, err)
	}
	parent, done, err := i.tss2Parent(t, k)
	if err != nil {
		return nil, err
	}
	defer done()
	private := k.Private
	if k.Type == keyfile.Importable {
		if private, err = t.Import(parent.Ref, &k.Public, k.Private, k.Secret); err != nil {
			return nil, err
		}
	}
	return &k.Public, i.keep(t, parent, &k.Public, private)
}

// tss2Parent opens or makes the parent of a key file.
func (i *importFlags) tss2Parent(t *tss.TPM, k *keyfile.TSS2) (*tpmcmd.Object, func(), error) {
	if i.parent == "" && k.Parent.Type() == tpm2.HTPermanent {
		hierarchy, err := tpmcmd.Open(t, fmt.Sprintf("%#x", uint32(k.Parent)), i.parentAuth)
		if err != nil {
			return nil, nil, err
		}
		primary, err := t.CreatePrimary(hierarchy.Ref, k.ParentTemplate(), nil)
		if err != nil {
			return nil, nil, err
		}
		return &tpmcmd.Object{Ref: primary.Ref(nil), Public: &primary.Key.Public}, func() { _ = t.FlushContext(primary.Handle) }, nil
	}
	spec := i.parent
	if spec == "" {
		spec = fmt.Sprintf("%#x", uint32(k.Parent))
	}
	parent, err := tpmcmd.Open(t, spec, i.parentAuth)
	if err != nil {
		return nil, nil, err
	}
	return parent, func() { _ = parent.Close() }, nil
}

func writeTSS2(path string, k *keyfile.TSS2) error {
	der, err := k.Marshal()
	if err != nil {
		return err
	}
	return tpmcmd.WriteFile(path, keyfile.Encode(keyfile.PEMTSS2, der))
}

func tpmExport(f *tpmFlags) *cobra.Command {
	var object, auth, public, private, parent, output string
	var secret, hasAuth, rsa bool
	cmd := &cobra.Command{
		Use: "export", Short: "Write a key as a PEM file that other software reads", Args: cobra.NoArgs,
		Long: `Write a key as a PEM file that other software reads:
  -c OBJECT             its public part (SubjectPublicKeyInfo)
  -c OBJECT --private   its private part in the clear (PKCS #8); only keys that were imported with --exportable
  -u FILE               a public area as its public part; needs no TPM
  -u FILE -r FILE -C P  a key as TSS2 PRIVATE KEY, below the persistent handle or the hierarchy P; needs no TPM. With a
                        hierarchy the parent is its primary key of the TSS2 format: ECC P-256, or RSA with --rsa-parent`,
	}
	fl := cmd.Flags()
	fl.StringVarP(&object, "object-context", "c", "", "the object: a handle or a context file")
	fl.StringVarP(&auth, "auth", "p", "", "its authorization value, for --private")
	fl.BoolVar(&secret, "private", false, "the private part, in the clear")
	fl.StringVarP(&public, "public", "u", "", "file with the public area")
	fl.StringVarP(&private, "private-area", "r", "", "file with the private area")
	fl.StringVarP(&parent, "parent-context", "C", "", "parent: a persistent handle or o, e, p, n")
	fl.BoolVar(&hasAuth, "key-has-auth", false, "the key has an authorization value (a note in the TSS2 file)")
	fl.BoolVar(&rsa, "rsa-parent", false, "the parent made from the hierarchy is RSA")
	fl.StringVarP(&output, "output", "o", "-", "the PEM file")
	cmd.MarkFlagsOneRequired("object-context", "public")
	cmd.MarkFlagsMutuallyExclusive("object-context", "public")
	cmd.MarkFlagsRequiredTogether("private-area", "parent-context")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if object == "" {
			if secret {
				return usageError(errors.New("--private: expected a loaded key, -c"))
			}
			p, err := tpmcmd.ReadPublic(public)
			if err != nil {
				return err
			}
			if private == "" {
				return tpmcmd.WritePublic(output, "pem", p)
			}
			k := &keyfile.TSS2{Type: keyfile.Loadable, EmptyAuth: !hasAuth, RSAParent: rsa, Public: *p}
			if p.Type == tpm2.AlgKeyedHash && p.Attributes&(tpm2.ObjectSignEncrypt|tpm2.ObjectDecrypt) == 0 {
				k.Type = keyfile.Sealed
			}
			if k.Private, err = tpmcmd.ReadPrivate(private); err != nil {
				return err
			}
			if k.Parent, err = tpmcmd.Hierarchy(parent); err != nil {
				if k.Parent, err = tpmcmd.Handle(parent); err != nil {
					return usageError(fmt.Errorf("-C %q: expected a persistent handle, or o, e, p or n", parent))
				}
			}
			return writeTSS2(output, k)
		}
		if private != "" {
			return usageError(errors.New("-r belongs to -u, not to -c"))
		}
		value, err := tpmcmd.Value(auth)
		if err != nil {
			return usageError(err)
		}
		return f.with(cmd.Context(), func(t *tss.TPM) error {
			o, err := tpmcmd.Open(t, object, "")
			if err != nil {
				return err
			}
			defer o.Close()
			if o.Public == nil {
				return usageError(errors.New("-c: expected an object, not a hierarchy"))
			}
			if !secret {
				return tpmcmd.WritePublic(output, "pem", o.Public)
			}
			s, err := t.Export(&tss.Key{Handle: o.Handle, Name: o.Name, Public: *o.Public}, value)
			if err != nil {
				return err
			}
			defer clear(s.Value)
			der, err := keyfile.MarshalPrivate(o.Public, s)
			if err != nil {
				return err
			}
			defer clear(der)
			file := keyfile.Encode(keyfile.PEMPrivate, der)
			defer clear(file)
			return tpmcmd.WriteFile(output, file)
		})
	}
	return cmd
}
