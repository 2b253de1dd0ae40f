// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"holdfast/attest/evidence/internal/det"
)

// CollectionType names our CMW collection: one record "evidence", and its
// endorsements as "endorsement-0" and so on, in the order in which the report
// needs them.
const CollectionType = "tag:holdfast.invalid,2026:evidence"

// MaxFile bounds a whole collection, in bytes.
const MaxFile = 12 << 20

const (
	typeLabel        = "__cmwc_t" // RFC 9999, section 3.2
	evidenceLabel    = "evidence"
	endorsementLabel = "endorsement-"
)

// Bundle is a report with all endorsements that it needs: what a file holds.
type Bundle struct {
	Report       Report
	Endorsements []Endorsement // as many as Report.Needs, in the same order
}

// NewBundle picks the endorsements that r needs from those given.
func NewBundle(r Report, endorsements []Endorsement) (*Bundle, error) {
	b := &Bundle{Report: r}
next:
	for _, h := range r.Needs {
		for _, e := range endorsements {
			if e.Hash() == h {
				b.Endorsements = append(b.Endorsements, e)
				continue next
			}
		}
		return nil, fmt.Errorf("evidence: the report needs endorsement %x, which is not among the %d given", h, len(endorsements))
	}
	return b, b.check()
}

func (b *Bundle) check() error {
	if err := b.Report.Check(); err != nil {
		return err
	}
	for i, e := range b.Endorsements {
		if err := e.Check(); err != nil {
			return err
		}
		for _, earlier := range b.Endorsements[:i] {
			if earlier.Hash() == e.Hash() {
				return malformed("collection", errors.New("the same endorsement twice"))
			}
		}
	}
	return nil
}

// Endorsement finds an endorsement by its hash; attest/verify asks it.
func (b *Bundle) Endorsement(hash [32]byte) (Endorsement, bool) {
	for i, h := range b.Report.Needs {
		if h == hash && i < len(b.Endorsements) {
			return b.Endorsements[i], true
		}
	}
	return Endorsement{}, false
}

// records are the bundle's labels and records in order.
func (b *Bundle) records() (labels []string, records []Record) {
	labels = append(labels, evidenceLabel)
	records = append(records, Record{b.Report.Type, b.Report.Body, EvidenceMessage})
	for i, e := range b.Endorsements {
		labels = append(labels, endorsementLabel+strconv.Itoa(i))
		records = append(records, Record{e.Type, e.Body, EndorsementMessage})
	}
	return labels, records
}

// fromRecords builds a bundle from the records of a collection, checking that
// each is what its label says.
func fromRecords(labels []string, records []Record) (*Bundle, error) {
	b := &Bundle{}
	for i, r := range records {
		want, ind := evidenceLabel, EvidenceMessage
		if i > 0 {
			want, ind = endorsementLabel+strconv.Itoa(i-1), EndorsementMessage
		}
		if labels[i] != want || r.Ind != ind {
			return nil, malformed("collection", fmt.Errorf("expected %q with indicator %d, got %q with %d", want, ind, labels[i], r.Ind))
		}
		if i == 0 {
			b.Report = Report{Type: r.Type, Body: r.Value}
			continue
		}
		e := Endorsement{Type: r.Type, Body: r.Value}
		b.Endorsements = append(b.Endorsements, e)
		b.Report.Needs = append(b.Report.Needs, e.Hash())
	}
	if err := b.check(); err != nil {
		return nil, err
	}
	return b, nil
}

// CBOR writes the bundle as a CMW collection in deterministic CBOR: shorter
// keys first (RFC 8949, 4.2.1 orders the encoded keys byte by byte).
func (b *Bundle) CBOR() []byte {
	labels, records := b.records()
	var w det.Writer
	w.Map(len(labels) + 1)
	// Encoded text of 8 bytes sorts before that of 13 and more; of the two
	// labels with 8 bytes "__cmwc_t" is the smaller.
	w.Text(typeLabel)
	w.Text(CollectionType)
	for i, l := range labels {
		w.Text(l)
		records[i].write(&w)
	}
	return w.Out()
}

// JSON writes the bundle as a CMW collection in JSON, for people and for
// tools without CBOR.
func (b *Bundle) JSON() []byte {
	labels, records := b.records()
	var out bytes.Buffer
	fmt.Fprintf(&out, "{\n  %q: %q", typeLabel, CollectionType)
	for i, l := range labels {
		fmt.Fprintf(&out, ",\n  %q: %s", l, records[i].JSON())
	}
	out.WriteString("\n}\n")
	return out.Bytes()
}

// ParseFile reads a bundle in either form, told apart by the first byte: a
// JSON object begins with '{' or white space, a CBOR map never does.
func ParseFile(b []byte) (*Bundle, error) {
	if len(b) > MaxFile {
		return nil, malformed("file", fmt.Errorf("expected at most %d bytes, got %d", MaxFile, len(b)))
	}
	if len(b) > 0 && (b[0] == '{' || b[0] <= ' ') {
		return parseJSON(b)
	}
	return parseCBOR(b)
}

func parseCBOR(b []byte) (*Bundle, error) {
	const what = "CMW collection (CBOR)"
	r := det.NewReader(b)
	n := r.Map(MaxNeeds + 2)
	if l, t := r.Text(maxType), r.Text(maxType); r.Err() == nil && (l != typeLabel || t != CollectionType) {
		r.Fail(fmt.Errorf("expected %q: %q first, got %.40q: %.80q", typeLabel, CollectionType, l, t))
	}
	var labels []string
	var records []Record
	for i := 1; i < n && r.Err() == nil; i++ {
		labels = append(labels, r.Text(maxType))
		records = append(records, *readRecord(&r))
	}
	if r.Err() == nil && len(records) == 0 {
		r.Fail(errors.New("no evidence"))
	}
	if err := r.Done(); err != nil {
		return nil, malformed(what, err)
	}
	return fromRecords(labels, records)
}

// parseJSON reads the members in the order in which JSON() writes them, so
// that a name that comes twice cannot mean two things.
func parseJSON(b []byte) (*Bundle, error) {
	const what = "CMW collection (JSON)"
	d := json.NewDecoder(bytes.NewReader(b))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, malformed(what, fmt.Errorf("expected an object: %w", errOr(err, "got something else")))
	}
	var labels []string
	var records []Record
	for i := 0; d.More(); i++ {
		t, err := d.Token()
		if err != nil {
			return nil, malformed(what, err)
		}
		label, _ := t.(string)
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return nil, malformed(what, err)
		}
		if i == 0 {
			var typ string
			if err := json.Unmarshal(raw, &typ); err != nil || label != typeLabel || typ != CollectionType {
				return nil, malformed(what, fmt.Errorf("expected %q: %q first, got %.40q: %.80s", typeLabel, CollectionType, label, raw))
			}
			continue
		}
		if len(records) > MaxNeeds {
			return nil, malformed(what, fmt.Errorf("more than %d endorsements", MaxNeeds))
		}
		r, err := ParseRecordJSON(raw)
		if err != nil {
			return nil, err
		}
		labels, records = append(labels, label), append(records, *r)
	}
	if _, err := d.Token(); err != nil {
		return nil, malformed(what, err)
	}
	if rest := bytes.TrimSpace(b[d.InputOffset():]); len(rest) != 0 {
		return nil, malformed(what, errors.New("bytes follow the object"))
	}
	if len(records) == 0 {
		return nil, malformed(what, errors.New("no evidence"))
	}
	return fromRecords(labels, records)
}

func errOr(err error, text string) error {
	if err != nil {
		return err
	}
	return errors.New(text)
}
