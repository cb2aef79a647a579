package store

import (
	"context"
	"slices"
	"time"

	"precept/sample"
	"precept/session"
)

// Whether anything of an exchange may be kept is known when the recorder has looked at it, some
// milliseconds after the request. Until then what follows from it (its keys, hashes in the
// session's row) is held in memory: Hold keeps the keys, and session.Record.Await marks the turn.

// SetOptOut says from now on which paths must not be learned from.
func (s *Store) SetOptOut(o *sample.OptOut) { s.optOut.Store(o) }

// Hold keeps keys that went by in a request until its exchange is judged; they are found in memory
// at once.
func (s *Store) Hold(request string, echoes ...session.Echo) {
	s.dirtyMu.Lock()
	defer s.dirtyMu.Unlock()
	if s.holding+len(echoes) > maxEchoes {
		return
	}
	s.holding += len(echoes)
	s.held[request] = append(s.held[request], echoes...)
}

// LetGo ends the holding of a request's keys: they are written, or dropped.
func (s *Store) LetGo(request string, keep bool) {
	s.dirtyMu.Lock()
	defer s.dirtyMu.Unlock()
	echoes := s.held[request]
	delete(s.held, request)
	s.holding -= len(echoes)
	if keep && len(s.echoes) < maxEchoes {
		s.echoes = append(s.echoes, echoes...)
	}
}

// OptedOut says whether nothing of an exchange may be kept, and judges it as Judge does.
func (s *Store) OptedOut(x *sample.Exchange, answered []string) bool { return s.optedOut(x, answered) }

// Judge looks at an exchange that will not be recorded, such as one that found the queue full.
func (s *Store) Judge(x *sample.Exchange, answered []string) { _ = s.optedOut(x, answered) }

// optedOut judges an exchange: nothing of it may be kept when a call of it, or the call that one of
// its results answers, names a path that opted out. Of one that may be kept, what gives back an
// earlier exchange that may not is taken out.
func (s *Store) optedOut(x *sample.Exchange, answered []string) bool {
	o := s.optOut.Load()
	out := o != nil && (slices.ContainsFunc(answered, o.Hits) || o.Named(x))
	if id, ok := session.ParseID(x.Session); ok {
		if ses := s.live.peek(id); ses != nil {
			s.judged(ses, x, out)
			ses.pins.Add(-1)
		}
	}
	s.LetGo(x.RequestID, !out)
	return out
}

func (s *Store) judged(ses *Session, x *sample.Exchange, out bool) {
	ses.Lock()
	defer ses.Unlock()
	if n := min(x.Given, len(x.New)); n > 0 && ses.Hidden(x.Turn-1) {
		x.New, x.NewFrom, x.Given = x.New[n:], x.NewFrom+n, 0
	}
	ses.Judged(x.Turn, out)
	ses.Asked = ses.Asked || out
	if !out {
		s.keepUnit(ses)
	}
	if ses.veiled.Swap(false) { // its row was written before this was known
		s.dirtyMu.Lock()
		if !ses.gone.Load() && ses.dirty.CompareAndSwap(false, true) {
			s.dirty = append(s.dirty, ses)
		}
		s.dirtyMu.Unlock()
	}
}

// unheard says whether nothing of a session may be kept, feedback on it neither. What is not judged
// yet is waited for, a moment.
func (s *Store) unheard(ctx context.Context, tenant string, id session.ID) (name string, yes bool) {
	const step, most = 5 * time.Millisecond, 40
	ses := s.live.peek(id)
	if ses == nil {
		return "", false
	}
	defer ses.pins.Add(-1)
	look := func() (silent, open bool) {
		ses.Lock()
		defer ses.Unlock()
		return ses.Tenant == tenant && ses.Silent(), !ses.Visible() && len(ses.Unjudged) > 0
	}
	silent, open := look()
	for i := 0; open && i < most && ctx.Err() == nil; i++ {
		timer := time.NewTimer(step)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
		silent, open = look()
	}
	return ses.Name, silent
}

// forgetHeld drops the keys of a tenant's forgotten sessions, or of all that nobody asked for in a
// long time. The caller has dirtyMu.
func (s *Store) forgetHeld(drop func(session.Echo) bool) {
	for request, echoes := range s.held {
		left := slices.DeleteFunc(echoes, drop)
		s.holding -= len(echoes) - len(left)
		if s.held[request] = left; len(left) == 0 {
			delete(s.held, request)
		}
	}
}
