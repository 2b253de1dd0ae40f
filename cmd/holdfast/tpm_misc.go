// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"sort"
	"strconv"

	"github.com/spf13/cobra"

	"holdfast/cmd/holdfast/tpmcmd"
	"holdfast/tpm2"
	"holdfast/tss"
)

func init() {
	tpmCommands = append(tpmCommands, tpmGetRandom, tpmUnseal, tpmEncapsulate, tpmDecapsulate, tpmRSAEncrypt, tpmRSADecrypt,
		tpmGetCap, tpmStartup, tpmShutdown, tpmClear, tpmDictionaryLockout, tpmReadClock)
}

func tpmGetRandom(f *tpmFlags) *cobra.Command {
	var output string
	var asHex bool
	cmd := &cobra.Command{Use: "getrandom SIZE", Short: "Random bytes from the TPM", Args: cobra.ExactArgs(1)}
	cmd.Flags().StringVarP(&output, "output", "o", "", "file for the bytes (default: standard output)")
	cmd.Flags().BoolVar(&asHex, "hex", false, "print hexadecimal digits")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		n, err := strconv.Atoi(args[0])
		if err != nil || n < 1 || n > 1<<20 {
			return usageError(fmt.Errorf("size %q: expected 1 to 1048576", args[0]))
		}
		return f.with(cmd.Context(), func(t *tss.TPM) error {
			b, err := t.GetRandom(n)
			switch {
			case err != nil:
				return err
			case output != "":
				return tpmcmd.WriteFile(output, b)
			case f.json:
				return printJSON(map[string]hexBytes{"random": b})
			case asHex:
				fmt.Printf("%x\n", b)
				return nil
			}
			_, err = os.Stdout.Write(b)
			return err
		})
	}
	return cmd
}

// objectFlags are those of commands that use one object.
type objectFlags struct{ object, auth, input, output string }

func (o *objectFlags) register(cmd *cobra.Command, auth, in, out string) {
	fl := cmd.Flags()
	fl.StringVarP(&o.object, "key-context", "c", "", "the object: a handle or a context file")
	if auth != "" {
		fl.StringVarP(&o.auth, "auth", "p", "", auth)
	}
	if in != "" {
		fl.StringVarP(&o.input, "input", "i", "-", in)
	}
	if out != "" {
		fl.StringVarP(&o.output, "output", "o", "", out)
	}
}

// run opens the object and calls f.
func (o *objectFlags) run(cmd *cobra.Command, f *tpmFlags, do func(t *tss.TPM, r tss.Ref, p *tpm2.Public) error) error {
	return f.with(cmd.Context(), func(t *tss.TPM) error {
		x, err := tpmcmd.Open(t, o.object, o.auth)
		if err != nil {
			return err
		}
		defer x.Close()
		if x.Public == nil {
			return usageError(errors.New("-c: expected an object, not a hierarchy"))
		}
		return do(t, x.Ref, x.Public)
	})
}

const authHelp = "its authorization: a value, or pcr:SELECTION for a policy of PCRs (with =VALUE for both), or session:FILE (with +VALUE)"

func tpmUnseal(f *tpmFlags) *cobra.Command {
	var o objectFlags
	cmd := &cobra.Command{Use: "unseal", Short: "Give sealed data out", Args: cobra.NoArgs}
	o.register(cmd, authHelp, "", "file for the data (default: standard output)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return o.run(cmd, f, func(t *tss.TPM, r tss.Ref, _ *tpm2.Public) error {
			b, err := t.Unseal(r)
			if err != nil {
				return err
			}
			defer clear(b)
			if f.json && o.output == "" {
				return printJSON(map[string]hexBytes{"data": b})
			}
			if o.output == "" {
				o.output = "-"
			}
			return tpmcmd.WriteFile(o.output, b)
		})
	}
	return cmd
}

func tpmEncapsulate(f *tpmFlags) *cobra.Command {
	var o objectFlags
	var ciphertext string
	cmd := &cobra.Command{Use: "encapsulate", Short: "Make a shared secret for the holder of an ML-KEM key", Args: cobra.NoArgs}
	o.register(cmd, "", "", "file for the shared secret")
	cmd.Flags().StringVarP(&ciphertext, "ciphertext", "e", "", "file for the ciphertext")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return o.run(cmd, f, func(t *tss.TPM, r tss.Ref, _ *tpm2.Public) error {
			ss, ct, err := t.Encapsulate(r)
			if err != nil {
				return err
			}
			defer clear(ss)
			if ciphertext == "" && o.output == "" {
				return f.printResult(map[string]hexBytes{"shared_secret": ss, "ciphertext": ct}, func() { fmt.Printf("shared-secret: %x\nciphertext: %x\n", ss, ct) })
			}
			return errors.Join(tpmcmd.WriteFile(ciphertext, ct), tpmcmd.WriteFile(o.output, ss))
		})
	}
	return cmd
}

func tpmDecapsulate(f *tpmFlags) *cobra.Command {
	var o objectFlags
	cmd := &cobra.Command{Use: "decapsulate", Short: "Recover a shared secret by an ML-KEM key", Args: cobra.NoArgs}
	o.register(cmd, authHelp, "file with the ciphertext", "file for the shared secret")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ct, err := tpmcmd.ReadFile(o.input)
		if err != nil {
			return err
		}
		return o.run(cmd, f, func(t *tss.TPM, r tss.Ref, _ *tpm2.Public) error {
			ss, err := t.Decapsulate(r, ct)
			if err != nil {
				return err
			}
			defer clear(ss)
			return f.secret(o.output, "shared_secret", ss)
		})
	}
	return cmd
}

// rsaScheme reads the padding of RSA encryption.
func rsaScheme(s string) (tpm2.Scheme, error) {
	switch s {
	case "oaep":
		return tpm2.Scheme{Alg: tpm2.AlgOAEP, Hash: tpm2.AlgSHA256}, nil
	case "rsaes":
		return tpm2.Scheme{Alg: tpm2.AlgRSAES}, nil
	case "null":
		return tpm2.NoScheme, nil
	}
	return tpm2.Scheme{}, usageError(fmt.Errorf("scheme %q: expected oaep, rsaes or null", s))
}

func tpmRSAEncrypt(f *tpmFlags) *cobra.Command {
	var o objectFlags
	var scheme string
	cmd := &cobra.Command{Use: "rsaencrypt", Short: "Encrypt by an RSA key", Args: cobra.NoArgs}
	o.register(cmd, "", "file with the data", "file for the ciphertext")
	cmd.Flags().StringVarP(&scheme, "scheme", "s", "rsaes", "oaep (with SHA-256), rsaes or null")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		s, err := rsaScheme(scheme)
		if err != nil {
			return err
		}
		data, err := tpmcmd.ReadFile(o.input)
		if err != nil {
			return err
		}
		return o.run(cmd, f, func(t *tss.TPM, r tss.Ref, _ *tpm2.Public) error {
			ct, err := t.RSAEncrypt(r, data, s, nil)
			if err != nil {
				return err
			}
			return f.secret(o.output, "ciphertext", ct)
		})
	}
	return cmd
}

func tpmRSADecrypt(f *tpmFlags) *cobra.Command {
	var o objectFlags
	var scheme string
	cmd := &cobra.Command{Use: "rsadecrypt", Short: "Decrypt by an RSA key", Args: cobra.NoArgs}
	o.register(cmd, authHelp, "file with the ciphertext", "file for the data")
	cmd.Flags().StringVarP(&scheme, "scheme", "s", "rsaes", "oaep (with SHA-256), rsaes or null")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		s, err := rsaScheme(scheme)
		if err != nil {
			return err
		}
		ct, err := tpmcmd.ReadFile(o.input)
		if err != nil {
			return err
		}
		return o.run(cmd, f, func(t *tss.TPM, r tss.Ref, _ *tpm2.Public) error {
			data, err := t.RSADecrypt(r, ct, s, nil)
			if err != nil {
				return err
			}
			defer clear(data)
			return f.secret(o.output, "data", data)
		})
	}
	return cmd
}

// caps are the names of tpm2_getcap.
var caps = map[string]struct {
	cap   tpm2.Cap
	first uint32
	count uint32
}{
	"algorithms":             {tpm2.CapAlgs, 0, 256},
	"commands":               {tpm2.CapCommands, 0, 1024},
	"pcrs":                   {tpm2.CapPCRs, 0, 16},
	"properties-fixed":       {tpm2.CapTPMProperties, uint32(tpm2.PTFixed), 256},
	"properties-variable":    {tpm2.CapTPMProperties, uint32(tpm2.PTVar), 256},
	"ecc-curves":             {tpm2.CapECCCurves, 0, 256},
	"act":                    {tpm2.CapACT, uint32(tpm2.RHACT0), 16},
	"buffer-size":            {tpm2.CapBufferSize, 0, 1},
	"handles-transient":      {tpm2.CapHandles, uint32(tpm2.HandleTransientFirst), 254},
	"handles-persistent":     {tpm2.CapHandles, uint32(tpm2.HandlePersistentFirst), 254},
	"handles-permanent":      {tpm2.CapHandles, uint32(tpm2.HandlePermanentFirst), 254},
	"handles-pcr":            {tpm2.CapHandles, 0, 254},
	"handles-nv-index":       {tpm2.CapHandles, uint32(tpm2.HandleNVFirst), 254},
	"handles-loaded-session": {tpm2.CapHandles, uint32(tpm2.HandleHMACFirst), 254},
	"handles-saved-session":  {tpm2.CapHandles, uint32(tpm2.HandlePolicyFirst), 254},
}

func tpmGetCap(f *tpmFlags) *cobra.Command {
	var names []string
	for n := range caps {
		names = append(names, n)
	}
	sort.Strings(names)
	return &cobra.Command{
		Use: "getcap NAME", Short: "What the TPM can do and has", Args: cobra.ExactArgs(1), ValidArgs: names,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, ok := caps[args[0]]
			if !ok {
				return usageError(fmt.Errorf("%q: expected one of %v", args[0], names))
			}
			return f.with(cmd.Context(), func(t *tss.TPM) error {
				lines, err := capability(t, c.cap, c.first, c.count)
				if err != nil {
					return err
				}
				return f.printResult(lines, func() {
					for _, l := range lines {
						fmt.Println(l)
					}
				})
			})
		},
	}
}

// capability lists a capability as lines of text.
func capability(t *tss.TPM, c tpm2.Cap, first, count uint32) ([]string, error) {
	lines := []string{}
	for {
		d, more, err := t.GetCapability(c, first, count)
		if err != nil {
			return nil, err
		}
		last := first
		add := func(next uint32, format string, a ...any) {
			last = next
			lines = append(lines, fmt.Sprintf(format, a...))
		}
		for _, a := range d.Algs {
			add(uint32(a.Alg), "%v: 0x%04x attributes 0x%x", a.Alg, uint16(a.Alg), uint32(a.Properties))
		}
		for _, a := range d.Commands {
			add(uint32(a.CC()), "%v: 0x%08x attributes 0x%08x", a.CC(), uint32(a.CC()), uint32(a))
		}
		for _, p := range d.PCRs {
			add(0, "%v: %v", p.Hash, p.PCRs())
		}
		for _, p := range d.Properties {
			if tpm2.PT(first)&^0xFF != p.Property&^0xFF {
				return lines, nil // the next group
			}
			add(uint32(p.Property), "0x%03x: 0x%x", uint32(p.Property), p.Value)
		}
		for _, v := range d.Curves {
			add(uint32(v), "%v: 0x%x", v, uint16(v))
		}
		for _, a := range d.ACTs {
			add(uint32(a.Handle), "0x%x: timeout %d, attributes 0x%x", uint32(a.Handle), a.Timeout, a.Attributes)
		}
		if c == tpm2.CapBufferSize {
			add(first, "%d", d.BufferSize)
		}
		for _, h := range d.Handles {
			add(uint32(h), "0x%x", uint32(h))
		}
		if !more || last < first || last == ^uint32(0) {
			return lines, nil
		}
		first = last + 1
	}
}

func tpmStartup(f *tpmFlags) *cobra.Command {
	var isClear bool
	cmd := &cobra.Command{Use: "startup", Short: "TPM2_Startup: with STATE, or CLEAR (-c)", Args: cobra.NoArgs}
	cmd.Flags().BoolVarP(&isClear, "clear", "c", false, "start anew")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		su := tpm2.SUState
		if isClear {
			su = tpm2.SUClear
		}
		return f.with(cmd.Context(), func(t *tss.TPM) error {
			err := t.Startup(su)
			if errors.Is(err, tpm2.RCInitialize) {
				return nil // it was started before
			}
			return err
		})
	}
	return cmd
}

func tpmShutdown(f *tpmFlags) *cobra.Command {
	var isClear bool
	cmd := &cobra.Command{Use: "shutdown", Short: "TPM2_Shutdown: with STATE, or CLEAR (-c)", Args: cobra.NoArgs}
	cmd.Flags().BoolVarP(&isClear, "clear", "c", false, "for a start anew")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		su := tpm2.SUState
		if isClear {
			su = tpm2.SUClear
		}
		return f.with(cmd.Context(), func(t *tss.TPM) error { return t.Shutdown(su) })
	}
	return cmd
}

func tpmClear(f *tpmFlags) *cobra.Command {
	var who, auth string
	cmd := &cobra.Command{Use: "clear", Short: "Clear the TPM for a new owner", Args: cobra.NoArgs}
	cmd.Flags().StringVarP(&who, "auth-hierarchy", "C", "l", "l(ockout) or p(latform)")
	cmd.Flags().StringVarP(&auth, "auth", "P", "", "its authorization")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return f.with(cmd.Context(), func(t *tss.TPM) error {
			o, err := tpmcmd.Open(t, who, auth)
			if err != nil {
				return err
			}
			defer o.Close()
			return t.Clear(o.Ref)
		})
	}
	return cmd
}

func tpmDictionaryLockout(f *tpmFlags) *cobra.Command {
	var auth string
	cmd := &cobra.Command{Use: "dictionarylockout", Short: "End a lockout after wrong authorizations", Args: cobra.NoArgs}
	cmd.Flags().BoolP("clear-lockout", "c", true, "end the lockout")
	cmd.Flags().StringVarP(&auth, "auth", "p", "", "authorization of lockout")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		value, err := tpmcmd.Value(auth)
		if err != nil {
			return usageError(err)
		}
		return f.with(cmd.Context(), func(t *tss.TPM) error { return t.DictionaryAttackLockReset(tss.Lockout(value)) })
	}
	return cmd
}

func tpmReadClock(f *tpmFlags) *cobra.Command {
	return &cobra.Command{
		Use: "readclock", Short: "The TPM's time and reset counters", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.with(cmd.Context(), func(t *tss.TPM) error {
				i, err := t.ReadClock()
				if err != nil {
					return err
				}
				c := i.ClockInfo
				return f.printResult(map[string]any{"time": i.Time, "clock": c.Clock, "reset_count": c.ResetCount, "restart_count": c.RestartCount, "safe": c.Safe}, func() {
					fmt.Printf("time: %d\nclock_info:\n  clock: %d\n  reset_count: %d\n  restart_count: %d\n  safe: %v\n", i.Time, c.Clock, c.ResetCount, c.RestartCount, c.Safe)
				})
			})
		},
	}
}
