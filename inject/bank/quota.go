package bank

import (
	"context"
	"slices"
	"time"

	"precept/inject/lesson"
)

// quota holds the counts that Limits restrict.
type quota struct {
	limits          Limits
	writesByAgent   map[lesson.Scope]int // in the last hour
	writesByTenant  map[string]int       // in the last hour
	waitingByTenant map[string]int       // waiting for approval
	lessonsByTenant map[string]int
}

// quota returns the counts for the limits. It counts recent writes in the audit log, which all replicas share.
func (s *snapshot) quota(ctx context.Context) (*quota, error) {
	if s.usage != nil {
		return s.usage, nil
	}
	q := &quota{s.bank.options.Limits, map[lesson.Scope]int{}, map[string]int{}, map[string]int{}, map[string]int{}}
	events, err := s.recentEvents(ctx)
	if err != nil {
		return nil, err
	}
	for i := range events {
		e := &events[i]
		if e.Source == "" || s.now.Sub(e.Time).Abs() >= time.Hour || !isWrite(e.Action) { // an event in the future was written before the clock was set back
			continue
		}
		q.countWrite(lesson.Scope{Tenant: e.Tenant, Agent: e.Agent})
	}
	for _, l := range s.book.Lessons() {
		q.addLesson(l)
	}
	s.usage = q
	return q, nil
}

// initialEvents is how many events recentEvents reads first.
const initialEvents = 4000

// recentEvents returns at least the events from the last hour.
func (s *snapshot) recentEvents(ctx context.Context) ([]lesson.Event, error) {
	for n := initialEvents; ; n *= 2 {
		events, err := s.bank.options.Storage.Tail(ctx, n)
		if err != nil || len(events) < n {
			return events, err
		}
		// A hand edit's event has the file's modification time, which may be long before the event was written.
		first := slices.IndexFunc(events, func(e lesson.Event) bool { return e.Detail[lesson.DetailHandEdit] == nil })
		if first >= 0 && s.now.Sub(events[first].Time) >= time.Hour {
			return events, nil
		}
	}
}

// isWrite reports whether an action counts as a write. A refused proposal counts.
func isWrite(action string) bool {
	return slices.Contains([]string{"propose", "refuse", "revise", "withdraw"}, action)
}

func (q *quota) countWrite(s lesson.Scope) {
	q.writesByAgent[s]++
	q.writesByTenant[s.Tenant]++
}

// spend counts one write, unless a limit is reached.
func (q *quota) spend(s lesson.Scope) error {
	if q.writesByAgent[s] >= q.limits.AgentWritesPerHour && s.Agent != "" || q.writesByTenant[s.Tenant] >= q.limits.TenantWritesPerHour || q.waitingByTenant[s.Tenant] >= q.limits.TenantWaiting {
		return ErrTooMany
	}
	if limit := q.limits.TenantLessons; limit > 0 && s.Tenant != "" && q.lessonsByTenant[s.Tenant] >= limit {
		return ErrTenantLessons
	}
	q.countWrite(s)
	return nil
}

// addLesson counts a tenant's lesson. A program's lesson also counts as waiting as long as it waits for approval.
func (q *quota) addLesson(l *lesson.Lesson) {
	q.lessonsByTenant[l.Scope.Tenant]++
	if l.Approval.Source != "" && l.State == lesson.Quarantined {
		q.waitingByTenant[l.Scope.Tenant]++
	}
}
