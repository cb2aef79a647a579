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

// recentEvents is the number of events of the audit log that quota reads: more than all limits of an hour.
const recentEvents = 4000

// quota returns the counts at the time of the snapshot. The recent writes of programs are in the audit log, which all
// replicas of a fleet share.
func (s *snapshot) quota(ctx context.Context) (*quota, error) {
	if s.used != nil {
		return s.used, nil
	}
	q := &quota{s.bank.options.Limits, map[lesson.Scope]int{}, map[string]int{}, map[string]int{}, map[string]int{}}
	events, err := s.bank.options.Place.Tail(ctx, recentEvents)
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
