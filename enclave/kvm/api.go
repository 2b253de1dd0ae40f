// SPDX-License-Identifier: Apache-2.0

package kvm

// Requests and layouts of Linux's KVM interface (Documentation/virt/kvm/api.rst,
// include/uapi/linux/kvm.h, arch/x86/include/uapi/asm/kvm.h).
const (
	getAPIVersion       = 0xAE00
	createVM            = 0xAE01
	checkExtension      = 0xAE03
	getVCPUMmapSize     = 0xAE04
	getSupportedCPUID   = 0xC008AE05
	createVCPU          = 0xAE41
	setUserMemoryRegion = 0x4020AE46
	runVCPU             = 0xAE80
	getSregs            = 0x8138AE83
	setMSRs             = 0x4008AE89
	setCPUID2           = 0x4008AE90
	enableCap           = 0x4068AEA3
	getXSave            = 0x9000AEA4
	setXSave            = 0x5000AEA5
	setXCRs             = 0x4188AEA7
	setMSRFilter        = 0x4188AEC6

	apiVersion = 12

	capUserMemory    = 3
	capXSave         = 55
	capXCRs          = 56
	capSyncRegs      = 74
	capReadonlyMem   = 81
	capImmediateExit = 136
	capUserSpaceMSR  = 188
	capMSRFilter     = 189
	capEnforcePV     = 190

	memReadonly = 2 // KVM_MEM_READONLY

	syncRegs   = 1 // KVM_SYNC_X86_REGS
	syncSregs  = 2
	syncEvents = 4
)

// struct kvm_run
const (
	runImmediateExit = 1
	runReason        = 8
	runExit          = 32 // the union
	runValid         = 288
	runDirty         = 296
	runRegs          = 304
	runSregs         = runRegs + 144
	runEvents        = runSregs + sregsSize
	runLeast         = 304 + 2048
)

// struct kvm_sregs
const (
	sregsSize = 312
	segSize   = 24
	segCS     = 0 * segSize
	segDS     = 1 * segSize
	segES     = 2 * segSize
	segFS     = 3 * segSize
	segGS     = 4 * segSize
	segSS     = 5 * segSize
	segTR     = 6 * segSize
	segGDT    = 8 * segSize
	segIDT    = segGDT + 16
	sregCR0   = segIDT + 16
	sregCR2   = sregCR0 + 8
	sregCR3   = sregCR0 + 16
	sregCR4   = sregCR0 + 24
	sregEFER  = sregCR0 + 40
)

// Exit reasons.
const (
	exitIO       = 2
	exitHLT      = 5
	exitMMIO     = 6
	exitShutdown = 8
	exitFail     = 9
	exitSetTPR   = 11
	exitInternal = 17
	exitRDMSR    = 29
	exitWRMSR    = 30
)

// Bits of control registers.
const (
	cr0 = 1<<31 | 1<<18 | 1<<16 | 1<<5 | 1<<4 | 1<<1 | 1 // PG AM WP NE ET MP PE

	cr4PAE        = 1 << 5
	cr4OSFXSR     = 1 << 9
	cr4OSXMMEXCPT = 1 << 10
	cr4TSD        = 1 << 2
	cr4UMIP       = 1 << 11
	cr4FSGSBASE   = 1 << 16
	cr4OSXSAVE    = 1 << 18
	cr4SMEP       = 1 << 20
	cr4SMAP       = 1 << 21

	eferSCE = 1 << 0
	efer    = 1<<8 | 1<<10 | 1<<11 // LME LMA NXE
)

// Machine registers.
const (
	msrPlatformInfo = 0xce
	msrMiscFeatures = 0x140
	msrSTAR         = 0xc0000081
	msrLSTAR        = 0xc0000082
	msrSFMASK       = 0xc0000084
)

// putSeg writes a struct kvm_segment.
func putSeg(b []byte, base uint64, limit uint32, sel uint16, typ, dpl, s, l byte) {
	clear(b[:segSize])
	le.PutUint64(b, base)
	le.PutUint32(b[8:], limit)
	le.PutUint16(b[12:], sel)
	b[14], b[15], b[16], b[18], b[19] = typ, 1, dpl, s, l
	if limit == ^uint32(0) {
		b[20] = 1 // limit in pages
		if typ&8 == 0 {
			b[17] = 1
		}
	}
}

// ring writes code and stack segments of a ring.
func ring(sregs []byte, r int) {
	if r == 0 {
		putSeg(sregs[segCS:], 0, ^uint32(0), selCode0, 11, 0, 1, 1)
		putSeg(sregs[segSS:], 0, ^uint32(0), selData0, 3, 0, 1, 0)
		return
	}
	putSeg(sregs[segCS:], 0, ^uint32(0), selCode3, 11, 3, 1, 1)
	putSeg(sregs[segSS:], 0, ^uint32(0), selData3, 3, 3, 1, 0)
}

// cpuid filters what KVM offers (struct kvm_cpuid2): nothing of KVM itself, no
// virtualization, no SGX. It reports whether the processor has a bit.
type cpuid []byte

const cpuidEntry = 40

func (c cpuid) each(f func(e []byte) (keep bool)) cpuid {
	out := append(cpuid(nil), c[:8]...)
	n := uint32(0)
	for i := 0; i < int(le.Uint32(c)); i++ {
		e := append([]byte(nil), c[8+i*cpuidEntry:][:cpuidEntry]...)
		if f(e) {
			out = append(out, e...)
			n++
		}
	}
	le.PutUint32(out, n)
	return out
}

func (c cpuid) filter() cpuid {
	return c.each(func(e []byte) bool {
		off := func(at int, bits uint32) { le.PutUint32(e[at:], le.Uint32(e[at:])&^bits) }
		switch f := le.Uint32(e); {
		case f>>8 == 0x400000, f == 0x12, f == 0x8000000a, f == 0x8000001f:
			return false
		case f == 1:
			off(20, 1<<5|1<<21|1<<24) // VMX, x2APIC, TSC deadline
		case f == 7 && le.Uint32(e[4:]) == 0:
			off(16, 1<<2) // SGX
			off(20, 1<<30)
		case f == 0x80000001:
			off(20, 1<<2) // SVM
		}
		return true
	})
}

// reg returns a register of a leaf: 0 EAX, 1 EBX, 2 ECX, 3 EDX; 0 if the leaf is
// not there.
func (c cpuid) reg(function, index uint32, reg int) (v uint32) {
	c.each(func(e []byte) bool {
		if le.Uint32(e) == function && le.Uint32(e[4:]) == index {
			v = le.Uint32(e[12+4*reg:])
		}
		return false
	})
	return v
}
