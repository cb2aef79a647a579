package bank

import (
	"context"
	"slices"
	"time"

	"precept/inject/lesson"
)

// quota holds the counts that Limits restricts.
type quota struct {
	limits  Limits
	agents  map[lesson.Scope]int // by agent, the number of writes within the last hour
	tenants map[string]int       // by tenant, the number of writes within the last hour
	waiting map[string]int       // by tenant, the number of lessons that wait for approval
	lessons map[string]int       // by tenant, the number of lessons
}

// quota returns the counts at the time of the snapshot. The recent writes of programs are in the audit log, which all
// replicas of a fleet share.
func (s *snapshot) quota(ctx context.Context) (*quota, error) {
	if s.used != nil {
		return s.used, nil
	}
	q := &quota{s.bank.options.Limits, map[lesson.Scope]int{}, map[string]int{}, map[string]int{}, map[string]int{}}
	events, err := s.eventsOfHour(ctx)
	if err != nil {
		return nil, err
	}
	for i := range events {
		e := &events[i]
		if e.Source == "" || s.now.Sub(e.Time) >= time.Hour || !writes(e.Action) {
			continue
		}
		q.count(lesson.Scope{Tenant: e.Tenant, Agent: e.Agent})
	}
	for _, l := range s.book.Lessons() {
		q.addLesson(l)
	}
	s.used = q
	return q, nil
}

// firstEvents is the number of events that eventsOfHour reads first.
const firstEvents = 4000

// eventsOfHour returns all events of the last hour, and some older events. No fixed number of events covers an hour, so
// eventsOfHour doubles the number of events that it reads until the oldest of them is an hour old.
func (s *snapshot) eventsOfHour(ctx context.Context) ([]lesson.Event, error) {
	for n := firstEvents; ; n *= 2 {
		events, err := s.bank.options.Place.Tail(ctx, n)
		if err != nil || len(events) < n {
			return events, err
		}
		// The time of an edit by hand is the modification time of the file, which may be long before the event.
		first := slices.IndexFunc(events, func(e lesson.Event) bool { return e.Detail[lesson.DetailHand] == nil })
		if first >= 0 && s.now.Sub(events[first].Time) >= time.Hour {
			return events, nil
		}
	}
}

// writes reports whether an action counts as a write of a program. A refused proposal counts, too.
func writes(action string) bool {
	return slices.Contains([]string{"propose", "refuse", "revise", "withdraw"}, action)
}

func (q *quota) count(s lesson.Scope) {
	q.agents[s]++
	q.tenants[s.Tenant]++
}

// spend counts one write, or returns an error if a limit is reached.
func (q *quota) spend(s lesson.Scope) error {
	if q.agents[s] >= q.limits.AgentHour && s.Agent != "" || q.tenants[s.Tenant] >= q.limits.TenantHour || q.waiting[s.Tenant] >= q.limits.Waiting {
		return ErrTooMany
	}
	if limit := q.limits.Tenant; limit > 0 && s.Tenant != "" && q.lessons[s.Tenant] >= limit {
		return ErrTenantLessons
	}
	q.count(s)
	return nil
}

// addLesson counts a lesson. A program's lesson that waits for approval also counts as waiting.
func (q *quota) addLesson(l *lesson.Lesson) {
	q.lessons[l.Scope.Tenant]++
	if l.Approval.Source != "" && l.State == lesson.Quarantined {
		q.waiting[l.Scope.Tenant]++
	}
}
