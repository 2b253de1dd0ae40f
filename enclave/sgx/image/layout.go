// SPDX-License-Identifier: Apache-2.0

package image

import "holdfast/enclave/sgx"

// Attributes of a layout entry.
const (
	attrEADD    = 1
	attrEEXTEND = 2
	attrPostAdd = 8
)

const (
	layoutEntry = 32
	groupFlag   = 0x1000
)

// entry is one layout entry: pages of one kind.
type entry struct {
	id, attr      uint16
	pages         uint32
	rva           uint64
	contentSize   uint32 // or, without content, the dword that fills the pages
	contentOffset uint32
	flags         uint64 // SECINFO.FLAGS
}

// layout adds what follows the segments: heap, guards, stacks, TCS, SSA, TLS. A
// group repeats the entries before it, shifted by load_step, load_times times.
func (b *builder) layout(md *metadata) error {
	d, err := md.dir(dirLayout)
	if err != nil {
		return err
	}
	if len(d)%layoutEntry != 0 {
		return sdkError("layout table of %d bytes is no multiple of %d", len(d), layoutEntry)
	}
	for i := 0; i < len(d); i += layoutEntry {
		e := d[i:]
		id := le.Uint16(e)
		if id&groupFlag == 0 {
			if err := b.entry(md, parseEntry(e), 0); err != nil {
				return err
			}
			continue
		}
		count, times, step := int(le.Uint16(e[2:])), le.Uint32(e[4:]), le.Uint64(e[8:])
		if count == 0 || count*layoutEntry > i {
			return sdkError("group %#x repeats %d entries, but only %d stand before it", id, count, i/layoutEntry)
		}
		if times > MaxPages {
			return sdkError("group %#x is loaded %d times", id, times)
		}
		for t := uint64(1); t <= uint64(times); t++ {
			for j := i - count*layoutEntry; j < i; j += layoutEntry {
				if le.Uint16(d[j:])&groupFlag != 0 {
					return sdkError("group %#x repeats another group", id)
				}
				if err := b.entry(md, parseEntry(d[j:]), t*step); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func parseEntry(e []byte) entry {
	return entry{le.Uint16(e), le.Uint16(e[2:]), le.Uint32(e[4:]), le.Uint64(e[8:]), le.Uint32(e[16:]), le.Uint32(e[20:]), le.Uint64(e[24:])}
}

func (b *builder) entry(md *metadata, e entry, shift uint64) error {
	rva, size := e.rva+shift, uint64(e.pages)*sgx.PageSize
	if rva < shift || rva > b.m.Size || size > b.m.Size-rva {
		return sdkError("layout entry %#x at %#x with %d pages lies outside the enclave", e.id, rva, e.pages)
	}
	if e.attr&attrEADD == 0 || e.flags == 0 { // a guard, or added later
		if e.attr&attrPostAdd != 0 {
			b.m.Metadata.PostAdd = append(b.m.Metadata.PostAdd, Range{rva, size, e.flags, e.id})
		}
		return nil
	}
	if e.attr&attrPostAdd != 0 {
		b.m.Metadata.PostAdd = append(b.m.Metadata.PostAdd, Range{rva, size, e.flags, e.id})
	}
	var raw [sgx.SecInfoSize]byte
	le.PutUint64(raw[:], e.flags)
	info, err := sgx.ParseSecInfo(raw[:])
	if err != nil {
		return err
	}
	var content []byte
	if e.contentOffset != 0 {
		if content, err = md.slice(uint64(e.contentOffset), uint64(e.contentSize)); err != nil {
			return err
		}
		if uint64(len(content)) > size {
			return sdkError("layout entry %#x has %d bytes of content for %d pages", e.id, len(content), e.pages)
		}
	}
	extend := uint16(0)
	if e.attr&attrEEXTEND != 0 {
		extend = 0xffff
	}
	var fill *[sgx.PageSize]byte
	if e.contentOffset == 0 && e.contentSize != 0 {
		fill = new([sgx.PageSize]byte)
		for i := 0; i < sgx.PageSize; i += 4 {
			le.PutUint32(fill[i:], e.contentSize)
		}
	}
	for p := uint64(0); p < uint64(e.pages); p++ {
		data := fill
		if off := p * sgx.PageSize; off < uint64(len(content)) {
			data = new([sgx.PageSize]byte)
			copy(data[:], content[off:])
			if info.Type == sgx.PageTCS {
				relocateTCS(data, rva)
			}
		}
		if err := b.add(Page{Offset: rva + p*sgx.PageSize, Info: info, Data: data, Extend: extend}); err != nil {
			return err
		}
	}
	return nil
}

// relocateTCS adds the page's place to the offsets that the template keeps
// relative to it.
func relocateTCS(tcs *[sgx.PageSize]byte, rva uint64) {
	for _, o := range [...]int{16, 48, 56} { // OSSA, OFSBASE, OGSBASE
		le.PutUint64(tcs[o:], le.Uint64(tcs[o:])+rva)
	}
}
