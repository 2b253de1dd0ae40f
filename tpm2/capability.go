// SPDX-License-Identifier: Apache-2.0

package tpm2

// Cap selects what GetCapability returns, TPM_CAP (Part 2, 6.12).
type Cap uint32

// Capabilities.
const (
	CapAlgs          Cap = 0
	CapHandles       Cap = 1
	CapCommands      Cap = 2
	CapPPCommands    Cap = 3
	CapAuditCommands Cap = 4
	CapPCRs          Cap = 5
	CapTPMProperties Cap = 6
	CapPCRProperties Cap = 7
	CapECCCurves     Cap = 8
	CapAuthPolicies  Cap = 9
	CapACT           Cap = 10
	CapPubKeys       Cap = 11
	CapSPDMSession   Cap = 12
	CapVendor        Cap = 0x100
)

// Capabilities that SetCapability sets (Part 2, 6.12.1): the most significant
// byte says who may.
const (
	CapSettable         Cap = 0x80000000
	CapSettableVendor   Cap = 0x00800000 // the capability is a vendor's
	CapAuthNone         Cap = 0x80000000
	CapAuthPlatform     Cap = 0x81000000
	CapAuthOwner        Cap = 0x82000000
	CapAuthPlatOrOwner  Cap = 0x83000000
	CapAuthEndorsement  Cap = 0x84000000
	CapAuthLockout      Cap = 0x85000000
	capSettableAuthMask Cap = 0xFF000000

	// CapBufferSize, of this project's TPM: the size in bytes of the largest
	// command and response, 4096 or 8192, as a UINT32. The platform sets it.
	CapBufferSize Cap = CapAuthPlatform | CapSettableVendor | 1
)

// SetAuth returns the part of a settable capability that says who may set it.
func (c Cap) SetAuth() Cap { return c & capSettableAuthMask }

// SetCapabilityData is TPMS_SET_CAPABILITY_DATA (Part 2, 10.9.3). What Data
// holds depends on the capability.
type SetCapabilityData struct {
	Cap  Cap
	Data []byte
}

func (c *SetCapabilityData) Marshal(w *Writer) {
	w.U32(uint32(c.Cap))
	w.Raw(c.Data)
}

// Unmarshal reads the structure to the end of r, since only the capability
// says how long its data is.
func (c *SetCapabilityData) Unmarshal(r *Reader) {
	*c = SetCapabilityData{Cap: Cap(r.U32()), Data: r.Rest()}
	if r.err != RCSuccess {
		*c = SetCapabilityData{}
	}
}

// PT is a property of a TPM, TPM_PT (Part 2, 6.13).
type PT uint32

// TPM properties: PTFixed group (does not change), PTVar group (does).
const (
	PTFixed             PT = 0x100
	PTFamilyIndicator   PT = 0x100
	PTLevel             PT = 0x101
	PTRevision          PT = 0x102
	PTDayOfYear         PT = 0x103 // TPM_PT_ERRATA from version 185 on
	PTYear              PT = 0x104
	PTManufacturer      PT = 0x105
	PTVendorString1     PT = 0x106
	PTVendorString2     PT = 0x107
	PTVendorString3     PT = 0x108
	PTVendorString4     PT = 0x109
	PTVendorTPMType     PT = 0x10A
	PTFirmwareVersion1  PT = 0x10B
	PTFirmwareVersion2  PT = 0x10C
	PTInputBuffer       PT = 0x10D
	PTHRTransientMin    PT = 0x10E
	PTHRPersistentMin   PT = 0x10F
	PTHRLoadedMin       PT = 0x110
	PTActiveSessionsMax PT = 0x111
	PTPCRCount          PT = 0x112
	PTPCRSelectMin      PT = 0x113
	PTContextGapMax     PT = 0x114
	PTNVCountersMax     PT = 0x116
	PTNVIndexMax        PT = 0x117
	PTMemory            PT = 0x118
	PTClockUpdate       PT = 0x119
	PTContextHash       PT = 0x11A
	PTContextSym        PT = 0x11B
	PTContextSymSize    PT = 0x11C
	PTOrderlyCount      PT = 0x11D
	PTMaxCommandSize    PT = 0x11E
	PTMaxResponseSize   PT = 0x11F
	PTMaxDigest         PT = 0x120
	PTMaxObjectContext  PT = 0x121
	PTMaxSessionContext PT = 0x122
	PTPSFamilyIndicator PT = 0x123
	PTPSLevel           PT = 0x124
	PTPSRevision        PT = 0x125
	PTPSDayOfYear       PT = 0x126
	PTPSYear            PT = 0x127
	PTSplitMax          PT = 0x128
	PTTotalCommands     PT = 0x129
	PTLibraryCommands   PT = 0x12A
	PTVendorCommands    PT = 0x12B
	PTNVBufferMax       PT = 0x12C
	PTModes             PT = 0x12D
	PTMaxCapBuffer      PT = 0x12E
	PTFirmwareSVN       PT = 0x12F
	PTFirmwareMaxSVN    PT = 0x130
	PTMLParameterSets   PT = 0x131

	PTVar               PT = 0x200
	PTPermanent         PT = 0x200
	PTStartupClear      PT = 0x201
	PTHRNVIndex         PT = 0x202
	PTHRLoaded          PT = 0x203
	PTHRLoadedAvail     PT = 0x204
	PTHRActive          PT = 0x205
	PTHRActiveAvail     PT = 0x206
	PTHRTransientAvail  PT = 0x207
	PTHRPersistent      PT = 0x208
	PTHRPersistentAvail PT = 0x209
	PTNVCounters        PT = 0x20A
	PTNVCountersAvail   PT = 0x20B
	PTAlgorithmSet      PT = 0x20C
	PTLoadedCurves      PT = 0x20D
	PTLockoutCounter    PT = 0x20E
	PTMaxAuthFail       PT = 0x20F
	PTLockoutInterval   PT = 0x210
	PTLockoutRecovery   PT = 0x211
	PTNVWriteRecovery   PT = 0x212
	PTAuditCounter0     PT = 0x213
	PTAuditCounter1     PT = 0x214
)

// PTPCR is a property of PCRs, TPM_PT_PCR (Part 2, 6.14).
type PTPCR uint32

// PCR properties: which PCRs are saved, extended and reset from where.
const (
	PTPCRSave        PTPCR = 0x00
	PTPCRExtendL0    PTPCR = 0x01
	PTPCRResetL0     PTPCR = 0x02
	PTPCRExtendL1    PTPCR = 0x03
	PTPCRResetL1     PTPCR = 0x04
	PTPCRExtendL2    PTPCR = 0x05
	PTPCRResetL2     PTPCR = 0x06
	PTPCRExtendL3    PTPCR = 0x07
	PTPCRResetL3     PTPCR = 0x08
	PTPCRExtendL4    PTPCR = 0x09
	PTPCRResetL4     PTPCR = 0x0A
	PTPCRNoIncrement PTPCR = 0x11
	PTPCRDRTMReset   PTPCR = 0x12
	PTPCRPolicy      PTPCR = 0x13
	PTPCRAuth        PTPCR = 0x14
)

// Bits of the property PTMLParameterSets, TPMA_ML_PARAMETER_SET (Part 2, 8.13).
const (
	MLSetMLKEM512  uint32 = 1 << 0
	MLSetMLKEM768  uint32 = 1 << 1
	MLSetMLKEM1024 uint32 = 1 << 2
	MLSetMLDSA44   uint32 = 1 << 3
	MLSetMLDSA65   uint32 = 1 << 4
	MLSetMLDSA87   uint32 = 1 << 5
	MLSetExtMu     uint32 = 1 << 6
)

// maxCapItems bounds the lists in capability data that a client accepts.
const maxCapItems = 4096

// AlgProperty is TPMS_ALG_PROPERTY (Part 2, 10.8.1).
type AlgProperty struct {
	Alg        Alg
	Properties AlgAttributes
}

// TaggedProperty is TPMS_TAGGED_PROPERTY (Part 2, 10.8.2).
type TaggedProperty struct {
	Property PT
	Value    uint32
}

// TaggedPCRSelect is TPMS_TAGGED_PCR_SELECT (Part 2, 10.8.3).
type TaggedPCRSelect struct {
	Property PTPCR
	Select   []byte // one bit per PCR, lowest first
}

// TaggedPolicy is TPMS_TAGGED_POLICY (Part 2, 10.8.4).
type TaggedPolicy struct {
	Handle Handle
	Policy HA
}

// Bits of ACTData.Attributes, TPMA_ACT (Part 2, 8.12).
const (
	ACTSignaled         uint32 = 1 << 0
	ACTPreserveSignaled uint32 = 1 << 1
)

// ACTData is TPMS_ACT_DATA (Part 2, 10.8.5).
type ACTData struct {
	Handle     Handle
	Timeout    uint32
	Attributes uint32
}

// CapabilityData is TPMS_CAPABILITY_DATA (Part 2, 10.10.2); Cap says which list counts.
type CapabilityData struct {
	Cap           Cap
	Algs          []AlgProperty     // CapAlgs
	Handles       []Handle          // CapHandles
	Commands      []CCAttributes    // CapCommands
	CCs           []CC              // CapPPCommands, CapAuditCommands
	PCRs          []PCRSelection    // CapPCRs
	Properties    []TaggedProperty  // CapTPMProperties
	PCRProperties []TaggedPCRSelect // CapPCRProperties
	Curves        []Curve           // CapECCCurves
	Policies      []TaggedPolicy    // CapAuthPolicies
	ACTs          []ACTData         // CapACT
	PubKeys       []Public          // CapPubKeys
	Vendor        []byte            // CapVendor, raw
	BufferSize    uint32            // CapBufferSize
}

func (c CapabilityData) Marshal(w *Writer) {
	w.U32(uint32(c.Cap))
	switch c.Cap {
	case CapAlgs:
		w.U32(uint32(len(c.Algs)))
		for _, a := range c.Algs {
			w.Alg(a.Alg)
			w.U32(uint32(a.Properties))
		}
	case CapHandles:
		w.U32(uint32(len(c.Handles)))
		for _, h := range c.Handles {
			w.Handle(h)
		}
	case CapCommands:
		w.U32(uint32(len(c.Commands)))
		for _, a := range c.Commands {
			w.U32(uint32(a))
		}
	case CapPPCommands, CapAuditCommands:
		w.U32(uint32(len(c.CCs)))
		for _, a := range c.CCs {
			w.U32(uint32(a))
		}
	case CapPCRs:
		MarshalPCRSelections(w, c.PCRs)
	case CapTPMProperties:
		w.U32(uint32(len(c.Properties)))
		for _, p := range c.Properties {
			w.U32(uint32(p.Property))
			w.U32(p.Value)
		}
	case CapPCRProperties:
		w.U32(uint32(len(c.PCRProperties)))
		for _, p := range c.PCRProperties {
			w.U32(uint32(p.Property))
			w.U8(uint8(len(p.Select)))
			w.Raw(p.Select)
		}
	case CapECCCurves:
		w.U32(uint32(len(c.Curves)))
		for _, v := range c.Curves {
			w.U16(uint16(v))
		}
	case CapAuthPolicies:
		w.U32(uint32(len(c.Policies)))
		for _, p := range c.Policies {
			w.Handle(p.Handle)
			p.Policy.Marshal(w)
		}
	case CapACT:
		w.U32(uint32(len(c.ACTs)))
		for _, a := range c.ACTs {
			w.Handle(a.Handle)
			w.U32(a.Timeout)
			w.U32(a.Attributes)
		}
	case CapPubKeys:
		w.U32(uint32(len(c.PubKeys)))
		for i := range c.PubKeys {
			m := w.Begin()
			c.PubKeys[i].Marshal(w)
			w.End(m)
		}
	case CapVendor:
		w.Raw(c.Vendor)
	case CapBufferSize:
		w.U32(c.BufferSize)
	default:
		w.unknown("TPMS_CAPABILITY_DATA", uint64(c.Cap))
	}
}

// Unmarshal reads capability data as a TPM returns it. Elements of a list are
// not checked against what this package knows, so that newer TPMs can be read.
func (c *CapabilityData) Unmarshal(r *Reader) {
	*c = CapabilityData{Cap: Cap(r.U32())}
	switch c.Cap {
	case CapAlgs:
		for n := r.Count(maxCapItems); n > 0 && r.err == RCSuccess; n-- {
			c.Algs = append(c.Algs, AlgProperty{r.Alg(), AlgAttributes(r.U32())})
		}
	case CapHandles:
		for n := r.Count(maxCapItems); n > 0 && r.err == RCSuccess; n-- {
			c.Handles = append(c.Handles, r.Handle())
		}
	case CapCommands:
		for n := r.Count(maxCapItems); n > 0 && r.err == RCSuccess; n-- {
			c.Commands = append(c.Commands, CCAttributes(r.U32()))
		}
	case CapPPCommands, CapAuditCommands:
		for n := r.Count(maxCapItems); n > 0 && r.err == RCSuccess; n-- {
			c.CCs = append(c.CCs, CC(r.U32()))
		}
	case CapPCRs:
		c.PCRs = UnmarshalPCRSelections(r)
	case CapTPMProperties:
		for n := r.Count(maxCapItems); n > 0 && r.err == RCSuccess; n-- {
			c.Properties = append(c.Properties, TaggedProperty{PT(r.U32()), r.U32()})
		}
	case CapPCRProperties:
		for n := r.Count(maxCapItems); n > 0 && r.err == RCSuccess; n-- {
			p := PTPCR(r.U32())
			c.PCRProperties = append(c.PCRProperties, TaggedPCRSelect{p, r.Bytes(int(r.U8()))})
		}
	case CapECCCurves:
		for n := r.Count(maxCapItems); n > 0 && r.err == RCSuccess; n-- {
			c.Curves = append(c.Curves, Curve(r.U16()))
		}
	case CapAuthPolicies:
		for n := r.Count(maxCapItems); n > 0 && r.err == RCSuccess; n-- {
			p := TaggedPolicy{Handle: r.Handle()}
			p.Policy.UnmarshalNull(r)
			c.Policies = append(c.Policies, p)
		}
	case CapACT:
		for n := r.Count(maxCapItems); n > 0 && r.err == RCSuccess; n-- {
			c.ACTs = append(c.ACTs, ACTData{r.Handle(), r.U32(), r.U32()})
		}
	case CapPubKeys:
		for n := r.Count(64); n > 0 && r.err == RCSuccess; n-- {
			var p Public
			in := r.Nested(maxStruct)
			p.Unmarshal(&in)
			r.Done(&in)
			c.PubKeys = append(c.PubKeys, p)
		}
	case CapVendor:
		c.Vendor = r.Rest()
	case CapBufferSize:
		c.BufferSize = r.U32()
	default:
		r.Fail(RCValue)
	}
	if r.err != RCSuccess {
		*c = CapabilityData{}
	}
}
