// SPDX-License-Identifier: Apache-2.0

// Package measure is what a launcher does before it starts a program: it
// extends a PCR with the program's digest and writes that down in an event
// log, so that a later quote proves what was started. It is the software end
// of the chain that firmware begins (TCG PC Client Platform Firmware Profile).
//
// Call Files. What runs before the launcher must be measured by something
// earlier, or the launcher could be another program that lies.
package measure

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"holdfast/attest/evidence"
	"holdfast/attest/evidence/eventlog"
	"holdfast/internal/filelock"
	"holdfast/tpm2"
	"holdfast/tss"
)

// Files measures files, in order, into the PCR: for each it appends a record
// {kind, absolute path, SHA-256} to the event log at logPath, makes that
// durable, and extends every active bank of the TPM with the record's hash.
// It returns the records.
//
// The log is begun if there is none; then the PCR must be as it was at the
// start of the TPM. A log that does not lead to the PCR's value is refused:
// it is of another start of the machine, or somebody else extended the PCR.
// An error in the middle leaves log and PCR in step, unless the TPM extended
// the PCR and its answer was lost; then the next call says so.
func Files(t *tss.TPM, pcr int, logPath, kind string, files []string) ([]evidence.Measured, error) {
	if len(files) == 0 {
		return nil, errors.New("measure: no files")
	}
	records := make([]evidence.Measured, len(files))
	for i, f := range files {
		m, err := digest(kind, f)
		if err != nil {
			return nil, fmt.Errorf("measure: %w", err)
		}
		records[i] = m
	}
	n, err := record(t, pcr, logPath, records)
	return records[:n], err
}

// Records is Files with records that the caller made, for what is no file of
// its own name: an image in memory, a key.
func Records(t *tss.TPM, pcr int, logPath string, records []evidence.Measured) error {
	_, err := record(t, pcr, logPath, records)
	return err
}

// record adds the records and returns how many of them.
func record(t *tss.TPM, pcr int, logPath string, records []evidence.Measured) (int, error) {
	l, err := open(t, pcr, logPath)
	if err != nil {
		return 0, fmt.Errorf("measure: %w", err)
	}
	defer l.f.Close()
	for i := range records {
		e, err := eventlog.MeasuredEvent(uint32(pcr), &records[i], l.banks)
		if err == nil {
			err = l.add(t, e)
		}
		if err != nil {
			return i, fmt.Errorf("measure: %s: %w", records[i].Name, err)
		}
	}
	return len(records), nil
}

// Separator ends what is measured into a PCR: it extends it with four zero
// bytes and logs them as EV_SEPARATOR, as firmware does before it hands over
// (Firmware Profile, 10.4.1). Secrets sealed to the values before are out of
// reach until the TPM is reset.
func Separator(t *tss.TPM, pcr int, logPath string) error {
	l, err := open(t, pcr, logPath)
	if err != nil {
		return fmt.Errorf("measure: %w", err)
	}
	defer l.f.Close()
	e := eventlog.Event{PCR: uint32(pcr), Type: eventlog.EvSeparator, Data: make([]byte, 4)}
	for _, a := range l.banks {
		e.Digests = append(e.Digests, evidence.Digest{Hash: a, Value: a.Sum(e.Data)})
	}
	if err := l.add(t, e); err != nil {
		return fmt.Errorf("measure: separator: %w", err)
	}
	return nil
}

// digest hashes a file under the name that it has without links.
func digest(kind, path string) (evidence.Measured, error) {
	m := evidence.Measured{Kind: kind}
	name, err := filepath.EvalSymlinks(path)
	if err == nil {
		name, err = filepath.Abs(name)
	}
	if err != nil {
		return m, err
	}
	f, err := os.Open(name)
	if err != nil {
		return m, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return m, fmt.Errorf("%s: expected a regular file", name)
	}
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return m, err
	}
	h.Sum(m.SHA256[:0])
	m.Name = name
	return m, nil
}

// log is an event log open for appending, locked against other launchers.
type log struct {
	f     *os.File
	size  int64
	pcr   int
	banks []tpm2.Alg
}

func open(t *tss.TPM, pcr int, path string) (*log, error) {
	if pcr < 0 || pcr > 15 {
		return nil, fmt.Errorf("PCR: expected 0 to 15, got %d; those above are reset by programs or belong to the late launch", pcr)
	}
	banks, err := activeBanks(t, pcr)
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|filelock.NoFollow, 0o644)
	if err != nil {
		return nil, err
	}
	l := &log{f: f, pcr: pcr, banks: banks}
	if err := l.check(t); err != nil {
		f.Close()
		return nil, err
	}
	return l, nil
}

// check locks the log, reads or begins it, and compares it with the PCR.
func (l *log) check(t *tss.TPM) error {
	if err := filelock.Lock(l.f); err != nil {
		return fmt.Errorf("%s: lock: %w", l.f.Name(), err)
	}
	b, err := io.ReadAll(io.LimitReader(l.f, eventlog.MaxSize+1))
	if err != nil {
		return err
	}
	begun := eventlog.New(l.banks...)
	if len(b) == 0 {
		b = begun.Encode()
		if _, err := l.f.WriteAt(b, 0); err != nil {
			return err
		}
		if err := l.f.Sync(); err != nil {
			return err
		}
	}
	l.size = int64(len(b))
	have, err := eventlog.Parse(b)
	if err != nil {
		return fmt.Errorf("%s: %w", l.f.Name(), err)
	}
	if fmt.Sprint(have.Header.Algs) != fmt.Sprint(begun.Header.Algs) {
		return fmt.Errorf("%s: the log has the banks %v, the TPM %v; it belongs to another TPM", l.f.Name(), have.Header.Algs, l.banks)
	}
	for _, bank := range l.banks {
		want, err := eventlog.Replay(bank, have)
		if err != nil {
			return err
		}
		got, _, err := t.PCRRead(tpm2.SelectPCRs(bank, l.pcr))
		if err != nil {
			return err
		}
		if !bytes.Equal(got[l.pcr], want.Value[l.pcr]) {
			return fmt.Errorf("PCR %d of bank %v is %x, but %s leads to %x: the log is of another start of the machine (then remove it), or the PCR was extended by something else", l.pcr, bank, got[l.pcr], l.f.Name(), want.Value[l.pcr])
		}
	}
	return nil
}

// activeBanks lists the banks that have this PCR.
func activeBanks(t *tss.TPM, pcr int) ([]tpm2.Alg, error) {
	c, _, err := t.GetCapability(tpm2.CapPCRs, 0, tpm2.MaxPCRBanks)
	if err != nil {
		return nil, err
	}
	var out []tpm2.Alg
	for _, s := range c.PCRs {
		if !s.Has(pcr) {
			continue
		}
		if s.Hash.New() == nil {
			return nil, fmt.Errorf("the TPM has a PCR bank %v, whose hash cannot be computed here", s.Hash)
		}
		out = append(out, s.Hash)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("the TPM has no bank with PCR %d", pcr)
	}
	return out, nil
}

// add writes one event, then extends the PCR with it. In this order a kill in
// between leaves an event too many, which no quote fits: closed, not open.
func (l *log) add(t *tss.TPM, e eventlog.Event) error {
	b := e.Append(nil)
	if l.size+int64(len(b)) > eventlog.MaxSize {
		return fmt.Errorf("the log would be above %d bytes", eventlog.MaxSize)
	}
	if _, err := l.f.WriteAt(b, l.size); err != nil {
		return errors.Join(err, l.f.Truncate(l.size))
	}
	if err := l.f.Sync(); err != nil {
		return errors.Join(err, l.f.Truncate(l.size))
	}
	has := make([]tpm2.HA, len(e.Digests))
	for i, d := range e.Digests {
		has[i] = tpm2.HA{Alg: d.Hash, Digest: d.Value}
	}
	if err := t.PCRExtend(tss.PCR(l.pcr), has); err != nil {
		var refused *tss.Error
		if errors.As(err, &refused) { // the TPM answered that it did not
			err = errors.Join(err, l.f.Truncate(l.size))
		}
		return err
	}
	l.size += int64(len(b))
	return nil
}
