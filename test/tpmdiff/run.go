// SPDX-License-Identifier: Apache-2.0

//go:build linux

package tpmdiff

import (
	"bytes"
	"fmt"
	"strings"

	"holdfast/tpm2"
)

// difference is a step that the two TPMs answer differently, the last of its sequence.
type difference struct {
	sequence     []*step
	ours, theirs *result
	field        string // differs in this field, not in the code
}

func (d *difference) last() *step { return d.sequence[len(d.sequence)-1] }

// same says whether two differences are of one kind; shrinking keeps the kind.
func (d *difference) same(e *difference) bool {
	return e != nil && d.last().cc == e.last().cc && d.ours.rc == e.ours.rc && d.theirs.rc == e.theirs.rc && d.field == e.field
}

func (d *difference) String() string {
	var b strings.Builder
	for _, s := range d.sequence {
		fmt.Fprintln(&b, s)
	}
	if d.field != "" {
		fmt.Fprintf(&b, "%s: ours %x\n      swtpm %x", d.field, d.ours.fields[d.field], d.theirs.fields[d.field])
	} else {
		fmt.Fprintf(&b, "ours %#03x %v, swtpm %#03x %v", uint32(d.ours.rc), code(d.ours.rc), uint32(d.theirs.rc), code(d.theirs.rc))
	}
	return b.String()
}

func code(rc tpm2.RC) string {
	if rc == tpm2.RCSuccess {
		return "success"
	}
	return rc.Error()
}

// pair is the two TPMs.
type pair struct {
	ours, theirs *side
	commands     int // that both answered
	succeeded    map[tpm2.CC]int
	refused      map[tpm2.CC]int
	explained    map[string]int // known differences after which a sequence went on
}

// begin makes both TPMs new and starts them.
func (p *pair) begin() error {
	for _, s := range []*side{p.ours, p.theirs} {
		if err := s.fresh(); err != nil {
			return err
		}
		for _, st := range []*step{start, daParameters, auditHash} {
			if r, err := s.run(st); err != nil || r.rc != tpm2.RCSuccess {
				return fmt.Errorf("%v: %v %v", st.cc, r, err)
			}
		}
	}
	return nil
}

// What each sequence begins with: TPM2_Startup(CLEAR), the same
// dictionary-attack parameters and the same audit hash for both.
var (
	start        = (&step{cc: tpm2.CCStartup, id: -1}).raw(func(w *tpm2.Writer) { w.U16(0) })
	daParameters = (&step{cc: tpm2.CCDictionaryAttackParameters, id: -2, handles: []handle{fixed(tpm2.RHLockout)}, auth: []auth{{}}}).
			raw(func(w *tpm2.Writer) { w.U32(3); w.U32(1000); w.U32(1000) })
	auditHash = (&step{cc: tpm2.CCSetCommandCodeAuditStatus, id: -3, handles: []handle{fixed(tpm2.RHOwner)}, auth: []auth{{}}}).
			raw(func(w *tpm2.Writer) { w.Alg(tpm2.AlgSHA256); w.U32(0); w.U32(0) })
)

// both runs a step on both TPMs. sequence is all steps up to this one. pure says that no key
// of a TPM's own has a part in it.
func (p *pair) both(sequence []*step) (*difference, error) {
	s := sequence[len(sequence)-1]
	a, err := p.ours.run(s)
	if err != nil {
		return nil, fmt.Errorf("ours: %w", err)
	}
	b, err := p.theirs.run(s)
	if err != nil {
		return nil, fmt.Errorf("swtpm: %w", err)
	}
	d := &difference{sequence: sequence, ours: a, theirs: b}
	if a.rc != b.rc {
		return d, nil
	}
	p.commands++
	if a.rc != tpm2.RCSuccess {
		p.refused[s.cc]++
		return nil, nil
	}
	p.succeeded[s.cc]++
	for _, t := range s.twists {
		if t.kind == twistAuthByte { // a nonce that the client does not know: it cannot decrypt
			return nil, nil
		}
	}
	if p.choice(sequence, s, nil) {
		return nil, nil
	}
	for _, f := range choiceless[s.cc] {
		if !bytes.Equal(a.fields[f], b.fields[f]) {
			d.field = f
			return d, nil
		}
	}
	return nil, nil
}

// choice says whether something that a TPM chose itself (a key, a nonce, a clock) can show in
// the response to a step: its own parameters, and all that it refers to.
func (p *pair) choice(sequence []*step, s *step, seen map[int]bool) bool {
	switch s.cc {
	case tpm2.CCCreate, tpm2.CCCreatePrimary, tpm2.CCCreateLoaded, tpm2.CCLoad, tpm2.CCContextLoad, tpm2.CCMakeCredential, tpm2.CCDuplicate,
		tpm2.CCRewrap, tpm2.CCImport, tpm2.CCGetRandom, tpm2.CCQuote, tpm2.CCECDHKeyGen, tpm2.CCSign, tpm2.CCContextSave:
		return true
	case tpm2.CCPolicyGetDigest, tpm2.CCNVRead, tpm2.CCPCRRead, tpm2.CCNVReadPublic, tpm2.CCSequenceComplete:
		// Any earlier step may have changed what is read, with a value that a
		// TPM chose: a name in a policy, a certificate in an index.
		for _, e := range sequence[:len(sequence)-1] {
			for _, x := range e.params {
				for _, y := range x {
					if y.step != 0 && y.field != "policyDigest" {
						return true
					}
				}
			}
			for _, h := range e.handles {
				if h.step != 0 && (e.cc == tpm2.CCPolicySigned || e.cc == tpm2.CCPolicySecret || e.cc == tpm2.CCHMACStart || e.cc == tpm2.CCPCREvent) {
					return true
				}
			}
			if e.cc == tpm2.CCShutdown || e.cc == tpm2.CCPCRAllocate {
				return true
			}
		}
	}
	if seen[s.id] {
		return false
	}
	if seen == nil {
		seen = map[int]bool{}
	}
	seen[s.id] = true
	refers := func(id int) bool {
		for _, e := range sequence {
			if e.id == id && p.choice(sequence, e, seen) {
				return true
			}
		}
		return false
	}
	for _, h := range s.handles {
		if h.step != 0 && refers(h.step) || h.value.Type() == tpm2.HTPersistent || h.value.Type() == tpm2.HTTransient {
			return true
		}
	}
	for _, x := range s.params {
		for _, y := range x {
			if y.step != 0 && refers(y.step) {
				return true
			}
		}
	}
	return false
}

// explore makes and runs one sequence of at most n steps, up to the first
// difference.
func (p *pair) explore(seed int64, n int) (*difference, error) {
	if err := p.begin(); err != nil {
		return nil, err
	}
	g := newGen(seed)
	var sequence []*step
	for range n {
		s := g.step()
		sequence = append(sequence, s)
		d, err := p.both(sequence)
		if err == nil && p.passes(d) {
			p.explained[explain(d).name]++
			continue
		}
		if d != nil || err != nil {
			return d, err
		}
		if p.ours.results[s.id].rc == tpm2.RCSuccess {
			g.learn(s)
		}
	}
	return nil, nil
}

// passes says whether a sequence goes on after a difference: both TPMs refused,
// by known different codes, and neither counts the refusal as a wrong
// authorization, so that both are as they were.
func (p *pair) passes(d *difference) bool {
	if d == nil || !d.refused() || explain(d) == nil {
		return false
	}
	for _, rc := range []tpm2.RC{d.ours.rc.Base(), d.theirs.rc.Base()} {
		if rc == tpm2.RCAuthFail || rc == tpm2.RCFailure || rc == tpm2.RCLockout {
			return false
		}
	}
	return true
}

// replay runs a sequence and returns its first difference after which it does
// not go on.
func (p *pair) replay(sequence []*step) (*difference, error) {
	if err := p.begin(); err != nil {
		return nil, err
	}
	for i := range sequence {
		if d, err := p.both(sequence[:i+1]); (d != nil || err != nil) && !p.passes(d) {
			return d, err
		}
	}
	return nil, nil
}

// shrink removes what is not needed for a difference: steps, sessions and
// twists, one after another while the difference stays of its kind.
func (p *pair) shrink(d *difference) (*difference, error) {
	for progress := true; progress; {
		progress = false
		try := func(sequence []*step) (bool, error) {
			e, err := p.replay(sequence)
			if err != nil || !d.same(e) {
				return false, err
			}
			d, progress = e, true
			return true, nil
		}
		for i := len(d.sequence) - 2; i >= 0; i-- {
			if i >= len(d.sequence)-1 {
				continue
			}
			if _, err := try(append(append([]*step(nil), d.sequence[:i]...), d.sequence[i+1:]...)); err != nil {
				return d, err
			}
		}
		for i := 0; i < len(d.sequence); i++ {
			for _, change := range []func(s *step) bool{
				func(s *step) bool { ok := len(s.twists) > 0; s.twists = nil; return ok },
				func(s *step) bool {
					for j, a := range s.auth {
						if a.session != 0 && j < len(s.handles) {
							s.auth[j] = auth{attrs: tpm2.SessionContinue, value: a.value}
							return true
						}
					}
					return false
				},
				func(s *step) bool {
					if len(s.auth) == 0 || s.auth[len(s.auth)-1].session == 0 {
						return false
					}
					s.auth = s.auth[:len(s.auth)-1]
					return true
				},
			} {
				c := *d.sequence[i]
				c.auth = append([]auth(nil), c.auth...)
				if !change(&c) {
					continue
				}
				q := append([]*step(nil), d.sequence...)
				q[i] = &c
				if _, err := try(q); err != nil {
					return d, err
				}
				if i >= len(d.sequence) {
					break
				}
			}
		}
	}
	return d, nil
}
