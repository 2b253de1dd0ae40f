// SPDX-License-Identifier: Apache-2.0

// Package tpmcmd is what the commands of `holdfast tpm` share: how objects,
// authorizations, algorithms and PCRs are written on a command line, and the
// files they are kept in. Names follow tpm2-tools where it has them.
package tpmcmd

import (
	"encoding/hex"
	"fmt"
	"os"
	"strconv"
	"strings"

	"holdfast/tpm2"
	"holdfast/tss"
)

// Hash returns the hash algorithm of a name, such as sha256.
func Hash(name string) (tpm2.Alg, error) {
	for _, a := range []tpm2.Alg{tpm2.AlgSHA1, tpm2.AlgSHA256, tpm2.AlgSHA384, tpm2.AlgSHA512, tpm2.AlgSHA3_256, tpm2.AlgSHA3_384, tpm2.AlgSHA3_512, tpm2.AlgSM3_256} {
		if a.String() == name {
			return a, nil
		}
	}
	return 0, fmt.Errorf("hash algorithm %q: expected sha1, sha256, sha384, sha512, sha3_256, sha3_384, sha3_512 or sm3_256", name)
}

// PCRs reads a selection as tpm2-tools writes it: sha256:0,7,16+sha1:all.
func PCRs(s string) ([]tpm2.PCRSelection, error) {
	var out []tpm2.PCRSelection
	for _, part := range strings.Split(s, "+") {
		bank, list, ok := strings.Cut(part, ":")
		if !ok {
			return nil, fmt.Errorf("PCR selection %q: expected BANK:NUMBERS, such as sha256:0,7,16", part)
		}
		h, err := Hash(bank)
		if err != nil {
			return nil, fmt.Errorf("PCR selection: %w", err)
		}
		var numbers []int
		switch list {
		case "none":
		case "all":
			for i := range 24 {
				numbers = append(numbers, i)
			}
		default:
			for _, n := range strings.Split(list, ",") {
				i, err := strconv.Atoi(strings.TrimSpace(n))
				if err != nil || i < 0 || i > 23 {
					return nil, fmt.Errorf("PCR selection %q: expected numbers from 0 to 23, all or none, got %q", part, n)
				}
				numbers = append(numbers, i)
			}
		}
		out = append(out, tpm2.SelectPCRs(h, numbers...))
	}
	return out, nil
}

// PCRNumber reads the number of a PCR.
func PCRNumber(s string) (int, error) {
	i, err := strconv.Atoi(s)
	if err != nil || i < 0 || i > 23 {
		return 0, fmt.Errorf("PCR %q: expected a number from 0 to 23", s)
	}
	return i, nil
}

// hierarchies by the names of tpm2-tools.
var hierarchies = map[string]tpm2.Handle{
	"o": tpm2.RHOwner, "owner": tpm2.RHOwner,
	"e": tpm2.RHEndorsement, "endorsement": tpm2.RHEndorsement,
	"p": tpm2.RHPlatform, "platform": tpm2.RHPlatform,
	"n": tpm2.RHNull, "null": tpm2.RHNull,
	"l": tpm2.RHLockout, "lockout": tpm2.RHLockout,
}

// Hierarchy reads o, e, p, n, l, or their long names.
func Hierarchy(s string) (tpm2.Handle, error) {
	if h, ok := hierarchies[s]; ok {
		return h, nil
	}
	return 0, fmt.Errorf("hierarchy %q: expected o(wner), e(ndorsement), p(latform), n(ull) or l(ockout)", s)
}

// Handle reads a number, hexadecimal with 0x.
func Handle(s string) (tpm2.Handle, error) {
	v, err := strconv.ParseUint(s, 0, 32)
	if err != nil {
		return 0, fmt.Errorf("handle %q: expected a number, such as 0x81000001", s)
	}
	return tpm2.Handle(v), nil
}

// Value reads what an authorization value is: text, str:TEXT, hex:DIGITS or
// file:PATH (file:- is standard input). A trailing newline of a file is not
// part of it.
func Value(s string) ([]byte, error) {
	kind, rest, ok := strings.Cut(s, ":")
	if !ok {
		return []byte(s), nil
	}
	switch kind {
	case "str":
		return []byte(rest), nil
	case "hex":
		b, err := hex.DecodeString(rest)
		if err != nil {
			return nil, fmt.Errorf("authorization: hex: expected hexadecimal digits") // not what was given: it is a secret
		}
		return b, nil
	case "file":
		b, err := ReadFile(rest)
		if err != nil {
			return nil, fmt.Errorf("authorization: %w", err)
		}
		return []byte(strings.TrimSuffix(string(b), "\n")), nil
	}
	return []byte(s), nil // a password with a colon in it
}

// Template reads a kind of key as -G takes it: rsa, rsa2048, rsa3072, ecc,
// ecc256, ecc384, ed25519, ed448 (with :hash_eddsa for the form that signs digests), x25519, x448,
// mlkem512, mlkem768, mlkem1024, mldsa44, mldsa65, mldsa87 or keyedhash;
// with rsa and ecc, a colon and a signing scheme may follow: rsassa, rsapss or ecdsa,
// with -sha256 and the like. parent makes a storage key.
func Template(s string, parent bool) (tpm2.Public, error) {
	name, scheme, _ := strings.Cut(s, ":")
	switch name {
	case "rsa":
		name = "rsa2048"
	case "ecc", "ecc256":
		name = "ecc256"
	case "keyedhash":
		return tss.SealTemplate(nil), nil
	}
	k := tss.Kind(name)
	switch k {
	case tss.RSA2048, tss.RSA3072, tss.ECCP256, tss.ECCP384:
	case tss.MLKEM512, tss.MLKEM768, tss.MLKEM1024:
		if scheme != "" {
			return tpm2.Public{}, fmt.Errorf("key %q: ML-KEM keys have no scheme", s)
		}
		if parent {
			return tss.SRKTemplate(k), nil
		}
		return tss.KEMTemplate(k), nil
	case tss.X25519, tss.X448:
		if scheme != "" {
			return tpm2.Public{}, fmt.Errorf("key %q: keys of X25519 and X448 have no scheme to choose", s)
		}
		if parent {
			return tss.SRKTemplate(k), nil
		}
		return tss.KEMTemplate(k), nil
	case tss.Ed25519, tss.Ed448:
		p := tpm2.Public{}
		if parent {
			return p, fmt.Errorf("key %q: an EdDSA key signs only", s)
		}
		p = tss.SigningTemplate(k)
		switch scheme {
		case "", "eddsa":
		case "hash_eddsa":
			p.Parms.Scheme.Alg = tpm2.AlgHashEdDSA
		default:
			return tpm2.Public{}, fmt.Errorf("key %q: expected the scheme eddsa or hash_eddsa", s)
		}
		return p, nil
	case tss.MLDSA44, tss.MLDSA65, tss.MLDSA87:
		if parent || scheme != "" {
			return tpm2.Public{}, fmt.Errorf("key %q: an ML-DSA key signs only, and has no scheme", s)
		}
		return tss.SigningTemplate(k), nil
	default:
		return tpm2.Public{}, fmt.Errorf("key %q: expected rsa, rsa2048, rsa3072, ecc, ecc256, ecc384, ed25519, ed448, x25519, x448, mlkem512, mlkem768, mlkem1024, mldsa44, mldsa65, mldsa87 or keyedhash", s)
	}
	if parent && scheme == "" {
		return tss.SRKTemplate(k), nil
	}
	p := tss.SigningTemplate(k)
	if scheme == "" {
		// As tpm2-tools: for everything.
		p.Attributes |= tpm2.ObjectDecrypt
		p.Parms.Scheme = tpm2.NoScheme
		return p, nil
	}
	sch, err := Scheme(scheme)
	if err != nil {
		return tpm2.Public{}, err
	}
	p.Parms.Scheme = sch
	return p, nil
}

// Scheme reads a signing scheme: rsassa, rsapss or ecdsa, with -HASH behind it.
func Scheme(s string) (tpm2.Scheme, error) {
	name, hash, ok := strings.Cut(s, "-")
	if !ok {
		hash = "sha256"
	}
	for _, a := range []tpm2.Alg{tpm2.AlgRSASSA, tpm2.AlgRSAPSS, tpm2.AlgECDSA} {
		if a.String() == name {
			h, err := Hash(hash)
			return tpm2.Scheme{Alg: a, Hash: h}, err
		}
	}
	return tpm2.Scheme{}, fmt.Errorf("scheme %q: expected rsassa, rsapss or ecdsa, with a hash such as ecdsa-sha256", s)
}

var attributes = []struct {
	name string
	bit  tpm2.ObjectAttributes
}{
	{"fixedtpm", tpm2.ObjectFixedTPM}, {"stclear", tpm2.ObjectStClear}, {"fixedparent", tpm2.ObjectFixedParent},
	{"sensitivedataorigin", tpm2.ObjectSensitiveDataOrigin}, {"userwithauth", tpm2.ObjectUserWithAuth},
	{"adminwithpolicy", tpm2.ObjectAdminWithPolicy}, {"noda", tpm2.ObjectNoDA},
	{"encryptedduplication", tpm2.ObjectEncryptedDuplication}, {"restricted", tpm2.ObjectRestricted},
	{"decrypt", tpm2.ObjectDecrypt}, {"sign", tpm2.ObjectSignEncrypt}, {"x509sign", tpm2.ObjectX509Sign},
}

// Attributes reads object attributes by the names of tpm2-tools, separated by
// |, or a number.
func Attributes(s string) (tpm2.ObjectAttributes, error) {
	if v, err := strconv.ParseUint(s, 0, 32); err == nil {
		return tpm2.ObjectAttributes(v), nil
	}
	var out tpm2.ObjectAttributes
next:
	for _, n := range strings.Split(s, "|") {
		for _, a := range attributes {
			if a.name == strings.TrimSpace(n) {
				out |= a.bit
				continue next
			}
		}
		return 0, fmt.Errorf("attribute %q is unknown", n)
	}
	return out, nil
}

// AttributeNames is the reverse of Attributes.
func AttributeNames(v tpm2.ObjectAttributes) string {
	var out []string
	for _, a := range attributes {
		if v.Has(a.bit) {
			out = append(out, a.name)
		}
	}
	return strings.Join(out, "|")
}

var nvAttributes = []struct {
	name string
	bit  tpm2.NVAttributes
}{
	{"ppwrite", tpm2.NVPPWrite}, {"ownerwrite", tpm2.NVOwnerWrite}, {"authwrite", tpm2.NVAuthWrite}, {"policywrite", tpm2.NVPolicyWrite},
	{"policydelete", tpm2.NVPolicyDelete}, {"writelocked", tpm2.NVWriteLocked}, {"writeall", tpm2.NVWriteAll}, {"writedefine", tpm2.NVWriteDefine},
	{"write_stclear", tpm2.NVWriteStClear}, {"globallock", tpm2.NVGlobalLock}, {"ppread", tpm2.NVPPRead}, {"ownerread", tpm2.NVOwnerRead},
	{"authread", tpm2.NVAuthRead}, {"policyread", tpm2.NVPolicyRead}, {"no_da", tpm2.NVNoDA}, {"orderly", tpm2.NVOrderly},
	{"clear_stclear", tpm2.NVClearStClear}, {"readlocked", tpm2.NVReadLocked}, {"written", tpm2.NVWritten},
	{"platformcreate", tpm2.NVPlatformCreate}, {"read_stclear", tpm2.NVReadStClear},
}

// NVAttributes reads NV attributes by the names of tpm2-tools, separated by |,
// nt=ordinary, counter, bits or extend among them; or a number.
func NVAttributes(s string) (tpm2.NVAttributes, error) {
	if v, err := strconv.ParseUint(s, 0, 32); err == nil {
		return tpm2.NVAttributes(v), nil
	}
	var out tpm2.NVAttributes
next:
	for _, n := range strings.Split(s, "|") {
		n = strings.TrimSpace(n)
		if t, ok := strings.CutPrefix(n, "nt="); ok {
			types := map[string]tpm2.NT{"ordinary": tpm2.NTOrdinary, "counter": tpm2.NTCounter, "bits": tpm2.NTBits, "extend": tpm2.NTExtend, "pinfail": tpm2.NTPinFail, "pinpass": tpm2.NTPinPass}
			nt, ok := types[t]
			if !ok {
				return 0, fmt.Errorf("NV attribute %q: expected ordinary, counter, bits, extend, pinfail or pinpass", n)
			}
			out = out.WithType(nt)
			continue
		}
		for _, a := range nvAttributes {
			if a.name == n {
				out |= a.bit
				continue next
			}
		}
		return 0, fmt.Errorf("NV attribute %q is unknown", n)
	}
	return out, nil
}

// NVAttributeNames is the reverse of NVAttributes.
func NVAttributeNames(v tpm2.NVAttributes) string {
	var out []string
	for _, a := range nvAttributes {
		if v.Has(a.bit) {
			out = append(out, a.name)
		}
	}
	if t := v.Type(); t != tpm2.NTOrdinary {
		out = append(out, fmt.Sprintf("nt=%d", t))
	}
	return strings.Join(out, "|")
}

// Bytes reads data that may be a file or hexadecimal digits: what is a file's
// name is read, else the digits are taken.
func Bytes(s string) ([]byte, error) {
	if s == "" {
		return nil, nil
	}
	if _, err := os.Stat(s); err == nil || s == "-" {
		return ReadFile(s)
	}
	b, err := hex.DecodeString(s)
	if err != nil {
		return nil, fmt.Errorf("%q is neither a file nor hexadecimal digits", s)
	}
	return b, nil
}
