// SPDX-License-Identifier: Apache-2.0

package swtpm

import (
	"encoding/binary"
	"errors"
	"fmt"

	"holdfast/tpmio/platform"
)

// getBlob serves GET_STATEBLOB {u32 flags, u32 type, u32 offset}; the answer
// is {u32 result, u32 flags, u32 total length, u32 length, data}.
func (k *control) getBlob() error {
	a, err := k.take(12)
	if err != nil {
		return err
	}
	part := platform.Part(binary.BigEndian.Uint32(a[4:]))
	offset := binary.BigEndian.Uint32(a[8:])
	blob, err := k.machine.State(part)
	result := k.result("GET_STATEBLOB", err)
	if err == nil && uint64(offset) > uint64(len(blob)) {
		result = resultBadParameter
	}
	if result != resultOK {
		clear(blob)
		return k.answer(result, 0, 0, 0)
	}
	data := blob[offset:]
	out := make([]byte, 0, 16+len(data))
	out = binary.BigEndian.AppendUint32(out, resultOK)
	out = binary.BigEndian.AppendUint32(out, 0) // not encrypted
	out = binary.BigEndian.AppendUint32(out, uint32(len(blob)))
	out = binary.BigEndian.AppendUint32(out, uint32(len(data)))
	out = append(out, data...)
	_, err = k.c.Write(out)
	clear(blob)
	clear(out)
	return err
}

// setBlob serves SET_STATEBLOB {u32 flags, u32 type, u32 length, data}.
func (k *control) setBlob() error {
	b, err := k.c.Peek(16)
	if err != nil {
		return err
	}
	flags := binary.BigEndian.Uint32(b[4:])
	part := platform.Part(binary.BigEndian.Uint32(b[8:]))
	n := binary.BigEndian.Uint32(b[12:])
	if n > maxBlob {
		return errors.Join(fmt.Errorf("a state blob of %d bytes, at most %d are taken", n, maxBlob), k.answer(resultBadParameter))
	}
	a, err := k.take(12 + int(n))
	if err != nil {
		return err
	}
	defer clear(a)
	if flags != 0 || part < platform.Permanent || part > platform.SaveState {
		return k.answer(resultBadParameter) // an encrypted blob, or an unknown one
	}
	return k.answer(k.result("SET_STATEBLOB", k.machine.SetState(part, a[12:])))
}
