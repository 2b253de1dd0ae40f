// SPDX-License-Identifier: Apache-2.0

package kvm

import (
	_ "embed" // stub.bin
	"encoding/binary"
)

//go:generate sh -c "as -o stub.o testdata/stub.s && objcopy -O binary -j .text stub.o testdata/stub.bin && rm stub.o"

// code is the stub's first page.
//
//go:embed testdata/stub.bin
var code []byte

var le = binary.LittleEndian

// Where things are in the code page (testdata/stub.s).
const (
	codeFlush   = 0x240 // back into the enclave with translations forgotten
	codeResume  = 0x280 // back into the enclave
	codeBackEnd = 0x300 // end of both
	codeStop    = 0x300 // HLT after an exception
	codeSyscall = 0x340 // HLT after SYSCALL
)

// The machine's physical memory. Everything is below 2^40, the least that a
// processor with 64 bit has had.
const (
	physCode    = 0x1000_0000    // code, exception table: cannot be written
	physState   = 0x1001_0000    // processors' pages, page tables
	physEnclave = 0x40_0000_0000 // the enclave's range
	maxRange    = 1 << 38        // of an enclave
	maxCPUs     = 1024
)

// The stub's linear addresses, in the upper half, where ELRANGE cannot be.
const (
	linearCode  = 0xffff_ffff_8000_0000
	linearIDT   = linearCode + 0x1000
	linearRoot  = linearCode + 0x2000 // P: the root page table
	linearState = linearCode + 0x1_0000
)

// A processor's page: descriptors, task state, counters, and above them the
// stack on which the stub runs.
const (
	statePageSize = 4096
	offGDT        = 0
	offTSS        = 0x80
	sizeTSS       = 0x68
	offInterrupts = offTSS + 0x180
	offExceptions = offTSS + 0x188
	frameSize     = 80
	offFrame      = statePageSize - frameSize
)

// Offsets in a frame.
const (
	frameGS     = 8 * iota
	frameFS     // FS base
	frameCR2    // address of a page fault
	frameVector // of the exception
	frameCode   // error code, 0 where there is none
	frameRIP
	frameCS
	frameFlags
	frameRSP
	frameSS
)

// Selectors.
const (
	selCode0 = 0x08
	selData0 = 0x10
	selData3 = 0x1b
	selCode3 = 0x23
	selTSS   = 0x28
)

// idt returns the exception table: 32 gates into the code page. INT3 may come
// from ring 3; any other INT n is a general protection fault. In P every
// exception gets the stub's own stack, since it interrupts ring 0 itself.
func idt(m Mode) []byte {
	b := make([]byte, 32*16)
	for v := range 32 {
		g, at := b[16*v:], linearCode+uint64(16*v)
		le.PutUint16(g, uint16(at))
		le.PutUint16(g[2:], selCode0)
		switch {
		case m == P, v == 2, v == 8, v == 18:
			g[4] = 1 // interrupt stack
		}
		g[5] = 0x8e // present, ring 0, interrupt gate
		if v == 3 {
			g[5] |= 3 << 5
		}
		le.PutUint16(g[6:], uint16(at>>16))
		le.PutUint32(g[8:], uint32(at>>32))
	}
	return b
}

// statePage fills a processor's page, which is at the linear address at.
func statePage(b []byte, at uint64) {
	g := b[offGDT:]
	// The accessed bits are set, so the processor need not.
	le.PutUint64(g[selCode0:], 0x00af9b000000ffff)
	le.PutUint64(g[selData0:], 0x00cf93000000ffff)
	le.PutUint64(g[selData3&^3:], 0x00cff3000000ffff)
	le.PutUint64(g[selCode3&^3:], 0x00affb000000ffff)
	tss := at + offTSS
	le.PutUint64(g[selTSS:], (sizeTSS-1)|tss&0xffffff<<16|0x8b<<40|tss>>24&0xff<<56)
	le.PutUint64(g[selTSS+8:], tss>>32)
	t := b[offTSS:]
	le.PutUint64(t[4:], at+statePageSize)    // RSP0
	le.PutUint64(t[0x24:], at+statePageSize) // IST1
	le.PutUint16(t[0x66:], 0xffff)           // no I/O map: IN and OUT fault
}
