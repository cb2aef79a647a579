package store

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"precept/bandit/feedback"
	"precept/detect"
	"precept/internal/guard"
	"precept/internal/label"
	"precept/internal/sample"
	"precept/internal/session"
)

// feedbackSets is the part of a backend that keeps the feedback of each session, and joins parked
// feedback.
type feedbackSets interface {
	AddFeedback(ctx context.Context, tenant string, entries map[session.ID][]feedback.Entry) (added map[session.ID]int, err error)
	Feedback(ctx context.Context, tenant string, id session.ID) ([]feedback.Entry, error)
	FeedbackEntry(ctx context.Context, tenant string, id session.ID, entry string) (feedback.Entry, bool, error)
	Join(ctx context.Context, tenant string, sessions map[session.EchoKey]session.ID) (map[session.ID]int, error)
}

// touched is the set of sessions whose reward the learner must compute again.
type touched struct {
	mu   sync.Mutex
	refs map[session.Ref]bool
}

func (t *touched) add(tenant string, id session.ID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.refs == nil {
		t.refs = map[session.Ref]bool{}
	}
	t.refs[session.Ref{Tenant: tenant, ID: id}] = true
}

// take returns and empties the set.
func (t *touched) take() map[session.Ref]bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	refs := t.refs
	t.refs = nil
	return refs
}

// forget removes sessions of a tenant.
func (t *touched) forget(tenant string, selects func(session.ID) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for ref := range t.refs {
		if ref.Tenant == tenant && selects(ref.ID) {
			delete(t.refs, ref)
		}
	}
}

// feedbackWriter adds feedback to sessions and to their units, the runs or parent sessions, and adds the
// sessions to touched.
type feedbackWriter struct {
	be       feedbackSets
	sessions *sessions
	touched  *touched
	guard    *guard.Guard
	tally    *Tally
	failed   func(step label.Step, err error)
}

// addAndCount is like add, but counts feedback for which a session has no room instead of returning
// an error.
func (f *feedbackWriter) addAndCount(ctx context.Context, tenant string, entries map[session.ID][]feedback.Entry) error {
	return f.countFull(f.add(ctx, tenant, entries))
}

// add adds feedback to sessions, and adds the sessions with new feedback to touched. The error is a
// session.FeedbackFull if a session has no room.
func (f *feedbackWriter) add(ctx context.Context, tenant string, entries map[session.ID][]feedback.Entry) error {
	added, err := f.be.AddFeedback(ctx, tenant, entries)
	for id := range entries {
		if added == nil || added[id] > 0 { // added is nil if the backend does not report the number of new entries
			f.touched.add(tenant, id)
		}
	}
	return err
}

// countFull counts the feedback for which a session has no room, and returns nil for such an error.
func (f *feedbackWriter) countFull(err error) error {
	if n, ok := errors.AsType[session.FeedbackFull](err); ok {
		f.tally.FeedbackFull.Add(int64(n))
		return nil
	}
	return err
}

// addUnits adds entries for the units of the sessions in entries, derived from the entries of the
// sessions. A unit whose look-up fails gets the feedback when the session closes.
func (f *feedbackWriter) addUnits(ctx context.Context, tenant string, entries map[session.ID][]feedback.Entry) {
	for _, id := range slices.Collect(maps.Keys(entries)) {
		member, ok, err := f.sessions.member(ctx, tenant, id)
		if err != nil || !ok || member.Unit == (session.ID{}) {
			continue
		}
		if list := feedback.ForUnit(member.ID.String(), member.MemberNo, entries[id]); len(list) > 0 {
			entries[member.Unit] = append(entries[member.Unit], list...)
		}
	}
}

// postToUnit adds the feedback of a session to the session's unit, if there is one.
func (f *feedbackWriter) postToUnit(ctx context.Context, tenant string, id session.ID) error {
	member, ok, err := f.sessions.member(ctx, tenant, id)
	if err != nil || !ok || member.Unit == (session.ID{}) {
		return err
	}
	entries, err := f.be.Feedback(ctx, tenant, member.ID)
	if err != nil {
		return err
	}
	list := feedback.ForUnit(member.ID.String(), member.MemberNo, entries)
	if len(list) == 0 {
		return nil
	}
	return f.addAndCount(ctx, tenant, map[session.ID][]feedback.Entry{member.Unit: list})
}

// signal is implicit feedback on a session, found in its traffic.
type signal struct {
	Ref   session.Ref
	entry feedback.Entry
}

// signalsOf returns the implicit feedback of an exchange: the outcome of a test, lint or build run
// (tier 2), refusals and interrupts (tier 3) and, if sentiment is true, the tone of the user's words. A
// tier is the rank of a source of rewards.
func signalsOf(x *sample.Exchange, signals []detect.Signal, sentiment bool) []signal {
	id, ok := session.ParseID(x.Session)
	if !ok {
		return nil
	}
	var out []signal
	for _, sg := range signals {
		if sg.Sentiment && (!sentiment || x.Turn <= 1) {
			continue
		}
		e := feedback.Implicit(x.Session, x.Turn, sg.Tier, kindOf(sg.Feeling), sg.Rule, x.At)
		out = slices.DeleteFunc(out, func(g signal) bool { return g.entry.ID == e.ID }) // the last signal of a turn counts
		out = append(out, signal{session.Ref{Tenant: x.Tenant, ID: id}, e})
	}
	return out
}

// kindOf returns the feedback type of a feeling.
func kindOf(f detect.Feeling) string {
	if f == detect.Thanks {
		return feedback.TypeApproval
	}
	return string(f)
}

// addSignals adds implicit feedback to sessions and units.
func (f *feedbackWriter) addSignals(ctx context.Context, signals []signal) error {
	byTenant := map[string]map[session.ID][]feedback.Entry{}
	for i := range signals {
		sg := &signals[i]
		if byTenant[sg.Ref.Tenant] == nil {
			byTenant[sg.Ref.Tenant] = map[session.ID][]feedback.Entry{}
		}
		byTenant[sg.Ref.Tenant][sg.Ref.ID] = append(byTenant[sg.Ref.Tenant][sg.Ref.ID], sg.entry)
	}
	for tenant, entries := range byTenant {
		f.addUnits(ctx, tenant, entries)
	}
	for tenant, entries := range byTenant {
		err := f.guard.Err(label.StepImplicit, func() error { return f.addAndCount(ctx, tenant, entries) })
		if guard.Poisoned(err) {
			err = f.addSignalsEach(ctx, tenant, entries)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// addSignalsEach adds implicit feedback session by session, because the backend can never store the
// feedback of some session. The feedback of this session is dropped.
func (f *feedbackWriter) addSignalsEach(ctx context.Context, tenant string, entries map[session.ID][]feedback.Entry) error {
	for id, list := range entries {
		var err error
		f.guard.On(label.StepImplicit, session.Ref{Tenant: tenant, ID: id}, "", func() {
			err = f.addAndCount(ctx, tenant, map[session.ID][]feedback.Entry{id: list})
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

// unpark joins parked feedback to the sessions of new echo keys. unpark calls the backend for each
// batch, because an earlier run or another replica may have parked feedback for a key.
func (f *feedbackWriter) unpark(ctx context.Context, echoes []session.Echo) error {
	byTenant := map[string]map[session.EchoKey]session.ID{}
	for i := range echoes {
		e := &echoes[i]
		if byTenant[e.Tenant] == nil {
			byTenant[e.Tenant] = map[session.EchoKey]session.ID{}
		}
		if _, seen := byTenant[e.Tenant][e.Key]; !seen {
			byTenant[e.Tenant][e.Key] = e.ID
		}
	}
	for tenant, sessions := range byTenant {
		if err := f.joinAll(ctx, tenant, sessions); err != nil {
			return err
		}
	}
	return nil
}

// joinAll joins the feedback that is parked under keys. The feedback of a key at which the backend
// panics stays parked.
func (f *feedbackWriter) joinAll(ctx context.Context, tenant string, sessions map[session.EchoKey]session.ID) error {
	var joined map[session.ID]int
	err := f.guard.Err(label.StepUnpark, func() (err error) {
		joined, err = f.be.Join(ctx, tenant, sessions)
		return f.countFull(err)
	})
	if errors.Is(err, guard.ErrPanicked) && len(sessions) > 1 {
		for key, id := range sessions {
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
		f.touched.add(tenant, id)
		if err == nil {
			err = f.postToUnit(ctx, tenant, id)
		}
	}
	return err
}
