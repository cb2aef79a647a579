package store

import (
	"context"
	"errors"
	"slices"

	"precept/detect"
	"precept/feedback"
	"precept/sample"
	"precept/session"
	"precept/store/guard"
)

// signal is what the traffic itself says of a session.
type signal struct {
	session.Ref
	entry feedback.Entry
}

// implicit makes feedback of what the traffic said of the session: the outcome of a test, lint or
// build run (tier 2), refusals and interrupts (tier 3).
func (s *Store) implicit(x *sample.Exchange, signals []detect.Signal) []signal {
	id, ok := session.ParseID(x.Session)
	if !ok {
		return nil
	}
	var out []signal
	for _, sg := range signals {
		if sg.Sentiment && (!s.opts.Sentiment || x.Turn <= 1) {
			continue
		}
		e := feedback.Implicit(x.Session, x.Turn, sg.Tier, kindOf(sg.Feeling), sg.Rule, x.At)
		out = slices.DeleteFunc(out, func(s signal) bool { return s.entry.ID == e.ID }) // of one turn the last word counts
		out = append(out, signal{session.Ref{Tenant: x.Tenant, ID: id}, e})
	}
	return out
}

// kindOf is the type of feedback that a feeling stands for.
func kindOf(f detect.Feeling) string {
	if f == detect.Thanks {
		return feedback.TypeApproval
	}
	return string(f)
}

// addSignals adds what the traffic said to the sessions' feedback.
func (s *Store) addSignals(ctx context.Context, signals []signal) error {
	byTenant := map[string]map[session.ID][]feedback.Entry{}
	for i := range signals {
		sg := &signals[i]
		if byTenant[sg.Tenant] == nil {
			byTenant[sg.Tenant] = map[session.ID][]feedback.Entry{}
		}
		byTenant[sg.Tenant][sg.ID] = append(byTenant[sg.Tenant][sg.ID], sg.entry)
	}
	for tenant, entries := range byTenant {
		s.passToUnits(ctx, tenant, entries)
	}
	for tenant, entries := range byTenant {
		err := s.guard.Err("implicit", func() error { _, err := s.be.AddFeedbackAll(ctx, tenant, entries); return err })
		if guard.Poisoned(err) {
			err = s.addSignalsEach(ctx, tenant, entries)
		}
		if err != nil {
			return err
		}
		for id := range entries {
			s.Touch(tenant, id)
		}
	}
	return nil
}

// addSignalsEach does so session by session: what was read of one of them can never be added.
func (s *Store) addSignalsEach(ctx context.Context, tenant string, entries map[session.ID][]feedback.Entry) error {
	for id, list := range entries {
		var err error
		s.guard.On("implicit", session.Ref{Tenant: tenant, ID: id}, "", func() { _, err = s.be.AddFeedback(ctx, tenant, id, list) })
		if errors.Is(err, session.ErrInvalid) {
			s.opts.Failed("implicit", err)
			err = nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}
