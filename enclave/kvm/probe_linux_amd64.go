// SPDX-License-Identifier: Apache-2.0

package kvm

import (
	"errors"
	"fmt"
	"runtime"

	"holdfast/enclave/epc"
	"holdfast/enclave/monitor"
	"holdfast/enclave/sgx"
)

// trial is one instruction in ring 3.
type trial struct {
	name string
	op   []byte
	want uint8
	q    quirks
}

// trials are in the order of Found.Deviations.
var trials = []trial{
	{"CPUID", []byte{0x0f, 0xa2}, sgx.VectorUD, quirks{}},
	{"RDTSC with CR4.TSD", []byte{0x0f, 0x31}, sgx.VectorUD, quirks{tsd: true}},
	{"SYSCALL", []byte{0x0f, 0x05}, sgx.VectorUD, quirks{}},
	{"SYSENTER", []byte{0x0f, 0x34}, sgx.VectorUD, quirks{}},
	{"SGDT", []byte{0x0f, 0x01, 0x04, 0x24}, sgx.VectorUD, quirks{}},
	{"SMSW", []byte{0x0f, 0x01, 0xe0}, sgx.VectorUD, quirks{}},
	{"STR", []byte{0x0f, 0x00, 0xc8}, sgx.VectorUD, quirks{}},
	{"IN", []byte{0xe4, 0x80}, sgx.VectorUD, quirks{}},
	{"OUT", []byte{0xe6, 0x80}, sgx.VectorUD, quirks{}},
	{"INT", []byte{0xcd, 0x80}, sgx.VectorUD, quirks{}},
	{"RDPMC", []byte{0x0f, 0x33}, sgx.VectorUD, quirks{}},
	{"VMCALL", []byte{0x0f, 0x01, 0xc1}, sgx.VectorUD, quirks{}},
	{"VMMCALL", []byte{0x0f, 0x01, 0xd9}, sgx.VectorUD, quirks{}},
	{"HLT", []byte{0xf4}, sgx.VectorGP, quirks{}},
	{"RDMSR", []byte{0x0f, 0x32}, sgx.VectorGP, quirks{}},
	{"INT3", []byte{0xcc}, sgx.VectorBP, quirks{}},
}

// probeBase is where the probe's page is.
const probeBase = 0x2000_0000_0000

// Probe runs a few instructions in the mode. An error says why the mode does not
// work here: there is no KVM, or ENCLU does not reach the monitor.
func Probe(mode Mode) (*Found, error) {
	d, err := open()
	if err != nil {
		return nil, err
	}
	defer d.close()
	type result struct {
		f   *Found
		err error
	}
	done := make(chan result, 1)
	go func() { // on a thread of its own, which ends: KVM does not like to change threads
		runtime.LockOSThread()
		f, err := probe(d, mode)
		done <- result{f, err}
	}()
	r := <-done
	return r.f, r.err
}

func probe(d *device, mode Mode) (*Found, error) {
	f := &Found{Mode: mode.String(), Deviations: []string{}}
	got, err := try(d, mode, sgx.OpENCLU[:], quirks{})
	if err != nil {
		return nil, err
	}
	if got != sgx.VectorUD {
		return nil, fmt.Errorf("enclave/kvm: mode %v: ENCLU raises exception %d here, not an invalid opcode", mode, got)
	}
	if mode == P { // in ring 0 few of the others are for the monitor
		return f, nil
	}
	for _, t := range trials {
		got, err := try(d, mode, t.op, t.q)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t.name, err)
		}
		if got != t.want {
			f.Deviations = append(f.Deviations, t.name)
		}
	}
	return f, nil
}

// ran is what try returns for an instruction that raised nothing.
const ran = 0xff

// try runs one instruction and returns the exception that an enclave would see.
func try(d *device, mode Mode, op []byte, q quirks) (uint8, error) {
	m, err := newMachine(d, mode, probeBase, sgx.PageSize, nil)
	if err != nil {
		return 0, err
	}
	defer m.close()
	page := make([]byte, sgx.PageSize)
	n := copy(page, op)
	copy(page[n:], []byte{0x0f, 0x0b}) // UD2
	file, err := epc.MemoryFile("probe", page, 0)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	if err := m.place(probeBase, sgx.PageSize, sgx.PermRWX, int(file.Fd()), 0); err != nil {
		return 0, err
	}
	c, err := m.newCPU(3, q)
	if err != nil {
		return 0, err
	}
	defer c.close()
	r := monitor.Regs{RIP: probeBase, RSP: probeBase + sgx.PageSize - 64, RAX: 0x4444}
	c.load(&r, false)
	for range 1000 {
		x, err := c.step(&r)
		switch {
		case errors.Is(err, errAgain):
		case err != nil:
			return 0, err
		case x.interrupt:
			c.load(&r, false)
		case x.vector == sgx.VectorUD && r.RIP == probeBase+uint64(len(op)):
			return ran, nil
		case x.vector == sgx.VectorGP && illegal(op):
			return sgx.VectorUD, nil
		default:
			return x.vector, nil
		}
	}
	return 0, errors.New("enclave/kvm: the probe was interrupted a thousand times")
}
