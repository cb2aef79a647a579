package store

import (
	"context"
	"encoding/json"

	"precept/bandit"
	"precept/session"
	"precept/trial"
)

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
func (s *Store) learned(ctx context.Context, name string, deltas []trial.Delta) {
	c := s.Beliefs(name)
	c.Add(deltas)
	if up := c.Maxima(s.opts.Now()); len(up) > 0 {
		if err := s.be.Raise(ctx, name, under(s.reward, up)); err != nil {
			s.opts.Failed("raise", err)
		}
	}
	s.tenant(name).rewards += trial.Told(deltas)
	s.refit(ctx, name)
}

// refitDue looks whether the tenants of sessions that told something have told enough for new
// priors.
func (s *Store) refitDue(ctx context.Context, touched map[session.Ref]bool) {
	s.shared.mu.Lock()
	defer s.shared.mu.Unlock()
	for t := range touched {
		if s.tenant(t.Tenant) != nil {
			s.refit(ctx, t.Tenant)
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
