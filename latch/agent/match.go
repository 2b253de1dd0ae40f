// SPDX-License-Identifier: Apache-2.0

//go:build linux

package agent

import (
	"time"

	"holdfast/latch/binder"
	"holdfast/latch/channel"
	"holdfast/latch/flow"
	"holdfast/latch/observe"
)

// session is an observed session, and the gate's announcement once there is one.
type session struct {
	event observe.Event
	conn  peer     // nil: not announced
	ch    [32]byte // as announced
	grade binder.Grade
	claim *claim
	// Of a mutual session: the service that wants evidence of clients, and that
	// evidence.
	service *Service
	proof   *proof
	leaf    [32]byte
	asked   time.Time // waits for that evidence since then
	shut    bool      // its door could not be opened
	closed  bool      // the socket left ESTABLISHED
	parked  time.Time // observed then and not announced yet; zero: announced
}

// want is an announcement that waits for its observation.
type want struct {
	conn peer
	channel.Announcement
	parked time.Time
	done   bool
	next   *want // another gate that announced the same
}

// key finds a session: by its ClientHello for grade hello, by the client's
// random for grade share, where the path may have altered the hello.
type key struct {
	grade binder.Grade
	v     [32]byte
}

func keyOf(a *channel.Announcement) key {
	if binder.Grade(a.Grade) == binder.Share {
		return key{binder.Share, a.Random}
	}
	return key{binder.Hello, a.CH}
}

// matcher brings announcements and observations together. Both wait for Park.
type matcher struct {
	o     *Options
	wants map[key]*want
	seen  map[key]*session // observed and not announced, under both keys
	live  map[uint64]*session
	wq    []*want    // in order of arrival, with those that are done
	sq    []*session // the same
	nw    int
	ns    int
}

func (m *matcher) init(o *Options) {
	m.o = o
	m.wants, m.seen, m.live = map[key]*want{}, map[key]*session{}, map[uint64]*session{}
}

func (m *matcher) empty() bool        { return len(m.wq) == 0 && len(m.sq) == 0 }
func (m *matcher) counts() (int, int) { return m.nw, m.ns }

// announced takes one announcement; a session that was observed before comes back.
func (m *matcher) announced(c peer, a *channel.Announcement, now time.Time, out *answers) *session {
	if g := binder.Grade(a.Grade); g != binder.Hello && g != binder.Share && g != binder.Mutual {
		out.add(c, a.CH, flow.Grade, "the announcement asks for a grade that this agent does not know")
		return nil
	}
	k := keyOf(a)
	if s := m.seen[k]; s != nil {
		m.take(s)
		s.conn, s.ch, s.grade = c, a.CH, binder.Grade(a.Grade)
		return s
	}
	if m.nw >= m.o.MaxParked {
		out.add(c, a.CH, flow.Busy, flow.Busy.Text())
		return nil
	}
	var last *want
	for w := m.wants[k]; w != nil; last, w = w, w.next {
		if w.conn == c {
			out.add(c, a.CH, flow.Busy, "this gate announced the same session before and it still waits")
			return nil
		}
	}
	w := &want{conn: c, Announcement: *a, parked: now}
	if last != nil {
		last.next = w
	} else {
		m.wants[k] = w
	}
	m.wq = append(m.wq, w)
	m.nw++
	return nil
}

// take removes a parked observation from the index.
func (m *matcher) take(s *session) {
	delete(m.seen, key{binder.Hello, s.event.CH})
	delete(m.seen, key{binder.Share, s.event.Random})
	s.parked = time.Time{}
	m.ns--
}

// observed takes one observation; if it was announced the session comes back,
// for the first of several gates (a second one can only be somebody who saw
// the hello on the wire: it is refused when its time is over).
func (m *matcher) observed(e *observe.Event, now time.Time) *session {
	s := &session{event: *e}
	for _, k := range [2]key{{binder.Hello, e.CH}, {binder.Share, e.Random}} {
		if w := m.wants[k]; w != nil {
			if w.next == nil {
				delete(m.wants, k)
			} else {
				m.wants[k] = w.next
			}
			w.done = true
			m.nw--
			s.conn, s.ch, s.grade = w.conn, w.CH, binder.Grade(w.Grade)
			m.live[e.Cookie] = s
			return s
		}
	}
	kh, ks := key{binder.Hello, e.CH}, key{binder.Share, e.Random}
	if m.seen[kh] != nil || m.seen[ks] != nil {
		return nil // a hello that was repeated: the first observation stands
	}
	if m.ns >= m.o.MaxParked {
		return nil
	}
	s.parked = now
	m.seen[kh], m.seen[ks] = s, s
	m.live[e.Cookie] = s
	m.sq = append(m.sq, s)
	m.ns++
	return nil
}

// closed notes that a socket is gone.
func (m *matcher) closed(cookie uint64) {
	if s := m.live[cookie]; s != nil {
		s.closed = true
	}
}

// done forgets a session that was answered.
func (m *matcher) done(s *session) {
	if m.live[s.event.Cookie] == s {
		delete(m.live, s.event.Cookie)
	}
}

// expire ends what waited for Park; unasked is called with each session that
// nobody announced.
func (m *matcher) expire(now time.Time, out *answers, unasked func(*session)) {
	for len(m.wq) > 0 {
		w := m.wq[0]
		if !w.done && now.Sub(w.parked) < m.o.Park {
			break
		}
		m.wq[0] = nil
		if m.wq = m.wq[1:]; w.done {
			continue
		}
		m.nw--
		m.unlink(w)
		if !silent(w.conn) {
			out.add(w.conn, w.CH, flow.NotObserved, flow.NotObserved.Text())
		}
	}
	for len(m.sq) > 0 {
		s := m.sq[0]
		if !s.parked.IsZero() && now.Sub(s.parked) < m.o.Park {
			break
		}
		m.sq[0] = nil
		if m.sq = m.sq[1:]; s.parked.IsZero() {
			continue
		}
		m.take(s)
		m.done(s)
		unasked(s)
	}
}

func (m *matcher) unlink(w *want) {
	k := keyOf(&w.Announcement)
	at := m.wants[k]
	if at == w {
		if w.next == nil {
			delete(m.wants, k)
		} else {
			m.wants[k] = w.next
		}
		return
	}
	for ; at != nil; at = at.next {
		if at.next == w {
			at.next = w.next
			return
		}
	}
}
