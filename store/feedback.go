package store

import (
	"context"
	"errors"
	"maps"
	"slices"

	"precept/bandit/feedback"
	"precept/internal/guard"
	"precept/internal/label"
	"precept/internal/session"
)

// feedbackSets is where a backend keeps the feedback of each session, and what waits for one.
type feedbackSets interface {
	AddFeedback(ctx context.Context, tenant string, entries map[session.ID][]feedback.Entry) (added map[session.ID]int, err error)
	Feedback(ctx context.Context, tenant string, id session.ID) ([]feedback.Entry, error)
	Join(ctx context.Context, tenant string, owners map[session.EchoKey]session.ID) (map[session.ID]int, error)
}

// feedbackWriter adds feedback to sessions and to the units that they belong to (feedback/unit.go),
// whoever gave it, and asks for their rewards to be looked at again.
type feedbackWriter struct {
	be       feedbackSets
	sessions *sessions
	touched  *touched
	guard    *guard.Guard
	tally    *Tally
	failed   func(step label.Step, err error)
}

// Tell adds to sessions what is said of them, and counts what their sets have no room for.
func (f *feedbackWriter) Tell(ctx context.Context, tenant string, entries map[session.ID][]feedback.Entry) error {
	return f.roomy(f.tell(ctx, tenant, entries))
}

// tell is Tell for who can be told that a set is full. The rewards of the sessions that heard
// something new are looked at again.
func (f *feedbackWriter) tell(ctx context.Context, tenant string, entries map[session.ID][]feedback.Entry) error {
	added, err := f.be.AddFeedback(ctx, tenant, entries)
	for id := range entries {
		if added == nil || added[id] > 0 { // nobody knows what came of it, or it is news
			f.touched.Touch(tenant, id)
		}
	}
	return err
}

// roomy takes a full set for no failure, and counts what it had no room for.
func (f *feedbackWriter) roomy(err error) error {
	if n, ok := errors.AsType[session.FeedbackFull](err); ok {
		f.tally.FeedbackLeft.Add(int64(n))
		return nil
	}
	return err
}

// passToUnits adds to what the traffic says of members what it says of their units. Of those that
// cannot be asked just now the closing will tell.
func (f *feedbackWriter) passToUnits(ctx context.Context, tenant string, entries map[session.ID][]feedback.Entry) {
	for _, id := range slices.Collect(maps.Keys(entries)) {
		of, ok, err := f.sessions.Known(ctx, tenant, id)
		if err != nil || !ok || of.Unit == (session.ID{}) {
			continue
		}
		if list := feedback.ForUnit(of.ID.String(), of.MemberNo, entries[id]); len(list) > 0 {
			entries[of.Unit] = append(entries[of.Unit], list...)
		}
	}
}

// passToUnit lets the unit of a session know what the session was told, where it has one.
func (f *feedbackWriter) passToUnit(ctx context.Context, tenant string, id session.ID) error {
	of, ok, err := f.sessions.Known(ctx, tenant, id)
	if err != nil || !ok || of.Unit == (session.ID{}) {
		return err
	}
	entries, err := f.be.Feedback(ctx, tenant, of.ID)
	if err != nil {
		return err
	}
	list := feedback.ForUnit(of.ID.String(), of.MemberNo, entries)
	if len(list) == 0 {
		return nil
	}
	return f.Tell(ctx, tenant, map[session.ID][]feedback.Entry{of.Unit: list})
}

// addSignals adds what the traffic said to the sessions' feedback.
func (f *feedbackWriter) addSignals(ctx context.Context, signals []signal) error {
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
		err := f.guard.Err(label.StepImplicit, func() error { return f.Tell(ctx, tenant, entries) })
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
func (f *feedbackWriter) addSignalsEach(ctx context.Context, tenant string, entries map[session.ID][]feedback.Entry) error {
	for id, list := range entries {
		var err error
		f.guard.On(label.StepImplicit, session.Ref{Tenant: tenant, ID: id}, "", func() {
			err = f.Tell(ctx, tenant, map[session.ID][]feedback.Entry{id: list})
		})
		if errors.Is(err, session.ErrInvalid) {
			f.failed(label.StepImplicit, err)
			err = nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// unpark joins what waited for replies that have landed. It asks each time: what waits may have
// been parked by an earlier run or another replica.
func (f *feedbackWriter) unpark(ctx context.Context, landed []session.Echo) error {
	byTenant := map[string]map[session.EchoKey]session.ID{}
	for i := range landed {
		e := &landed[i]
		if byTenant[e.Tenant] == nil {
			byTenant[e.Tenant] = map[session.EchoKey]session.ID{}
		}
		if _, seen := byTenant[e.Tenant][e.Key]; !seen {
			byTenant[e.Tenant][e.Key] = e.ID
		}
	}
	for tenant, owners := range byTenant {
		if err := f.joinAll(ctx, tenant, owners); err != nil {
			return err
		}
	}
	return nil
}

// joinAll joins what waits for some keys; a key at which that panics is left out, and what waits
// for it waits on.
func (f *feedbackWriter) joinAll(ctx context.Context, tenant string, owners map[session.EchoKey]session.ID) error {
	var joined map[session.ID]int
	err := f.guard.Err(label.StepUnpark, func() (err error) { joined, err = f.be.Join(ctx, tenant, owners); return f.roomy(err) })
	if errors.Is(err, guard.ErrPanicked) && len(owners) > 1 {
		for key, id := range owners {
			if err := f.joinAll(ctx, tenant, map[session.EchoKey]session.ID{key: id}); err != nil {
				return err
			}
		}
		return nil
	}
	if errors.Is(err, guard.ErrPanicked) {
		return nil
	}
	for id := range joined {
		f.touched.Touch(tenant, id)
		if err == nil {
			err = f.passToUnit(ctx, tenant, id)
		}
	}
	return err
}
