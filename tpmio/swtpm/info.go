// SPDX-License-Identifier: Apache-2.0

package swtpm

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"

	"holdfast/tpmio/platform"
)

// Flags of GET_INFO.
const (
	infoSpecification = 1
	infoAttributes    = 2
)

// getInfo serves GET_INFO {u64 flags, u32 offset, u32 padding}; the answer is
// {u32 result, u32 total length, u32 length, JSON text with a final NUL}.
func (k *control) getInfo() error {
	a, err := k.take(16)
	if err != nil {
		return err
	}
	flags := binary.BigEndian.Uint64(a)
	offset := binary.BigEndian.Uint32(a[8:])
	text, err := k.info(flags)
	if err == nil && uint64(offset) > uint64(len(text)) {
		return k.answer(resultBadParameter, 0, 0)
	}
	if err != nil {
		return k.answer(k.result("GET_INFO", err), 0, 0)
	}
	out := binary.BigEndian.AppendUint32(nil, resultOK)
	out = binary.BigEndian.AppendUint32(out, uint32(len(text)))
	out = binary.BigEndian.AppendUint32(out, uint32(len(text))-offset)
	_, err = k.c.Write(append(out, text[offset:]...))
	return err
}

// info asks the engine who it is.
func (k *control) info(flags uint64) ([]byte, error) {
	p, err := k.fixedProperties()
	if err != nil {
		return nil, err
	}
	var doc struct {
		Spec *struct {
			Family   string `json:"family"`
			Level    uint32 `json:"level"`
			Revision uint32 `json:"revision"`
		} `json:"TPMSpecification,omitempty"`
		Attr *struct {
			Manufacturer string `json:"manufacturer"`
			Version      string `json:"version"`
			Model        string `json:"model"`
		} `json:"TPMAttributes,omitempty"`
	}
	const ptFixed = 0x100
	text := func(v uint32) string {
		return string([]byte{byte(v >> 24), byte(v >> 16), byte(v >> 8), byte(v)})
	}
	clean := func(s string) string { return strings.TrimRight(s, "\x00 ") }
	if flags&infoSpecification != 0 {
		doc.Spec = &struct {
			Family   string `json:"family"`
			Level    uint32 `json:"level"`
			Revision uint32 `json:"revision"`
		}{clean(text(p[ptFixed])), p[ptFixed+1], p[ptFixed+2]}
	}
	if flags&infoAttributes != 0 {
		doc.Attr = &struct {
			Manufacturer string `json:"manufacturer"`
			Version      string `json:"version"`
			Model        string `json:"model"`
		}{fmt.Sprintf("id:%08X", p[ptFixed+5]), fmt.Sprintf("id:%08X", p[ptFixed+11]),
			clean(text(p[ptFixed+6]) + text(p[ptFixed+7]) + text(p[ptFixed+8]) + text(p[ptFixed+9]))}
	}
	b, err := json.Marshal(doc)
	if err != nil {
		return nil, err
	}
	return append(b, 0), nil
}

// fixedProperties reads TPM_PT_FIXED by TPM2_GetCapability (Part 3, 30.2),
// which needs no authorization.
func (k *control) fixedProperties() (map[uint32]uint32, error) {
	cmd := []byte{0x80, 0x01, 0, 0, 0, 22, 0, 0, 0x01, 0x7a, 0, 0, 0, 6, 0, 0, 1, 0, 0, 0, 0, 32}
	r, err := k.machine.Execute(0, cmd)
	if err != nil {
		return nil, err
	}
	if len(r) < platform.HeaderSize {
		return nil, fmt.Errorf("a response of %d bytes", len(r))
	}
	if rc := binary.BigEndian.Uint32(r[6:]); rc != 0 {
		return nil, fmt.Errorf("TPM2_GetCapability: response code %#x: %w", rc, platform.ErrOff)
	}
	const head = platform.HeaderSize + 1 + 4 + 4 // moreData, capability, count
	if len(r) < head {
		return nil, fmt.Errorf("TPM2_GetCapability: a response of %d bytes", len(r))
	}
	p := map[uint32]uint32{}
	for n := binary.BigEndian.Uint32(r[head-4:]); n > 0 && len(r) >= head+8; n-- {
		p[binary.BigEndian.Uint32(r[head:])] = binary.BigEndian.Uint32(r[head+4:])
		r = r[8:]
	}
	return p, nil
}
