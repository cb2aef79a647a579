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

type feedbackStore interface {
	AddFeedback(ctx context.Context, tenant string, entries map[session.ID][]feedback.Entry) (added map[session.ID]int, err error)
	Feedback(ctx context.Context, tenant string, id session.ID) ([]feedback.Entry, error)
	FeedbackEntry(ctx context.Context, tenant string, id session.ID, entry string) (feedback.Entry, bool, error)
	Unpark(ctx context.Context, tenant string, sessions map[session.EchoKey]session.ID) (map[session.ID]int, error)
}

// rewardQueue is the set of sessions for which the learner must recompute the reward.
type rewardQueue struct {
	mu   sync.Mutex
	refs map[session.Ref]bool
}

func (q *rewardQueue) add(tenant string, id session.ID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.refs == nil {
		q.refs = map[session.Ref]bool{}
	}
	q.refs[session.Ref{Tenant: tenant, ID: id}] = true
}

func (q *rewardQueue) take() map[session.Ref]bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	refs := q.refs
	q.refs = nil
	return refs
}

func (q *rewardQueue) forget(tenant string, match func(session.ID) bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for ref := range q.refs {
		if ref.Tenant == tenant && match(ref.ID) {
			delete(q.refs, ref)
		}
	}
}

type feedbackWriter struct {
	backend     feedbackStore
	sessions    *sessions
	rewardQueue *rewardQueue
	guard       *guard.Guard
	metrics     *Metrics
	onFailure   func(step label.Step, err error)
}

// addAndCount is like add, but counts entries beyond a session's feedback limit instead of returning an error.
func (f *feedbackWriter) addAndCount(ctx context.Context, tenant string, entries map[session.ID][]feedback.Entry) error {
	return f.countRejected(f.add(ctx, tenant, entries))
}

// add stores feedback, and queues the sessions that gained feedback in rewardQueue. The error is a session.FeedbackFull
// if a session has reached the limit.
func (f *feedbackWriter) add(ctx context.Context, tenant string, entries map[session.ID][]feedback.Entry) error {
	added, err := f.backend.AddFeedback(ctx, tenant, entries)
	for id := range entries {
		if added == nil || added[id] > 0 { // nil if the backend does not report the number of new entries
			f.rewardQueue.add(tenant, id)
		}
	}
	return err
}

func (f *feedbackWriter) countRejected(err error) error {
	if n, ok := errors.AsType[session.FeedbackFull](err); ok {
		f.metrics.FeedbackFull.Add(int64(n))
		return nil
	}
	return err
}

// addForUnits adds a copy of each session's feedback to entries, for the session's unit (the run or parent session). If
// looking up a unit fails, the unit gets the feedback when the session closes.
func (f *feedbackWriter) addForUnits(ctx context.Context, tenant string, entries map[session.ID][]feedback.Entry) {
	for _, id := range slices.Collect(maps.Keys(entries)) {
		member, ok, err := f.sessions.member(ctx, tenant, id)
		if err != nil || !ok || member.Unit == (session.ID{}) {
			continue
		}
		if list := feedback.ForUnit(member.ID.String(), member.MemberNumber, entries[id]); len(list) > 0 {
			entries[member.Unit] = append(entries[member.Unit], list...)
		}
	}
}

// storeUnitFeedback copies a session's stored feedback to the session's unit.
func (f *feedbackWriter) storeUnitFeedback(ctx context.Context, tenant string, id session.ID) error {
	member, ok, err := f.sessions.member(ctx, tenant, id)
	if err != nil || !ok || member.Unit == (session.ID{}) {
		return err
	}
	entries, err := f.backend.Feedback(ctx, tenant, member.ID)
	if err != nil {
		return err
	}
	list := feedback.ForUnit(member.ID.String(), member.MemberNumber, entries)
	if len(list) == 0 {
		return nil
	}
	return f.addAndCount(ctx, tenant, map[session.ID][]feedback.Entry{member.Unit: list})
}

// signal is implicit feedback on a session, found in the session's traffic.
type signal struct {
	Ref   session.Ref
	entry feedback.Entry
}

// exchangeSignals returns the implicit feedback in an exchange: a test, lint or build result (tier 2), a refusal or an
// interrupt (tier 3) and, if sentiment is true, the user's sentiment. Tiers rank sources: 1 is a person, 2 a verifier,
// 3 the traffic.
func exchangeSignals(x *sample.Exchange, signals []detect.Signal, sentiment bool) []signal {
	id, ok := session.ParseID(x.Session)
	if !ok {
		return nil
	}
	var out []signal
	for _, sg := range signals {
		// In the first turn the user has not seen any work by the agent.
		if sg.Sentiment && (!sentiment || x.Turn <= 1) {
			continue
		}
		e := feedback.NewImplicit(x.Session, x.Turn, sg.Tier, feedbackType(sg.Feeling), sg.Rule, x.At)
		// If a rule gives several signals in a turn, the last one counts.
		out = slices.DeleteFunc(out, func(g signal) bool { return g.entry.ID == e.ID })
		out = append(out, signal{session.Ref{Tenant: x.Tenant, ID: id}, e})
	}
	return out
}

func feedbackType(f detect.Feeling) string {
	if f == detect.Thanks {
		return feedback.TypeApproval
	}
	return string(f)
}

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
		f.addForUnits(ctx, tenant, entries)
	}
	for tenant, entries := range byTenant {
		err := f.guard.RunErr(label.StepImplicitFeedback, func() error { return f.addAndCount(ctx, tenant, entries) })
		if guard.IsPermanent(err) {
			err = f.addSignalsBySession(ctx, tenant, entries)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// addSignalsBySession adds implicit feedback session by session, after the backend refused the whole batch. It drops
// feedback that the backend refuses again.
func (f *feedbackWriter) addSignalsBySession(ctx context.Context, tenant string, entries map[session.ID][]feedback.Entry) error {
	for id, list := range entries {
		var err error
		f.guard.RunOn(label.StepImplicitFeedback, session.Ref{Tenant: tenant, ID: id}, "", func() {
			err = f.addAndCount(ctx, tenant, map[session.ID][]feedback.Entry{id: list})
		})
		if errors.Is(err, session.ErrInvalid) {
			f.onFailure(label.StepImplicitFeedback, err)
			err = nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// unpark moves parked feedback (posted before the session was known) to the sessions with new echo keys. It asks the
// backend for every batch, because another replica, or this process before a restart, might have parked feedback.
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
		if err := f.unparkAll(ctx, tenant, sessions); err != nil {
			return err
		}
	}
	return nil
}

// unparkAll moves the feedback parked under keys to the sessions with these keys. If the backend panics at a key, the
// key's feedback stays parked.
func (f *feedbackWriter) unparkAll(ctx context.Context, tenant string, sessions map[session.EchoKey]session.ID) error {
	var joined map[session.ID]int
	err := f.guard.RunErr(label.StepParkedFeedback, func() (err error) {
		joined, err = f.backend.Unpark(ctx, tenant, sessions)
		return f.countRejected(err)
	})
	if errors.Is(err, guard.ErrPanicked) && len(sessions) > 1 {
		for key, id := range sessions {
			if err := f.unparkAll(ctx, tenant, map[session.EchoKey]session.ID{key: id}); err != nil {
				return err
			}
		}
		return nil
	}
	if errors.Is(err, guard.ErrPanicked) {
		return nil
	}
	for id := range joined {
		f.rewardQueue.add(tenant, id)
		if err == nil {
			err = f.storeUnitFeedback(ctx, tenant, id)
		}
	}
	return err
}
