// SPDX-License-Identifier: Apache-2.0

package tpmquote

import (
	"fmt"
	"io"
	"os"

	"holdfast/attest/evidence"
	"holdfast/attest/evidence/eventlog"
)

// logFile is an event log on disk. It grows when something is measured, which
// always changes a PCR, so it is read only when a quote shows that.
type logFile struct {
	path        string
	log         *eventlog.Log
	endorsement evidence.Endorsement
}

// readLogs reads all logs anew.
func (p *Provider) readLogs() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	needs := [][32]byte{p.ak.Hash()}
	for _, l := range p.logs {
		if err := l.read(); err != nil {
			return err
		}
		needs = append(needs, l.endorsement.Hash())
	}
	p.needs = needs
	return nil
}

func (l *logFile) read() error {
	b, err := readFile(l.path, eventlog.MaxSize)
	if err != nil {
		return fmt.Errorf("event log: %w", err)
	}
	log, err := eventlog.Parse(b)
	if err != nil {
		return fmt.Errorf("event log %s: %w", l.path, err)
	}
	l.log, l.endorsement = log, evidence.Endorsement{Type: evidence.TypeTCGEventLog, Body: b}
	return nil
}

// readFile reads a file of at most limit bytes; files of securityfs do not
// tell their size.
func readFile(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) > limit {
		return nil, fmt.Errorf("%s: expected at most %d bytes", path, limit)
	}
	return b, nil
}
