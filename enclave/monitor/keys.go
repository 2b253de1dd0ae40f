// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"crypto/sha256"

	"holdfast/enclave/sgx"
)

// read copies n bytes at a linear address of the enclave that c is in. The
// range must be aligned to align and lie within ELRANGE (#GP), on one page or
// more that the enclave may read (#PF).
func (m *Monitor) read(e *Enclave, linear uint64, b []byte, align uint64) Outcome {
	return m.access(e, linear, b, align, sgx.PermR)
}

func (m *Monitor) write(e *Enclave, linear uint64, b []byte, align uint64) Outcome {
	// First look, then write: a fault in the middle must leave nothing behind.
	if o := m.probe(e, linear, uint64(len(b)), align, sgx.PermR|sgx.PermW); !o.OK() {
		return o
	}
	return m.access(e, linear, b, align, sgx.PermR|sgx.PermW)
}

func (m *Monitor) probe(e *Enclave, linear, n, align uint64, need sgx.Perm) Outcome {
	if linear%align != 0 || !e.contains(linear, n) {
		return gp
	}
	for a := linear &^ (sgx.PageSize - 1); a < linear+n; a += sgx.PageSize {
		p, _ := m.page(e, a)
		if p == nil || p.typ != sgx.PageREG || p.pending || p.modified || p.blocked || p.perm&need != need {
			return pf(a)
		}
	}
	return ok
}

func (m *Monitor) access(e *Enclave, linear uint64, b []byte, align uint64, need sgx.Perm) Outcome {
	if o := m.probe(e, linear, uint64(len(b)), align, need); !o.OK() {
		return o
	}
	for len(b) > 0 {
		_, f := m.page(e, linear)
		page := m.b.Page(f)[linear%sgx.PageSize:]
		n := min(len(b), len(page))
		if need&sgx.PermW != 0 {
			copy(page, b[:n])
		} else {
			copy(b[:n], page)
		}
		b, linear = b[n:], linear+uint64(n)
	}
	return ok
}

// EREPORT writes a REPORT of the enclave for the target in RBX (SDM,
// "EREPORT"): RBX TARGETINFO (aligned to 512), RCX REPORTDATA (128), RDX the
// output (512), all inside ELRANGE.
func (m *Monitor) EREPORT(c *CPU) Outcome {
	e := c.e
	if e == nil {
		return gp
	}
	var tb [sgx.TargetInfoSize]byte
	var r sgx.Report
	if o := m.read(e, c.Regs.RBX, tb[:], 512); !o.OK() {
		return o
	}
	if o := m.read(e, c.Regs.RCX, r.ReportData[:], 128); !o.OK() {
		return o
	}
	if o := m.probe(e, c.Regs.RDX, sgx.ReportSize, 512, sgx.PermR|sgx.PermW); !o.OK() {
		return o
	}
	t, err := sgx.ParseTargetInfo(tb[:])
	if err != nil {
		return gp
	}
	r.CPUSVN, r.MiscSelect, r.Attributes = m.o.CPUSVN, e.secs.MiscSelect, e.Attributes()
	r.MREnclave, r.MRSigner, r.ISVProdID, r.ISVSVN = e.secs.MREnclave, e.secs.MRSigner, e.secs.ISVProdID, e.secs.ISVSVN
	r.ConfigID, r.ConfigSVN = e.secs.ConfigID, e.secs.ConfigSVN
	r.ISVFamilyID, r.ISVExtProdID = e.sig.familyID, e.sig.extProdID
	r.KeyID = m.keyID
	key := m.reportKey(t, m.o.CPUSVN, m.keyID)
	r.MAC = cmac(&key, r.AppendBody(nil))
	clear(key[:])
	return m.write(e, c.Regs.RDX, r.AppendTo(nil), 512)
}

// derivation is what a key is made of (SDM, "Key Derivation"). Fields that a
// key does not use are zero. The whole of it is hashed with the root.
type derivation struct {
	name                   sgx.KeyName
	policy                 sgx.KeyPolicy
	isvProdID, isvSVN      uint16
	configSVN              uint16
	cpuSVN                 [16]byte
	attributes, attrMask   sgx.Attributes
	misc, miscMask         sgx.MiscSelect
	mrEnclave, mrSigner    [32]byte
	keyID                  [32]byte
	configID               [64]byte
	isvFamilyID, isvExtPID [16]byte
}

// derive returns a 128-bit key: the first half of SHA-256("holdfast/sgx/key/v1"
// ‖ root ‖ fields in fixed order and size). SGX uses AES-CMAC under fuses that
// only the processor has; the inputs are its own, the function ours.
func (m *Monitor) derive(d *derivation) (key [16]byte) {
	b := make([]byte, 0, 512)
	b = append(b, "holdfast/sgx/key/v1"...)
	b = append(b, m.o.Root[:]...)
	for _, v := range [...]uint16{uint16(d.name), uint16(d.policy), d.isvProdID, d.isvSVN, d.configSVN} {
		b = le.AppendUint16(b, v)
	}
	b = append(b, d.cpuSVN[:]...)
	for _, v := range [...]uint64{uint64(d.attributes.Flags), d.attributes.XFRM, uint64(d.attrMask.Flags), d.attrMask.XFRM, uint64(d.misc), uint64(d.miscMask)} {
		b = le.AppendUint64(b, v)
	}
	b = append(b, d.mrEnclave[:]...)
	b = append(b, d.mrSigner[:]...)
	b = append(b, d.keyID[:]...)
	b = append(b, d.configID[:]...)
	b = append(b, d.isvFamilyID[:]...)
	b = append(b, d.isvExtPID[:]...)
	h := sha256.Sum256(b)
	clear(b)
	copy(key[:], h[:])
	clear(h[:])
	return key
}

// reportKey is the key with which reports for a target are authenticated.
func (m *Monitor) reportKey(t *sgx.TargetInfo, cpuSVN [16]byte, keyID [32]byte) [16]byte {
	return m.derive(&derivation{
		name: sgx.KeyReport, cpuSVN: cpuSVN, attributes: t.Attributes, misc: t.MiscSelect, mrEnclave: t.MREnclave, keyID: keyID,
		configID: t.ConfigID, configSVN: t.ConfigSVN,
	})
}

// VerifyReport checks a report that was made for the given target on this
// monitor since its start. The quoting part of the platform uses it.
func (m *Monitor) VerifyReport(r *sgx.Report, target *sgx.TargetInfo) bool {
	if r.KeyID != m.keyID || r.CPUSVN != m.o.CPUSVN {
		return false
	}
	key := m.reportKey(target, r.CPUSVN, r.KeyID)
	want := cmac(&key, r.AppendBody(nil))
	clear(key[:])
	return equal(want[:], r.MAC[:])
}

// EGETKEY derives a key for the enclave (SDM, "EGETKEY"): RBX KEYREQUEST
// (aligned to 512), RCX the output (16 bytes, aligned to 16). On an error code
// the output stays as it was.
func (m *Monitor) EGETKEY(c *CPU) Outcome {
	e := c.e
	if e == nil {
		return gp
	}
	var kb [sgx.KeyRequestSize]byte
	if o := m.read(e, c.Regs.RBX, kb[:], 512); !o.OK() {
		return o
	}
	if o := m.probe(e, c.Regs.RCX, 16, 16, sgx.PermR|sgx.PermW); !o.OK() {
		return o
	}
	k, err := sgx.ParseKeyRequest(kb[:])
	if err != nil {
		return gp
	}
	a := e.Attributes()
	if k.Policy&sgx.PolicyKSS != 0 && a.Flags&sgx.FlagKSS == 0 {
		return gp
	}
	d, o := m.request(e, k, a)
	if !o.OK() {
		return o
	}
	key := m.derive(d)
	o = m.write(e, c.Regs.RCX, key[:], 16)
	clear(key[:])
	return o
}

// request turns a KEYREQUEST into a derivation, or says why it may not.
func (m *Monitor) request(e *Enclave, k *sgx.KeyRequest, a sgx.Attributes) (*derivation, Outcome) {
	// INIT and DEBUG always count: a debug enclave never gets a key of a
	// production enclave.
	mask := k.AttrMask.Or(sgx.Attributes{Flags: sgx.FlagInit | sgx.FlagDebug})
	d := &derivation{name: k.Name, cpuSVN: k.CPUSVN, attributes: a.And(mask), attrMask: k.AttrMask, keyID: k.KeyID}
	older := func() Outcome {
		switch {
		case k.CPUSVN != m.o.CPUSVN && !below(k.CPUSVN, m.o.CPUSVN):
			return code(sgx.InvalidCPUSVN)
		case k.ISVSVN > e.secs.ISVSVN, k.ConfigSVN > e.secs.ConfigSVN:
			return code(sgx.InvalidISVSVN)
		}
		return ok
	}
	switch k.Name {
	case sgx.KeyReport:
		// A report key is bound to all of the enclave's own identity.
		return &derivation{name: sgx.KeyReport, cpuSVN: m.o.CPUSVN, attributes: a, misc: e.secs.MiscSelect, mrEnclave: e.secs.MREnclave,
			keyID: k.KeyID, configID: e.secs.ConfigID, configSVN: e.secs.ConfigSVN}, ok
	case sgx.KeySeal:
		if o := older(); !o.OK() {
			return nil, o
		}
		d.policy, d.isvSVN, d.miscMask, d.misc = k.Policy, k.ISVSVN, k.MiscMask, e.secs.MiscSelect&k.MiscMask
		if k.Policy&sgx.PolicyMREnclave != 0 {
			d.mrEnclave = e.secs.MREnclave
		}
		if k.Policy&sgx.PolicyMRSigner != 0 {
			d.mrSigner = e.secs.MRSigner
		}
		if k.Policy&sgx.PolicyNoISVProdID == 0 {
			d.isvProdID = e.secs.ISVProdID
		}
		if k.Policy&sgx.PolicyConfigID != 0 {
			d.configID, d.configSVN = e.secs.ConfigID, k.ConfigSVN
		}
		if k.Policy&sgx.PolicyISVFamilyID != 0 {
			d.isvFamilyID = e.sig.familyID
		}
		if k.Policy&sgx.PolicyISVExtProdID != 0 {
			d.isvExtPID = e.sig.extProdID
		}
		return d, ok
	case sgx.KeyProvision, sgx.KeyProvisionSeal:
		if a.Flags&sgx.FlagProvisionKey == 0 {
			return nil, code(sgx.InvalidAttribute)
		}
		if o := older(); !o.OK() {
			return nil, o
		}
		d.isvProdID, d.isvSVN, d.mrSigner, d.misc, d.miscMask = e.secs.ISVProdID, k.ISVSVN, e.secs.MRSigner, e.secs.MiscSelect&k.MiscMask, k.MiscMask
		if k.Name == sgx.KeyProvision {
			d.keyID = [32]byte{}
		}
		return d, ok
	case sgx.KeyEInitToken:
		if a.Flags&sgx.FlagEInitTokenKey == 0 {
			return nil, code(sgx.InvalidAttribute)
		}
		if o := older(); !o.OK() {
			return nil, o
		}
		d.isvProdID, d.isvSVN, d.mrSigner, d.misc, d.miscMask = e.secs.ISVProdID, k.ISVSVN, e.secs.MRSigner, e.secs.MiscSelect&k.MiscMask, k.MiscMask
		return d, ok
	}
	return nil, code(sgx.InvalidKeyName)
}

// below compares two CPUSVN component by component: every component of a is at
// most that of b.
func below(a, b [16]byte) bool {
	for i := range a {
		if a[i] > b[i] {
			return false
		}
	}
	return true
}
