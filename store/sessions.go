package store

import (
	"context"
	"errors"
	"slices"
	"time"

	"precept/internal/label"
	"precept/internal/session"
)

// defaultLookup bounds the one question to the backend that a request may wait for.
const defaultLookup = 45 * time.Millisecond

// ErrNoSession means that nothing is kept of a session, or that it is not to be shown.
var ErrNoSession = errors.New("nothing is kept of this session")

// sessionFinder is where a backend finds sessions: by id, and by what went by in them.
type sessionFinder interface {
	Session(ctx context.Context, tenant string, id session.ID) (session.Row, bool, error)
	FindEcho(ctx context.Context, tenant string, keys []session.EchoKey) (map[session.EchoKey][]session.ID, error)
}

// optOutFinder is where a fleet finds the mark of a session that opted out.
type optOutFinder interface {
	OptOutOf(ctx context.Context, id session.ID) (m session.OptOutMark, ok bool, err error)
}

// sessions finds sessions, in memory before the backend.
type sessions struct {
	live   *live
	be     sessionFinder
	fleet  optOutFinder // nil: the backend is this process' own
	marks  *optOutMarks
	state  *state
	now    func() time.Time
	lookup time.Duration // how long a request may wait for the backend
	failed func(step label.Step, err error)
}

// Shared says whether other replicas may serve the sessions that are in memory here.
func (s *sessions) Shared() bool { return s.fleet != nil }

// Sessions is the number of sessions in memory.
func (s *sessions) Sessions() int { return s.live.count() }

// Acquire pins the session with that id: from memory, else from the backend, within Options.Lookup.
// It is nil when there is none. late says that the backend could not answer in time: the session
// may exist, so whatever is made now is no part of the experiment.
func (s *sessions) Acquire(ctx context.Context, tenant string, id session.ID) (ses *Session, late bool) {
	if ses = s.live.get(id, s.now()); ses != nil {
		return ses, false
	}
	rec, _, err := s.stored(ctx, tenant, id)
	switch {
	case err != nil:
		return nil, true
	case rec == nil:
		return nil, s.inTheDark() // it may stand in the outbox
	}
	return s.live.put(rec, s.now(), s.state.delivered.Load()), false
}

// stored reads a session's record from the backend, for as long as a request may wait, and whether
// it is closed. The record is nil where there is none. A failure is told.
func (s *sessions) stored(ctx context.Context, tenant string, id session.ID) (rec *session.Record, closed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.lookup)
	defer cancel()
	row, ok, err := s.be.Session(ctx, tenant, id)
	if err != nil {
		s.failed(label.StepLookup, err)
		return nil, false, err
	}
	if !ok {
		return nil, false, nil
	}
	if rec, err = session.Decode(id, row.Data); err != nil {
		s.failed(label.StepDecode, err)
	}
	return rec, row.Closed, err
}

// Resident pins a session that is in memory, nil when it is not.
func (s *sessions) Resident(id session.ID) *Session { return s.live.get(id, s.now()) }

// Add pins a new record; when another request made it a moment ago, that one is returned.
func (s *sessions) Add(rec *session.Record) *Session {
	s.marks.recall(rec)
	ses := s.live.put(rec, s.now(), s.state.delivered.Load())
	if ses.Record == rec && rec.State.StandIn {
		ses.unsure.Store(true)
	}
	return ses
}

// Echoes asks the backend which sessions these keys went by in, within Options.Lookup.
func (s *sessions) Echoes(ctx context.Context, tenant string, keys []session.EchoKey) map[session.EchoKey][]session.ID {
	if len(keys) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.lookup)
	defer cancel()
	m, err := s.be.FindEcho(ctx, tenant, keys)
	if err != nil {
		s.failed(label.StepLookup, err)
		return nil
	}
	return m
}

// Known says who a session is, and whether the tenant has it.
func (s *sessions) Known(ctx context.Context, tenant string, id session.ID) (session.Member, bool, error) {
	if ses := s.live.peek(id); ses != nil {
		defer ses.pins.Add(-1)
		ses.Lock()
		defer ses.Unlock()
		return ses.Member(), ses.Identity.Tenant == tenant, nil
	}
	row, ok, err := s.be.Session(ctx, tenant, id)
	if err != nil || !ok {
		return session.Member{}, false, err
	}
	rec, err := session.Decode(id, row.Data)
	if err != nil {
		return session.Member{}, false, err
	}
	return rec.Member(), true, nil
}

// inTheDark says that a session may be known although neither memory nor the backend has it.
func (s *sessions) inTheDark() bool {
	return s.state.blind.Load() || s.live.blind.Load() > s.state.delivered.Load()
}

// idsNamed lists the sessions that a name may mean: by any kind of name, by id, and by what was
// noted under it.
func idsNamed(ctx context.Context, be session.Finder, tenant, name string) ([]session.ID, error) {
	ids := append(session.Candidates(tenant, name), session.RunKey(tenant, name))
	key := session.EchoKeyOf(tenant, "s:"+name)
	noted, err := be.FindEcho(ctx, tenant, []session.EchoKey{key})
	if err != nil {
		return nil, err
	}
	for _, id := range noted[key] {
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids, nil
}
