// SPDX-License-Identifier: Apache-2.0

// Package pagetable builds x86-64 page tables of four levels in memory that a
// virtual machine reads (Intel SDM volume 3A, "4-Level Paging"; AMD APM volume
// 2, "Long-Mode Page Translation").
//
// Call [New] with the memory for the tables, then [Table.Map] and [Table.Unmap].
//
// Promises: an entry changes by one atomic store, so a processor that walks the
// tables meanwhile sees the old or the new one. Only leaf entries restrict; the
// accessed and dirty bits are set from the start, so a processor never writes.
//
// Limits: pages of 4096 bytes only. Tables that became empty are kept. Whoever
// changes an entry sees to it that cached translations are forgotten.
package pagetable

import (
	"errors"
	"fmt"
	"sync/atomic"
)

// Flags of a page. Every page that is mapped can be read.
type Flags uint64

// What a page allows (SDM, table "Format of a Page-Table Entry that Maps a
// 4-KByte Page").
const (
	Write Flags = 1 << 1
	User  Flags = 1 << 2
	NoExe Flags = 1 << 63
)

const (
	present  = 1 << 0
	accessed = 1 << 5
	dirty    = 1 << 6
	address  = 0x000f_ffff_ffff_f000
	entries  = 512
	pageSize = 4096
	above    = present | uint64(Write) | uint64(User) | accessed // entries that point to tables
	leafMask = uint64(Write | User | NoExe)
)

// ErrFull says that the memory for tables is used up.
var ErrFull = errors.New("pagetable: no memory is left for a further table")

// Table is the tables of one address space.
type Table struct {
	mem  []uint64
	base uint64
	next uint64 // of the next free table, in entries
}

// New makes empty tables in mem, which must be zero and which the machine sees
// at the physical address base. The first 512 entries become the root.
func New(mem []uint64, base uint64) (*Table, error) {
	if len(mem) < entries || len(mem)%entries != 0 || base&^address != 0 {
		return nil, fmt.Errorf("pagetable: expected whole tables at a page's address, got %d entries at %#x", len(mem), base)
	}
	return &Table{mem: mem, base: base, next: entries}, nil
}

// Root is the physical address for CR3.
func (t *Table) Root() uint64 { return t.base }

// Tables is how many tables at most map size bytes from linear on, beside the
// root.
func Tables(linear, size uint64) int {
	if size == 0 {
		return 0
	}
	n := uint64(0)
	for shift := 21; shift <= 39; shift += 9 {
		n += (linear+size-1)>>shift - linear>>shift + 1
	}
	return int(n)
}

// Canonical reports whether an address is one with four levels: bits 63 to 47
// alike.
func Canonical(linear uint64) bool { return uint64(int64(linear<<16)>>16) == linear }

// leaf finds the entry of a page, making tables on the way if make is set.
func (t *Table) leaf(linear uint64, make bool) (*uint64, error) {
	at := uint64(0)
	for shift := 39; shift > 12; shift -= 9 {
		e := &t.mem[at+linear>>shift%entries]
		v := atomic.LoadUint64(e)
		if v&present == 0 {
			if !make {
				return nil, nil
			}
			if t.next >= uint64(len(t.mem)) {
				return nil, ErrFull
			}
			v = t.base + t.next*8 | above
			t.next += entries
			atomic.StoreUint64(e, v)
		}
		// A machine in P mode can write here; what it wrote leads nowhere else.
		at = (v&address - t.base) / 8
		if at >= uint64(len(t.mem)) {
			return nil, errors.New("pagetable: a table's entry was overwritten")
		}
	}
	return &t.mem[at+linear>>12%entries], nil
}

func check(linear uint64) error {
	if !Canonical(linear) || linear%pageSize != 0 {
		return fmt.Errorf("pagetable: expected the canonical address of a page, got %#x", linear)
	}
	return nil
}

// Map makes the page at a linear address lead to a physical one, in place of
// what was there.
func (t *Table) Map(linear, physical uint64, f Flags) error {
	if err := check(linear); err != nil {
		return err
	}
	if physical&^address != 0 || uint64(f)&^leafMask != 0 {
		return fmt.Errorf("pagetable: expected a physical page address below 2^52 and known flags, got %#x, %#x", physical, uint64(f))
	}
	e, err := t.leaf(linear, true)
	if err != nil {
		return err
	}
	atomic.StoreUint64(e, physical|uint64(f)|present|accessed|dirty)
	return nil
}

// Unmap takes a page away. One that is not there stays away.
func (t *Table) Unmap(linear uint64) error {
	if err := check(linear); err != nil {
		return err
	}
	e, err := t.leaf(linear, false)
	if e != nil {
		atomic.StoreUint64(e, 0)
	}
	return err
}

// Walk translates as a processor would.
func (t *Table) Walk(linear uint64) (physical uint64, f Flags, ok bool) {
	if !Canonical(linear) {
		return 0, 0, false
	}
	e, err := t.leaf(linear, false)
	if e == nil || err != nil {
		return 0, 0, false
	}
	v := atomic.LoadUint64(e)
	if v&present == 0 {
		return 0, 0, false
	}
	return v&address | linear%pageSize, Flags(v & leafMask), true
}
