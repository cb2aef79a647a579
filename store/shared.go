package store

import (
	"context"
	"errors"
	"sync"
	"time"

	"precept/bandit"
	"precept/session"
	"precept/store/guard"
)

// FollowEvery is how often a store looks at what other replicas have learned.
const FollowEvery = 2 * time.Second

// toldBatch is how many open sessions that were told of are read in one step.
const toldBatch = 500

// shared is what a store on such a backend has to know. Nothing of it is used on any other.
type shared struct {
	// mu is held while counters are moved in the backend and in memory, and while memory is made
	// anew from the backend: a reward of ours is then in both or in neither. It is locked before
	// tenantsMu.
	mu       sync.Mutex
	moved    map[string]string // as of the last reading
	followed map[string]int64  // how far the chooser has listened
}

// Follow keeps the beliefs in line with what other replicas have settled, until ctx is done. On a
// backend that is this process' own it returns at once.
func (s *Store) Follow(ctx context.Context, every time.Duration) error {
	be := s.opts.Fleet
	if be == nil {
		return nil
	}
	for {
		begin := s.opts.Now()
		if err := s.guard.Err("follow", func() error { return s.refresh(ctx, be) }); err != nil && ctx.Err() == nil {
			s.opts.Failed("follow", err)
		}
		// Where there is so much to read that it takes long, it is read less often.
		wait := max(every, 20*s.opts.Now().Sub(begin))
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(min(wait, 10*every)):
		}
	}
}

// refresh reads the counters of every tenant whose counters have moved since they were read. They
// replace what is in memory: its own part of them is among them.
func (s *Store) refresh(ctx context.Context, be Fleet) error {
	moved, err := be.Moved(ctx)
	if err != nil {
		return err
	}
	for name, stand := range moved {
		if !s.room(name) { // nobody asked for it lately
			continue
		}
		err := s.guard.Err("follow", func() error {
			if err := s.refreshTenant(ctx, be, name, stand.Counters); err != nil {
				return err
			}
			return s.listen(ctx, be, name, stand.Told)
		})
		if err != nil && !errors.Is(err, guard.ErrPanicked) { // of one tenant nothing is followed; the others' are
			return err
		}
	}
	return nil
}

func (s *Store) refreshTenant(ctx context.Context, be Fleet, name, stand string) error {
	s.shared.mu.Lock()
	defer s.shared.mu.Unlock()
	if old, read := s.shared.moved[name]; read && old == stand {
		return nil
	}
	if s.shared.moved == nil {
		s.shared.moved = map[string]string{}
	}
	fresh, err := s.read(ctx, name)
	if err != nil {
		return err
	}
	s.setTenant(name, fresh)
	s.shared.moved[name] = stand
	return s.settledElsewhere(ctx, be, name)
}

// settledElsewhere takes back what was told of a tenant's sessions that the counters know by now,
// because another replica closed them. The caller holds shared.mu.
func (s *Store) settledElsewhere(ctx context.Context, be Fleet, name string) error {
	var ids []session.ID
	now := s.opts.Now()
	for at, f := range s.early.sessions {
		if at.Tenant == name && !f.due.After(now) {
			ids = append(ids, at.ID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	settled, err := be.Settled(ctx, name, ids)
	if err != nil {
		return err
	}
	for i, id := range ids {
		if settled[i] {
			s.unforesee(session.Ref{Tenant: name, ID: id})
		}
	}
	return nil
}

// listen lets the chooser learn from what open sessions told the other replicas, as far as they
// have come.
func (s *Store) listen(ctx context.Context, be Fleet, name string, latest int64) error {
	for ctx.Err() == nil {
		s.shared.mu.Lock()
		from := s.shared.followed[name]
		s.shared.mu.Unlock()
		if from == latest {
			return nil
		}
		rows, said, last, err := be.Told(ctx, name, from, toldBatch)
		if err != nil {
			return err
		}
		for i := range rows {
			if !rows[i].Closed {
				s.guard.On("follow", session.Ref{Tenant: name, ID: rows[i].ID}, "", func() { s.foreseeSaid(&rows[i], said[i]) })
			}
		}
		s.listened(name, last)
		if last == from { // what told it is gone again
			return nil
		}
	}
	return ctx.Err()
}

// listened notes how far the chooser has listened to a tenant's sessions.
func (s *Store) listened(name string, last int64) {
	s.shared.mu.Lock()
	defer s.shared.mu.Unlock()
	if s.shared.followed == nil {
		s.shared.followed = map[string]int64{}
	}
	s.shared.followed[name] = last
}

// read makes what the chooser believes of a tenant's lessons out of the backend alone.
func (s *Store) read(ctx context.Context, name string) (*tenant, error) {
	deltas, err := s.be.Counters(ctx, name)
	if err != nil {
		return nil, err
	}
	maxima, err := s.be.Maxima(ctx, name)
	if err != nil {
		return nil, err
	}
	t := &tenant{counters: bandit.New()}
	t.counters.Today(s.opts.Now())
	deltas, t.elsewhere = apart(s.reward, deltas)
	t.counters.Add(deltas)
	maxima, _ = apart(s.reward, maxima)
	t.counters.Raise(maxima)
	return t, s.adopt(ctx, name, t)
}

// load reads the counters of every tenant, at start. A shared backend that is away is no reason not
// to start: lessons are chosen from the priors until Follow finds it.
func (s *Store) load(ctx context.Context) error {
	if be := s.opts.Fleet; be != nil {
		err := s.guard.Err("load", func() error { return s.refresh(ctx, be) })
		if errors.Is(err, session.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, guard.ErrPanicked) {
			s.opts.Failed("load", err)
			return nil
		}
		return err
	}
	names, err := s.be.Tenants(ctx)
	if err != nil {
		return err
	}
	for _, name := range names[:min(len(names), tenantsMost)] { // the others when they are asked for
		var t *tenant
		err := s.guard.Err("load", func() (err error) { t, err = s.read(ctx, name); return err })
		if errors.Is(err, guard.ErrPanicked) { // it begins from the priors
			continue
		}
		if err != nil {
			return err
		}
		s.setTenant(name, t)
	}
	return nil
}

// Shared says whether other replicas may serve the sessions that are in memory here.
func (s *Store) Shared() bool {
	return s.opts.Fleet != nil
}

// Unsure says that a session was begun while the backend could not be asked for it: it may be known
// there.
func (s *Session) Unsure() bool { return s.unsure.Load() }

// Refresh reads a session anew that has gone on elsewhere, within Options.Lookup. When the backend
// does not answer in time, what is in memory has to do. What stood in for a session gives way to
// it; as a turn of it had to do without its lessons, it is no part of the experiment any more.
func (s *Store) Refresh(ctx context.Context, ses *Session) {
	ctx, cancel := context.WithTimeout(ctx, s.opts.Lookup)
	defer cancel()
	row, ok, err := s.be.Session(ctx, ses.Tenant, ses.ID)
	if err != nil {
		s.opts.Failed("lookup", err)
		return
	}
	if !ok {
		ses.unsure.Store(s.inTheDark())
		return
	}
	rec, err := session.Decode(ses.ID, row.Data)
	if err != nil {
		s.opts.Failed("decode", err)
		return
	}
	ses.Lock()
	defer ses.Unlock()
	ses.unsure.Store(false)
	switch {
	case ses.StandIn && !rec.StandIn:
		ses.Adopt(rec)
		ses.Assignment.Excluded, ses.Dirty = true, true
	case rec.StandIn && !ses.StandIn:
	case rec.Turns > ses.Turns || rec.Turns == ses.Turns && rec.Seen.After(ses.Seen):
		ses.Adopt(rec)
	}
}
