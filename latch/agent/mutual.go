// SPDX-License-Identifier: Apache-2.0

//go:build linux

package agent

import (
	"crypto/sha256"
	"log/slog"
	"net/netip"
	"time"

	"holdfast/latch/appraisal"
	"holdfast/latch/binder"
	"holdfast/latch/channel"
	"holdfast/latch/flow"
)

// Doors keep what unverified clients send away from the services: *door.Doors.
type Doors interface {
	// Release opens the doors of these sockets.
	Release(cookies []uint64) error
	// Forget drops a socket that is gone, if it was released and not opened.
	Forget(cookie uint64)
	// Reset ends the connection of a client that was refused, without waiting
	// for it. pid is a process of the service, or 0.
	Reset(cookie uint64, local, remote netip.AddrPort, pid int)
}

// proof is a client's evidence for one session.
type proof struct {
	store       *appraisal.Store
	report      *appraisal.Report
	index       uint64
	path        [][32]byte
	claims      []byte
	at          time.Time
	clientClaim *binder.Claims // after it was verified
	leaf        [32]byte
}

// proofKey finds the proof of an announced session: by whoever announced it,
// so that nobody can put his evidence in the place of another's.
type proofKey struct {
	p  peer
	ch [32]byte
}

// mutual is what the agent keeps for mutual sessions; guarded by Agent.mu.
type mutual struct {
	stores  map[*channel.Conn]*appraisal.Store
	proofs  map[proofKey]*proof   // that came before their session was matched
	waiting map[proofKey]*session // matched, without their proof
	open    map[uint64]struct{}   // sockets whose doors were released
	cookies []uint64
}

func (m *mutual) init() {
	m.stores, m.proofs = map[*channel.Conn]*appraisal.Store{}, map[proofKey]*proof{}
	m.waiting, m.open = map[proofKey]*session{}, map[uint64]struct{}{}
}

// Own implements channel.OwnHandler.
func (h handler) Own(c *channel.Conn, e *channel.Event) {
	a := h.a
	a.mu.Lock()
	m := &a.mutual
	st := m.stores[c]
	if st == nil {
		st = new(appraisal.Store)
		m.stores[c] = st
	}
	wake := false
	switch e.Kind {
	case channel.KindEndorsement:
		st.AddEndorsement(e.Endorsement)
	case channel.KindReport:
		st.AddReport(e.Report)
	case channel.KindSession:
		r := st.Find(e.Session.Report)
		if r == nil {
			break
		}
		p := &proof{store: st, report: r, index: e.Session.Index, path: e.Session.Path, claims: e.Session.Claims, at: time.Now()}
		k := proofKey{c, e.Session.CH}
		if s := m.waiting[k]; s != nil {
			delete(m.waiting, k)
			s.proof = p
			a.ready = append(a.ready, s)
			a.identify = false
			wake = a.asleep
			a.asleep = a.asleep && !wake
		} else if len(m.proofs) < a.o.MaxParked {
			m.proofs[k] = p // a second one for the same session takes the first one's place
		}
	}
	a.mu.Unlock()
	if wake {
		a.src.Wake()
	}
}

// needsProof decides about a matched session of a service that wants evidence
// of clients, or of a gate that offers it. It reports false when the session is
// not to go on now.
func (a *Agent) needsProof(s *session, out *answers) bool {
	sv := a.claims.service(&s.event)
	wants := sv != nil && sv.Clients != nil
	refuse := func(code flow.Reason, text string) bool {
		a.refuseTo(s, out, code, text)
		return false
	}
	switch {
	case s.grade != binder.Mutual && !wants:
		return true
	case s.grade != binder.Mutual:
		return refuse(flow.MutualRequired, flow.MutualRequired.Text())
	case !wants:
		return refuse(flow.NotMutual, flow.NotMutual.Text())
	}
	if _, direct := s.conn.(*channel.Conn); !direct && silent(s.conn) {
		return refuse(flow.NotMutual, "a mutual session needs a connection between gate and agent; a rendezvous does not carry the client's evidence")
	}
	s.service = sv
	k := proofKey{s.conn, s.ch}
	if p := a.mutual.proofs[k]; p != nil {
		delete(a.mutual.proofs, k)
		s.proof = p
		return true
	}
	if len(a.mutual.waiting) >= a.o.MaxParked {
		return refuse(flow.Busy, flow.Busy.Text())
	}
	s.asked = time.Now()
	a.mutual.waiting[k] = s
	return false
}

// verifyClient judges the client's evidence of a mutual session and computes
// the leaf that the server's binder names. Called with mu held.
func (a *Agent) verifyClient(s *session, now time.Time) *refusal {
	p := s.proof
	if p.clientClaim != nil {
		return nil // judged before
	}
	c, err := binder.ParseClaims(p.claims)
	if err != nil {
		return &refusal{flow.ClientEvidence, err.Error()}
	}
	leaf := binder.Leaf(binder.MutualClient(s.event.Core), sha256.Sum256(p.claims))
	root, err := binder.RootFromPath(leaf, p.index, p.report.Size, p.path)
	if err != nil {
		return &refusal{flow.ClientEvidence, err.Error()}
	}
	res, err := p.store.Verify(p.report, s.service.Clients, root, now)
	switch {
	case appraisal.Untrusted(err):
		return &refusal{flow.ClientUntrusted, err.Error()}
	case err != nil:
		return &refusal{flow.ClientEvidence, err.Error()}
	}
	if f := s.service.Clients.Evaluate(res, appraisal.Session{ServerName: s.event.ServerName, Group: s.event.Group, CipherSuite: s.event.Suite, Resumed: s.event.Resumed}, c, now); len(f) > 0 {
		return &refusal{flow.ClientPolicy, appraisal.Explain(f)}
	}
	p.leaf, p.clientClaim = leaf, c
	a.stats.ClientsVerified++
	slog.Debug("client verified", "environment", res.Environment, "client", c.Service, "remote", s.event.Remote)
	return nil
}

// openDoors opens the doors of the mutual sessions of a group whose report was
// made and that pass the second look. Called with mu held, before the evidence
// goes out: what the gates then let go must find them open.
func (a *Agent) openDoors() {
	cookies := a.mutual.cookies[:0]
	for _, s := range a.group {
		if s.proof != nil && !s.closed {
			cookies = append(cookies, s.event.Cookie)
		}
	}
	a.mutual.cookies = cookies
	if len(cookies) == 0 {
		return
	}
	if err := a.o.Doors.Release(cookies); err != nil {
		slog.Error("doors stay shut", "sessions", len(cookies), "error", err)
		for _, s := range a.group {
			s.shut = s.proof != nil
		}
		return
	}
	for _, c := range cookies {
		a.mutual.open[c] = struct{}{}
	}
}

// shutOut ends the connection of a session that was refused, or that nobody
// announced, if it stands before a door: that will not open any more.
func (a *Agent) shutOut(s *session) {
	if sv := a.claims.service(&s.event); s.closed || sv == nil || sv.Clients == nil {
		return
	}
	pid := 0
	if l := s.event.Listener; l != nil {
		if id, err := l.Identity(); err == nil && id != nil {
			pid = id.PID
		}
	}
	a.o.Doors.Reset(s.event.Cookie, s.event.Local, s.event.Remote, pid)
}

// gone forgets a socket's door.
func (a *Agent) gone(cookie uint64) {
	if _, ok := a.mutual.open[cookie]; ok {
		delete(a.mutual.open, cookie)
		a.o.Doors.Forget(cookie)
	}
}

// expireProofs refuses what waited for its client's evidence too long, and
// drops evidence that nobody asked for.
func (a *Agent) expireProofs(now time.Time) {
	for k, s := range a.mutual.waiting {
		if now.Sub(s.asked) >= a.o.Park {
			delete(a.mutual.waiting, k)
			a.refuse(s, flow.NoClientProof, flow.NoClientProof.Text())
		}
	}
	for k, p := range a.mutual.proofs {
		if now.Sub(p.at) >= a.o.Park {
			delete(a.mutual.proofs, k)
		}
	}
}
