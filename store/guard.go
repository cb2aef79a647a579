package store

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"precept/sample"
	"precept/session"
)

const (
	// asideTries is how often a session is tried at which a step panicked: once in each run of the
	// program.
	asideTries = 3
	// asideMost bounds the marks in memory. A program that panics at more than that has other
	// troubles.
	asideMost = 10_000
	whyBytes  = 512
)

// asides are the marks of this run: sessions and exchanges at which a step of an owner panicked.
// What is set aside costs itself; everything beside and behind it goes on.
type asides struct {
	mu      sync.Mutex
	known   map[session.Ref]bool // sessions that are not tried any more in this run
	waiting []session.Aside      // that the backend does not have yet
}

// errPanicked is what a step that panicked returns.
var errPanicked = errors.New("a step panicked")

// guard runs one step of an owner: no panic in it may end the owner, let alone the program. It says
// whether the step came to its end.
func (s *Store) guard(step string, f func()) (ok bool) {
	defer func() {
		if v := recover(); v != nil {
			s.opts.Panicked(step, v)
		}
	}()
	f()
	return true
}

// guardErr is guard for a step that can fail by itself.
func (s *Store) guardErr(step string, f func() error) (err error) {
	if !s.guard(step, func() { err = f() }) {
		return fmt.Errorf("%s: %w", step, errPanicked)
	}
	return err
}

// poisoned says that the same can never be written.
func poisoned(err error) bool {
	return errors.Is(err, session.ErrInvalid) || errors.Is(err, errPanicked)
}

// guardOn runs one step on one session, or on one exchange of it, which is set aside when the step
// panics.
func (s *Store) guardOn(step string, of session.Ref, exchange string, f func()) (ok bool) {
	defer func() {
		if v := recover(); v != nil {
			s.opts.Panicked(step, v)
			s.setAside(step, of, exchange, v)
		}
	}()
	if s.opts.Before != nil {
		s.opts.Before(step, of.ID, exchange)
	}
	f()
	return true
}

// guardExchange is guardOn for one exchange.
func (s *Store) guardExchange(step string, x *sample.Exchange, f func()) (ok bool) {
	id, _ := session.ParseID(x.Session)
	return s.guardOn(step, session.Ref{Tenant: x.Tenant, ID: id}, x.ID, f)
}

// setAside notes the mark of a session or an exchange.
func (s *Store) setAside(step string, of session.Ref, exchange string, why any) {
	s.Tally.SetAside.Add(1)
	text := fmt.Sprint(why)
	text = s.cleanWhy(text[:min(len(text), whyBytes)])
	s.aside.mu.Lock()
	defer s.aside.mu.Unlock()
	if exchange == "" && len(s.aside.known) < asideMost {
		s.aside.known[of] = true
	}
	if len(s.aside.waiting) < asideMost {
		s.aside.waiting = append(s.aside.waiting, session.Aside{
			Tenant: of.Tenant, ID: of.ID, Exchange: exchange, Step: step, Why: text, At: s.opts.Now(),
		})
	}
}

// cleanWhy takes out of a panic's text what must not reach a disk: it may quote what was being
// read.
func (s *Store) cleanWhy(text string) (clean string) {
	if !s.guard("redact", func() { clean = s.newRedactor().Text(text) }) {
		return "(not told)"
	}
	return clean
}

// isAside says whether a session is not to be tried any more in this run.
func (s *Store) isAside(tenant string, id session.ID) bool {
	s.aside.mu.Lock()
	defer s.aside.mu.Unlock()
	return s.aside.known[session.Ref{Tenant: tenant, ID: id}]
}

// keepAsides writes the marks down. Until the backend takes them they are tried again.
func (s *Store) keepAsides(ctx context.Context) {
	s.aside.mu.Lock()
	list := s.aside.waiting
	s.aside.waiting = nil
	s.aside.mu.Unlock()
	if len(list) == 0 {
		return
	}
	err := s.guardErr("set aside", func() error { return s.be.SetAside(ctx, list) })
	if err == nil || poisoned(err) || errors.Is(err, ErrVolatile) {
		return
	}
	s.opts.Failed("set aside", err)
	s.aside.mu.Lock()
	defer s.aside.mu.Unlock()
	s.aside.waiting = append(list, s.aside.waiting[:min(len(s.aside.waiting), max(asideMost-len(list), 0))]...)
}

// readmit lets what earlier runs set aside be tried again, a bounded number of times.
func (s *Store) readmit(ctx context.Context) {
	if s.opts.Aside {
		return
	}
	err := s.guardErr("readmit", func() error { _, err := s.be.Readmit(ctx, asideTries); return err })
	if err != nil && !errors.Is(err, ErrVolatile) && ctx.Err() == nil {
		s.opts.Failed("readmit", err)
	}
}

// AtRequest is the value of a panic at what one request left behind.
type AtRequest struct {
	Request string // its id
	Value   any
}
