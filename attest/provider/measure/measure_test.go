// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"crypto/sha256"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holdfast/attest/evidence"
	"holdfast/attest/evidence/eventlog"
	"holdfast/tpm2"
	"holdfast/tss"
)

// fake is the little of a TPM that measuring needs: capability, PCR read,
// PCR extend, with one SHA-256 bank.
type fake struct {
	t      *testing.T
	pcr    [24][]byte
	refuse bool // the next extend
	lose   bool // the answer of the next extend
}

func newFake(t *testing.T) *fake {
	f := &fake{t: t}
	for i := range f.pcr {
		f.pcr[i] = make([]byte, 32)
	}
	return f
}

func (f *fake) answer(rc tpm2.RC, write func(*tpm2.Writer)) []byte {
	w := &tpm2.Writer{}
	tag := tpm2.STNoSessions
	if write != nil && rc == tpm2.RCSuccess {
		write(w)
	}
	body := w.Bytes()
	h := &tpm2.Writer{}
	tpm2.Header{Tag: tag, Size: uint32(10 + len(body)), Code: uint32(rc)}.Marshal(h)
	return append(h.Bytes(), body...)
}

func (f *fake) Send(command []byte) ([]byte, error) {
	r := tpm2.NewReader(command)
	var h tpm2.Header
	h.Unmarshal(r)
	switch tpm2.CC(h.Code) {
	case tpm2.CCGetCapability:
		return f.answer(tpm2.RCSuccess, func(w *tpm2.Writer) {
			w.Bool(false)
			tpm2.CapabilityData{Cap: tpm2.CapPCRs, PCRs: []tpm2.PCRSelection{tpm2.SelectPCRs(tpm2.AlgSHA256, 0, 10, 14), {Hash: tpm2.AlgSHA1, Select: make([]byte, 3)}}}.Marshal(w)
		}), nil
	case tpm2.CCPCRRead:
		sel := tpm2.UnmarshalPCRSelections(r)
		return f.answer(tpm2.RCSuccess, func(w *tpm2.Writer) {
			w.U32(1)
			tpm2.MarshalPCRSelections(w, sel)
			var d [][]byte
			for _, i := range sel[0].PCRs() {
				d = append(d, f.pcr[i])
			}
			tpm2.MarshalDigests(w, d)
		}), nil
	case tpm2.CCPCRExtend:
		if f.refuse {
			return f.answer(tpm2.RCLocality, nil), nil
		}
		pcr := r.Handle()
		r.Bytes(int(r.U32())) // authorizations
		has := tpm2.UnmarshalHAs(r)
		f.pcr[pcr] = tpm2.AlgSHA256.Sum(f.pcr[pcr], has[0].Digest)
		if f.lose {
			return nil, os.ErrDeadlineExceeded
		}
		w := &tpm2.Writer{} // with a password session
		tpm2.Header{Tag: tpm2.STSessions, Size: 10 + 4 + 5, Code: 0}.Marshal(w)
		w.U32(0)
		w.Sized(nil)
		w.U8(uint8(tpm2.SessionContinue))
		w.Sized(nil)
		return w.Bytes(), nil
	}
	f.t.Errorf("command %v", tpm2.CC(h.Code))
	return f.answer(tpm2.RCCommandCode, nil), nil
}

func file(t *testing.T, dir, name, content string) string {
	t.Helper()
	p := filepath.Join(dir, name)
	if err := os.WriteFile(p, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return p
}

func load(t *testing.T, path string) *eventlog.Log {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	l, err := eventlog.Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// leads demands that the log leads to the PCR.
func leads(t *testing.T, f *fake, path string, pcr, events int) {
	t.Helper()
	l := load(t, path)
	v, err := eventlog.Replay(tpm2.AlgSHA256, l)
	if err != nil {
		t.Fatal(err)
	}
	if len(l.Events) != events || string(v.Value[pcr]) != string(f.pcr[pcr]) {
		t.Errorf("expected %d events that lead to %x, got %d that lead to %x", events, f.pcr[pcr], len(l.Events), v.Value[pcr])
	}
}

func TestFiles(t *testing.T) {
	f, dir := newFake(t), t.TempDir()
	tpm := tss.New(f)
	log := filepath.Join(dir, "log")
	a := file(t, dir, "a", "agent")
	link := filepath.Join(dir, "link")
	if err := os.Symlink(a, link); err != nil {
		t.Fatal(err)
	}
	m, err := Files(tpm, 14, log, "file", []string{link, file(t, dir, "b", "service")})
	if err != nil {
		t.Fatal(err)
	}
	real, err := filepath.EvalSymlinks(a)
	if err != nil {
		t.Fatal(err)
	}
	if len(m) != 2 || m[0].Name != real || m[0].SHA256 != sha256.Sum256([]byte("agent")) || m[1].Kind != "file" {
		t.Errorf("got %+v", m)
	}
	leads(t, f, log, 14, 2)
	if _, err := Files(tpm, 14, log, "config", []string{a}); err != nil {
		t.Fatal(err)
	}
	leads(t, f, log, 14, 3)
	if got, err := load(t, log).Events[2].Measured(); err != nil || got.Kind != "config" {
		t.Errorf("got %+v, %v", got, err)
	}
	// Another PCR goes into the same log.
	if _, err := Files(tpm, 10, log, "file", []string{a}); err != nil {
		t.Fatal(err)
	}
	leads(t, f, log, 14, 4)
	leads(t, f, log, 10, 4)
	// Records of what is no file, and the end.
	if err := Records(tpm, 10, log, []evidence.Measured{{Kind: "image", Name: "memory", SHA256: [32]byte{1}}}); err != nil {
		t.Fatal(err)
	}
	if err := Separator(tpm, 10, log); err != nil {
		t.Fatal(err)
	}
	leads(t, f, log, 10, 6)
	if e := load(t, log).Events[5]; e.Type != eventlog.EvSeparator || !e.Bound() || string(e.Data) != "\x00\x00\x00\x00" {
		t.Errorf("the separator is %+v", e)
	}
}

func TestRefuses(t *testing.T) {
	f, dir := newFake(t), t.TempDir()
	tpm := tss.New(f)
	log, a := filepath.Join(dir, "log"), file(t, dir, "a", "agent")
	for _, c := range []struct {
		pcr   int
		kind  string
		files []string
		says  string
	}{
		{14, "file", nil, "no files"},
		{16, "file", []string{a}, "0 to 15"},
		{-1, "file", []string{a}, "0 to 15"},
		{9, "file", []string{a}, "no bank with PCR 9"},
		{14, "file", []string{dir}, "regular file"},
		{14, "file", []string{a, filepath.Join(dir, "none")}, "no such file"},
		{14, "", []string{a}, "empty kind"},
	} {
		if m, err := Files(tpm, c.pcr, log, c.kind, c.files); err == nil || !strings.Contains(err.Error(), c.says) || len(m) != 0 {
			t.Errorf("%+v: got %v, %v", c, m, err)
		}
	}
	if f.pcr[14][0] != 0 || f.pcr[14][31] != 0 {
		t.Error("a refused call extended the PCR")
	}
	// A log that is a link elsewhere.
	link := filepath.Join(dir, "loglink")
	if err := os.Symlink(a, link); err != nil {
		t.Fatal(err)
	}
	if _, err := Files(tpm, 14, link, "file", []string{a}); err == nil {
		t.Error("a symbolic link as log is followed")
	}
	if _, err := Files(tpm, 14, a, "file", []string{a}); err == nil || !strings.Contains(err.Error(), "malformed") {
		t.Errorf("another file as log: got %v", err)
	}
	// A log of another TPM.
	other := filepath.Join(dir, "other")
	if err := os.WriteFile(other, eventlog.New(tpm2.AlgSHA384).Encode(), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Files(tpm, 14, other, "file", []string{a}); err == nil || !strings.Contains(err.Error(), "another TPM") {
		t.Errorf("got %v", err)
	}
	// A PCR that was extended before the log was begun.
	f.pcr[14][3] = 1
	if _, err := Files(tpm, 14, filepath.Join(dir, "new"), "file", []string{a}); err == nil || !strings.Contains(err.Error(), "another start") {
		t.Errorf("got %v", err)
	}
}

// TestFailedExtend: a refusal by the TPM leaves log and PCR in step; an answer
// that is lost is noticed by the next call.
func TestFailedExtend(t *testing.T) {
	f, dir := newFake(t), t.TempDir()
	tpm := tss.New(f)
	log, a := filepath.Join(dir, "log"), file(t, dir, "a", "agent")
	f.refuse = true
	if _, err := Files(tpm, 14, log, "file", []string{a}); err == nil {
		t.Fatal("the TPM refused")
	}
	leads(t, f, log, 14, 0)
	f.refuse, f.lose = false, true
	if _, err := Files(tpm, 14, log, "file", []string{a}); err == nil {
		t.Fatal("the answer was lost")
	}
	f.lose = false
	leads(t, f, log, 14, 1) // it had extended
	if _, err := Files(tpm, 14, log, "file", []string{a}); err != nil {
		t.Error(err)
	}
	leads(t, f, log, 14, 2)
}
