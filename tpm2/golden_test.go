// SPDX-License-Identifier: Apache-2.0

package tpm2

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// unhex decodes hex with spaces.
func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

type both interface {
	Marshaler
	Unmarshaler
}

// attestHead is the beginning of a TPMS_ATTEST of the given type, attestBody the
// same as a value with the body that f fills in.
func attestHead(tag string) string {
	return "FF544347" + tag + "0001 51 0002 0102  0000000000001000 00000001 00000002 01  0000000100020003"
}

func attestBody(f func(a *Attest)) *Attest {
	a := &Attest{QualifiedSigner: []byte{0x51}, ExtraData: []byte{1, 2}, ClockInfo: ClockInfo{0x1000, 1, 2, true}, FirmwareVersion: 0x0000000100020003}
	f(a)
	return a
}

// TestGolden: bytes typed field by field from the tables of Part 2; each
// structure must come out of them and go back into them.
func TestGolden(t *testing.T) {
	rep := func(b string, n int) string { return strings.Repeat(b, n) }
	raw := func(b byte, n int) []byte { return bytes.Repeat([]byte{b}, n) }
	cases := []struct {
		name  string
		bytes string
		want  both
		empty both
	}{
		{"TPMT_PUBLIC RSA-2048 storage key, 12.2.4", `
			0001 000B 00030072 0000
			0006 0080 0043  0010  0800 00000000
			0100 ` + rep("AB", 256),
			&Public{Type: AlgRSA, NameAlg: AlgSHA256,
				Attributes: ObjectFixedTPM | ObjectFixedParent | ObjectSensitiveDataOrigin | ObjectUserWithAuth | ObjectRestricted | ObjectDecrypt,
				AuthPolicy: []byte{},
				Parms:      Parms{Symmetric: SymDef{Alg: AlgAES, KeyBits: 128, Mode: AlgCFB}, Scheme: NoScheme, KeyBits: 2048},
				Unique:     raw(0xAB, 256)}, &Public{}},
		{"TPMT_PUBLIC ECC P-256 ECDSA signing key, 12.2.4", `
			0023 000B 00040072 0000
			0010  0018 000B  0003  0010
			0020 ` + rep("01", 32) + ` 0020 ` + rep("02", 32),
			&Public{Type: AlgECC, NameAlg: AlgSHA256,
				Attributes: ObjectFixedTPM | ObjectFixedParent | ObjectSensitiveDataOrigin | ObjectUserWithAuth | ObjectSignEncrypt,
				AuthPolicy: []byte{},
				Parms:      Parms{Symmetric: NoSym, Scheme: Scheme{Alg: AlgECDSA, Hash: AlgSHA256}, Curve: CurveP256, KDF: NoScheme},
				Point:      Point{raw(1, 32), raw(2, 32)}}, &Public{}},
		{"TPMT_PUBLIC MLDSA, 12.2.3.6: parameterSet, then allowExternalMu", `
			00A1 000C 00050072 0000
			0002 01
			07A0 ` + rep("77", 1952),
			&Public{Type: AlgMLDSA, NameAlg: AlgSHA384,
				Attributes: ObjectFixedTPM | ObjectFixedParent | ObjectSensitiveDataOrigin | ObjectUserWithAuth | ObjectRestricted | ObjectSignEncrypt,
				AuthPolicy: []byte{},
				Parms:      Parms{MLDSA: MLDSA65, AllowExternalMu: true},
				Unique:     raw(0x77, 1952)}, &Public{}},
		{"TPMT_PUBLIC HASH_MLDSA, 12.2.3.7: parameterSet, then hashAlg", `
			00A2 000B 00040000 0000
			0003 000D
			0A20 ` + rep("77", 2592),
			&Public{Type: AlgHashMLDSA, NameAlg: AlgSHA256, Attributes: ObjectSignEncrypt, AuthPolicy: []byte{},
				Parms: Parms{MLDSA: MLDSA87, Hash: AlgSHA512}, Unique: raw(0x77, 2592)}, &Public{}},
		{"TPMT_PUBLIC MLKEM storage parent, 12.2.3.8: symmetric first", `
			00A0 000C 00030072 0000
			0006 0100 0043  0002
			04A0 ` + rep("55", 1184),
			&Public{Type: AlgMLKEM, NameAlg: AlgSHA384,
				Attributes: ObjectFixedTPM | ObjectFixedParent | ObjectSensitiveDataOrigin | ObjectUserWithAuth | ObjectRestricted | ObjectDecrypt,
				AuthPolicy: []byte{},
				Parms:      Parms{Symmetric: SymDef{Alg: AlgAES, KeyBits: 256, Mode: AlgCFB}, MLKEM: MLKEM768},
				Unique:     raw(0x55, 1184)}, &Public{}},
		{"TPMT_PUBLIC MLKEM unrestricted: null symmetric", `
			00A0 000B 00020040 0000  0010  0001  0000`,
			&Public{Type: AlgMLKEM, NameAlg: AlgSHA256, Attributes: ObjectUserWithAuth | ObjectDecrypt, AuthPolicy: []byte{},
				Parms: Parms{Symmetric: NoSym, MLKEM: MLKEM512}, Unique: []byte{}}, &Public{}},
		{"TPMT_PUBLIC KEYEDHASH XOR", `
			0008 000B 00000000 0000  000A 000B 0022  0000`,
			&Public{Type: AlgKeyedHash, NameAlg: AlgSHA256, AuthPolicy: []byte{},
				Parms: Parms{Scheme: Scheme{Alg: AlgXOR, Hash: AlgSHA256, KDF: AlgKDF1SP800_108}}, Unique: []byte{}}, &Public{}},
		{"TPMT_SENSITIVE MLKEM: 64-byte seed d, z", "00A0 0000 0020" + rep("AA", 32) + "0040" + rep("BB", 64),
			&Sensitive{Type: AlgMLKEM, Auth: []byte{}, Seed: raw(0xAA, 32), Value: raw(0xBB, 64)}, &Sensitive{}},
		{"TPMT_SENSITIVE MLDSA: 32-byte seed", "00A1 0001 61 0000 0020" + rep("BB", 32),
			&Sensitive{Type: AlgMLDSA, Auth: []byte("a"), Seed: []byte{}, Value: raw(0xBB, 32)}, &Sensitive{}},
		{"TPMT_SIGNATURE RSASSA", "0014 000B 0100" + rep("11", 256), &Signature{Alg: AlgRSASSA, Hash: AlgSHA256, Sig: raw(0x11, 256)}, &Signature{}},
		{"TPMT_SIGNATURE ECDSA", "0018 000C 0030" + rep("11", 48) + "0030" + rep("22", 48),
			&Signature{Alg: AlgECDSA, Hash: AlgSHA384, R: raw(0x11, 48), S: raw(0x22, 48)}, &Signature{}},
		{"TPMT_SIGNATURE MLDSA: no hash", "00A1 0974" + rep("33", 2420), &Signature{Alg: AlgMLDSA, Sig: raw(0x33, 2420)}, &Signature{}},
		{"TPMT_SIGNATURE HASH_MLDSA: hash, then signature", "00A2 000B 0CED" + rep("33", 3309),
			&Signature{Alg: AlgHashMLDSA, Hash: AlgSHA256, Sig: raw(0x33, 3309)}, &Signature{}},
		{"TPMT_SIGNATURE HMAC: digest without size", "0005 000B" + rep("44", 32), &Signature{Alg: AlgHMAC, Hash: AlgSHA256, Sig: raw(0x44, 32)}, &Signature{}},
		{"TPMS_ATTEST quote", `
			FF544347 8018 0004 DEADBEEF 0003 010203
			0000000000001000 00000001 00000002 01  0000000100020003
			00000001 000B 03 0F0080  0020` + rep("99", 32),
			&Attest{Type: STAttestQuote, QualifiedSigner: []byte{0xDE, 0xAD, 0xBE, 0xEF}, ExtraData: []byte{1, 2, 3},
				ClockInfo: ClockInfo{0x1000, 1, 2, true}, FirmwareVersion: 0x0000000100020003,
				Quote: QuoteInfo{[]PCRSelection{{AlgSHA256, []byte{0x0F, 0, 0x80}}}, raw(0x99, 32)}}, &Attest{}},
		{"TPMS_ATTEST NV digest", `
			FF544347 801C 0000 0000
			0000000000000000 00000000 00000000 00  0000000000000000
			0001 AA 0001 BB`,
			&Attest{Type: STAttestNVDigest, QualifiedSigner: []byte{}, ExtraData: []byte{}, NVDigest: NVDigestCertifyInfo{[]byte{0xAA}, []byte{0xBB}}}, &Attest{}},
		{"TPMT_TK_VERIFIED of a digest: metadata is the hash", "8027 40000001 000C 0001 AA",
			&Ticket{Tag: STDigestVerified, Hierarchy: RHOwner, Hash: AlgSHA384, HMAC: []byte{0xAA}}, &Ticket{}},
		{"TPMT_TK_VERIFIED of a message: no metadata", "8026 40000007 0000",
			&Ticket{Tag: STMessageVerified, Hierarchy: RHNull, HMAC: []byte{}}, &Ticket{}},
		{"TPMS_NV_PUBLIC", "01500001 000B 00040004 0000 0020",
			&NVPublic{Index: 0x01500001, NameAlg: AlgSHA256, Attributes: NVAuthWrite | NVAuthRead, AuthPolicy: []byte{}, DataSize: 32}, &NVPublic{}},
		{"TPMS_CREATION_DATA", "00000000 0001 EE 01 000B 0001 AA 0001 BB 0002 CCDD",
			&CreationData{PCRDigest: []byte{0xEE}, Locality: 1, ParentNameAlg: AlgSHA256, ParentName: []byte{0xAA}, ParentQualifiedName: []byte{0xBB},
				OutsideInfo: []byte{0xCC, 0xDD}}, &CreationData{}},
		{"TPMS_ID_OBJECT", "0002 0102 030405", &IDObject{[]byte{1, 2}, []byte{3, 4, 5}}, &IDObject{}},
		{"TPMS_AUTH_COMMAND password", "40000009 0000 01 0001 78", &AuthCommand{RSPW, []byte{}, SessionContinue, []byte("x")}, &AuthCommand{}},
		{"TPMS_CAPABILITY_DATA", "00000006 00000001 00000131 0000007F",
			&CapabilityData{Cap: CapTPMProperties, Properties: []TaggedProperty{{PTMLParameterSets, 0x7F}}}, &CapabilityData{}},
		{"TPMS_ALG_PROPERTY, TPMA_ALGORITHM: ML-KEM, ML-DSA", "00000000 00000002 00A0 00000209 00A1 00000109",
			&CapabilityData{Cap: CapAlgs, Algs: []AlgProperty{{AlgMLKEM, AlgAttrAsymmetric | AlgAttrObject | AlgAttrEncrypting}, {AlgMLDSA, AlgAttrAsymmetric | AlgAttrObject | AlgAttrSigning}}}, &CapabilityData{}},
		{"TPMA_CC: ContextSave, one handle; FlushContext flushes; Load returns a handle", "00000002 00000003 02000162 01000165 12000157",
			&CapabilityData{Cap: CapCommands, Commands: []CCAttributes{0x162 | 1<<25, 0x165 | CCAttrFlushed, 0x157 | 1<<25 | CCAttrRHandle}}, &CapabilityData{}},
		{"TPMS_TAGGED_PCR_SELECT, TPM_PT_PCR", "00000007 00000001 00000012 03 00007E",
			&CapabilityData{Cap: CapPCRProperties, PCRProperties: []TaggedPCRSelect{{PTPCRDRTMReset, []byte{0, 0, 0x7E}}}}, &CapabilityData{}},
		{"TPMS_TAGGED_POLICY", "00000009 00000001 4000000A 0004" + rep("11", 20),
			&CapabilityData{Cap: CapAuthPolicies, Policies: []TaggedPolicy{{RHLockout, HA{AlgSHA1, raw(0x11, 20)}}}}, &CapabilityData{}},
		{"TPMS_ACT_DATA, TPMA_ACT", "0000000A 00000001 40000111 0000000A 00000003",
			&CapabilityData{Cap: CapACT, ACTs: []ACTData{{RHACT0 + 1, 10, ACTSignaled | ACTPreserveSignaled}}}, &CapabilityData{}},
		{"TPMS_SET_CAPABILITY_DATA", "81800001 00001000", &SetCapabilityData{Cap: CapBufferSize, Data: []byte{0, 0, 0x10, 0}}, &SetCapabilityData{}},
		{"TPMS_AC_OUTPUT, TPM_AT, TPM_AE", "00000001 00000000", &ACOutput{ATError, AENone}, &ACOutput{}},
		{"TPML_AC_CAPABILITIES", "00000002 00000002 01020304 80000001 00000005", &acOutputs{[]ACOutput{{ATPV1, 0x01020304}, {ATVend + 1, 5}}}, &acOutputs{}},
		{"TPMS_CERTIFY_INFO", attestHead("8017") + "0002 AABB 0001 CC",
			attestBody(func(a *Attest) { a.Type, a.Certify = STAttestCertify, CertifyInfo{[]byte{0xAA, 0xBB}, []byte{0xCC}} }), &Attest{}},
		{"TPMS_CREATION_INFO", attestHead("801A") + "0001 AA 0001 BB",
			attestBody(func(a *Attest) { a.Type, a.Creation = STAttestCreation, CreationInfo{[]byte{0xAA}, []byte{0xBB}} }), &Attest{}},
		{"TPMS_COMMAND_AUDIT_INFO", attestHead("8015") + "0000000000000007 000B 0001 AA 0001 BB",
			attestBody(func(a *Attest) {
				a.Type, a.CommandAudit = STAttestCommandAudit, CommandAuditInfo{7, AlgSHA256, []byte{0xAA}, []byte{0xBB}}
			}), &Attest{}},
		{"TPMS_SESSION_AUDIT_INFO", attestHead("8016") + "01 0001 AA",
			attestBody(func(a *Attest) { a.Type, a.SessionAudit = STAttestSessionAudit, SessionAuditInfo{true, []byte{0xAA}} }), &Attest{}},
		{"TPMS_TIME_ATTEST_INFO", attestHead("8019") + "0000000000000009 0000000000000008 00000001 00000002 00 0000000000000003",
			attestBody(func(a *Attest) {
				a.Type, a.Time = STAttestTime, TimeAttestInfo{TimeInfo{9, ClockInfo{8, 1, 2, false}}, 3}
			}), &Attest{}},
		{"TPMS_NV_CERTIFY_INFO", attestHead("8014") + "0001 AA 0010 0002 BBCC",
			attestBody(func(a *Attest) { a.Type, a.NV = STAttestNV, NVCertifyInfo{[]byte{0xAA}, 0x10, []byte{0xBB, 0xCC}} }), &Attest{}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			b := unhex(t, c.bytes)
			if err := Decode(b, c.empty); err != nil {
				t.Fatalf("decode: %v", err)
			}
			if !reflect.DeepEqual(c.empty, c.want) {
				t.Errorf("decoded\n%+v\nwant\n%+v", c.empty, c.want)
			}
			out, err := Encode(c.want)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(out, b) {
				t.Errorf("encoded\n%x\nwant\n%x", out, b)
			}
			for n := range b {
				v := reflect.New(reflect.TypeOf(c.empty).Elem()).Interface().(both)
				err := Decode(b[:n], v)
				// TPMS_ID_OBJECT has no end of its own: a shorter encIdentity is well-formed.
				_, open := v.(*IDObject)
				if _, set := v.(*SetCapabilityData); set && n >= 4 {
					open = true // likewise
				}
				if err == nil && !(open && n >= 4) {
					t.Fatalf("first %d of %d bytes accepted", n, len(b))
				}
			}
		})
	}
}

// TestRefusals: each value that a table does not allow has its response code.
func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		name, bytes string
		v           Unmarshaler
		want        RC
	}{
		{"public type", "0004 000B 00000000 0000", &Public{}, RCType},
		{"nameAlg", "0001 0010 00000000 0000", &Public{}, RCHash},
		{"reserved attribute", "0001 000B 00000001 0000", &Public{}, RCReservedBits},
		{"ML-DSA set 0", "00A1 000B 00040000 0000 0000 00 0000", &Public{}, RCParms},
		{"ML-DSA set 4", "00A1 000B 00040000 0000 0004 00 0000", &Public{}, RCParms},
		{"ML-KEM set 4", "00A0 000B 00040000 0000 0010 0004 0000", &Public{}, RCParms},
		{"HashML-DSA null hash", "00A2 000B 00040000 0000 0001 0010 0000", &Public{}, RCHash},
		{"allowExternalMu 2", "00A1 000B 00040000 0000 0001 02 0000", &Public{}, RCValue},
		{"RSA key bits", "0001 000B 00000000 0000 0010 0010 0801 00000000 0000", &Public{}, RCValue},
		{"curve", "0023 000B 00000000 0000 0010 0010 00FF 0010 0000 0000", &Public{}, RCCurve},
		{"kdf", "0023 000B 00000000 0000 0010 0010 0003 0001 0000 0000", &Public{}, RCKDF},
		{"symmetric", "0001 000B 00000000 0000 0001", &Public{}, RCSymmetric},
		{"mode", "0001 000B 00000000 0000 0006 0080 0006", &Public{}, RCMode},
		{"symmetric key bits", "0001 000B 00000000 0000 0006 0081 0043", &Public{}, RCValue},
		{"authPolicy too long", "0001 000B 00000000 0041", &Public{}, RCSize},
		{"signature scheme", "0001", &Signature{}, RCScheme},
		{"null signature", "0010", &Signature{}, RCScheme},
		{"HASH_MLDSA null hash", "00A2 0010 0000", &Signature{}, RCHash},
		{"attest magic", "FF544348 8018", &Attest{}, RCValue},
		{"ticket tag", "8001 40000001 0000", &Ticket{}, RCTag},
		{"ticket hierarchy", "8022 4000000A 0000", &Ticket{}, RCValue},
		{"trailing byte", "0010 00", &SymDef{}, RCSize},
		{"session attributes", "40000009 0000 08 0000", &AuthCommand{}, RCReservedBits},
		{"PCR select size", "000B 02 0000", &PCRSelection{}, RCValue},
		{"empty", "", &Public{}, RCInsufficient},
	} {
		err := Decode(unhex(t, c.bytes), c.v)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

func TestRC(t *testing.T) {
	for _, c := range []struct {
		rc   RC
		want uint32
		pos  Position
		n    int
	}{
		{RCValue.Parameter(1), 0x1C4, PositionParameter, 1},
		{RCValue.Handle(2), 0x284, PositionHandle, 2},
		{RCAuthFail.Session(1), 0x98E, PositionSession, 1},
		{RCHandle.Parameter(9), 0x9CB, PositionParameter, 9},
		{RCInitialize.Parameter(1), 0x100, PositionNone, 0},
		{RCLockout, 0x921, PositionNone, 0},
		{RCValue.Parameter(3).Parameter(1), 0x3C4, PositionParameter, 3},
	} {
		if uint32(c.rc) != c.want {
			t.Errorf("%v: 0x%x, want 0x%x", c.rc, uint32(c.rc), c.want)
		}
		if p, n := c.rc.Position(); p != c.pos || n != c.n {
			t.Errorf("%v: position %v %d, want %v %d", c.rc, p, n, c.pos, c.n)
		}
	}
	err := fmt.Errorf("load: %w", RCValue.Parameter(2))
	if !errors.Is(err, RCValue) || !errors.Is(err, RCValue.Parameter(2)) || errors.Is(err, RCValue.Parameter(1)) || errors.Is(err, RCSize) {
		t.Error("errors.Is does not ignore exactly the position")
	}
	if !RCLockout.IsWarning() || RCInitialize.IsWarning() || RCValue.IsWarning() {
		t.Error("IsWarning")
	}
}
