package store

import (
	"context"
	"errors"
	"slices"
	"time"

	"precept/sample"
	"precept/session"
)

const (
	erasuresEvery = time.Second
	lateErasure   = time.Minute // what was announced longer ago has been deleted from the backend for good
)

// announce tells the other replicas, before anything is deleted: one that does not know could write
// it again.
func (s *Store) announce(ctx context.Context, b *batch, e session.Erasure) error {
	be := s.opts.Fleet
	if be == nil {
		return nil
	}
	place, err := be.Announce(ctx, e)
	if err == nil {
		b.announced = append(b.announced, place)
	}
	return err
}

// watchErasures looks what other replicas have forgotten. It runs before anything is delivered:
// what a spool kept while this replica was away may be of a session that was forgotten since.
func (s *Store) watchErasures(ctx context.Context, b *batch, now time.Time) error {
	be := s.opts.Fleet
	if be == nil || now.Before(b.erasuresAt) {
		return nil
	}
	for {
		list, err := be.Erasures(ctx, b.erased)
		if err != nil {
			return err
		}
		if len(list) == 0 {
			break
		}
		for i := range list {
			e := &list[i]
			if !slices.Contains(b.announced, e.Place) && e.Tenant != "" {
				if err := s.follow(ctx, b, e, now); err != nil {
					return err
				}
			}
			b.erased = e.Place
		}
	}
	b.announced, b.erasuresAt = nil, now.Add(erasuresEvery)
	return nil
}

// follow forgets here what was forgotten elsewhere. What this replica has written meanwhile is
// deleted again.
func (s *Store) follow(ctx context.Context, b *batch, e *session.Erasure, now time.Time) error {
	s.eraseHere(b, e)
	b.purge = true
	if now.Sub(e.At) > lateErasure {
		return nil
	}
	if len(e.IDs) == 0 {
		_, err := s.be.ForgetTenant(ctx, e.Tenant)
		return err
	}
	for _, id := range e.IDs {
		if _, err := s.be.Forget(ctx, e.Tenant, id); err != nil {
			return err
		}
	}
	return nil
}

// eraseHere takes what was forgotten out of memory, and out of what waits to be written. It says
// how many sessions were in use.
func (s *Store) eraseHere(b *batch, e *session.Erasure) (found map[session.ID]bool, n int) {
	of := func(id session.ID) bool { return len(e.IDs) == 0 || slices.Contains(e.IDs, id) }
	b.mu.Lock()
	defer b.mu.Unlock()
	found = map[session.ID]bool{}
	if len(e.IDs) == 0 {
		s.erased.tenants[e.Tenant] = e.At
		n = s.live.forgetTenant(e.Tenant)
	}
	for _, id := range e.IDs {
		s.erased.sessions[id] = e.At
		if s.live.forget(e.Tenant, id) {
			found[id] = true
			n++
		}
	}
	b.forget(e.Tenant, of)
	s.forgetWaiting(e.Tenant, of)
	return found, n
}

// purgeDue empties the spool's files of what was forgotten elsewhere, as soon as what stands in
// them is delivered.
func (s *Store) purgeDue(ctx context.Context, b *batch) error {
	if !b.purge || !b.started {
		return nil
	}
	err := s.purge(ctx, b)
	if errors.Is(err, errBacklog) {
		return nil // later
	}
	b.purge = err != nil
	return err
}

// left is what of a batch is not forgotten. It is called by who delivers, who alone changes what is
// known of that.
func (e *erasure) left(w session.Batch) session.Batch {
	if len(e.sessions)+len(e.tenants) == 0 {
		return w
	}
	w.Rows = without(w.Rows, func(r *session.Row) bool { return e.isErased(r.Tenant, r.ID.String(), r.Seen) })
	w.Echoes = without(w.Echoes, func(k *session.Echo) bool { return e.isErased(k.Tenant, k.ID.String(), k.At) })
	w.Exchanges = without(w.Exchanges, func(x *sample.Exchange) bool { return e.isErased(x.Tenant, x.Session, x.At) })
	return w
}

// heard is what of the traffic's own feedback is not forgotten.
func (e *erasure) heard(list []signal) []signal {
	return without(list, func(g *signal) bool { return e.isErased(g.Tenant, g.ID.String(), g.entry.At) })
}

// without is the list itself where nothing is to be left out of it, otherwise a new one.
func without[T any](list []T, gone func(*T) bool) []T {
	for i := range list {
		if !gone(&list[i]) {
			continue
		}
		out := slices.Clone(list[:i])
		for k := i + 1; k < len(list); k++ {
			if !gone(&list[k]) {
				out = append(out, list[k])
			}
		}
		return out
	}
	return list
}
