// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"bytes"
	"encoding/hex"
	"testing"

	"holdfast/enclave/sgx"
)

// Vectors of RFC 4493 section 4.
func TestCMAC(t *testing.T) {
	key := [16]byte{0x2b, 0x7e, 0x15, 0x16, 0x28, 0xae, 0xd2, 0xa6, 0xab, 0xf7, 0x15, 0x88, 0x09, 0xcf, 0x4f, 0x3c}
	msg, _ := hex.DecodeString("6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e5130c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710")
	for n, want := range map[int]string{0: "bb1d6929e95937287fa37d129b756746", 16: "070a16b46b4d4144f79bdd9dd04a287c", 40: "dfa66747de9ae63030ca32611497c827", 64: "51f0bebf7e3b9d92fc49741779363cfe"} {
		if got := cmac(&key, msg[:n]); hex.EncodeToString(got[:]) != want {
			t.Errorf("%d bytes: %x, want %s", n, got, want)
		}
	}
}

func call(w *world, c *CPU, leaf sgx.ENCLU, rbx, rcx, rdx uint64) Outcome {
	c.Regs.RAX, c.Regs.RBX, c.Regs.RCX, c.Regs.RDX = uint64(leaf), rbx, rcx, rdx
	return w.m.ENCLU(c, nil, 0x77)
}

func TestEREPORT(t *testing.T) {
	w := newWorld(t, tweak{})
	c := w.enter()
	target := &sgx.TargetInfo{MREnclave: [32]byte{1, 2, 3}, Attributes: sgx.Attributes{Flags: 5, XFRM: 3}}
	w.put(dataAt, target.AppendTo(nil))
	w.put(dataAt+0x200, bytes.Repeat([]byte{0xab}, 64))
	if o := call(w, c, sgx.EREPORT, dataAt, dataAt+0x200, dataAt+0x400); !o.OK() {
		t.Fatalf("%+v", o)
	}
	if c.Regs.RIP != 0x77 {
		t.Error("RIP was not moved on")
	}
	r, err := sgx.ParseReport(w.get(dataAt+0x400, sgx.ReportSize))
	if err != nil {
		t.Fatal(err)
	}
	if r.MREnclave != w.e.MREnclave() || r.MRSigner != w.e.MRSigner() || r.ISVProdID != 7 || r.ISVSVN != 3 || r.ReportData[63] != 0xab || r.CPUSVN != [16]byte{5, 5} ||
		r.Attributes != w.e.Attributes() || r.MiscSelect != sgx.MiscExInfo {
		t.Errorf("report %+v", r)
	}
	if !w.m.VerifyReport(r, target) {
		t.Error("the report does not verify for its target")
	}
	other := *target
	other.MREnclave[0] ^= 1
	if w.m.VerifyReport(r, &other) {
		t.Error("the report verifies for another target")
	}
	bad := *r
	bad.ReportData[0] ^= 1
	if w.m.VerifyReport(&bad, target) {
		t.Error("a changed report verifies")
	}
	// refusals
	w.refusedCall("TARGETINFO not aligned", gp, c, sgx.EREPORT, dataAt+256, dataAt+0x200, dataAt+0x400)
	w.refusedCall("REPORTDATA not aligned", gp, c, sgx.EREPORT, dataAt, dataAt+0x240, dataAt+0x400)
	w.refusedCall("output not aligned", gp, c, sgx.EREPORT, dataAt, dataAt+0x200, dataAt+0x480)
	w.refusedCall("output outside", gp, c, sgx.EREPORT, dataAt, dataAt+0x200, 0x1000)
	w.refusedCall("output in code", pf(0), c, sgx.EREPORT, dataAt, dataAt+0x200, codeAt)
	w.refusedCall("output in the TCS", pf(0), c, sgx.EREPORT, dataAt, dataAt+0x200, tcsAt)
	w.refusedCall("TARGETINFO missing", pf(0), c, sgx.EREPORT, base+0x30000, dataAt+0x200, dataAt+0x400)
	w.put(dataAt+200, []byte{1})
	w.refusedCall("TARGETINFO reserved", gp, c, sgx.EREPORT, dataAt, dataAt+0x200, dataAt+0x400)
}

func (w *world) refusedCall(what string, want Outcome, c *CPU, leaf sgx.ENCLU, rbx, rcx, rdx uint64) {
	w.t.Helper()
	w.refused(what, want, func() Outcome { return call(w, c, leaf, rbx, rcx, rdx) })
}

// key asks for a key; ok is false for an error code.
func key(t *testing.T, w *world, c *CPU, k sgx.KeyRequest) (out [16]byte, o Outcome) {
	t.Helper()
	w.put(dataAt, k.AppendTo(nil))
	w.put(dataAt+0x200, make([]byte, 16))
	o = call(w, c, sgx.EGETKEY, dataAt, dataAt+0x200, 0)
	copy(out[:], w.get(dataAt+0x200, 16))
	if o.Vector == 0 && ((o.Code != 0) != (c.Regs.RFLAGS&flagZF != 0) || c.Regs.RAX != uint64(o.Code)) {
		t.Errorf("RAX %d ZF %v with %+v", c.Regs.RAX, c.Regs.RFLAGS&flagZF != 0, o)
	}
	if !o.OK() && out != [16]byte{} {
		t.Errorf("an error left something in the output: %x", out)
	}
	return out, o
}

func TestSealKey(t *testing.T) {
	seal := sgx.KeyRequest{Name: sgx.KeySeal, Policy: sgx.PolicyMREnclave, ISVSVN: 3, CPUSVN: [16]byte{5, 5}, AttrMask: sgx.Attributes{Flags: sgx.FlagDebug, XFRM: 0}}
	signer := seal
	signer.Policy = sgx.PolicyMRSigner
	get := func(tw tweak, k sgx.KeyRequest) [16]byte {
		t.Helper()
		w := newWorld(t, tw)
		out, o := key(t, w, w.enter(), k)
		if !o.OK() {
			t.Fatalf("%+v", o)
		}
		return out
	}
	a := get(tweak{}, seal)
	if a != get(tweak{}, seal) {
		t.Error("the key is not the same after a restart with the same root")
	}
	if a == get(tweak{opt: func(o *Options) { o.Root[0]++ }}, seal) {
		t.Error("another root gives the same key")
	}
	if a == get(tweak{tcs: func(s *sgx.TCS) { s.OEntry = 0x80 }}, seal) {
		t.Error("another enclave gets the same MRENCLAVE key")
	}
	if get(tweak{}, signer) != get(tweak{tcs: func(s *sgx.TCS) { s.OEntry = 0x80 }}, signer) {
		t.Error("two enclaves of one signer do not share the MRSIGNER key")
	}
	if get(tweak{}, signer) == get(tweak{sig: func(s *sgx.SigStruct) { s.ISVProdID = 8 }}, signer) {
		t.Error("another product gets the same key")
	}
	// a newer version reads what an older one sealed, not the other way round
	old := signer
	old.ISVSVN = 2
	if get(tweak{}, old) != get(tweak{sig: func(s *sgx.SigStruct) { s.ISVSVN = 2 }}, old) {
		t.Error("a newer enclave cannot get the older key")
	}
	// DEBUG counts whatever the mask says
	nomask := signer
	nomask.AttrMask = sgx.Attributes{}
	debug := tweak{secs: func(s *sgx.SECS) { s.Attributes.Flags |= sgx.FlagDebug }}
	if get(tweak{}, nomask) == get(debug, nomask) {
		t.Error("a debug enclave gets the production key")
	}
	other := seal
	other.KeyID[5] = 1
	if a == get(tweak{}, other) {
		t.Error("KEYID does not count")
	}
}

func TestReportKeyVerifies(t *testing.T) {
	w := newWorld(t, tweak{})
	c := w.enter()
	// the enclave reports to itself and checks with its own report key
	self := sgx.TargetInfo{MREnclave: w.e.MREnclave(), Attributes: w.e.Attributes(), MiscSelect: sgx.MiscExInfo}
	w.put(dataAt, self.AppendTo(nil))
	if o := call(w, c, sgx.EREPORT, dataAt, dataAt+0x200, dataAt+0x400); !o.OK() {
		t.Fatal(o)
	}
	r, _ := sgx.ParseReport(w.get(dataAt+0x400, sgx.ReportSize))
	k, o := key(t, w, c, sgx.KeyRequest{Name: sgx.KeyReport, KeyID: r.KeyID})
	if !o.OK() || cmac(&k, r.AppendBody(nil)) != r.MAC {
		t.Errorf("%+v: the report key does not verify the report", o)
	}
}

func TestEGETKEYRefuses(t *testing.T) {
	w := newWorld(t, tweak{})
	c := w.enter()
	seal := sgx.KeyRequest{Name: sgx.KeySeal, Policy: 1, ISVSVN: 3, CPUSVN: [16]byte{5, 5}}
	for what, x := range map[string]struct {
		change func(*sgx.KeyRequest)
		want   Outcome
	}{
		"newer ISVSVN":    {func(k *sgx.KeyRequest) { k.ISVSVN = 4 }, code(sgx.InvalidISVSVN)},
		"newer CPUSVN":    {func(k *sgx.KeyRequest) { k.CPUSVN[1] = 6 }, code(sgx.InvalidCPUSVN)},
		"newer CONFIGSVN": {func(k *sgx.KeyRequest) { k.ConfigSVN = 1 }, code(sgx.InvalidISVSVN)},
		"unknown name":    {func(k *sgx.KeyRequest) { k.Name = 9 }, code(sgx.InvalidKeyName)},
		"provision":       {func(k *sgx.KeyRequest) { k.Name = sgx.KeyProvision }, code(sgx.InvalidAttribute)},
		"provision seal":  {func(k *sgx.KeyRequest) { k.Name = sgx.KeyProvisionSeal }, code(sgx.InvalidAttribute)},
		"launch":          {func(k *sgx.KeyRequest) { k.Name = sgx.KeyEInitToken }, code(sgx.InvalidAttribute)},
		"reserved policy": {func(k *sgx.KeyRequest) { k.Policy = 0x40 }, gp},
		"policy of KSS":   {func(k *sgx.KeyRequest) { k.Policy = sgx.PolicyConfigID }, gp},
	} {
		k := seal
		x.change(&k)
		if _, o := key(t, w, c, k); o != x.want {
			t.Errorf("%s: %+v, want %+v", what, o, x.want)
		}
	}
	w.put(dataAt, seal.AppendTo(nil))
	w.refusedCall("not aligned", gp, c, sgx.EGETKEY, dataAt+8, dataAt+0x200, 0)
	w.refusedCall("output not aligned", gp, c, sgx.EGETKEY, dataAt, dataAt+0x208, 0)
	w.refusedCall("output outside", gp, c, sgx.EGETKEY, dataAt, aep&^15, 0)
	w.refusedCall("output in code", pf(0), c, sgx.EGETKEY, dataAt, codeAt, 0)
}
