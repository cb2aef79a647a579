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
func (r *recorder) implicit(x *sample.Exchange, signals []detect.Signal) []signal {
	id, ok := session.ParseID(x.Session)
	if !ok {
		return nil
	}
	var out []signal
	for _, sg := range signals {
		if sg.Sentiment && (!r.opts.Sentiment || x.Turn <= 1) {
			continue
		}
		e := feedback.Implicit(x.Session, x.Turn, sg.Tier, kindOf(sg.Feeling), sg.Rule, x.At)
		out = slices.DeleteFunc(out, func(g signal) bool { return g.entry.ID == e.ID }) // of one turn the last word counts
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
func (f *poster) addSignals(ctx context.Context, signals []signal) error {
	byTenant := map[string]map[session.ID][]feedback.Entry{}
	for i := range signals {
		sg := &signals[i]
		if byTenant[sg.Tenant] == nil {
			byTenant[sg.Tenant] = map[session.ID][]feedback.Entry{}
		}
		byTenant[sg.Tenant][sg.ID] = append(byTenant[sg.Tenant][sg.ID], sg.entry)
	}
	for tenant, entries := range byTenant {
		f.passToUnits(ctx, tenant, entries)
	}
	for tenant, entries := range byTenant {
		err := f.guard.Err("implicit", func() error { return f.Tell(ctx, tenant, entries) })
		if guard.Poisoned(err) {
			err = f.addSignalsEach(ctx, tenant, entries)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// addSignalsEach does so session by session: what was read of one of them can never be added.
func (f *poster) addSignalsEach(ctx context.Context, tenant string, entries map[session.ID][]feedback.Entry) error {
	for id, list := range entries {
		var err error
		f.guard.On("implicit", session.Ref{Tenant: tenant, ID: id}, "", func() {
			err = f.Tell(ctx, tenant, map[session.ID][]feedback.Entry{id: list})
		})
		if errors.Is(err, session.ErrInvalid) {
			f.opts.Failed("implicit", err)
			err = nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}
