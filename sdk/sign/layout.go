// SPDX-License-Identifier: Apache-2.0

package sign

import (
	"encoding/binary"
	"fmt"

	"holdfast/enclave/sgx"
	"holdfast/enclave/sgx/image"
)

var le = binary.LittleEndian

// Layouts of linux-sgx common/inc/internal: metadata.h (3.x), global_data.h,
// thread_data.h. Sizes in bytes.
const (
	metaMagic   = 0x86A80294635D0E4C
	metaVersion = 3<<32 | 0
	metaSize    = 0x6000
	metaDirs    = 64 + sgx.SigStructSize
	metaData    = metaDirs + 4*8
	globalSize  = 1768
	threadSize  = 192
	tcsSize     = 72 // of the template
	entrySize   = 32
	maxEntries  = 43
	ssaFrames   = 2
	guardPages  = 16
)

// Kinds of layout entries.
const (
	idHeap      = 1
	idTCS       = 4
	idThread    = 5
	idSSA       = 6
	idStack     = 8
	idThreads   = 0x1000 | 9
	idGuard     = 10
	attrAdd     = 1
	attrExtend  = 2
	flagsData   = 0x203 // read, write, regular page
	flagsTCS    = 0x100
	stackFill   = 0xcccccccc
	xfrmLegacy  = 3
	xfrmKnown   = 3 | 6 | 0xe6 | 0x200 | 0x60000
	xfrmPKRU    = 0x200
	xfrmAMX     = 0x60000
	flagsIgnore = 0x00ff000000000000
)

type entry struct {
	id, attr      uint16
	pages         uint32
	rva           uint64
	size, content uint32
	flags         uint64
}

// group repeats the entries before it.
type group struct {
	count uint16
	times uint32
	step  uint64
}

// plan is where everything of the enclave lies.
type plan struct {
	entries  [][entrySize]byte
	size     uint64 // of ELRANGE
	heap     uint64
	tcs      entry // of the first thread
	stack    entry
	ssa, td  entry
	template uint32 // where the TCS template lies in the metadata
}

func (e entry) bytes() (b [entrySize]byte) {
	le.PutUint16(b[0:], e.id)
	le.PutUint16(b[2:], e.attr)
	le.PutUint32(b[4:], e.pages)
	le.PutUint64(b[8:], e.rva)
	le.PutUint32(b[16:], e.size)
	le.PutUint32(b[20:], e.content)
	le.PutUint64(b[24:], e.flags)
	return b
}

func (g group) bytes() (b [entrySize]byte) {
	le.PutUint16(b[0:], idThreads)
	le.PutUint16(b[2:], g.count)
	le.PutUint32(b[4:], g.times)
	le.PutUint64(b[8:], g.step)
	return b
}

// lay puts heap and threads behind the segments: guard, stack, guard, TCS, SSA,
// guard, thread data. template is where the TCS template will lie.
func (s *source) lay(c *Config, template uint32) (*plan, error) {
	p := &plan{template: template}
	at := s.end
	put := func(e entry) entry {
		e.rva = at
		at += uint64(e.pages) * page
		p.entries = append(p.entries, e.bytes())
		return e
	}
	p.heap = at
	if n := c.Get(HeapMaxSize) / page; n > 0 {
		put(entry{id: idHeap, attr: attrAdd, pages: uint32(n), flags: flagsData})
	}
	tlsPages := uint32(0)
	if s.tls > 0 {
		tlsPages = uint32((s.tlsRoom() + page - 1) / page)
	}
	thread := func() {
		put(entry{id: idGuard, pages: guardPages})
		stack := put(entry{id: idStack, attr: attrAdd | attrExtend, pages: uint32(c.Get(StackMaxSize) / page), size: stackFill, flags: flagsData})
		put(entry{id: idGuard, pages: guardPages})
		tcs := put(entry{id: idTCS, attr: attrAdd | attrExtend, pages: 1, size: tcsSize, content: template, flags: flagsTCS})
		ssa := put(entry{id: idSSA, attr: attrAdd | attrExtend, pages: ssaFrames, flags: flagsData})
		put(entry{id: idGuard, pages: guardPages})
		td := put(entry{id: idThread, attr: attrAdd | attrExtend, pages: 1 + tlsPages, flags: flagsData})
		if p.tcs.pages == 0 {
			p.stack, p.tcs, p.ssa, p.td = stack, tcs, ssa, td
		}
	}
	const perThread = 7
	n := c.threads()
	thread()
	if n > 1 {
		before := at
		thread()
		if n > 2 {
			step := at - before
			p.entries = append(p.entries, group{perThread, uint32(n - 2), step}.bytes())
			at += step * uint64(n-2)
		}
	}
	for p.size = 2 * page; p.size < at; p.size *= 2 {
	}
	if p.size > image.MaxSize {
		return nil, fmt.Errorf("sign: the enclave needs %#x bytes, more than %#x: make heap, stacks or the number of threads smaller", at, uint64(image.MaxSize))
	}
	if p.size > at {
		put(entry{id: idGuard, pages: uint32((p.size - at) / page)})
	}
	if len(p.entries) > maxEntries {
		return nil, fmt.Errorf("sign: %d layout entries, more than %d", len(p.entries), maxEntries)
	}
	return p, nil
}

// tlsRoom is the size of the thread-local data below the thread's pointer.
func (s *source) tlsRoom() uint64 { return (s.tls + s.tlsAlign - 1) &^ (s.tlsAlign - 1) }

// thread is the pointer's place (FS and GS) from the TCS.
func (p *plan) threadPointer() uint64 { return p.td.rva + uint64(p.td.pages-1)*page - p.tcs.rva }

// tcsTemplate has places relative to the TCS itself, which the loader adds.
func (p *plan) tcsTemplate(s *source) []byte {
	t := sgx.TCS{OSSA: p.ssa.rva - p.tcs.rva, NSSA: ssaFrames, OEntry: s.entry, OFSBase: p.threadPointer(), OGSBase: p.threadPointer(), FSLimit: 0xffffffff, GSLimit: 0xffffffff}
	return t.AppendTo(nil)[:tcsSize]
}

// global fills g_global_data: what the trusted runtime knows about the enclave.
// before is what the file has there; of it only the runtime's version stays.
func (p *plan) global(s *source, c *Config, before []byte) []byte {
	g := make([]byte, globalSize)
	word := func(at int, v uint64) { le.PutUint64(g[at:], v) }
	copy(g[:8], before[:8])
	word(8, p.size)
	word(16, p.heap)
	word(24, c.Get(HeapMaxSize))
	word(56, c.Get(TCSPolicy))
	word(64, uint64(c.threads()))
	word(72, uint64(c.threads()))
	const td = 80 // thread_data_t, all relative to the TCS
	top := p.stack.rva + uint64(p.stack.pages)*page - p.tcs.rva
	word(td+0, p.threadPointer())               // self_addr
	word(td+8, top)                             // last_sp
	word(td+16, top)                            // stack_base_addr
	word(td+24, p.stack.rva-p.tcs.rva)          // stack_limit_addr
	word(td+32, p.ssa.rva-p.tcs.rva+page-184)   // first_ssa_gpr
	word(td+88, p.ssa.rva-p.tcs.rva)            // first_ssa_xsave
	word(td+104, p.threadPointer()-s.tlsRoom()) // tls_addr
	word(td+112, p.threadPointer()+104)         // tls_array
	copy(g[td+threadSize:], p.tcsTemplate(s))
	at := td + threadSize + tcsSize
	le.PutUint32(g[at:], uint32(len(p.entries)))
	at += 8
	for _, e := range p.entries {
		copy(g[at:], e[:])
		at += entrySize
	}
	return g
}
