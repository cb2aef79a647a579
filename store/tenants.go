package store

import (
	"cmp"
	"context"
	"slices"
	"sync/atomic"

	"precept/bandit"
	"precept/store/guard"
)

const (
	// tenantsMost is of how many tenants the chooser's beliefs are in memory, the latest used: with
	// a tenant for each credential there may be a million.
	tenantsMost = 2000
	tenantStep  = 200 // read from the backend in one step
)

// tenant is what the chooser and the report read of one tenant.
type tenant struct {
	counters  *bandit.Chooser
	elsewhere map[string]int64 // sessions counted under other definitions of reward
	rewards   int
	version   int64
	used      atomic.Int64 // when it was asked for, as a number that only grows
	read      bool         // what the backend knows of it is in it; guarded by tenantsMu
}

// Beliefs is what the chooser believes of a tenant's lessons. It never asks the backend: a tenant
// that is not in memory yet starts from the priors, and is loaded by the recorder.
func (s *Store) Beliefs(name string) *bandit.Chooser {
	s.tenantsMu.RLock()
	t := s.tenants[name]
	s.tenantsMu.RUnlock()
	if t == nil {
		t = s.addTenant(name)
	}
	t.used.Store(s.tenantsAsked.Add(1))
	return t.counters
}

func (s *Store) addTenant(name string) *tenant {
	s.tenantsMu.Lock()
	defer s.tenantsMu.Unlock()
	t := s.tenants[name]
	if t == nil {
		t = &tenant{counters: bandit.New()}
		t.counters.Today(s.opts.Now())
		s.tenants[name] = t
		if len(s.unread) < tenantsMost { // others are read when they are asked for again
			s.unread = append(s.unread, name)
		}
	}
	return t
}

// tenant is what is known of a tenant that Beliefs was asked for.
func (s *Store) tenant(name string) *tenant {
	s.tenantsMu.RLock()
	defer s.tenantsMu.RUnlock()
	return s.tenants[name]
}

// setTenant puts what was read of a tenant in the place of what was known.
func (s *Store) setTenant(name string, fresh *tenant) {
	s.tenantsMu.Lock()
	defer s.tenantsMu.Unlock()
	if old := s.tenants[name]; old != nil {
		fresh.rewards = old.rewards
		fresh.counters.Inherit(old.counters)
		fresh.used.Store(old.used.Load())
	}
	fresh.read = true
	s.tenants[name] = fresh
}

// room says whether a tenant is in memory, or may be.
func (s *Store) room(name string) bool {
	s.tenantsMu.RLock()
	defer s.tenantsMu.RUnlock()
	return s.tenants[name] != nil || len(s.tenants) < tenantsMost
}

// loadTenant reads a tenant that was not in memory, for somebody who cannot do with the priors.
func (s *Store) loadTenant(ctx context.Context, name string) error {
	s.Beliefs(name)
	s.shared.mu.Lock()
	defer s.shared.mu.Unlock()
	if t := s.tenant(name); t == nil || t.read {
		return nil
	}
	fresh, err := s.read(ctx, name)
	if err != nil {
		return err
	}
	s.setTenant(name, fresh)
	return nil
}

// tidyTenants reads the tenants that were asked for and are not in memory, and lets go of those
// that are too many.
func (s *Store) tidyTenants(ctx context.Context) {
	s.tenantsMu.Lock()
	n := min(len(s.unread), tenantStep)
	names := s.unread[:n:n]
	s.unread = s.unread[n:]
	many := len(s.tenants) > tenantsMost
	s.tenantsMu.Unlock()
	for _, name := range names {
		if err := s.guard.Err("load", func() error { return s.loadTenant(ctx, name) }); err != nil && !guard.Poisoned(err) {
			s.opts.Failed("load", err)
			s.tenantsMu.Lock()
			s.unread = append(s.unread, name)
			s.tenantsMu.Unlock()
			return
		}
	}
	if many {
		s.dropTenants()
	}
}

// dropTenants lets go of the tenants that were asked for longest ago. What was learned of them
// stands in the backend.
func (s *Store) dropTenants() {
	s.shared.mu.Lock()
	defer s.shared.mu.Unlock()
	gone := s.oldTenants()
	for at := range s.early.sessions {
		if gone[at.Tenant] {
			delete(s.early.sessions, at)
		}
	}
	for name := range gone {
		delete(s.shared.moved, name)
		delete(s.shared.followed, name)
	}
}

func (s *Store) oldTenants() map[string]bool {
	s.tenantsMu.Lock()
	defer s.tenantsMu.Unlock()
	names := make([]string, 0, len(s.tenants))
	for name := range s.tenants {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(s.tenants[a].used.Load(), s.tenants[b].used.Load()) })
	gone := map[string]bool{}
	for _, name := range names[:max(len(names)-tenantsMost*9/10, 0)] { // some at a time: this looks at all of them
		gone[name] = true
		delete(s.tenants, name)
	}
	s.unread = slices.DeleteFunc(s.unread, func(name string) bool { return gone[name] })
	return gone
}
