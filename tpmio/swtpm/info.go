// SPDX-License-Identifier: Apache-2.0

package swtpm

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"
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
	p, err := k.machine.FixedProperties()
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
