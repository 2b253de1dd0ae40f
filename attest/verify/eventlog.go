// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"bytes"
	"crypto/sha256"
	"sync"

	"holdfast/attest/evidence"
	"holdfast/attest/evidence/eventlog"
	"holdfast/tpm2"
)

// logs are the event logs of one machine, in order, parsed and replayed once.
type logs struct {
	events []Event
	mu     sync.Mutex
	banks  map[tpm2.Alg]*eventlog.Values
	parsed []*eventlog.Log
	proved map[uint32][]Event // by the set of PCRs that the quote proves
}

// maxProved bounds logs.proved: machines quote one selection, or very few.
const maxProved = 8

// explain replays the event logs to the quoted PCRs: sets PCR.Logged and
// returns the events that a quoted PCR proves. A PCR to which the logs lead
// elsewhere is an error: either the log or what ran is not as told.
func (v *Verifier) explain(pcrs []PCR, needs [][32]byte, endorsement Lookup) ([]Event, error) {
	if len(needs) == 0 {
		return nil, nil
	}
	l, err := v.logs(needs, endorsement)
	if err != nil {
		return nil, err
	}
	var proved uint32
	for i := range pcrs {
		p := &pcrs[i]
		values, err := l.replay(p.Hash)
		if err != nil {
			return nil, &Error{FaultEventLog, err}
		}
		switch same := bytes.Equal(values.Value[p.Index], p.Value); {
		case values.Unknown[p.Index]:
		case same:
			p.Logged = true
			if p.Hash != tpm2.AlgSHA1 { // for whose values another log can be found
				proved |= 1 << p.Index
			}
		case values.Touched[p.Index]:
			return nil, fault(FaultEventLog, "PCR %d of bank %v: the event log leads to %x, the TPM has %x", p.Index, p.Hash, values.Value[p.Index], p.Value)
		}
	}
	return l.ofPCRs(proved), nil
}

// logs finds or parses the logs that needs names.
func (v *Verifier) logs(needs [][32]byte, endorsement Lookup) (*logs, error) {
	h := sha256.New()
	h.Write([]byte("event logs"))
	for _, n := range needs {
		h.Write(n[:])
	}
	var key [32]byte
	h.Sum(key[:0])
	if c, ok := v.lookup(key); ok {
		return c.(*logs), nil // nothing else has such a key: it is a hash over a prefix of its own
	}
	l := &logs{banks: map[tpm2.Alg]*eventlog.Values{}, proved: map[uint32][]Event{}}
	for _, n := range needs {
		e, err := take(n, endorsement)
		if err != nil {
			return nil, err
		}
		if e.Type != evidence.TypeTCGEventLog {
			return nil, fault(FaultEndorsement, "expected %s, got %s", evidence.TypeTCGEventLog, e.Type)
		}
		log, err := eventlog.Parse(e.Body)
		if err != nil {
			return nil, &Error{FaultEndorsement, err}
		}
		l.parsed = append(l.parsed, log)
		for i := range log.Events {
			x := &log.Events[i]
			if x.Type == eventlog.EvNoAction {
				continue
			}
			m, err := x.Measured()
			if err != nil {
				return nil, &Error{FaultEventLogDigest, err}
			}
			l.events = append(l.events, Event{PCR: x.PCR, Type: x.Type, Digests: x.Digests, Data: x.Data, Bound: x.Bound(), Measured: m})
		}
	}
	v.keep(key, l)
	return l, nil
}

func (l *logs) replay(bank tpm2.Alg) (*eventlog.Values, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if v, ok := l.banks[bank]; ok {
		return v, nil
	}
	v, err := eventlog.Replay(bank, l.parsed...)
	if err == nil {
		l.banks[bank] = v
	}
	return v, err
}

// ofPCRs returns the events of the PCRs in the set, in the log's order.
func (l *logs) ofPCRs(set uint32) []Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	if out, ok := l.proved[set]; ok {
		return out
	}
	var out []Event
	for _, e := range l.events {
		if set>>e.PCR&1 == 1 {
			out = append(out, e)
		}
	}
	if len(l.proved) < maxProved {
		l.proved[set] = out
	}
	return out
}
