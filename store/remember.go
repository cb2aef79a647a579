package store

import (
	"cmp"
	"context"
	"encoding/json"
	"time"

	"precept/bandit"
	"precept/session"
)

// historian is a backend that can be walked over for what closed before.
type historian interface {
	EachSession(ctx context.Context, tenant string, since, until time.Time, fn func(session.Row, session.Applied) error) error
}

// remember tells the chooser what was in the sessions that were closed before this run (bandit.Counters.RecallEarlier). Replicas on one
// backend do without: each would read what is the fleet's, and the others still know.
func (s *Store) remember(ctx context.Context) {
	be, ok := s.be.(historian)
	if !ok || s.Shared() || s.opts.Aside {
		return
	}
	since := map[string]time.Time{}
	oldest := s.early.begun
	for _, name := range s.known() {
		at := s.early.begun.Add(-s.Beliefs(name).RecallSpan())
		since[name] = at
		if at.Before(oldest) {
			oldest = at
		}
	}
	if len(since) == 0 {
		return
	}
	err := be.EachSession(ctx, "", oldest, time.Time{}, func(r session.Row, a session.Applied) error {
		if at, ok := since[r.Tenant]; !ok || !a.Told || r.Started.Before(at) {
			return nil
		}
		s.guardOn("remember", touch{r.Tenant, r.ID}, "", func() {
			var as bandit.Assignment
			if json.Unmarshal(a.Frozen, &as) == nil && cmp.Or(as.Reward, defaultReward) == s.reward {
				s.Beliefs(r.Tenant).RecallEarlier(r.ID.Key(), &as)
			}
		})
		return nil
	})
	if err != nil && ctx.Err() == nil {
		s.opts.Failed("remember", err)
	}
	for name := range since {
		s.Beliefs(name).Reconcile()
	}
}

// known are the tenants in memory.
func (s *Store) known() []string {
	s.tenantsMu.RLock()
	defer s.tenantsMu.RUnlock()
	names := make([]string, 0, len(s.tenants))
	for name := range s.tenants {
		names = append(names, name)
	}
	return names
}
