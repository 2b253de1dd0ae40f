// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"slices"

	"holdfast/softtpm/internal/tpmcrypto"
	"holdfast/tpm2"
)

func init() {
	register(&command{code: tpm2.CCGetCapability, run: getCapability})
	register(&command{code: tpm2.CCTestParms, run: testParms})
	register(&command{code: tpm2.CCSelfTest, flags: fNV, run: selfTest})
	register(&command{code: tpm2.CCIncrementalSelfTest, flags: fNV, run: incrementalSelfTest})
	register(&command{code: tpm2.CCGetTestResult, flags: fEncrypt, run: getTestResult})
}

// algorithms is what TPM_CAP_ALGS tells, ascending.
var algorithms = []tpm2.AlgProperty{
	{Alg: tpm2.AlgRSA, Properties: tpm2.AlgAttrAsymmetric | tpm2.AlgAttrObject},
	{Alg: tpm2.AlgSHA1, Properties: tpm2.AlgAttrHash},
	{Alg: tpm2.AlgHMAC, Properties: tpm2.AlgAttrHash | tpm2.AlgAttrSigning},
	{Alg: tpm2.AlgAES, Properties: tpm2.AlgAttrSymmetric},
	{Alg: tpm2.AlgMGF1, Properties: tpm2.AlgAttrHash | tpm2.AlgAttrMethod},
	{Alg: tpm2.AlgKeyedHash, Properties: tpm2.AlgAttrHash | tpm2.AlgAttrObject | tpm2.AlgAttrSigning | tpm2.AlgAttrEncrypting},
	{Alg: tpm2.AlgXOR, Properties: tpm2.AlgAttrHash | tpm2.AlgAttrSymmetric},
	{Alg: tpm2.AlgSHA256, Properties: tpm2.AlgAttrHash},
	{Alg: tpm2.AlgSHA384, Properties: tpm2.AlgAttrHash},
	{Alg: tpm2.AlgSHA512, Properties: tpm2.AlgAttrHash},
	{Alg: tpm2.AlgSM3_256, Properties: tpm2.AlgAttrHash},
	{Alg: tpm2.AlgSM4, Properties: tpm2.AlgAttrSymmetric},
	{Alg: tpm2.AlgRSASSA, Properties: tpm2.AlgAttrAsymmetric | tpm2.AlgAttrSigning},
	{Alg: tpm2.AlgRSAES, Properties: tpm2.AlgAttrAsymmetric | tpm2.AlgAttrEncrypting},
	{Alg: tpm2.AlgRSAPSS, Properties: tpm2.AlgAttrAsymmetric | tpm2.AlgAttrSigning},
	{Alg: tpm2.AlgOAEP, Properties: tpm2.AlgAttrAsymmetric | tpm2.AlgAttrEncrypting},
	{Alg: tpm2.AlgECDSA, Properties: tpm2.AlgAttrAsymmetric | tpm2.AlgAttrSigning},
	{Alg: tpm2.AlgECDH, Properties: tpm2.AlgAttrAsymmetric | tpm2.AlgAttrMethod},
	{Alg: tpm2.AlgECDAA, Properties: tpm2.AlgAttrAsymmetric | tpm2.AlgAttrSigning},
	{Alg: tpm2.AlgSM2, Properties: tpm2.AlgAttrAsymmetric | tpm2.AlgAttrSigning | tpm2.AlgAttrMethod},
	{Alg: tpm2.AlgECSchnorr, Properties: tpm2.AlgAttrAsymmetric | tpm2.AlgAttrSigning},
	{Alg: tpm2.AlgECMQV, Properties: tpm2.AlgAttrAsymmetric | tpm2.AlgAttrMethod},
	{Alg: tpm2.AlgHKDF, Properties: tpm2.AlgAttrHash | tpm2.AlgAttrMethod},
	{Alg: tpm2.AlgKDF1SP800_56A, Properties: tpm2.AlgAttrHash | tpm2.AlgAttrMethod},
	{Alg: tpm2.AlgKDF1SP800_108, Properties: tpm2.AlgAttrHash | tpm2.AlgAttrMethod},
	{Alg: tpm2.AlgECC, Properties: tpm2.AlgAttrAsymmetric | tpm2.AlgAttrObject},
	{Alg: tpm2.AlgSymCipher, Properties: tpm2.AlgAttrSymmetric | tpm2.AlgAttrObject},
	{Alg: tpm2.AlgSHA3_256, Properties: tpm2.AlgAttrHash},
	{Alg: tpm2.AlgSHA3_384, Properties: tpm2.AlgAttrHash},
	{Alg: tpm2.AlgSHA3_512, Properties: tpm2.AlgAttrHash},
	{Alg: tpm2.AlgCMAC, Properties: tpm2.AlgAttrSymmetric | tpm2.AlgAttrSigning},
	{Alg: tpm2.AlgCTR, Properties: tpm2.AlgAttrSymmetric | tpm2.AlgAttrEncrypting},
	{Alg: tpm2.AlgOFB, Properties: tpm2.AlgAttrSymmetric | tpm2.AlgAttrEncrypting},
	{Alg: tpm2.AlgCBC, Properties: tpm2.AlgAttrSymmetric | tpm2.AlgAttrEncrypting},
	{Alg: tpm2.AlgCFB, Properties: tpm2.AlgAttrSymmetric | tpm2.AlgAttrEncrypting},
	{Alg: tpm2.AlgECB, Properties: tpm2.AlgAttrSymmetric | tpm2.AlgAttrEncrypting},
	{Alg: tpm2.AlgEdDSA, Properties: tpm2.AlgAttrAsymmetric | tpm2.AlgAttrSigning},
	{Alg: tpm2.AlgHashEdDSA, Properties: tpm2.AlgAttrAsymmetric | tpm2.AlgAttrSigning},
	{Alg: tpm2.AlgMLKEM, Properties: tpm2.AlgAttrAsymmetric | tpm2.AlgAttrObject | tpm2.AlgAttrEncrypting},
	{Alg: tpm2.AlgMLDSA, Properties: tpm2.AlgAttrAsymmetric | tpm2.AlgAttrObject | tpm2.AlgAttrSigning},
	{Alg: tpm2.AlgHashMLDSA, Properties: tpm2.AlgAttrAsymmetric | tpm2.AlgAttrObject | tpm2.AlgAttrSigning},
}

// maxCapBuffer is MAX_CAP_BUFFER: the size in bytes of capability data.
const maxCapBuffer = 1024

// page cuts a list to at most count elements from the first that is at least
// property, and to what fits maxCapBuffer; more says whether something was cut.
func page[T any](all []T, key func(T) uint32, property, count uint32, size int) (out []T, more bool) {
	i := 0
	for i < len(all) && key(all[i]) < property {
		i++
	}
	out = all[i:]
	max := (maxCapBuffer - 8) / size
	if uint64(count) < uint64(max) {
		max = int(count)
	}
	if len(out) > max {
		return out[:max], true
	}
	return out, false
}

// getCapability is TPM2_GetCapability (Part 3, 30.2).
func getCapability(c *call) tpm2.RC {
	cap := tpm2.Cap(c.next().U32())
	property := c.next().U32()
	count := c.next().U32()
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	d, more, rc := c.capability(cap, property, count)
	if rc != tpm2.RCSuccess {
		return rc
	}
	c.out.Bool(more)
	d.Marshal(&c.out)
	return tpm2.RCSuccess
}

// capability returns at most count values of a capability from property on,
// and whether there are more. An error is about parameter 1 (cap) or 2
// (property).
func (c *call) capability(cap tpm2.Cap, property, count uint32) (d tpm2.CapabilityData, more bool, rc tpm2.RC) {
	d = tpm2.CapabilityData{Cap: cap}
	switch cap {
	case tpm2.CapAlgs:
		named := slices.DeleteFunc(slices.Clone(algorithms), func(a tpm2.AlgProperty) bool { return !c.t.opt.Profile.names(a.Alg) })
		d.Algs, more = page(named, func(a tpm2.AlgProperty) uint32 { return uint32(a.Alg) }, property, count, 6)
	case tpm2.CapHandles:
		l, ok := c.capHandles(tpm2.Handle(property))
		if !ok {
			return d, false, tpm2.RCHandle.Parameter(2)
		}
		// The list is of this type only; property's low bits may be above all of it.
		d.Handles, more = page(l, func(h tpm2.Handle) uint32 { return uint32(h) }, property, count, 4)
	case tpm2.CapCommands:
		var l []tpm2.CCAttributes
		for _, m := range c.t.table.sorted {
			l = append(l, m.attributes())
		}
		d.Commands, more = page(l, func(a tpm2.CCAttributes) uint32 { return uint32(a.CC()) }, property, count, 4)
	case tpm2.CapPPCommands:
		d.CCs, more = page(sortedCCs(c.st.perm.ppCommands, c.t.table, fPPAlways), func(x tpm2.CC) uint32 { return uint32(x) }, property, count, 4)
	case tpm2.CapAuditCommands:
		d.CCs, more = page(sortedCCs(c.st.perm.audited, c.t.table, 0), func(x tpm2.CC) uint32 { return uint32(x) }, property, count, 4)
	case tpm2.CapPCRs:
		if property != 0 {
			return d, false, tpm2.RCValue.Parameter(2)
		}
		for b, a := range bankAlgs {
			m := c.st.perm.pcrAlloc[b]
			d.PCRs = append(d.PCRs, tpm2.PCRSelection{Hash: a, Select: []byte{byte(m), byte(m >> 8), byte(m >> 16)}})
		}
	case tpm2.CapTPMProperties:
		d.Properties, more = page(c.properties(), func(p tpm2.TaggedProperty) uint32 { return uint32(p.Property) }, property, count, 8)
	case tpm2.CapPCRProperties:
		d.PCRProperties, more = page(pcrProperties(c.st), func(p tpm2.TaggedPCRSelect) uint32 { return uint32(p.Property) }, property, count, 8)
	case tpm2.CapECCCurves:
		var l []tpm2.Curve
		for _, id := range tpmcrypto.CurveIDs() {
			if c.t.opt.Profile.namesCurve(tpm2.Curve(id)) {
				l = append(l, tpm2.Curve(id))
			}
		}
		d.Curves, more = page(l, func(x tpm2.Curve) uint32 { return uint32(x) }, property, count, 2)
	case tpm2.CapAuthPolicies:
		var l []tpm2.TaggedPolicy
		for _, h := range append([]tpm2.Handle{tpm2.RHOwner, tpm2.RHLockout, tpm2.RHEndorsement, tpm2.RHPlatform}, actHandles()...) {
			if p := c.st.policy(h); len(p.Digest) != 0 {
				l = append(l, tpm2.TaggedPolicy{Handle: h, Policy: p})
			}
		}
		if tpm2.Handle(property).Type() != tpm2.HTPermanent {
			return d, false, tpm2.RCValue.Parameter(2)
		}
		d.Policies, more = page(l, func(p tpm2.TaggedPolicy) uint32 { return uint32(p.Handle) }, property, count, 6+tpm2.MaxDigest)
	case tpm2.CapACT:
		if h := tpm2.Handle(property); h < tpm2.RHACT0 || h > tpm2.RHACTF {
			return d, false, tpm2.RCValue.Parameter(2)
		}
		d.ACTs, more = page(c.st.actData(c.now()), func(a tpm2.ACTData) uint32 { return uint32(a.Handle) }, property, count, 12)
	case tpm2.CapBufferSize:
		if property != 0 {
			return d, false, tpm2.RCValue.Parameter(2)
		}
		d.BufferSize = uint32(c.t.commandSize())
	default:
		return d, false, tpm2.RCValue.Parameter(1)
	}
	return d, more, tpm2.RCSuccess
}

// capHandles lists the handles of the type of h, ascending (Part 3, 30.2.1).
func (c *call) capHandles(h tpm2.Handle) (l []tpm2.Handle, ok bool) {
	v := &c.st.volatile
	switch h.Type() {
	case tpm2.HTPCR:
		for p := tpm2.Handle(0); p < numPCRs; p++ {
			l = append(l, p)
		}
	case tpm2.HTNVIndex:
		for _, x := range c.st.perm.nv {
			l = append(l, x.pub.Index)
		}
	case tpm2.HTLoadedSession:
		// Loaded sessions of both kinds, sorted by number as HMAC handles are.
		for _, s := range v.sessions {
			if s != nil && s.handle&0xFFFFFF >= h&0xFFFFFF {
				l = append(l, s.handle)
			}
		}
		slices.Sort(l)
	case tpm2.HTSavedSession:
		for i, saved := range v.savedSessions {
			if saved {
				l = append(l, tpm2.HandlePolicyFirst+tpm2.Handle(i))
			}
		}
	case tpm2.HTPermanent:
		l = []tpm2.Handle{tpm2.RHOwner, tpm2.RHNull, tpm2.RSPW, tpm2.RHLockout, tpm2.RHEndorsement, tpm2.RHPlatform, tpm2.RHPlatformNV}
		l = append(l, actHandles()...)
	case tpm2.HTTransient:
		for i, o := range v.objects {
			if o != nil {
				l = append(l, tpm2.HandleTransientFirst+tpm2.Handle(i))
			}
		}
	case tpm2.HTPersistent:
		for _, o := range c.st.perm.persistent {
			l = append(l, o.handle)
		}
	default:
		return nil, false
	}
	return l, true
}

// sortedCCs lists the commands in m and those with flag f.
func sortedCCs(m map[tpm2.CC]bool, t *table, f flag) []tpm2.CC {
	var l []tpm2.CC
	for _, x := range t.sorted {
		if m[x.code] || f != 0 && x.has(f) {
			l = append(l, x.code)
		}
	}
	return l
}

// fourCC packs four characters as a property value.
func fourCC(s string) uint32 {
	return uint32(s[0])<<24 | uint32(s[1])<<16 | uint32(s[2])<<8 | uint32(s[3])
}

// Version of this TPM's firmware, as attestations carry it.
const firmwareVersion = 0x0001_0000_0000_0000

// properties lists all TPM properties, ascending (Part 2, 6.13).
func (c *call) properties() []tpm2.TaggedProperty {
	o, p, v := &c.t.opt, &c.st.perm, &c.st.volatile
	var vendor, loaded, active, transient, counters uint32
	for _, m := range c.t.table.sorted {
		if m.code&tpm2.CCVend != 0 {
			vendor++
		}
	}
	for i, s := range v.sessions {
		if s != nil {
			loaded++
		}
		if s != nil || v.savedSessions[i] {
			active++
		}
	}
	for _, x := range v.objects {
		if x != nil {
			transient++
		}
	}
	for _, x := range p.nv {
		if x.pub.Attributes.Type() == tpm2.NTCounter {
			counters++
		}
	}
	total := uint32(len(c.t.table.sorted))
	flag := func(on bool, bit uint32) uint32 {
		if on {
			return bit
		}
		return 0
	}
	perm := flag(len(p.ownerAuth) != 0, uint32(tpm2.PermanentOwnerAuthSet)) |
		flag(len(p.endorsementAuth) != 0, uint32(tpm2.PermanentEndorsementAuthSet)) |
		flag(len(p.lockoutAuth) != 0, uint32(tpm2.PermanentLockoutAuthSet)) |
		flag(p.disableClear, uint32(tpm2.PermanentDisableClear)) |
		flag(c.t.lockedOut(failDA), uint32(tpm2.PermanentInLockout)) |
		flag(true, uint32(tpm2.PermanentTPMGeneratedEPS))
	start := flag(v.phEnable, uint32(tpm2.StartupPHEnable)) |
		flag(c.st.clear.shEnable, uint32(tpm2.StartupSHEnable)) |
		flag(c.st.clear.ehEnable, uint32(tpm2.StartupEHEnable)) |
		flag(c.st.clear.phEnableNV, uint32(tpm2.StartupPHEnableNV)) |
		flag(c.st.clear.readOnly, uint32(tpm2.StartupReadOnly)) |
		flag(v.prevOrderly != suNone, uint32(tpm2.StartupOrderly))
	size := uint32(c.t.commandSize())
	return []tpm2.TaggedProperty{
		{Property: tpm2.PTFamilyIndicator, Value: fourCC("2.0\x00")},
		{Property: tpm2.PTLevel, Value: 0},
		{Property: tpm2.PTRevision, Value: 185},
		{Property: tpm2.PTDayOfYear, Value: 1}, // Errata version 1 (Errata, 2.1)
		{Property: tpm2.PTYear, Value: 0},
		{Property: tpm2.PTManufacturer, Value: fourCC("HDFT")},
		{Property: tpm2.PTVendorString1, Value: fourCC("SW  ")},
		{Property: tpm2.PTVendorString2, Value: fourCC(" TPM")},
		{Property: tpm2.PTVendorString3, Value: 0},
		{Property: tpm2.PTVendorString4, Value: 0},
		{Property: tpm2.PTVendorTPMType, Value: 1},
		{Property: tpm2.PTFirmwareVersion1, Value: firmwareVersion >> 32},
		{Property: tpm2.PTFirmwareVersion2, Value: firmwareVersion & 0xFFFFFFFF},
		{Property: tpm2.PTInputBuffer, Value: tpm2.MaxBuffer},
		{Property: tpm2.PTHRTransientMin, Value: uint32(o.Objects)},
		{Property: tpm2.PTHRPersistentMin, Value: 7},
		{Property: tpm2.PTHRLoadedMin, Value: uint32(o.Sessions)},
		{Property: tpm2.PTActiveSessionsMax, Value: maxSessions},
		{Property: tpm2.PTPCRCount, Value: numPCRs},
		{Property: tpm2.PTPCRSelectMin, Value: tpm2.PCRSelectMin},
		{Property: tpm2.PTContextGapMax, Value: 0xFFFF},
		{Property: tpm2.PTNVCountersMax, Value: 0},
		{Property: tpm2.PTNVIndexMax, Value: tpm2.MaxNVBuffer},
		{Property: tpm2.PTMemory, Value: 0x06}, // objects in RAM share it, persistent ones are copied
		{Property: tpm2.PTClockUpdate, Value: clockInterval},
		{Property: tpm2.PTContextHash, Value: uint32(ticketHash)},
		{Property: tpm2.PTContextSym, Value: uint32(tpm2.AlgAES)},
		{Property: tpm2.PTContextSymSize, Value: 256},
		{Property: tpm2.PTOrderlyCount, Value: 0xFF},
		{Property: tpm2.PTMaxCommandSize, Value: size},
		{Property: tpm2.PTMaxResponseSize, Value: size},
		{Property: tpm2.PTMaxDigest, Value: tpm2.MaxDigest},
		{Property: tpm2.PTMaxObjectContext, Value: size},
		{Property: tpm2.PTMaxSessionContext, Value: 1024},
		{Property: tpm2.PTPSFamilyIndicator, Value: 1}, // PC Client
		{Property: tpm2.PTPSLevel, Value: 0},
		{Property: tpm2.PTPSRevision, Value: 0x105},
		{Property: tpm2.PTPSDayOfYear, Value: 0},
		{Property: tpm2.PTPSYear, Value: 0},
		{Property: tpm2.PTSplitMax, Value: commitBits},
		{Property: tpm2.PTTotalCommands, Value: total},
		{Property: tpm2.PTLibraryCommands, Value: total - vendor},
		{Property: tpm2.PTVendorCommands, Value: vendor},
		{Property: tpm2.PTNVBufferMax, Value: nvBufferMax},
		{Property: tpm2.PTModes, Value: 0},
		{Property: tpm2.PTMaxCapBuffer, Value: maxCapBuffer},
		{Property: tpm2.PTFirmwareSVN, Value: 0},
		{Property: tpm2.PTFirmwareMaxSVN, Value: 0},
		{Property: tpm2.PTMLParameterSets, Value: tpm2.MLSetMLKEM512 | tpm2.MLSetMLKEM768 | tpm2.MLSetMLKEM1024 |
			tpm2.MLSetMLDSA44 | tpm2.MLSetMLDSA65 | tpm2.MLSetMLDSA87 | tpm2.MLSetExtMu},

		{Property: tpm2.PTPermanent, Value: perm},
		{Property: tpm2.PTStartupClear, Value: start},
		{Property: tpm2.PTHRNVIndex, Value: uint32(len(p.nv))},
		{Property: tpm2.PTHRLoaded, Value: loaded},
		{Property: tpm2.PTHRLoadedAvail, Value: uint32(o.Sessions) - loaded},
		{Property: tpm2.PTHRActive, Value: active},
		{Property: tpm2.PTHRActiveAvail, Value: maxSessions - active},
		{Property: tpm2.PTHRTransientAvail, Value: uint32(o.Objects) - transient},
		{Property: tpm2.PTHRPersistent, Value: uint32(len(p.persistent))},
		{Property: tpm2.PTHRPersistentAvail, Value: uint32(o.PersistentObjects - len(p.persistent))},
		{Property: tpm2.PTNVCounters, Value: counters},
		{Property: tpm2.PTNVCountersAvail, Value: uint32(o.NVIndices - len(p.nv))},
		{Property: tpm2.PTAlgorithmSet, Value: p.algorithmSet},
		{Property: tpm2.PTLoadedCurves, Value: uint32(len(tpmcrypto.CurveIDs()))},
		{Property: tpm2.PTLockoutCounter, Value: p.failedTries},
		{Property: tpm2.PTMaxAuthFail, Value: p.maxTries},
		{Property: tpm2.PTLockoutInterval, Value: p.recoveryTime},
		{Property: tpm2.PTLockoutRecovery, Value: p.lockoutRecovery},
		{Property: tpm2.PTNVWriteRecovery, Value: 0},
		{Property: tpm2.PTAuditCounter0, Value: uint32(p.auditCount >> 32)},
		{Property: tpm2.PTAuditCounter1, Value: uint32(p.auditCount)},
	}
}

// nvBufferMax is the largest piece of NV data in one command.
const nvBufferMax = 1024

// pcrProperties lists which PCRs have which property, ascending.
func pcrProperties(s *state) []tpm2.TaggedPCRSelect {
	sel := func(f func(p int) bool) []byte {
		var m uint32
		for p := 0; p < numPCRs; p++ {
			if f(p) {
				m |= 1 << p
			}
		}
		return []byte{byte(m), byte(m >> 8), byte(m >> 16)}
	}
	l := []tpm2.TaggedPCRSelect{{Property: tpm2.PTPCRSave, Select: sel(func(p int) bool { return pcrAttrs[p].save })}}
	for loc := 0; loc <= 4; loc++ {
		l = append(l,
			tpm2.TaggedPCRSelect{Property: tpm2.PTPCRExtendL0 + tpm2.PTPCR(2*loc), Select: sel(func(p int) bool { return pcrAttrs[p].extend>>loc&1 == 1 })},
			tpm2.TaggedPCRSelect{Property: tpm2.PTPCRResetL0 + tpm2.PTPCR(2*loc), Select: sel(func(p int) bool { return pcrAttrs[p].reset>>loc&1 == 1 })})
	}
	return append(l,
		tpm2.TaggedPCRSelect{Property: tpm2.PTPCRNoIncrement, Select: sel(func(p int) bool { return pcrAttrs[p].noIncrement })},
		tpm2.TaggedPCRSelect{Property: tpm2.PTPCRDRTMReset, Select: sel(isDRTM)},
		tpm2.TaggedPCRSelect{Property: tpm2.PTPCRPolicy, Select: sel(func(p int) bool { return len(s.perm.pcrPolicies[p].Digest) != 0 })},
		tpm2.TaggedPCRSelect{Property: tpm2.PTPCRAuth, Select: sel(func(p int) bool { return len(s.clear.pcrAuth[p]) != 0 })})
}

// testParms is TPM2_TestParms (Part 3, 30.3).
func testParms(c *call) tpm2.RC {
	var p tpm2.Parms
	r := c.next()
	t := r.Alg()
	p.Unmarshal(r, t)
	parmsImplemented(r, t, &p)
	if t == tpm2.AlgECC && r.Code() == tpm2.RCSuccess {
		if rc := checkCurveScheme(&p); rc != tpm2.RCSuccess {
			r.Fail(rc)
		}
	}
	return c.done()
}

// selfTest is TPM2_SelfTest (Part 3, 10.2). The algorithms are Go's and this
// program's own code, tested when they are built; there is no hardware to test.
func selfTest(c *call) tpm2.RC {
	c.next().Bool()
	return c.done()
}

// incrementalSelfTest is TPM2_IncrementalSelfTest (Part 3, 10.3): nothing is left to do.
func incrementalSelfTest(c *call) tpm2.RC {
	r := c.next()
	for n := r.Count(64); n > 0; n-- {
		a := r.Alg()
		if r.Code() == tpm2.RCSuccess && !slices.ContainsFunc(algorithms, func(x tpm2.AlgProperty) bool { return x.Alg == a }) {
			r.Fail(tpm2.RCValue)
		}
	}
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	c.out.U32(0)
	return tpm2.RCSuccess
}

// getTestResult is TPM2_GetTestResult (Part 3, 10.4).
func getTestResult(c *call) tpm2.RC {
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	c.out.Sized(nil)
	if c.t.failed {
		c.out.U32(uint32(tpm2.RCFailure))
	} else {
		c.out.U32(uint32(tpm2.RCSuccess))
	}
	return tpm2.RCSuccess
}
