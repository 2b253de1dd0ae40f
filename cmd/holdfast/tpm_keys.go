// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"holdfast/cmd/holdfast/tpmcmd"
	"holdfast/tpm2"
	"holdfast/tss"
)

func init() {
	tpmCommands = append(tpmCommands, tpmCreatePrimary, tpmCreate, tpmLoad, tpmReadPublic, tpmCreateEK, tpmCreateAK,
		tpmEvictControl, tpmFlush, tpmMakeCredential, tpmActivateCredential)
}

// keyFlags are those of commands that make an object.
type keyFlags struct {
	parent, parentAuth, auth, kind, hash, attributes, policy, context, public, private, format string
}

func (k *keyFlags) register(cmd *cobra.Command, parent, kind string) {
	f := cmd.Flags()
	f.StringVarP(&k.parent, "hierarchy", "C", parent, "parent: a hierarchy (o, e, p, n), a handle or a context file")
	f.StringVarP(&k.parentAuth, "hierarchy-auth", "P", "", "authorization of the parent")
	f.StringVarP(&k.auth, "key-auth", "p", "", "authorization value of the new object")
	f.StringVarP(&k.kind, "key-algorithm", "G", kind, "rsa, rsa3072, ecc, ecc384, ed25519, x25519, mlkem768, mldsa65, keyedhash, ...; rsa, ecc and ed25519 may have :SCHEME")
	f.StringVarP(&k.hash, "hash-algorithm", "g", "sha256", "hash algorithm of the object's Name")
	f.StringVarP(&k.attributes, "attributes", "a", "", "attributes of the object, separated by |")
	f.StringVarP(&k.policy, "policy", "L", "", "file with the policy digest, or its hexadecimal digits")
	f.StringVarP(&k.context, "key-context", "c", "", "file for the saved context")
}

// template builds the public area.
func (k *keyFlags) template(parent bool) (tpm2.Public, error) {
	p, err := tpmcmd.Template(k.kind, parent)
	if err != nil {
		return p, err
	}
	if p.NameAlg, err = tpmcmd.Hash(k.hash); err != nil {
		return p, err
	}
	if p.AuthPolicy, err = tpmcmd.Bytes(k.policy); err != nil {
		return p, err
	}
	if k.attributes != "" {
		p.Attributes, err = tpmcmd.Attributes(k.attributes)
	} else if len(p.AuthPolicy) > 0 && p.Type == tpm2.AlgKeyedHash {
		p.Attributes &^= tpm2.ObjectUserWithAuth // as tpm2-tools: a policy of a sealed object replaces the password
	}
	return p, err
}

// keyResult is what is printed about an object.
type keyResult struct {
	Name       hexBytes `json:"name"`
	Type       string   `json:"type"`
	NameAlg    string   `json:"name_alg"`
	Attributes string   `json:"attributes"`
	Policy     hexBytes `json:"policy,omitempty"`
	Handle     string   `json:"handle,omitempty"`
	Qualified  hexBytes `json:"qualified_name,omitempty"`
	Unique     hexBytes `json:"unique,omitempty"`
}

func (f *tpmFlags) printKey(p *tpm2.Public, qualified []byte) error {
	name, err := p.Name()
	if err != nil {
		return err
	}
	r := keyResult{Name: name, Type: keyType(p), NameAlg: p.NameAlg.String(), Attributes: tpmcmd.AttributeNames(p.Attributes), Policy: p.AuthPolicy, Qualified: qualified, Unique: p.Unique}
	if p.Type == tpm2.AlgECC {
		r.Unique = append(append(hexBytes{}, p.Point.X...), p.Point.Y...)
	}
	return f.printResult(r, func() {
		fmt.Printf("name: %v\ntype: %s\nname-alg: %s\nattributes: %s\n", r.Name, r.Type, r.NameAlg, r.Attributes)
		if len(r.Policy) > 0 {
			fmt.Printf("policy: %v\n", r.Policy)
		}
		if len(qualified) > 0 {
			fmt.Printf("qualified-name: %v\n", r.Qualified)
		}
	})
}

func keyType(p *tpm2.Public) string {
	q := &p.Parms
	switch p.Type {
	case tpm2.AlgRSA:
		return fmt.Sprintf("rsa%d", q.KeyBits)
	case tpm2.AlgECC:
		return q.Curve.String()
	case tpm2.AlgMLKEM:
		return map[tpm2.MLKEMSet]string{tpm2.MLKEM512: "mlkem512", tpm2.MLKEM768: "mlkem768", tpm2.MLKEM1024: "mlkem1024"}[q.MLKEM]
	case tpm2.AlgMLDSA, tpm2.AlgHashMLDSA:
		return map[tpm2.MLDSASet]string{tpm2.MLDSA44: "mldsa44", tpm2.MLDSA65: "mldsa65", tpm2.MLDSA87: "mldsa87"}[q.MLDSA]
	}
	return p.Type.String()
}

func tpmCreatePrimary(f *tpmFlags) *cobra.Command {
	var k keyFlags
	cmd := &cobra.Command{Use: "createprimary", Short: "Make a primary key", Args: cobra.NoArgs}
	k.register(cmd, "o", "ecc")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		p, err := k.template(k.attributes == "")
		if err != nil {
			return usageError(err)
		}
		auth, err := tpmcmd.Value(k.auth)
		if err != nil {
			return usageError(err)
		}
		return f.with(cmd.Context(), func(t *tss.TPM) error {
			parent, err := tpmcmd.Open(t, k.parent, k.parentAuth)
			if err != nil {
				return err
			}
			defer parent.Close()
			key, err := t.CreatePrimary(parent.Ref, p, &tss.Secret{Auth: auth})
			if err != nil {
				return err
			}
			if err := tpmcmd.Save(t, key.Handle, k.context); err != nil {
				return err
			}
			return f.printKey(&key.Key.Public, nil)
		})
	}
	return cmd
}

func tpmCreate(f *tpmFlags) *cobra.Command {
	var k keyFlags
	var seal string
	cmd := &cobra.Command{Use: "create", Short: "Make a key below another, or seal data (-i)", Args: cobra.NoArgs, Aliases: []string{"seal"}}
	k.register(cmd, "", "ecc")
	cmd.Flags().StringVarP(&k.public, "public", "u", "", "file for the public area")
	cmd.Flags().StringVarP(&k.private, "private", "r", "", "file for the private area, encrypted by the TPM")
	cmd.Flags().StringVarP(&seal, "sealing-input", "i", "", "file with the data to seal, - for standard input")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		auth, err := tpmcmd.Value(k.auth)
		if err != nil {
			return usageError(err)
		}
		s := &tss.Secret{Auth: auth}
		if seal != "" {
			k.kind = "keyedhash"
			if s.Data, err = tpmcmd.ReadFile(seal); err != nil {
				return err
			}
			defer clear(s.Data)
		} else if cmd.CalledAs() == "seal" || k.kind == "keyedhash" {
			return usageError(errors.New("sealing needs the data: -i FILE"))
		}
		p, err := k.template(false)
		if err != nil {
			return usageError(err)
		}
		return f.with(cmd.Context(), func(t *tss.TPM) error {
			parent, err := tpmcmd.Open(t, k.parent, k.parentAuth)
			if err != nil {
				return err
			}
			defer parent.Close()
			made, err := t.Create(parent.Ref, p, s)
			if err != nil {
				return err
			}
			if err := tpmcmd.WritePublic(k.public, "tss", &made.Public); err != nil {
				return err
			}
			if k.private != "" {
				if err := tpmcmd.WriteSized(k.private, made.Private); err != nil {
					return err
				}
			}
			if k.context != "" {
				// The parent's policy session, if it has one, was used up by Create.
				again, err := tpmcmd.Open(t, k.parent, k.parentAuth)
				if err != nil {
					return err
				}
				defer again.Close()
				key, err := t.Load(again.Ref, made.Private, &made.Public)
				if err != nil {
					return err
				}
				if err := tpmcmd.Save(t, key.Handle, k.context); err != nil {
					return err
				}
			}
			return f.printKey(&made.Public, nil)
		})
	}
	return cmd
}

func tpmLoad(f *tpmFlags) *cobra.Command {
	var k keyFlags
	cmd := &cobra.Command{Use: "load", Short: "Load a key below its parent", Args: cobra.NoArgs}
	fl := cmd.Flags()
	fl.StringVarP(&k.parent, "parent-context", "C", "", "parent: a handle or a context file")
	fl.StringVarP(&k.parentAuth, "auth", "P", "", "authorization of the parent")
	fl.StringVarP(&k.public, "public", "u", "", "file with the public area")
	fl.StringVarP(&k.private, "private", "r", "", "file with the private area")
	fl.StringVarP(&k.context, "key-context", "c", "", "file for the saved context")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		pub, err := tpmcmd.ReadPublic(k.public)
		if err != nil {
			return err
		}
		priv, err := tpmcmd.ReadPrivate(k.private)
		if err != nil {
			return err
		}
		return f.with(cmd.Context(), func(t *tss.TPM) error {
			parent, err := tpmcmd.Open(t, k.parent, k.parentAuth)
			if err != nil {
				return err
			}
			defer parent.Close()
			key, err := t.Load(parent.Ref, priv, pub)
			if err != nil {
				return err
			}
			if err := tpmcmd.Save(t, key.Handle, k.context); err != nil {
				return err
			}
			return f.printKey(pub, nil)
		})
	}
	return cmd
}

func tpmReadPublic(f *tpmFlags) *cobra.Command {
	var object, output, format, name string
	cmd := &cobra.Command{Use: "readpublic", Short: "Show the public area of a loaded or persistent object", Args: cobra.NoArgs}
	fl := cmd.Flags()
	fl.StringVarP(&object, "object-context", "c", "", "a handle or a context file")
	fl.StringVarP(&output, "output", "o", "", "file for the public area")
	fl.StringVarP(&format, "format", "f", "tss", "format of that file: tss, pem or der")
	fl.StringVarP(&name, "name", "n", "", "file for the Name")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return f.with(cmd.Context(), func(t *tss.TPM) error {
			o, err := tpmcmd.Open(t, object, "")
			if err != nil {
				return err
			}
			defer o.Close()
			k, qn, err := t.ReadPublic(o.Handle)
			if err != nil {
				return err
			}
			if output != "" {
				if err := tpmcmd.WritePublic(output, format, &k.Public); err != nil {
					return err
				}
			}
			if err := tpmcmd.WriteFile(name, k.Name); err != nil {
				return err
			}
			return f.printKey(&k.Public, qn)
		})
	}
	return cmd
}

func tpmCreateEK(f *tpmFlags) *cobra.Command {
	var kind, context, public, format, auth string
	cmd := &cobra.Command{Use: "createek", Short: "Make the endorsement key of a kind", Args: cobra.NoArgs}
	fl := cmd.Flags()
	fl.StringVarP(&kind, "key-algorithm", "G", "rsa", "rsa, ecc, ecc384, mlkem768 or mlkem1024")
	fl.StringVarP(&context, "ek-context", "c", "", "file for the saved context, or a persistent handle")
	fl.StringVarP(&public, "public", "u", "", "file for the public area")
	fl.StringVarP(&format, "format", "f", "tss", "format of that file: tss, pem or der")
	fl.StringVarP(&auth, "eh-auth", "P", "", "authorization of the endorsement hierarchy")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		k, ok := map[string]tss.Kind{"rsa": tss.RSA2048, "rsa2048": tss.RSA2048, "ecc": tss.ECCP256, "ecc256": tss.ECCP256, "ecc384": tss.ECCP384, "mlkem768": tss.MLKEM768, "mlkem1024": tss.MLKEM1024}[kind]
		if !ok {
			return usageError(fmt.Errorf("-G %q: expected rsa, ecc, ecc384, mlkem768 or mlkem1024", kind))
		}
		value, err := tpmcmd.Value(auth)
		if err != nil {
			return usageError(err)
		}
		return f.with(cmd.Context(), func(t *tss.TPM) error {
			ek, err := t.CreatePrimary(tss.Endorsement(value), tss.EKTemplate(k), nil)
			if err != nil {
				return err
			}
			return f.keep(t, ek, context, public, format)
		})
	}
	return cmd
}

// keep saves a primary key in a file or as a persistent object of the owner.
func (f *tpmFlags) keep(t *tss.TPM, k *tss.Primary, context, public, format string) error {
	if h, err := tpmcmd.Handle(context); err == nil {
		if err := t.EvictControl(tss.Owner(nil), k.Ref(nil), h); err != nil {
			return errors.Join(err, t.FlushContext(k.Handle))
		}
		context = ""
	}
	if public != "" {
		if err := tpmcmd.WritePublic(public, format, &k.Key.Public); err != nil {
			return errors.Join(err, t.FlushContext(k.Handle))
		}
	}
	if err := tpmcmd.Save(t, k.Handle, context); err != nil {
		return err
	}
	return f.printKey(&k.Key.Public, nil)
}

func tpmCreateAK(f *tpmFlags) *cobra.Command {
	var k keyFlags
	cmd := &cobra.Command{Use: "createak", Short: "Make an attestation key below an endorsement key or another parent", Args: cobra.NoArgs}
	fl := cmd.Flags()
	fl.StringVarP(&k.parent, "ek-context", "C", "", "parent: a handle or a context file")
	fl.StringVarP(&k.parentAuth, "eh-auth", "P", "", "authorization of the parent; for an EK that of the endorsement hierarchy")
	fl.StringVarP(&k.auth, "ak-auth", "p", "", "authorization value of the new key")
	fl.StringVarP(&k.kind, "key-algorithm", "G", "mldsa65", "rsa, ecc, ecc384, ed25519, ed448, mldsa44, mldsa65 or mldsa87")
	fl.StringVarP(&k.policy, "policy", "L", "", "file with a policy digest that replaces the password, or its hexadecimal digits")
	fl.StringVarP(&k.context, "ak-context", "c", "", "file for the saved context")
	fl.StringVarP(&k.public, "public", "u", "", "file for the public area")
	fl.StringVarP(&k.private, "private", "r", "", "file for the private area, encrypted by the TPM")
	fl.StringVarP(&k.format, "format", "f", "tss", "format of the public area: tss, pem or der")
	name := fl.StringP("ak-name", "n", "", "file for the Name")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		kind, ok := map[string]tss.Kind{"rsa": tss.RSA2048, "ecc": tss.ECCP256, "ecc384": tss.ECCP384, "ed25519": tss.Ed25519, "ed448": tss.Ed448, "mldsa44": tss.MLDSA44, "mldsa65": tss.MLDSA65, "mldsa87": tss.MLDSA87}[k.kind]
		if !ok {
			return usageError(fmt.Errorf("-G %q: expected rsa, ecc, ecc384, ed25519, ed448, mldsa44, mldsa65 or mldsa87", k.kind))
		}
		auth, err := tpmcmd.Value(k.auth)
		if err != nil {
			return usageError(err)
		}
		p := tss.AKTemplate(kind)
		if k.policy != "" {
			d, err := tpmcmd.Bytes(k.policy)
			if err != nil {
				return usageError(err)
			}
			p = tss.WithPolicy(p, d, false)
		}
		return f.with(cmd.Context(), func(t *tss.TPM) error {
			parent, err := tpmcmd.Open(t, k.parent, k.parentAuth)
			if err != nil {
				return err
			}
			made, err := t.Create(parent.Ref, p, &tss.Secret{Auth: auth})
			if err := errors.Join(err, parent.Close()); err != nil {
				return err
			}
			if parent, err = tpmcmd.Open(t, k.parent, k.parentAuth); err != nil {
				return err
			}
			defer parent.Close()
			ak, err := t.Load(parent.Ref, made.Private, &made.Public)
			if err != nil {
				return err
			}
			if k.public != "" {
				err = tpmcmd.WritePublic(k.public, k.format, &made.Public)
			}
			if k.private != "" {
				err = errors.Join(err, tpmcmd.WriteSized(k.private, made.Private))
			}
			err = errors.Join(err, tpmcmd.WriteFile(*name, ak.Name), tpmcmd.Save(t, ak.Handle, k.context))
			if err != nil {
				return err
			}
			return f.printKey(&made.Public, nil)
		})
	}
	return cmd
}

func tpmEvictControl(f *tpmFlags) *cobra.Command {
	var hierarchy, auth, object string
	cmd := &cobra.Command{Use: "evictcontrol HANDLE", Short: "Make an object persistent at a handle, or remove the persistent object there", Args: cobra.ExactArgs(1)}
	fl := cmd.Flags()
	fl.StringVarP(&hierarchy, "hierarchy", "C", "o", "o(wner) or p(latform)")
	fl.StringVarP(&auth, "auth", "P", "", "authorization of the hierarchy")
	fl.StringVarP(&object, "object-context", "c", "", "context file or handle of the object; without it the persistent object is removed")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		h, err := tpmcmd.Handle(args[0])
		if err != nil {
			return usageError(err)
		}
		if object == "" {
			object = args[0]
		}
		return f.with(cmd.Context(), func(t *tss.TPM) error {
			a, err := tpmcmd.Open(t, hierarchy, auth)
			if err != nil {
				return err
			}
			defer a.Close()
			o, err := tpmcmd.Open(t, object, "")
			if err != nil {
				return err
			}
			defer o.Close()
			return t.EvictControl(a.Ref, o.Ref, h)
		})
	}
	return cmd
}

func tpmFlush(f *tpmFlags) *cobra.Command {
	var transient, loaded, saved bool
	cmd := &cobra.Command{Use: "flushcontext [HANDLE]", Aliases: []string{"flush"}, Short: "Unload an object or a session, or all of a kind", Args: cobra.MaximumNArgs(1)}
	cmd.Flags().BoolVarP(&transient, "transient-object", "t", false, "all transient objects")
	cmd.Flags().BoolVarP(&loaded, "loaded-session", "l", false, "all loaded sessions")
	cmd.Flags().BoolVarP(&saved, "saved-session", "s", false, "all saved sessions")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return f.with(cmd.Context(), func(t *tss.TPM) error {
			var all []tpm2.Handle
			for _, k := range []struct {
				on    bool
				first tpm2.Handle
			}{{transient, tpm2.HandleTransientFirst}, {loaded, tpm2.HandleHMACFirst}, {saved, tpm2.HandlePolicyFirst}} {
				if k.on {
					h, err := t.Handles(k.first)
					if err != nil {
						return err
					}
					all = append(all, h...)
				}
			}
			for _, a := range args {
				h, err := tpmcmd.Handle(a)
				if err != nil {
					return usageError(err)
				}
				all = append(all, h)
			}
			for _, h := range all {
				if err := t.FlushContext(h); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return cmd
}

func tpmMakeCredential(f *tpmFlags) *cobra.Command {
	var ek, name, secret, output string
	cmd := &cobra.Command{Use: "makecredential", Short: "Encrypt a secret for a key of a TPM that has a certain EK (needs no TPM)", Args: cobra.NoArgs}
	fl := cmd.Flags()
	fl.StringVarP(&ek, "public", "u", "", "file with the public area of the EK")
	fl.StringVarP(&name, "name", "n", "", "Name of the key: a file or hexadecimal digits")
	fl.StringVarP(&secret, "secret", "s", "", "file with the secret, - for standard input")
	fl.StringVarP(&output, "credential-blob", "o", "", "file for the credential")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		pub, err := tpmcmd.ReadPublic(ek)
		if err != nil {
			return err
		}
		n, err := tpmcmd.Bytes(name)
		if err != nil {
			return usageError(err)
		}
		s, err := tpmcmd.ReadFile(secret)
		if err != nil {
			return err
		}
		defer clear(s)
		id, enc, err := tss.MakeCredential(pub, n, s)
		if err != nil {
			return err
		}
		return tpmcmd.WriteCredential(output, id, enc)
	}
	return cmd
}

func tpmActivateCredential(f *tpmFlags) *cobra.Command {
	var key, keyAuth, ek, ekAuth, input, output string
	cmd := &cobra.Command{Use: "activatecredential", Short: "Decrypt a credential", Args: cobra.NoArgs}
	fl := cmd.Flags()
	fl.StringVarP(&key, "credentialedkey-context", "c", "", "the key that the credential names")
	fl.StringVarP(&keyAuth, "credentialedkey-auth", "p", "", "its authorization")
	fl.StringVarP(&ek, "credentialkey-context", "C", "", "the EK")
	fl.StringVarP(&ekAuth, "credentialkey-auth", "P", "", "its authorization; for an EK that of the endorsement hierarchy")
	fl.StringVarP(&input, "credential-blob", "i", "", "file with the credential")
	fl.StringVarP(&output, "certinfo-data", "o", "", "file for the secret")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		id, enc, err := tpmcmd.ReadCredential(input)
		if err != nil {
			return err
		}
		return f.with(cmd.Context(), func(t *tss.TPM) error {
			k, err := tpmcmd.Open(t, key, keyAuth)
			if err != nil {
				return err
			}
			defer k.Close()
			e, err := tpmcmd.Open(t, ek, ekAuth)
			if err != nil {
				return err
			}
			defer e.Close()
			s, err := t.ActivateCredential(k.Ref, e.Ref, id, enc)
			if err != nil {
				return err
			}
			defer clear(s)
			return f.secret(output, "certinfodata", s)
		})
	}
	return cmd
}

// secret gives a secret result out: to a file, or on standard output.
func (f *tpmFlags) secret(output, name string, s []byte) error {
	if output != "" {
		return tpmcmd.WriteFile(output, s)
	}
	return f.printResult(map[string]hexBytes{name: s}, func() { fmt.Printf("%s: %x\n", name, s) })
}
