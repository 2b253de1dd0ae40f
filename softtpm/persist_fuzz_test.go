// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"bytes"
	"errors"
	"testing"

	"holdfast/tpm2"
)

// FuzzState: a state file is read to the last bit or refused. What is accepted
// is written again as the same bytes, and a refusal changes nothing and has the
// one error that says so.
func FuzzState(f *testing.F) {
	p := replayTPM(f)
	p.Execute(0, []byte{0x80, 0x01, 0, 0, 0, 12, 0, 0, 1, 0x44, 0, 0}) // TPM2_Startup(CLEAR)
	perm, err := p.PermanentState()
	if err != nil {
		f.Fatal(err)
	}
	vol, err := p.VolatileState()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(perm, false)
	f.Add(vol, true)
	f.Add(perm[:len(perm)/2], false)
	f.Fuzz(func(t *testing.T, b []byte, volatile bool) {
		if volatile {
			fuzzVolatile(t, p, perm, b)
			return
		}
		var q permanent
		err := q.decode(b)
		if err != nil {
			if !errors.Is(err, errState) || len(q.epSeed) != 0 || q.nv != nil || q.persistent != nil {
				t.Fatalf("refused by %v, and yet read", err)
			}
			return
		}
		var w tpm2.Writer
		q.encode(&w)
		if w.Err() != nil {
			t.Fatalf("accepted, and cannot be written: %v", w.Err())
		}
		if b[5] == byte(stateVersion) && !bytes.Equal(w.Bytes(), b) {
			t.Fatalf("accepted %x, writes %x", b, w.Bytes())
		}
	})
}

func fuzzVolatile(t *testing.T, p *TPM, perm, b []byte) {
	q := replayTPM(t)
	if err := q.SetState(perm, nil); err != nil {
		t.Fatal(err)
	}
	before, err := q.VolatileState()
	if err != nil {
		t.Fatal(err)
	}
	if err := q.SetState(perm, b); err != nil {
		if !errors.Is(err, errState) {
			t.Fatalf("refused by %v", err)
		}
		if after, err := q.VolatileState(); err != nil || !bytes.Equal(after, before) {
			t.Fatalf("a refused state changed the TPM (%v)", err)
		}
		return
	}
	out, err := q.VolatileState()
	if err != nil {
		t.Fatal(err)
	}
	r := replayTPM(t)
	if err := r.SetState(perm, out); err != nil {
		t.Fatalf("accepted %x, writes what it refuses: %v", b, err)
	}
	again, err := r.VolatileState()
	if err != nil || !bytes.Equal(again, out) {
		t.Fatalf("%x becomes %x (%v)", out, again, err)
	}
}
