// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"bytes"
	"debug/elf"
	"encoding/binary"

	"holdfast/enclave/sgx"
	"holdfast/enclave/sgx/image"
)

// Where the parts of the file of SignedSO lie.
const (
	fileCode = 0x1000
	fileData = 0x2000
	fileNote = 0x3000
)

// SignedSO is the enclave as a signed shared object of Intel's SDK, with the
// given numbers of threads and of heap pages. The layout in memory is that of
// Image, with another MRENCLAVE, since its pages are added in another order.
// change, if there is one, is called before it is signed.
func SignedSO(threads, heap int, change func(*sgx.SigStruct)) ([]byte, error) {
	le := binary.LittleEndian
	size := uint64(1 << 18)
	for size < OffHeap+uint64(heap)*sgx.PageSize {
		size *= 2
	}
	const dirs, meta = 64 + sgx.SigStructSize, 64 + sgx.SigStructSize + 32
	const template = 72
	layoutAt := uint32(meta + template + 8)
	m := make([]byte, layoutAt)
	le.PutUint64(m, 0x86A80294635D0E4C)
	le.PutUint64(m[8:], 2<<32|4)
	le.PutUint32(m[20:], 1) // any thread takes any TCS
	le.PutUint32(m[24:], 1) // SSA frame, pages
	le.PutUint32(m[32:], uint32(sgx.MiscExInfo))
	le.PutUint64(m[40:], size)
	le.PutUint64(m[48:], uint64(sgx.FlagMode64))
	le.PutUint64(m[56:], 3)
	copy(m[meta:], (&sgx.TCS{OSSA: OffSSA - OffTCS, NSSA: 2, FSLimit: 0xfff, GSLimit: 0xfff}).AppendTo(nil)[:template])
	entry := func(attr uint16, pages, contentSize, contentOffset uint32, rva, flags uint64) {
		m = le.AppendUint16(m, 1)
		m = le.AppendUint16(m, attr)
		m = le.AppendUint32(m, pages)
		m = le.AppendUint64(m, rva)
		m = le.AppendUint32(m, contentSize)
		m = le.AppendUint32(m, contentOffset)
		m = le.AppendUint64(m, flags)
	}
	const add, addExtend, regRW, tcs = 1, 3, 0x203, 0x100
	for i := range uint64(threads) {
		entry(addExtend, 1, template, meta, OffTCS+i*0x3000, tcs)
		entry(addExtend, 2, 0, 0, OffSSA+i*0x3000, regRW)
	}
	if heap > 0 {
		entry(add, uint32(heap), 0, 0, OffHeap, regRW)
	}
	le.PutUint32(m[16:], uint32(len(m)))
	le.PutUint32(m[dirs+8:], layoutAt)
	le.PutUint32(m[dirs+12:], uint32(len(m))-layoutAt)

	sig := &sgx.SigStruct{Attributes: sgx.Attributes{Flags: sgx.FlagMode64, XFRM: 3}, MiscSelect: sgx.MiscExInfo, MiscMask: ^sgx.MiscSelect(0),
		AttrMask: sgx.Attributes{Flags: ^sgx.FlagDebug, XFRM: ^uint64(4)}, ISVProdID: 3, ISVSVN: 2}
	k, err := Signer()
	if err != nil {
		return nil, err
	}
	if err := sig.Sign(k); err != nil {
		return nil, err
	}
	copy(m[64:], sig.AppendTo(nil))
	img, err := image.ReadSDK(sharedObject(m))
	if err != nil {
		return nil, err
	}
	sig.EnclaveHash = img.Measure()
	if change != nil {
		change(sig)
	}
	if err := sig.Sign(k); err != nil {
		return nil, err
	}
	copy(m[64:], sig.AppendTo(nil))
	return sharedObject(m), nil
}

// sharedObject wraps code, an empty data page and the metadata in ELF.
func sharedObject(meta []byte) []byte {
	const name = "sgx_metadata\x00"
	const names = "\x00.note.sgxmeta\x00.shstrtab\x00"
	note := binary.LittleEndian.AppendUint32(nil, uint32(len(name)))
	note = binary.LittleEndian.AppendUint32(note, uint32(len(meta)))
	note = append(binary.LittleEndian.AppendUint32(note, 1), name...)
	note = append(note, meta...)
	stringsAt := uint64(fileNote + len(note))
	sections := (stringsAt + uint64(len(names)) + 7) &^ 7
	var b bytes.Buffer
	put := func(v any) { _ = binary.Write(&b, binary.LittleEndian, v) } // to memory: never fails
	h := elf.Header64{Type: uint16(elf.ET_DYN), Machine: uint16(elf.EM_X86_64), Version: 1, Phoff: 64, Shoff: sections, Ehsize: 64, Phentsize: 56, Phnum: 2, Shentsize: 64, Shnum: 3, Shstrndx: 2}
	copy(h.Ident[:], "\x7fELF\x02\x01\x01")
	put(h)
	put(elf.Prog64{Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_X), Off: fileCode, Filesz: uint64(len(Code)), Memsz: uint64(len(Code)), Align: sgx.PageSize})
	put(elf.Prog64{Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_W), Off: fileData, Vaddr: OffData, Paddr: OffData, Filesz: sgx.PageSize, Memsz: sgx.PageSize, Align: sgx.PageSize})
	fill := func(to uint64) { b.Write(make([]byte, to-uint64(b.Len()))) }
	fill(fileCode)
	b.Write(Code)
	fill(fileNote)
	b.Write(note)
	b.WriteString(names)
	fill(sections)
	put(elf.Section64{})
	put(elf.Section64{Name: 1, Type: uint32(elf.SHT_NOTE), Off: fileNote, Size: uint64(len(note)), Addralign: 1})
	put(elf.Section64{Name: 15, Type: uint32(elf.SHT_STRTAB), Off: stringsAt, Size: uint64(len(names)), Addralign: 1})
	return b.Bytes()
}
