package bank

import (
	"context"
	"slices"
	"time"

	"precept/inject/lesson"
)

// quota counts the writes and the lessons that the limits bound, by scope and by tenant.
type quota struct {
	limits  Limits
	agents  map[lesson.Scope]int // number of writes within the last hour
	tenants map[string]int
	waiting map[string]int // lessons in the approval queue, by tenant
	lessons map[string]int // lessons, by tenant
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

// firstEvents is the number of events of the first read of eventsOfHour.
const firstEvents = 4000

// eventsOfHour returns all events of the last hour, with older events before them. The log has the events of all
// tenants and of people, so no fixed number of events covers an hour: eventsOfHour doubles the number until the
// oldest event is an hour old.
func (s *snapshot) eventsOfHour(ctx context.Context) ([]lesson.Event, error) {
	for n := firstEvents; ; n *= 2 {
		events, err := s.bank.options.Place.Tail(ctx, n)
		if err != nil || len(events) < n {
			return events, err
		}
		// The time of an edit by hand is the time of the file, which may be long ago.
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

// spend uses one write, or returns an error if none is left.
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

// addLesson counts a lesson. A lesson of a program that waits for approval also counts as waiting.
func (q *quota) addLesson(l *lesson.Lesson) {
	q.lessons[l.Scope.Tenant]++
	if l.Approval.Source != "" && l.State == lesson.Quarantined {
		q.waiting[l.Scope.Tenant]++
	}
}
