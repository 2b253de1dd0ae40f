// SPDX-License-Identifier: Apache-2.0

package pagetable

import (
	"encoding/binary"
	"errors"
	"testing"
)

// TestEntries compares with values worked out by hand from the SDM's figures.
func TestEntries(t *testing.T) {
	mem := make([]uint64, 6*entries)
	tab, err := New(mem, 0x10000)
	if err != nil {
		t.Fatal(err)
	}
	// linear 0x2000_0040_3000: indices 64, 0, 2, 3
	if err := tab.Map(0x2000_0040_3000, 0x40_0040_3000, Write|User|NoExe); err != nil {
		t.Fatal(err)
	}
	for i, want := range map[int]uint64{64: 0x11027, entries: 0x12027, 2*entries + 2: 0x13027, 3*entries + 3: 0x8000_0040_0040_3067} {
		if mem[i] != want {
			t.Errorf("entry %d: %#x, want %#x", i, mem[i], want)
		}
	}
	if p, f, ok := tab.Walk(0x2000_0040_3abc); !ok || p != 0x40_0040_3abc || f != Write|User|NoExe {
		t.Errorf("%#x %#x %v", p, f, ok)
	}
	if err := tab.Map(0xffff_ffff_8000_0000, 0x1000, 0); err == nil { // needs three more tables; two are left
		t.Error("more tables than memory")
	} else if !errors.Is(err, ErrFull) {
		t.Error(err)
	}
	if err := tab.Unmap(0x2000_0040_3000); err != nil {
		t.Error(err)
	}
	if _, _, ok := tab.Walk(0x2000_0040_3000); ok || mem[3*entries+3] != 0 {
		t.Error("still there")
	}
	for _, bad := range []uint64{1, 1 << 47, 1 << 63} {
		if tab.Map(bad, 0, 0) == nil || tab.Unmap(bad) == nil {
			t.Errorf("%#x was taken", bad)
		}
	}
	if tab.Map(0, 1<<52, 0) == nil || tab.Map(0, 0, 1<<3) == nil || tab.Map(0, 5, 0) == nil {
		t.Error("a bad physical address or flag was taken")
	}
	mem[64] = 0xdead_f000 | present // as an enclave in ring 0 might
	if err := tab.Map(0x2000_0040_3000, 0x1000, 0); err == nil {
		t.Error("an overwritten entry was followed")
	}
	if n := Tables(0x2000_0000_0000, 1<<18); n != 3 {
		t.Errorf("%d tables, want 3", n)
	}
	if n := Tables(1<<21-4096, 8192); n != 4 {
		t.Errorf("%d tables, want 4", n)
	}
	if _, err := New(mem[:5], 0); err == nil {
		t.Error("half a table")
	}
}

// FuzzTable: after any sequence of changes the tables say what a map says.
func FuzzTable(f *testing.F) {
	f.Add([]byte("0123456789abcdef0123456789abcdef"))
	f.Fuzz(func(t *testing.T, ops []byte) {
		tab, err := New(make([]uint64, 64*entries), 0x1000)
		if err != nil {
			t.Fatal(err)
		}
		type page struct {
			physical uint64
			f        Flags
		}
		want := map[uint64]page{}
		for ; len(ops) >= 12; ops = ops[12:] {
			linear := binary.LittleEndian.Uint64(ops) &^ (pageSize - 1)
			physical := uint64(binary.LittleEndian.Uint16(ops[8:])) << 12
			fl := Flags(ops[10])&(Write|User) | Flags(ops[10]>>7)<<63
			if ops[11]&1 != 0 {
				if tab.Unmap(linear) == nil {
					delete(want, linear)
				} else if Canonical(linear) {
					t.Fatal("refused to unmap")
				}
				continue
			}
			switch err := tab.Map(linear, physical, fl); {
			case err == nil:
				want[linear] = page{physical, fl}
			case errors.Is(err, ErrFull):
			case Canonical(linear):
				t.Fatal(err)
			}
		}
		for linear, p := range want {
			if got, fl, ok := tab.Walk(linear | 0x123); !ok || got != p.physical|0x123 || fl != p.f {
				t.Fatalf("%#x: %#x %#x %v, want %#x %#x", linear, got, fl, ok, p.physical, p.f)
			}
		}
	})
}
