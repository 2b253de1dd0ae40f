// SPDX-License-Identifier: Apache-2.0

//go:build linux && amd64

package urts

import (
	"errors"
	"testing"
	"time"

	"holdfast/enclave/epc"
	"holdfast/enclave/monitor"
	"holdfast/enclave/sgx"
)

// TestHostileApplication: what an application must not do with an enclave is
// refused with the exception that the SDM names and counted, and the enclave
// works on.
func TestHostileApplication(t *testing.T) {
	p := platform(t, 128)
	e := load(t, p, 2, Options{})
	at, b := ms(t, e, 16)
	le.PutUint64(b, 0x77)
	ecall(t, e, cmdPut, at)
	stop, flag := ms(t, e, 16)
	looped := make(chan error, 1)
	go func() { looped <- e.ECall(cmdLoop, stop) }()
	var busy *slot
	for deadline := time.Now().Add(time.Minute); busy == nil && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		p.Mu.Lock()
		for _, s := range e.all {
			if s.cpu.Inside() != nil {
				busy = s
			}
		}
		p.Mu.Unlock()
	}
	if busy == nil {
		t.Fatal("no thread entered")
	}
	free := e.all[0]
	if free == busy {
		free = e.all[1]
	}
	const noncanonical = 1 << 62
	for _, c := range []struct {
		what     string
		tcs, aep uint64
		leaf     sgx.ENCLU
		vector   uint8
	}{
		{"a data page as TCS", enclaveBase + 0x20000, aepAddr, sgx.EENTER, sgx.VectorPF},
		{"code as TCS", enclaveBase, aepAddr, sgx.EENTER, sgx.VectorPF},
		{"shared memory as TCS", MemoryAddr, aepAddr, sgx.EENTER, sgx.VectorGP},
		{"a TCS that is not aligned", free.tcs + 8, aepAddr, sgx.EENTER, sgx.VectorGP},
		{"a TCS beyond the enclave", enclaveBase + e.e.Size(), aepAddr, sgx.EENTER, sgx.VectorGP},
		{"the TCS of a thread that is inside", busy.tcs, aepAddr, sgx.EENTER, sgx.VectorGP},
		{"resuming the thread that is inside", busy.tcs, aepAddr, sgx.ERESUME, sgx.VectorGP},
		{"resuming without an interruption", free.tcs, aepAddr, sgx.ERESUME, sgx.VectorGP},
		{"an exit pointer that is no address", free.tcs, noncanonical, sgx.EENTER, sgx.VectorGP},
		{"EEXIT from outside", free.tcs, aepAddr, sgx.EEXIT, sgx.VectorGP},
		{"EGETKEY from outside", free.tcs, aepAddr, sgx.EGETKEY, sgx.VectorGP},
		{"EREPORT from outside", free.tcs, aepAddr, sgx.EREPORT, sgx.VectorGP},
		{"EACCEPT from outside", free.tcs, aepAddr, sgx.EACCEPT, sgx.VectorGP},
	} {
		before := refused(p)
		s := &slot{tcs: c.tcs, t: free.t}
		s.cpu.XSave = make([]byte, len(free.cpu.XSave))
		s.cpu.Regs = monitor.Regs{RBX: c.tcs, RCX: c.aep, RSP: free.stack, RBP: free.stack, XCR0: 7}
		err := e.outside(s, c.leaf, returnAddr)
		var l *LeafError
		if !errors.As(err, &l) || l.Outcome.Vector != c.vector || s.cpu.Inside() != nil {
			t.Errorf("%s: %v, want exception %d", c.what, err, c.vector)
		}
		if refused(p) != before+1 {
			t.Errorf("%s: counted %d times", c.what, refused(p)-before)
		}
	}
	// Buffers that overlap the enclave, or lie beside what is shared.
	for _, a := range []uint64{enclaveBase, enclaveBase + e.e.Size() - 4096} {
		if th, err := p.NewThread(e.e, epc.Shared{Addr: a, Size: 8192, File: e.Memory.File()}); err == nil {
			th.Close()
			t.Errorf("shared memory over the enclave at %#x", a)
		}
	}
	for _, a := range []uint64{enclaveBase, MemoryAddr - 8, MemoryAddr + e.Memory.Size() - 8, ^uint64(7)} {
		if _, err := e.Memory.Bytes(a, 16); err == nil {
			t.Errorf("16 bytes at %#x are shared memory", a)
		}
	}
	flag[0] = 1
	if err := <-looped; err != nil {
		t.Error(err)
	}
	ecall(t, e, cmdGet, at)
	if le.Uint64(b) != 0x77 {
		t.Errorf("the enclave remembers %#x", le.Uint64(b))
	}
}
