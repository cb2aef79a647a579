package store

import (
	"context"
	"encoding/json"

	"precept/bandit"
)

// tenant is what the chooser and the report read of one tenant.
type tenant struct {
	counters  *bandit.Counters
	elsewhere map[string]int64 // sessions counted under other definitions of reward
	rewards   int
	version   int64
}

// Beliefs is what the chooser believes of a tenant's lessons. It never asks the backend: a tenant that is not in memory
// yet starts from the priors, and is loaded by the recorder.
func (s *Store) Beliefs(name string) *bandit.Counters {
	s.tenantsMu.RLock()
	t := s.tenants[name]
	s.tenantsMu.RUnlock()
	if t != nil {
		return t.counters
	}
	s.tenantsMu.Lock()
	defer s.tenantsMu.Unlock()
	if t = s.tenants[name]; t == nil {
		t = &tenant{counters: bandit.NewCounters()}
		t.counters.Today(s.opts.Now())
		s.tenants[name] = t
	}
	return t.counters
}

// adopt puts the published priors in force.
func (s *Store) adopt(ctx context.Context, name string, t *tenant) error {
	version, data, err := s.be.Priors(ctx, name)
	if err != nil {
		return err
	}
	t.version = version
	var p bandit.Priors
	if len(data) > 0 && json.Unmarshal(data, &p) == nil {
		t.counters.SetPriors(p)
	}
	return nil
}

// learned folds what was just settled into the beliefs, and publishes maxima and priors.
func (s *Store) learned(ctx context.Context, name string, deltas []bandit.Delta) {
	c := s.Beliefs(name)
	c.Add(deltas)
	if up := c.Maxima(s.opts.Now()); len(up) > 0 {
		if err := s.be.Raise(ctx, name, under(s.reward, up)); err != nil {
			s.opts.Failed("raise", err)
		}
	}
	s.tenant(name).rewards += bandit.Told(deltas)
	s.refit(ctx, name)
}

// tenant is what is known of a tenant that Beliefs was asked for.
func (s *Store) tenant(name string) *tenant {
	s.tenantsMu.RLock()
	defer s.tenantsMu.RUnlock()
	return s.tenants[name]
}

// refitDue looks whether the tenants of sessions that told something have told enough for new priors.
func (s *Store) refitDue(ctx context.Context, touched map[touch]bool) {
	s.shared.mu.Lock()
	defer s.shared.mu.Unlock()
	for t := range touched {
		if s.tenant(t.tenant) != nil {
			s.refit(ctx, t.tenant)
		}
	}
}

// refit fits the priors when enough rewards have come in, and publishes them.
func (s *Store) refit(ctx context.Context, name string) {
	c, t := s.Beliefs(name), s.tenant(name)
	if t.rewards < bandit.RefitEvery {
		return
	}
	t.rewards = 0
	p := c.Refit()
	data, err := json.Marshal(p)
	if err != nil {
		s.opts.Failed("refit", err)
		return
	}
	ok, err := s.be.PutPriors(ctx, name, t.version, data)
	if err != nil {
		s.opts.Failed("refit", err)
		return
	}
	if !ok { // another replica was first: its priors hold, and the next ones follow them
		if err := s.adopt(ctx, name, t); err != nil {
			s.opts.Failed("refit", err)
		}
		return
	}
	t.version++
	c.SetPriors(p)
}
