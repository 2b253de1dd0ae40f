// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"holdfast/cmd/holdfast/tpmcmd"
	"holdfast/tpm2"
	"holdfast/tss"
)

// Policies by hand, as tpm2-tools has them: startauthsession makes a session in
// a file, each policy... command adds an assertion to it, and session:FILE
// authorizes with it.

func init() {
	tpmCommands = append(tpmCommands, tpmStartAuthSession, tpmPolicyRestart, tpmPolicyPCR, tpmPolicyPassword, tpmPolicyAuthValue, tpmPolicySecret,
		tpmPolicySigned, tpmPolicyAuthorize, tpmPolicyAuthorizeNV, tpmPolicyOR, tpmPolicyNV, tpmPolicyCommandCode, tpmPolicyDuplicationSelect,
		tpmPolicyLocality, tpmPolicyNameHash, tpmPolicyCpHash, tpmPolicyTemplate, tpmPolicyParameters, tpmPolicyCounterTimer, tpmPolicyCapability, tpmPolicyNVWritten)
}

func tpmStartAuthSession(f *tpmFlags) *cobra.Command {
	var file, hash string
	var policy bool
	cmd := &cobra.Command{Use: "startauthsession", Short: "Start a policy session and keep it in a file (trial unless told)", Args: cobra.NoArgs}
	cmd.Flags().StringVarP(&file, "session", "S", "", "file for the session")
	cmd.Flags().StringVarP(&hash, "hash-algorithm", "g", "sha256", "hash algorithm of the policy")
	cmd.Flags().BoolVar(&policy, "policy-session", false, "a session that authorizes, not only one that computes a digest")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if file == "" {
			return usageError(errors.New("-S: expected a file for the session"))
		}
		h, err := tpmcmd.Hash(hash)
		if err != nil {
			return usageError(err)
		}
		kind := tpm2.SETrial
		if policy {
			kind = tpm2.SEPolicy
		}
		return f.with(cmd.Context(), func(t *tss.TPM) error {
			s, err := t.StartSession(tss.SessionOptions{Kind: kind, Hash: h})
			if err != nil {
				return err
			}
			if err := tpmcmd.SaveSession(t, s, file); err != nil {
				return errors.Join(err, t.FlushContext(s.Handle()))
			}
			return nil
		})
	}
	return cmd
}

// assertion makes a command that adds an assertion to a session; make reads its
// arguments and flags and returns the assertion.
func (f *tpmFlags) assertion(use, short string, args cobra.PositionalArgs, make func(args []string) (func(t *tss.TPM, s *tss.Session) error, error)) *cobra.Command {
	var file, output string
	cmd := &cobra.Command{Use: use, Short: short, Args: args}
	cmd.Flags().StringVarP(&file, "session", "S", "", "file with the session")
	cmd.Flags().StringVarP(&output, "policy", "L", "", "file for the policy digest")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if file == "" {
			return usageError(errors.New("-S: expected the file of a session"))
		}
		do, err := make(args)
		if err != nil {
			return usageError(err)
		}
		return f.with(cmd.Context(), func(t *tss.TPM) error {
			s, err := tpmcmd.LoadSession(t, file)
			if err != nil {
				return err
			}
			var digest []byte
			if err = do(t, s); err == nil {
				digest, err = t.PolicyGetDigest(s)
			}
			if err := errors.Join(err, tpmcmd.SaveSession(t, s, file)); err != nil {
				return err
			}
			if err := tpmcmd.WriteFile(output, digest); err != nil {
				return err
			}
			return f.printResult(map[string]hexBytes{"policy": digest}, func() { fmt.Printf("%x\n", digest) })
		})
	}
	return cmd
}

// plain is an assertion without parameters.
func (f *tpmFlags) plain(use, short string, do func(t *tss.TPM, s *tss.Session) error) *cobra.Command {
	return f.assertion(use, short, cobra.NoArgs, func([]string) (func(*tss.TPM, *tss.Session) error, error) { return do, nil })
}

// octets is an assertion with one parameter, a file or hexadecimal digits, under a flag.
func (f *tpmFlags) octets(use, short, flag, letter, what string, do func(t *tss.TPM, s *tss.Session, b []byte) error) *cobra.Command {
	var value string
	cmd := f.assertion(use, short, cobra.NoArgs, func([]string) (func(*tss.TPM, *tss.Session) error, error) {
		b, err := tpmcmd.Bytes(value)
		if err == nil && len(b) == 0 {
			err = fmt.Errorf("--%s: expected %s", flag, what)
		}
		return func(t *tss.TPM, s *tss.Session) error { return do(t, s, b) }, err
	})
	cmd.Flags().StringVarP(&value, flag, letter, "", what+": a file or hexadecimal digits")
	return cmd
}

func tpmPolicyRestart(f *tpmFlags) *cobra.Command {
	return f.plain("policyrestart", "Begin a session's policy anew", (*tss.TPM).PolicyRestart)
}

func tpmPolicyPassword(f *tpmFlags) *cobra.Command {
	return f.plain("policypassword", "Policy: the authorization value, sent as it is", (*tss.TPM).PolicyPassword)
}

func tpmPolicyAuthValue(f *tpmFlags) *cobra.Command {
	return f.plain("policyauthvalue", "Policy: the authorization value, by an HMAC", (*tss.TPM).PolicyAuthValue)
}

func tpmPolicyPCR(f *tpmFlags) *cobra.Command {
	var list, digest string
	cmd := f.assertion("policypcr", "Policy: PCRs, as they are now or as a digest says", cobra.NoArgs, func([]string) (func(*tss.TPM, *tss.Session) error, error) {
		sel, err := tpmcmd.PCRs(list)
		if err != nil {
			return nil, err
		}
		d, err := tpmcmd.Bytes(digest)
		return func(t *tss.TPM, s *tss.Session) error {
			if d == nil && s.Trial() {
				now, err := t.PCRDigest(s.Hash, sel)
				if err != nil {
					return err
				}
				return t.PolicyPCR(s, now, sel)
			}
			return t.PolicyPCR(s, d, sel)
		}, err
	})
	cmd.Flags().StringVarP(&list, "pcr-list", "l", "", "PCRs, such as sha256:0,7,16")
	cmd.Flags().StringVarP(&digest, "pcr-digest", "f", "", "digest of their values: a file or hexadecimal digits")
	return cmd
}

func tpmPolicySecret(f *tpmFlags) *cobra.Command {
	var object, ref string
	cmd := f.assertion("policysecret [AUTH]", "Policy: the authorization of another entity", cobra.MaximumNArgs(1), func(args []string) (func(*tss.TPM, *tss.Session) error, error) {
		r, err := tpmcmd.Bytes(ref)
		auth := strings.Join(args, "")
		return func(t *tss.TPM, s *tss.Session) error {
			o, err := tpmcmd.Open(t, object, auth)
			if err != nil {
				return err
			}
			return errors.Join(t.PolicySecret(o.Ref, s, r), o.Close())
		}, err
	})
	cmd.Flags().StringVarP(&object, "object-context", "c", "", "the entity: a hierarchy, a handle or a context file")
	cmd.Flags().StringVarP(&ref, "qualification", "q", "", "policyRef: a file or hexadecimal digits")
	return cmd
}

func tpmPolicySigned(f *tpmFlags) *cobra.Command {
	var key, signature, ref, raw string
	cmd := f.assertion("policysigned", "Policy: a signature of a key", cobra.NoArgs, func([]string) (func(*tss.TPM, *tss.Session) error, error) {
		r, err := tpmcmd.Bytes(ref)
		if err != nil {
			return nil, err
		}
		if raw != "" { // expiration 0, policyRef: what a signature for any session signs
			if err := tpmcmd.WriteFile(raw, append(make([]byte, 4), r...)); err != nil {
				return nil, err
			}
			return func(*tss.TPM, *tss.Session) error { return nil }, nil
		}
		sig, err := tpmcmd.ReadSignature(signature)
		return func(t *tss.TPM, s *tss.Session) error {
			o, err := tpmcmd.Open(t, key, "")
			if err != nil {
				return err
			}
			return errors.Join(t.PolicySigned(o.Ref, s, nil, r, sig), o.Close())
		}, err
	})
	cmd.Flags().StringVarP(&key, "key-context", "c", "", "the key: a handle or a context file")
	cmd.Flags().StringVarP(&signature, "signature", "s", "", "file with the TPMT_SIGNATURE")
	cmd.Flags().StringVarP(&ref, "qualification", "q", "", "policyRef: a file or hexadecimal digits")
	cmd.Flags().StringVar(&raw, "raw-data", "", "write what is to be signed to this file, and do no more")
	return cmd
}

func tpmPolicyAuthorize(f *tpmFlags) *cobra.Command {
	var approved, ref, name, ticket string
	cmd := f.assertion("policyauthorize", "Policy: a policy that a key approved", cobra.NoArgs, func([]string) (func(*tss.TPM, *tss.Session) error, error) {
		a, err1 := tpmcmd.Bytes(approved)
		r, err2 := tpmcmd.Bytes(ref)
		n, err3 := tpmcmd.Bytes(name)
		tk := tpm2.Ticket{Tag: tpm2.STVerified, Hierarchy: tpm2.RHNull}
		var err4 error
		if ticket != "" {
			var b []byte
			if b, err4 = tpmcmd.ReadFile(ticket); err4 == nil {
				err4 = tpm2.Decode(b, &tk)
			}
		}
		return func(t *tss.TPM, s *tss.Session) error { return t.PolicyAuthorize(s, a, r, n, tk) }, errors.Join(err1, err2, err3, err4)
	})
	cmd.Flags().StringVarP(&approved, "input", "i", "", "the approved policy: a file or hexadecimal digits")
	cmd.Flags().StringVarP(&ref, "qualification", "q", "", "policyRef: a file or hexadecimal digits")
	cmd.Flags().StringVarP(&name, "name", "n", "", "Name of the key: a file or hexadecimal digits")
	cmd.Flags().StringVarP(&ticket, "ticket", "t", "", "file with the ticket of verifysignature; none is needed in a trial session")
	return cmd
}

func tpmPolicyOR(f *tpmFlags) *cobra.Command {
	var list string
	cmd := f.assertion("policyor", "Policy: one of several", cobra.NoArgs, func([]string) (func(*tss.TPM, *tss.Session) error, error) {
		_, files, ok := strings.Cut(list, ":") // the hash algorithm, as tpm2-tools writes it, is the session's
		if !ok {
			files = list
		}
		var branches [][]byte
		for _, x := range strings.Split(files, ",") {
			b, err := tpmcmd.Bytes(x)
			if err != nil {
				return nil, err
			}
			branches = append(branches, b)
		}
		if len(branches) < 2 || len(branches) > 8 {
			return nil, fmt.Errorf("-l: expected 2 to 8 policies, got %d", len(branches))
		}
		return func(t *tss.TPM, s *tss.Session) error { return t.PolicyOR(s, branches...) }, nil
	})
	cmd.Flags().StringVarP(&list, "policy-list", "l", "", "the policies: files or hexadecimal digits, separated by commas, after sha256: or the like")
	return cmd
}

// policyOperations are the names of tpm2-tools.
var policyOperations = map[string]tpm2.EO{
	"eq": tpm2.EOEq, "neq": tpm2.EONeq, "sgt": tpm2.EOSignedGT, "ugt": tpm2.EOUnsignedGT, "slt": tpm2.EOSignedLT, "ult": tpm2.EOUnsignedLT,
	"sge": tpm2.EOSignedGE, "uge": tpm2.EOUnsignedGE, "sle": tpm2.EOSignedLE, "ule": tpm2.EOUnsignedLE, "bs": tpm2.EOBitSet, "bc": tpm2.EOBitClear,
}

func policyOperation(s string) (tpm2.EO, error) {
	if op, ok := policyOperations[s]; ok {
		return op, nil
	}
	return 0, fmt.Errorf("operation %q: expected eq, neq, sgt, ugt, slt, ult, sge, uge, sle, ule, bs or bc", s)
}

func tpmPolicyNV(f *tpmFlags) *cobra.Command {
	var n nvFlags
	var operand string
	var offset uint16
	cmd := f.assertion("policynv INDEX OPERATION", "Policy: the content of an NV index", cobra.ExactArgs(2), func(args []string) (func(*tss.TPM, *tss.Session) error, error) {
		h, err := index(args[0])
		if err != nil {
			return nil, err
		}
		op, err := policyOperation(args[1])
		if err != nil {
			return nil, err
		}
		b, err := tpmcmd.Bytes(operand)
		return func(t *tss.TPM, s *tss.Session) error {
			return n.run(t, h, func(auth tss.Ref, i *tss.Index) error { return t.PolicyNV(auth, i.Ref(nil), s, b, offset, op) })
		}, err
	})
	n.register(cmd, "")
	cmd.Flags().StringVarP(&operand, "input", "i", "", "what it is compared with: a file or hexadecimal digits")
	cmd.Flags().Uint16Var(&offset, "offset", 0, "where the comparison begins")
	return cmd
}

func tpmPolicyAuthorizeNV(f *tpmFlags) *cobra.Command {
	var n nvFlags
	cmd := f.assertion("policyauthorizenv INDEX", "Policy: a policy that an NV index holds", cobra.ExactArgs(1), func(args []string) (func(*tss.TPM, *tss.Session) error, error) {
		h, err := index(args[0])
		return func(t *tss.TPM, s *tss.Session) error {
			return n.run(t, h, func(auth tss.Ref, i *tss.Index) error { return t.PolicyAuthorizeNV(auth, i.Ref(nil), s) })
		}, err
	})
	n.register(cmd, "")
	return cmd
}

// commandCode reads a command by its name, with or without TPM2_CC_ and in any
// case, or by its number.
func commandCode(s string) (tpm2.CC, error) {
	if v, err := strconv.ParseUint(s, 0, 32); err == nil {
		return tpm2.CC(v), nil
	}
	plain := func(s string) string { return strings.ToLower(strings.ReplaceAll(s, "_", "")) }
	name := strings.TrimPrefix(strings.TrimPrefix(plain(s), "tpm2"), "cc")
	for cc := tpm2.CC(0x100); cc < 0x200; cc++ {
		if plain(cc.String()) == name {
			return cc, nil
		}
	}
	return 0, fmt.Errorf("command %q: expected a name such as unseal, or a number", s)
}

func tpmPolicyCommandCode(f *tpmFlags) *cobra.Command {
	return f.assertion("policycommandcode COMMAND", "Policy: one command only", cobra.ExactArgs(1), func(args []string) (func(*tss.TPM, *tss.Session) error, error) {
		cc, err := commandCode(args[0])
		return func(t *tss.TPM, s *tss.Session) error { return t.PolicyCommandCode(s, cc) }, err
	})
}

func tpmPolicyDuplicationSelect(f *tpmFlags) *cobra.Command {
	var object, parent string
	var include bool
	cmd := f.assertion("policyduplicationselect", "Policy: duplication to one parent", cobra.NoArgs, func([]string) (func(*tss.TPM, *tss.Session) error, error) {
		o, err1 := tpmcmd.Bytes(object)
		p, err2 := tpmcmd.Bytes(parent)
		return func(t *tss.TPM, s *tss.Session) error { return t.PolicyDuplicationSelect(s, o, p, include) }, errors.Join(err1, err2)
	})
	cmd.Flags().StringVarP(&object, "object-name", "n", "", "Name of the object: a file or hexadecimal digits")
	cmd.Flags().StringVarP(&parent, "parent-name", "N", "", "Name of the new parent: a file or hexadecimal digits")
	cmd.Flags().BoolVar(&include, "include-object", false, "this object only")
	return cmd
}

func tpmPolicyLocality(f *tpmFlags) *cobra.Command {
	return f.assertion("policylocality LOCALITY", "Policy: localities", cobra.ExactArgs(1), func(args []string) (func(*tss.TPM, *tss.Session) error, error) {
		l, ok := map[string]tpm2.Locality{"zero": 1, "one": 2, "two": 4, "three": 8, "four": 16}[args[0]]
		if !ok {
			v, err := strconv.ParseUint(args[0], 0, 8)
			if err != nil {
				return nil, fmt.Errorf("locality %q: expected zero, one, two, three, four, or a TPMA_LOCALITY as a number", args[0])
			}
			l = tpm2.Locality(v)
		}
		return func(t *tss.TPM, s *tss.Session) error { return t.PolicyLocality(s, l) }, nil
	})
}

func tpmPolicyNameHash(f *tpmFlags) *cobra.Command {
	return f.octets("policynamehash", "Policy: the entities of the command", "name", "n", "the digest of their Names", (*tss.TPM).PolicyNameHash)
}

func tpmPolicyCpHash(f *tpmFlags) *cobra.Command {
	return f.octets("policycphash", "Policy: a command with all of its parameters", "cphash-input", "i", "the cpHash", (*tss.TPM).PolicyCpHash)
}

func tpmPolicyTemplate(f *tpmFlags) *cobra.Command {
	return f.octets("policytemplate", "Policy: the template of what is created", "template-hash", "t", "the digest of the template", (*tss.TPM).PolicyTemplate)
}

func tpmPolicyParameters(f *tpmFlags) *cobra.Command {
	return f.octets("policyparameters", "Policy: the parameters of the command (version 184)", "parameter-hash", "i", "the digest of command code and parameters", (*tss.TPM).PolicyParameters)
}

func tpmPolicyCounterTimer(f *tpmFlags) *cobra.Command {
	var operation, operand string
	var offset uint16
	cmd := f.assertion("policycountertimer [FIELD=VALUE]", "Policy: time, clock, counters of resets and restarts", cobra.MaximumNArgs(1), func(args []string) (func(*tss.TPM, *tss.Session) error, error) {
		op, err := policyOperation(operation)
		if err != nil {
			return nil, err
		}
		b, err := tpmcmd.Bytes(operand)
		if err != nil {
			return nil, err
		}
		if len(args) > 0 {
			if b, offset, err = timerField(args[0]); err != nil {
				return nil, err
			}
		}
		return func(t *tss.TPM, s *tss.Session) error { return t.PolicyCounterTimer(s, b, offset, op) }, nil
	})
	cmd.Flags().StringVar(&operation, "operation", "eq", "eq, neq, sgt, ugt, slt, ult, sge, uge, sle, ule, bs or bc")
	cmd.Flags().StringVarP(&operand, "input", "i", "", "what is compared, if no field is named: a file or hexadecimal digits")
	cmd.Flags().Uint16Var(&offset, "offset", 0, "where in the TPMS_TIME_INFO, if no field is named")
	return cmd
}

// timerField reads safe, resets=N, restarts=N, clock=MS or time=MS: a field of
// the TPMS_TIME_INFO (Part 2, 10.11.1).
func timerField(s string) (operand []byte, offset uint16, err error) {
	if s == "safe" {
		return []byte{1}, 24, nil
	}
	name, value, _ := strings.Cut(s, "=")
	at, ok := map[string]uint16{"time": 0, "clock": 8, "resets": 16, "restarts": 20}[name]
	if !ok {
		return nil, 0, fmt.Errorf("field %q: expected time=MS, clock=MS, resets=N, restarts=N or safe", s)
	}
	bits := 32
	if at < 16 {
		bits = 64
	}
	v, err := strconv.ParseUint(value, 0, bits)
	if err != nil {
		return nil, 0, fmt.Errorf("field %q: expected a number of %d bits", s, bits)
	}
	b := binary.BigEndian.AppendUint64(nil, v)
	return b[8-bits/8:], at, nil
}

func tpmPolicyCapability(f *tpmFlags) *cobra.Command {
	var operation, operand string
	var offset uint16
	cmd := f.assertion("policycapability CAPABILITY PROPERTY", "Policy: a value of GetCapability (version 184)", cobra.ExactArgs(2), func(args []string) (func(*tss.TPM, *tss.Session) error, error) {
		op, err := policyOperation(operation)
		if err != nil {
			return nil, err
		}
		capability, err1 := strconv.ParseUint(args[0], 0, 32)
		property, err2 := strconv.ParseUint(args[1], 0, 32)
		if err1 != nil || err2 != nil {
			return nil, fmt.Errorf("capability %q, property %q: expected numbers, such as 6 and 0x12d", args[0], args[1])
		}
		b, err := tpmcmd.Bytes(operand)
		return func(t *tss.TPM, s *tss.Session) error {
			return t.PolicyCapability(s, b, offset, op, tpm2.Cap(capability), uint32(property))
		}, err
	})
	cmd.Flags().StringVar(&operation, "operation", "eq", "eq, neq, sgt, ugt, slt, ult, sge, uge, sle, ule, bs or bc")
	cmd.Flags().StringVarP(&operand, "input", "i", "", "what is compared: a file or hexadecimal digits")
	cmd.Flags().Uint16Var(&offset, "offset", 0, "where the comparison begins")
	return cmd
}

func tpmPolicyNVWritten(f *tpmFlags) *cobra.Command {
	return f.assertion("policynvwritten s|c", "Policy: whether the NV index was written", cobra.ExactArgs(1), func(args []string) (func(*tss.TPM, *tss.Session) error, error) {
		set, ok := map[string]bool{"s": true, "c": false}[args[0]]
		if !ok {
			return nil, fmt.Errorf("%q: expected s(et) or c(lear)", args[0])
		}
		return func(t *tss.TPM, s *tss.Session) error { return t.PolicyNvWritten(s, set) }, nil
	})
}
