// SPDX-License-Identifier: Apache-2.0

package eventlog

import (
	"encoding/binary"
	"fmt"

	"holdfast/attest/evidence"
	"holdfast/tpm2"
)

// measuredTag is the taggedEventID of our records: "HFM1" as a little-endian
// number. The Firmware Profile leaves the values to whoever writes the event.
const measuredTag = 0x314d4648

// MeasuredEvent is the event that records m in the given PCR, with a digest
// for each hash. PCR and log take the same digest: the hash of the event's
// data, so that the quote proves name and content.
func MeasuredEvent(pcr uint32, m *evidence.Measured, hashes []tpm2.Alg) (Event, error) {
	record := m.Encode()
	if _, err := evidence.ParseMeasured(record); err != nil {
		return Event{}, err
	}
	if pcr > maxPCR {
		return Event{}, fmt.Errorf("PCR: expected 0 to %d, got %d", maxPCR, pcr)
	}
	data := binary.LittleEndian.AppendUint32(nil, measuredTag)
	data = binary.LittleEndian.AppendUint32(data, uint32(len(record)))
	e := Event{PCR: pcr, Type: EvEventTag, Data: append(data, record...)}
	for _, a := range hashes {
		h := a.New()
		if h == nil {
			return Event{}, fmt.Errorf("%v is no hash that can be computed here", a)
		}
		h.Write(e.Data)
		e.Digests = append(e.Digests, evidence.Digest{Hash: a, Value: h.Sum(nil)})
	}
	return e, nil
}

// Measured returns the record in e, or nil if e is no event of ours. An event
// that carries our tag but a record that is malformed or not bound by the
// digests is an error: it pretends.
func (e *Event) Measured() (*evidence.Measured, error) {
	if e.Type != EvEventTag || len(e.Data) < 8 || binary.LittleEndian.Uint32(e.Data) != measuredTag {
		return nil, nil
	}
	if n := binary.LittleEndian.Uint32(e.Data[4:]); int64(n) != int64(len(e.Data)-8) {
		return nil, fmt.Errorf("%w: tagged event: expected %d bytes, got %d", ErrMalformed, n, len(e.Data)-8)
	}
	m, err := evidence.ParseMeasured(e.Data[8:])
	if err != nil {
		return nil, err
	}
	if !e.Bound() {
		return nil, fmt.Errorf("%w: the digests of the measurement of %q are not over its record", ErrMalformed, m.Name)
	}
	return m, nil
}
