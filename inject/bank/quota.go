package bank

import (
	"context"
	"slices"
	"time"

	"precept/inject/lesson"
)

// quota is what each scope may still write.
type quota struct {
	limits  Limits
	agents  map[lesson.Scope]int // writes within the last hour
	tenants map[string]int
	waiting map[string]int // lessons that wait, by tenant
}

// newest is how many events of the audit log are looked at. Who writes more than that within an
// hour is above every limit.
const newest = 4000

// quota counts what programs wrote lately. It is read from the log, so that it holds for all
// replicas of a fleet.
func (b *Bank) quota(ctx context.Context, s *snapshot) (*quota, error) {
	q := &quota{b.o.Limits, map[lesson.Scope]int{}, map[string]int{}, map[string]int{}}
	events, err := b.o.Place.Tail(ctx, newest)
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
		q.waits(l)
	}
	return q, nil
}

// writes says whether a program did that itself.
func writes(action string) bool {
	return slices.Contains([]string{"propose", "refuse", "revise", "withdraw"}, action)
}

func (q *quota) count(s lesson.Scope) {
	q.agents[s]++
	q.tenants[s.Tenant]++
}

// spend uses up one write, or says that there is none left.
func (q *quota) spend(s lesson.Scope) error {
	if q.agents[s] >= q.limits.AgentHour && s.Agent != "" || q.tenants[s.Tenant] >= q.limits.TenantHour || q.waiting[s.Tenant] >= q.limits.Waiting {
		return ErrTooMany
	}
	q.count(s)
	return nil
}

// waits counts a lesson that a program wrote and nobody has decided on.
func (q *quota) waits(l *lesson.Lesson) {
	if l.Approval.Source != "" && l.State == lesson.Quarantined {
		q.waiting[l.Scope.Tenant]++
	}
}
