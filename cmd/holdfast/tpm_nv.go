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
	tpmCommands = append(tpmCommands, tpmNVDefine, tpmNVWrite, tpmNVRead, tpmNVUndefine, tpmNVReadPublic, tpmNVIncrement, tpmNVExtend)
}

// nvFlags are those of commands on an index.
type nvFlags struct{ hierarchy, auth string }

func (n *nvFlags) register(cmd *cobra.Command, usual string) {
	cmd.Flags().StringVarP(&n.hierarchy, "hierarchy", "C", usual, "who authorizes: o, p, or the index itself when empty")
	cmd.Flags().StringVarP(&n.auth, "auth", "P", "", "authorization of that: a value, or session:FILE (with +VALUE)")
}

// index reads an index's handle: a number, its high byte may be left out.
func index(s string) (tpm2.Handle, error) {
	h, err := tpmcmd.Handle(s)
	if err != nil {
		return 0, usageError(err)
	}
	if h <= 0xFFFFFF {
		h |= tpm2.HandleNVFirst
	}
	if h.Type() != tpm2.HTNVIndex {
		return 0, usageError(fmt.Errorf("%s: expected an NV index, 0x01000000 to 0x01FFFFFF", s))
	}
	return h, nil
}

// run finds the index and the authorization, and calls f.
func (n *nvFlags) run(t *tss.TPM, h tpm2.Handle, f func(auth tss.Ref, i *tss.Index) error) (err error) {
	i, err := t.NVReadPublic(h)
	if err != nil {
		return err
	}
	who := n.hierarchy
	if who == "" {
		who = fmt.Sprintf("0x%x", uint32(h))
	} else if _, err := tpmcmd.Hierarchy(who); err != nil {
		return usageError(err)
	}
	o, err := tpmcmd.Open(t, who, n.auth)
	if err != nil {
		return err
	}
	auth := o.Ref
	if n.hierarchy == "" {
		auth.Name = i.Name
	}
	defer func() { err = errors.Join(err, o.Close()) }()
	return f(auth, i)
}

func tpmNVDefine(f *tpmFlags) *cobra.Command {
	var n nvFlags
	var size uint16
	var attributes, secret, policy, hash string
	var space2 bool
	cmd := &cobra.Command{Use: "nvdefine INDEX", Short: "Define an NV index", Args: cobra.ExactArgs(1)}
	n.register(cmd, "o")
	fl := cmd.Flags()
	fl.Uint16VarP(&size, "size", "s", 8, "size in bytes")
	fl.StringVarP(&attributes, "attributes", "a", "ownerwrite|ownerread|authwrite|authread", "attributes, separated by |")
	fl.StringVarP(&secret, "index-auth", "p", "", "authorization value of the index")
	fl.StringVarP(&policy, "policy", "L", "", "file with the policy digest, or its hexadecimal digits")
	fl.StringVarP(&hash, "hash-algorithm", "g", "sha256", "hash algorithm of the index's Name")
	fl.BoolVar(&space2, "space2", false, "by NV_DefineSpace2 of version 184")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		h, err := index(args[0])
		if err != nil {
			return err
		}
		p := tpm2.NVPublic{Index: h, DataSize: size}
		value, err := tpmcmd.Value(n.auth)
		if err == nil {
			p.NameAlg, err = tpmcmd.Hash(hash)
		}
		if err == nil {
			p.Attributes, err = tpmcmd.NVAttributes(attributes)
		}
		if err == nil {
			p.AuthPolicy, err = tpmcmd.Bytes(policy)
		}
		var who tpm2.Handle
		if err == nil {
			who, err = tpmcmd.Hierarchy(n.hierarchy)
		}
		var s []byte
		if err == nil {
			s, err = tpmcmd.Value(secret)
		}
		if err != nil {
			return usageError(err)
		}
		return f.with(cmd.Context(), func(t *tss.TPM) error {
			define := t.NVDefine
			if space2 {
				define = t.NVDefine2
			}
			if err := define(tss.Ref{Handle: who, Auth: tss.Password(value)}, s, p); err != nil {
				return err
			}
			return f.printResult(map[string]string{"nv-index": fmt.Sprintf("0x%x", uint32(h))}, func() { fmt.Printf("nv-index: 0x%x\n", uint32(h)) })
		})
	}
	return cmd
}

func tpmNVWrite(f *tpmFlags) *cobra.Command {
	var n nvFlags
	var input string
	var offset int
	cmd := &cobra.Command{Use: "nvwrite INDEX", Short: "Write data to an NV index", Args: cobra.ExactArgs(1)}
	n.register(cmd, "")
	cmd.Flags().StringVarP(&input, "input", "i", "-", "file with the data")
	cmd.Flags().IntVar(&offset, "offset", 0, "where to begin")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		h, err := index(args[0])
		if err != nil {
			return err
		}
		data, err := tpmcmd.ReadFile(input)
		if err != nil {
			return err
		}
		defer clear(data)
		if offset < 0 || len(data)+offset > 0xFFFF {
			return usageError(errors.New("offset and data: expected at most 65535 bytes"))
		}
		return f.with(cmd.Context(), func(t *tss.TPM) error {
			return n.run(t, h, func(auth tss.Ref, i *tss.Index) error { return t.NVWrite(auth, i.Ref(nil), data, offset) })
		})
	}
	return cmd
}

func tpmNVRead(f *tpmFlags) *cobra.Command {
	var n nvFlags
	var output string
	var size, offset int
	cmd := &cobra.Command{Use: "nvread INDEX", Short: "Read data of an NV index", Args: cobra.ExactArgs(1)}
	n.register(cmd, "")
	cmd.Flags().StringVarP(&output, "output", "o", "-", "file for the data")
	cmd.Flags().IntVarP(&size, "size", "s", -1, "bytes to read (default: to the end)")
	cmd.Flags().IntVar(&offset, "offset", 0, "where to begin")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		h, err := index(args[0])
		if err != nil {
			return err
		}
		return f.with(cmd.Context(), func(t *tss.TPM) error {
			return n.run(t, h, func(auth tss.Ref, i *tss.Index) error {
				want := size
				if want < 0 {
					want = int(i.Public.DataSize) - offset
				}
				if offset < 0 || want < 0 || offset+want > 0xFFFF {
					return usageError(fmt.Errorf("offset %d and size %d do not fit an index of %d bytes", offset, want, i.Public.DataSize))
				}
				b, err := t.NVRead(auth, i.Ref(nil), want, offset)
				if err != nil {
					return err
				}
				if f.json && output == "-" {
					return printJSON(map[string]hexBytes{"data": b})
				}
				return tpmcmd.WriteFile(output, b)
			})
		})
	}
	return cmd
}

func tpmNVUndefine(f *tpmFlags) *cobra.Command {
	var n nvFlags
	cmd := &cobra.Command{Use: "nvundefine INDEX", Short: "Remove an NV index", Args: cobra.ExactArgs(1)}
	n.register(cmd, "o")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		h, err := index(args[0])
		if err != nil {
			return err
		}
		if n.hierarchy == "" {
			return usageError(errors.New("-C: expected o or p"))
		}
		return f.with(cmd.Context(), func(t *tss.TPM) error {
			return n.run(t, h, func(auth tss.Ref, i *tss.Index) error { return t.NVUndefine(auth, i.Ref(nil)) })
		})
	}
	return cmd
}

func tpmNVReadPublic(f *tpmFlags) *cobra.Command {
	type result struct {
		Index      string   `json:"index"`
		Name       hexBytes `json:"name"`
		Hash       string   `json:"hash_algorithm"`
		Attributes string   `json:"attributes"`
		Size       uint16   `json:"size"`
		Policy     hexBytes `json:"policy,omitempty"`
	}
	var public2 bool
	cmd := &cobra.Command{
		Use: "nvreadpublic [INDEX]...", Short: "Describe NV indices (default: all)",
		RunE: func(cmd *cobra.Command, args []string) error {
			var handles []tpm2.Handle
			for _, a := range args {
				h, err := index(a)
				if err != nil {
					return err
				}
				handles = append(handles, h)
			}
			return f.with(cmd.Context(), func(t *tss.TPM) (err error) {
				if len(args) == 0 {
					if handles, err = t.Handles(tpm2.HandleNVFirst); err != nil {
						return err
					}
				}
				out := []result{}
				for _, h := range handles {
					read := t.NVReadPublic
					if public2 {
						read = t.NVReadPublic2
					}
					i, err := read(h)
					if err != nil {
						return err
					}
					p := &i.Public
					out = append(out, result{fmt.Sprintf("0x%x", uint32(h)), i.Name, p.NameAlg.String(), tpmcmd.NVAttributeNames(p.Attributes), p.DataSize, p.AuthPolicy})
				}
				return f.printResult(out, func() {
					for _, r := range out {
						fmt.Printf("%s:\n  name: %v\n  hash-algorithm: %s\n  attributes: %s\n  size: %d\n", r.Index, r.Name, r.Hash, r.Attributes, r.Size)
					}
				})
			})
		},
	}
	cmd.Flags().BoolVar(&public2, "public2", false, "by NV_ReadPublic2 of version 184")
	return cmd
}

func tpmNVIncrement(f *tpmFlags) *cobra.Command {
	var n nvFlags
	cmd := &cobra.Command{Use: "nvincrement INDEX", Short: "Increment a counter", Args: cobra.ExactArgs(1)}
	n.register(cmd, "")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		h, err := index(args[0])
		if err != nil {
			return err
		}
		return f.with(cmd.Context(), func(t *tss.TPM) error {
			return n.run(t, h, func(auth tss.Ref, i *tss.Index) error { return t.NVIncrement(auth, i.Ref(nil)) })
		})
	}
	return cmd
}

func tpmNVExtend(f *tpmFlags) *cobra.Command {
	var n nvFlags
	var input string
	cmd := &cobra.Command{Use: "nvextend INDEX", Short: "Extend an index of type extend by data", Args: cobra.ExactArgs(1)}
	n.register(cmd, "")
	cmd.Flags().StringVarP(&input, "input", "i", "-", "file with the data")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		h, err := index(args[0])
		if err != nil {
			return err
		}
		data, err := tpmcmd.ReadFile(input)
		if err != nil {
			return err
		}
		return f.with(cmd.Context(), func(t *tss.TPM) error {
			return n.run(t, h, func(auth tss.Ref, i *tss.Index) error { return t.NVExtend(auth, i.Ref(nil), data) })
		})
	}
	return cmd
}
