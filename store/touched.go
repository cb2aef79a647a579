package store

import (
	"sync"

	"precept/session"
)

// touched are the sessions of which something was said, or which are to be looked at again for
// another reason.
type touched struct {
	mu sync.Mutex
	of map[session.Ref]bool
}

// forget lets go of some of them.
func (t *touched) forget(tenant string, of func(session.ID) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for ref := range t.of {
		if ref.Tenant == tenant && of(ref.ID) {
			delete(t.of, ref)
		}
	}
}

// Touch asks for a session's reward to be looked at again.
func (s *Store) Touch(tenant string, id session.ID) {
	s.touched.mu.Lock()
	defer s.touched.mu.Unlock()
	if s.touched.of == nil {
		s.touched.of = map[session.Ref]bool{}
	}
	s.touched.of[session.Ref{Tenant: tenant, ID: id}] = true
}

// Touched takes the sessions that are to be looked at again.
func (s *Store) Touched() map[session.Ref]bool {
	s.touched.mu.Lock()
	defer s.touched.mu.Unlock()
	of := s.touched.of
	s.touched.of = nil
	return of
}
