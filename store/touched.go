package store

import (
	"sync"

	"precept/internal/session"
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
func (t *touched) Touch(tenant string, id session.ID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of == nil {
		t.of = map[session.Ref]bool{}
	}
	t.of[session.Ref{Tenant: tenant, ID: id}] = true
}

// Touched takes the sessions that are to be looked at again.
func (t *touched) Touched() map[session.Ref]bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	of := t.of
	t.of = nil
	return of
}
