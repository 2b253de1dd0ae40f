// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/hex"
	"errors"
	"fmt"
	"sort"
	"strings"

	"github.com/spf13/cobra"

	"holdfast/cmd/holdfast/tpmcmd"
	"holdfast/tpm2"
	"holdfast/tss"
)

func init() {
	tpmCommands = append(tpmCommands, tpmPCRRead, tpmPCRExtend, tpmPCRReset, tpmPCREvent, tpmCreatePolicy)
}

// defaultPCRs of a TPM are all of its banks that have PCRs.
func defaultPCRs(t *tss.TPM) ([]tpm2.PCRSelection, error) {
	d, _, err := t.GetCapability(tpm2.CapPCRs, 0, 16)
	if err != nil {
		return nil, err
	}
	var out []tpm2.PCRSelection
	for _, s := range d.PCRs {
		if len(s.PCRs()) > 0 {
			out = append(out, s)
		}
	}
	return out, nil
}

// readPCRs returns the values by bank and number, and all of them in order.
func readPCRs(t *tss.TPM, sel []tpm2.PCRSelection) (map[string]map[int]hexBytes, [][]byte, error) {
	out := map[string]map[int]hexBytes{}
	var all [][]byte
	for _, s := range sel {
		v, _, err := t.PCRRead(s)
		if err != nil {
			return nil, nil, err
		}
		bank := map[int]hexBytes{}
		for _, p := range s.PCRs() {
			bank[p] = v[p]
			all = append(all, v[p])
		}
		out[s.Hash.String()] = bank
	}
	return out, all, nil
}

func tpmPCRRead(f *tpmFlags) *cobra.Command {
	var output string
	cmd := &cobra.Command{Use: "pcrread [SELECTION]", Short: "Show PCRs, such as sha256:0,7,16 (default: all)", Args: cobra.MaximumNArgs(1)}
	cmd.Flags().StringVarP(&output, "output", "o", "", "file for the values, one after another")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var sel []tpm2.PCRSelection
		if len(args) > 0 {
			var err error
			if sel, err = tpmcmd.PCRs(args[0]); err != nil {
				return usageError(err)
			}
		}
		return f.with(cmd.Context(), func(t *tss.TPM) (err error) {
			if sel == nil {
				if sel, err = defaultPCRs(t); err != nil {
					return err
				}
			}
			banks, all, err := readPCRs(t, sel)
			if err != nil {
				return err
			}
			var raw []byte
			for _, v := range all {
				raw = append(raw, v...)
			}
			if err := tpmcmd.WriteFile(output, raw); err != nil {
				return err
			}
			return f.printResult(banks, func() {
				for _, s := range sel {
					fmt.Printf("%s:\n", s.Hash)
					for _, p := range s.PCRs() {
						fmt.Printf("  %-2d: 0x%X\n", p, []byte(banks[s.Hash.String()][p]))
					}
				}
			})
		})
	}
	return cmd
}

func tpmPCRExtend(f *tpmFlags) *cobra.Command {
	return &cobra.Command{
		Use: "pcrextend PCR:HASH=DIGEST[,HASH=DIGEST]...", Short: "Extend PCRs by digests, such as 16:sha256=...", Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			type one struct {
				pcr     int
				digests []tpm2.HA
			}
			var all []one
			for _, a := range args {
				number, list, ok := strings.Cut(a, ":")
				if !ok {
					return usageError(fmt.Errorf("%q: expected PCR:HASH=DIGEST", a))
				}
				n, err := tpmcmd.PCRNumber(number)
				if err != nil {
					return usageError(err)
				}
				o := one{pcr: n}
				for _, d := range strings.Split(list, ",") {
					name, digits, _ := strings.Cut(d, "=")
					h, err := tpmcmd.Hash(name)
					if err != nil {
						return usageError(err)
					}
					b, err := hex.DecodeString(digits)
					if err != nil || len(b) != h.DigestSize() {
						return usageError(fmt.Errorf("%q: expected %d hexadecimal digits", d, 2*h.DigestSize()))
					}
					o.digests = append(o.digests, tpm2.HA{Alg: h, Digest: b})
				}
				all = append(all, o)
			}
			return f.with(cmd.Context(), func(t *tss.TPM) error {
				for _, o := range all {
					if err := t.PCRExtend(tss.PCR(o.pcr), o.digests); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
}

func tpmPCRReset(f *tpmFlags) *cobra.Command {
	return &cobra.Command{
		Use: "pcrreset PCR...", Short: "Reset PCRs that can be reset (16 and 23)", Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.with(cmd.Context(), func(t *tss.TPM) error {
				for _, a := range args {
					n, err := tpmcmd.PCRNumber(a)
					if err != nil {
						return usageError(err)
					}
					if err := t.PCRReset(tss.PCR(n)); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
}

func tpmPCREvent(f *tpmFlags) *cobra.Command {
	return &cobra.Command{
		Use: "pcrevent PCR FILE", Short: "Extend a PCR in every bank by the hash of a file of up to 1024 bytes", Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := tpmcmd.PCRNumber(args[0])
			if err != nil {
				return usageError(err)
			}
			data, err := tpmcmd.ReadFile(args[1])
			if err != nil {
				return err
			}
			return f.with(cmd.Context(), func(t *tss.TPM) error {
				has, err := t.PCREvent(tss.PCR(n), data)
				if err != nil {
					return err
				}
				out := map[string]hexBytes{}
				for _, h := range has {
					out[h.Alg.String()] = h.Digest
				}
				return f.printResult(out, func() { printSorted(out) })
			})
		},
	}
}

func printSorted(m map[string]hexBytes) {
	var names []string
	for n := range m {
		names = append(names, n)
	}
	sort.Strings(names)
	for _, n := range names {
		fmt.Printf("%s: %v\n", n, m[n])
	}
}

func tpmCreatePolicy(f *tpmFlags) *cobra.Command {
	var pcrPolicy bool
	var list, values, output, hash string
	var authValue bool
	cmd := &cobra.Command{Use: "createpolicy", Short: "Compute the digest of a policy of PCRs, as they are now or as a file says", Args: cobra.NoArgs}
	fl := cmd.Flags()
	fl.BoolVar(&pcrPolicy, "policy-pcr", true, "a policy of PCRs")
	fl.StringVarP(&list, "pcr-list", "l", "", "PCRs, such as sha256:0,7,16")
	fl.StringVarP(&values, "pcr", "f", "", "file with the values of the PCRs, as pcrread -o writes it; default: as they are now")
	fl.StringVarP(&output, "policy", "L", "", "file for the digest")
	fl.StringVarP(&hash, "policy-algorithm", "g", "sha256", "hash algorithm of the policy")
	fl.BoolVar(&authValue, "auth-value", false, "demand the authorization value, too")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		h, err := tpmcmd.Hash(hash)
		if err != nil {
			return usageError(err)
		}
		if !pcrPolicy || list == "" {
			return usageError(errors.New("a policy of PCRs needs -l"))
		}
		sel, err := tpmcmd.PCRs(list)
		if err != nil {
			return usageError(err)
		}
		finish := func(pcrDigest []byte) error {
			d := tpm2.NewPolicyDigest(h)
			d.PCR(sel, pcrDigest)
			if authValue {
				d.AuthValue()
			}
			if err := tpmcmd.WriteFile(output, d.Sum()); err != nil {
				return err
			}
			return f.printResult(map[string]hexBytes{"policy": d.Sum()}, func() { fmt.Printf("%x\n", d.Sum()) })
		}
		if values != "" {
			b, err := tpmcmd.ReadFile(values)
			if err != nil {
				return err
			}
			return finish(h.Sum(b))
		}
		return f.with(cmd.Context(), func(t *tss.TPM) error {
			d, err := t.PCRDigest(h, sel)
			if err != nil {
				return err
			}
			return finish(d)
		})
	}
	return cmd
}
