// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"errors"

	"holdfast/attest/evidence/internal/det"
)

// Measured is what a launcher records before it starts a program: which file,
// with which content. The record is the data of an event in the log, and the
// PCR is extended with the hash of the record, so that name and content are
// both bound: CBOR map {1: kind, 2: name, 3: SHA-256 of the content}.
type Measured struct {
	Kind   string // what the file is for, such as "file" or "config"; 1 to 32 bytes
	Name   string // 1 to 1024 bytes; for files the absolute path
	SHA256 [32]byte
}

// Encode is the event's data.
func (m *Measured) Encode() []byte {
	var w det.Writer
	w.Map(3)
	w.Uint(1)
	w.Text(m.Kind)
	w.Uint(2)
	w.Text(m.Name)
	w.Uint(3)
	w.Bytes(m.SHA256[:])
	return w.Out()
}

// ParseMeasured reads such data.
func ParseMeasured(b []byte) (*Measured, error) {
	m := &Measured{}
	r := det.NewReader(b)
	needMap(&r, 3)
	r.Key(1)
	m.Kind = r.Text(32)
	r.Key(2)
	m.Name = r.Text(1024)
	r.Key(3)
	fixed(&r, m.SHA256[:])
	if r.Err() == nil && (m.Kind == "" || m.Name == "") {
		r.Fail(errors.New("empty kind or name"))
	}
	if err := r.Done(); err != nil {
		return nil, malformed("measurement record", err)
	}
	return m, nil
}
