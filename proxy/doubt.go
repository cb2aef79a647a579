package proxy

import (
	"precept/session"
	"precept/store"
)

// Why a session is no part of the experiment.
const (
	excludedTwin = "twin"   // its history is equal to another one's byte for byte
	excludedLate = "late"   // the store did not say in time what was decided before
	excludedKeys = "secret" // the coins would fall otherwise on another replica
)

// doubt leaves the sessions out of the experiment that nothing tells apart: the request may be any
// one's, so the draws of one may have gone to another. They keep what they have and get what others
// get; it only counts for nothing. A session that has closed was counted with what it had until
// then, one that has a name of its own is in no doubt, and the draws of a run's sessions are the
// same.
func (s *sender) doubt() {
	for _, id := range s.found.Doubt {
		ses := s.p.opts.Store.Resident(id)
		if ses == nil {
			continue
		}
		changed := store.Unchanged
		ses.Lock()
		if unnamed := ses.Method == session.ByNew || ses.Method == session.ByEcho; unnamed && ses.Unit == "" && !ses.Closed && !ses.Assignment.Excluded {
			ses.Assignment.Excluded, ses.Doubted, ses.Dirty = true, true, true
			changed = store.Decided
			s.p.opts.Metrics.excluded.WithLabelValues(excludedTwin).Inc()
		}
		ses.Unlock()
		s.p.opts.Store.Release(ses, changed)
	}
}
