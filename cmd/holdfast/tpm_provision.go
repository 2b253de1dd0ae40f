// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"holdfast/cmd/holdfast/tpmcmd"
	"holdfast/tss"
	"holdfast/tss/ekcert"
)

func init() { tpmCommands = append(tpmCommands, tpmProvision) }

// provisioned is what is printed about one endorsement key.
type provisioned struct {
	Kind        string `json:"kind"`
	Certificate string `json:"certificate_index"`
	Template    string `json:"template_index,omitempty"`
	Persistent  string `json:"persistent_handle,omitempty"`
	File        string `json:"file"`
}

func tpmProvision(f *tpmFlags) *cobra.Command {
	var dir, platform, endorsement, owner string
	var kinds []string
	var o ekcert.Options
	cmd := &cobra.Command{
		Use: "provision", Short: "Give a TPM endorsement keys with certificates of a test CA", Args: cobra.NoArgs,
		Long: `Give a TPM what its maker would: certificates of its endorsement keys, in the NV indices of the PC Client profile.
They come from a CA for tests in the folder -d, which is made if it is not there; its roots are ca-ecdsa.pem (for RSA and
ECC keys) and ca-mldsa65.pem (for ML-KEM and ML-DSA keys). Each certificate is also written to ek-KIND.der there.

Indices: rsa2048 0x01C00002, ecc256 0x01C0000A; provisional are mlkem768 0x01C00062 and mldsa65 0x01C00072,
with their templates one index above. They belong to the platform, whose authorization is needed.`,
	}
	fl := cmd.Flags()
	fl.StringVarP(&dir, "ca-dir", "d", "", "folder of the test CA")
	fl.StringSliceVarP(&kinds, "key-algorithm", "G", []string{"rsa2048", "ecc256", "mlkem768", "mldsa65"}, "kinds of keys")
	fl.StringVar(&platform, "platform-auth", "", "authorization of the platform hierarchy")
	fl.StringVarP(&endorsement, "eh-auth", "P", "", "authorization of the endorsement hierarchy")
	fl.StringVarP(&owner, "owner-auth", "w", "", "authorization of the owner, for --persist")
	fl.BoolVar(&o.Persist, "persist", false, "make the keys persistent: 0x81010001, 0x81010002, 0x81010062, 0x81010072")
	fl.BoolVar(&o.Replace, "replace", false, "replace what is in the indices and at the handles")
	cmd.MarkFlagRequired("ca-dir")
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		var profiles []ekcert.Profile
		for _, k := range kinds {
			p, err := ekcert.ProfileOf(tss.Kind(k))
			if err != nil {
				return usageError(fmt.Errorf("-G: %w", err))
			}
			profiles = append(profiles, p)
		}
		for _, v := range []struct {
			to   *[]byte
			from string
		}{{&o.PlatformAuth, platform}, {&o.EndorsementAuth, endorsement}, {&o.OwnerAuth, owner}} {
			if *v.to, err = tpmcmd.Value(v.from); err != nil {
				return usageError(err)
			}
		}
		ca, err := ekcert.OpenCA(dir)
		if err != nil {
			return err
		}
		return f.with(cmd.Context(), func(t *tss.TPM) error {
			var out []provisioned
			for _, p := range profiles {
				r, err := ekcert.Provision(t, ca, p, o)
				if err != nil {
					return err
				}
				x := provisioned{Kind: string(p.Kind), Certificate: fmt.Sprintf("%#010x", uint32(p.Certificate)), File: filepath.Join(dir, "ek-"+string(p.Kind)+".der")}
				if p.NVTemplate != 0 {
					x.Template = fmt.Sprintf("%#010x", uint32(p.NVTemplate))
				}
				if o.Persist {
					x.Persistent = fmt.Sprintf("%#x", uint32(p.Persistent))
				}
				if err := tpmcmd.WriteFile(x.File, r.DER); err != nil {
					return err
				}
				out = append(out, x)
			}
			return f.printResult(out, func() {
				for _, x := range out {
					fmt.Printf("%s: certificate in %s, file %s\n", x.Kind, x.Certificate, x.File)
				}
			})
		})
	}
	return cmd
}
