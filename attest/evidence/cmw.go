// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"holdfast/attest/evidence/internal/det"
)

// Indicator says what kind of conceptual message a CMW record is; a set of
// bits (RFC 9999, section 3.1, cm-type).
type Indicator uint8

// Bits of an Indicator.
const (
	ReferenceValues    Indicator = 1 << 0
	EndorsementMessage Indicator = 1 << 1
	EvidenceMessage    Indicator = 1 << 2
	AttestationResults Indicator = 1 << 3
	AppraisalPolicy    Indicator = 1 << 4

	allIndicators = 1<<5 - 1
)

// Record is one CMW record: [type, value, ? ind].
type Record struct {
	Type  string // media type; the numeric content formats of CoAP are not used here
	Value []byte
	Ind   Indicator // 0: left out
}

// JSON writes the record in its JSON form, with base64url without padding.
func (r Record) JSON() []byte {
	b := append([]byte(nil), `["`...)
	b = append(append(b, r.Type...), `","`...)
	b = base64.RawURLEncoding.AppendEncode(b, r.Value)
	b = append(b, '"')
	if r.Ind != 0 {
		b = strconv.AppendUint(append(b, ','), uint64(r.Ind), 10)
	}
	return append(b, ']')
}

// ParseRecordJSON reads a JSON record. White space between the parts is
// accepted; anything else that JSON() would write differently is refused.
func ParseRecordJSON(b []byte) (*Record, error) {
	const what = "CMW record (JSON)"
	var parts []json.RawMessage
	if err := json.Unmarshal(b, &parts); err != nil {
		return nil, malformed(what, err)
	}
	if len(parts) != 2 && len(parts) != 3 {
		return nil, malformed(what, fmt.Errorf("expected [type, value] or [type, value, ind], got %d parts", len(parts)))
	}
	r := &Record{}
	var value string
	if err := errors.Join(json.Unmarshal(parts[0], &r.Type), json.Unmarshal(parts[1], &value)); err != nil {
		return nil, malformed(what, err)
	}
	if len(parts) == 3 {
		n, err := strconv.ParseUint(string(parts[2]), 10, 8)
		if err != nil || n == 0 || n > allIndicators {
			return nil, malformed(what, fmt.Errorf("indicator: expected 1 to %d, got %.20s", allIndicators, parts[2]))
		}
		r.Ind = Indicator(n)
	}
	var err error
	if r.Value, err = base64.RawURLEncoding.Strict().DecodeString(value); err != nil {
		return nil, malformed(what, err)
	}
	if err := CheckType(r.Type); err != nil {
		return nil, err
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, b); err != nil || !bytes.Equal(compact.Bytes(), r.JSON()) {
		return nil, malformed(what, errors.New("strings with escapes, line breaks or null"))
	}
	return r, nil
}

// CBOR writes the record in its CBOR form, without a tag.
func (r Record) CBOR() []byte {
	var w det.Writer
	r.write(&w)
	return w.Out()
}

func (r Record) write(w *det.Writer) {
	if r.Ind == 0 {
		w.Array(2)
	} else {
		w.Array(3)
	}
	w.Text(r.Type)
	w.Bytes(r.Value)
	if r.Ind != 0 {
		w.Uint(uint64(r.Ind))
	}
}

// ParseRecordCBOR reads a CBOR record in deterministic encoding.
func ParseRecordCBOR(b []byte) (*Record, error) {
	r := det.NewReader(b)
	out := readRecord(&r)
	if err := r.Done(); err != nil {
		return nil, malformed("CMW record (CBOR)", err)
	}
	return out, nil
}

func readRecord(r *det.Reader) *Record {
	n := r.Array(3)
	out := &Record{Type: r.Text(maxType), Value: r.Bytes(MaxEndorsementBody)}
	if n == 3 {
		out.Ind = Indicator(r.Uint(allIndicators))
		if r.Err() == nil && out.Ind == 0 {
			r.Fail(errors.New("an indicator without a bit"))
		}
	} else if r.Err() == nil && n != 2 {
		r.Fail(fmt.Errorf("expected 2 or 3 parts, got %d", n))
	}
	if r.Err() == nil {
		if err := CheckType(out.Type); err != nil {
			r.Fail(err)
		}
	}
	return out
}
