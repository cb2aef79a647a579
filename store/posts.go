package store

import (
	"context"
	"errors"
	"slices"
	"time"

	"precept/feedback"
	"precept/session"
	"precept/store/guard"
)

// postLimit bounds one feedback's way into the backend, postAgain is how soon one that is away is
// asked again.
const (
	postLimit = 5 * time.Second
	postAgain = 100 * time.Millisecond
)

// Status says what became of a feedback.
type Status string

// The statuses of DESIGN 11.
const (
	Joined  Status = "joined"
	Parked  Status = "parked"
	Ignored Status = "ignored" // nothing of what it speaks of may be kept
)

// Posted is the answer to one feedback.
type Posted struct {
	Session string // the session's name; "" while parked
	Run     string // the same of the run, where it is one that was rated
	Status  Status
}

// Post takes one feedback in: joined to its session, or parked until what it speaks of lands. It is
// durable in the backend when Post returns without an error. park is the echo key of what the post
// names; otherwise is tried when nobody has that.
func (s *Store) Post(ctx context.Context, tenant string, candidates []session.ID, park session.EchoKey, e feedback.Entry, otherwise ...session.ID) (Posted, error) {
	ctx, cancel := context.WithTimeout(ctx, postLimit)
	defer cancel()
	e = s.cleanEntry(e)
	for {
		p, err := s.post(ctx, tenant, candidates, park, e, otherwise)
		if !errors.Is(err, session.ErrUnavailable) || s.down.Load() {
			return p, err
		}
		// It may be away for a moment only; whoever rates a session can wait for that.
		select {
		case <-ctx.Done():
			return p, err
		case <-time.After(postAgain):
		}
	}
}

func (s *Store) post(ctx context.Context, tenant string, candidates []session.ID, park session.EchoKey, e feedback.Entry, otherwise []session.ID) (Posted, error) {
	for _, id := range candidates {
		if len(candidates) > 1 && !s.live.has(id) {
			continue // one of many things that a name may mean: past memory, the key below knows
		}
		of, ok, err := s.Known(ctx, tenant, id)
		if err != nil {
			return Posted{}, err
		}
		if ok {
			return s.join(ctx, tenant, of, e)
		}
	}
	if p, ok, err := s.joinByKey(ctx, tenant, park, e); ok || err != nil {
		return p, err
	}
	for _, id := range otherwise {
		if of, ok, err := s.Known(ctx, tenant, id); ok || err != nil {
			if err != nil {
				return Posted{}, err
			}
			return s.join(ctx, tenant, of, e)
		}
	}
	if err := s.be.Park(ctx, tenant, park, e); err != nil {
		return Posted{}, err
	}
	// What it waits for may have landed between the look and the parking; nobody would look again.
	p, ok, err := s.joinByKey(ctx, tenant, park, e)
	if err != nil || !ok {
		return Posted{Status: Parked}, err
	}
	return p, nil // it waits there still; joined twice it counts once
}

// joinByKey joins a feedback to the session in which the key went by, if one is known.
func (s *Store) joinByKey(ctx context.Context, tenant string, key session.EchoKey, e feedback.Entry) (Posted, bool, error) {
	var ids []session.ID
	if id, ok := s.recent(key); ok { // before the backend is asked: what is no longer here is there
		ids = []session.ID{id}
	} else {
		found, err := s.be.FindEcho(ctx, tenant, []session.EchoKey{key})
		if err != nil {
			return Posted{}, false, err
		}
		ids = found[key]
	}
	for _, id := range ids {
		of, ok, err := s.Known(ctx, tenant, id)
		if err != nil {
			return Posted{}, false, err
		}
		if ok {
			p, err := s.join(ctx, tenant, of, e)
			return p, true, err
		}
	}
	return Posted{}, false, nil
}

// recent finds a key among what went by and the backend does not have yet.
func (s *Store) recent(key session.EchoKey) (session.ID, bool) {
	s.dirtyMu.Lock()
	defer s.dirtyMu.Unlock()
	for _, echoes := range s.held {
		if id, ok := latest(echoes, key); ok {
			return id, true
		}
	}
	if id, ok := latest(s.echoes, key); ok {
		return id, true
	}
	for _, f := range slices.Backward(s.moving.flushes) {
		if id, ok := latest(f.echoes, key); ok {
			return id, true
		}
	}
	return session.ID{}, false
}

func latest(echoes []session.Echo, key session.EchoKey) (session.ID, bool) {
	for _, e := range slices.Backward(echoes) {
		if e.Key == key {
			return e.ID, true
		}
	}
	return session.ID{}, false
}

// moving are the keys on their way to the backend, by the flush that took them: an early feedback
// looks for them while they are in neither place.
type moving struct {
	flushes []movingFlush
	n       int // keys
}

type movingFlush struct {
	flush  int64
	echoes []session.Echo
}

// add takes in what a flush took, and lets go of what is delivered.
func (m *moving) add(flush int64, echoes []session.Echo, delivered int64) {
	m.flushes = slices.DeleteFunc(m.flushes, func(f movingFlush) bool {
		if f.flush <= delivered {
			m.n -= len(f.echoes)
		}
		return f.flush <= delivered
	})
	if len(echoes) > 0 && m.n+len(echoes) <= maxEchoes {
		m.flushes = append(m.flushes, movingFlush{flush, echoes})
		m.n += len(echoes)
	}
}

// join adds a feedback to a session, and lets its reward be looked at again.
func (s *Store) join(ctx context.Context, tenant string, of session.Member, e feedback.Entry) (Posted, error) {
	p := Posted{Session: of.Name, Run: of.Run, Status: Joined}
	if _, silent := s.unheard(ctx, tenant, of.ID); silent {
		p.Status = Ignored
		return p, nil
	}
	entries := map[session.ID][]feedback.Entry{of.ID: {e}}
	if of.Unit != (session.ID{}) {
		entries[of.Unit] = []feedback.Entry{e.OfMember(of.ID.String())}
	}
	if _, err := s.be.AddFeedbackAll(ctx, tenant, entries); err != nil {
		return Posted{}, err
	}
	for id := range entries {
		s.Touch(tenant, id)
	}
	return p, nil
}

// unpark joins what waited for replies that have landed. It asks each time: what waits may have
// been parked by an earlier run or another replica.
func (s *Store) unpark(ctx context.Context, landed []session.Echo) error {
	byTenant := map[string]map[session.EchoKey]session.ID{}
	for i := range landed {
		e := &landed[i]
		if byTenant[e.Tenant] == nil {
			byTenant[e.Tenant] = map[session.EchoKey]session.ID{}
		}
		if _, seen := byTenant[e.Tenant][e.Key]; !seen {
			byTenant[e.Tenant][e.Key] = e.ID
		}
	}
	for tenant, owners := range byTenant {
		if err := s.joinAll(ctx, tenant, owners); err != nil {
			return err
		}
	}
	return nil
}

// joinAll joins what waits for some keys; a key at which that panics is left out, and what waits
// for it waits on.
func (s *Store) joinAll(ctx context.Context, tenant string, owners map[session.EchoKey]session.ID) error {
	var joined map[session.ID]int
	err := s.guard.Err("unpark", func() (err error) { joined, err = s.be.Join(ctx, tenant, owners); return err })
	if errors.Is(err, guard.ErrPanicked) && len(owners) > 1 {
		for key, id := range owners {
			if err := s.joinAll(ctx, tenant, map[session.EchoKey]session.ID{key: id}); err != nil {
				return err
			}
		}
		return nil
	}
	if errors.Is(err, guard.ErrPanicked) {
		return nil
	}
	for id := range joined {
		s.Touch(tenant, id)
		if err == nil {
			err = s.passToUnit(ctx, tenant, id)
		}
	}
	return err
}

// OfSample finds the session of a sample.
func (s *Store) OfSample(ctx context.Context, tenant, sampleID string) (session.ID, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, postLimit)
	defer cancel()
	return s.be.SampleSession(ctx, tenant, sampleID)
}

// forget lets go of some keys.
func (m *moving) forget(of func(session.Echo) bool) {
	for i := range m.flushes {
		f := &m.flushes[i]
		m.n -= len(f.echoes)
		f.echoes = slices.DeleteFunc(f.echoes, of)
		m.n += len(f.echoes)
	}
}
