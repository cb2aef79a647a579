package learn

import (
	"context"
	"time"

	"precept/bandit"
	"precept/bandit/feedback"
	"precept/bandit/report"
	"precept/bandit/trial"
)

// What tests of the public face need to know of the inside: its bounds, the steps that Run and
// Follow take by the clock, one at a time, and what stands in memory.
const (
	CloseBatch     = closeBatch
	CorrectEvery   = correctEvery
	UnsampledEvery = unsampledEvery
	TenantsMost    = tenantsMost
)

func ErrNotLearning() error { return errNotLearning }

func (l *Learner) CloseDue(ctx context.Context) { l.closer.closeDue(ctx) }

func (l *Learner) Correct(ctx context.Context) { l.closer.resettle(ctx) }

func (l *Learner) Tidy(ctx context.Context) { l.beliefs.tidy(ctx) }

func (l *Learner) Refresh(ctx context.Context) error { return l.follower.refresh(ctx) }

// Definition is what the learner counts under.
func (l *Learner) Definition() string { return l.reward }

// OpenRewards is of how many open sessions there is a provisional reward.
func (l *Learner) OpenRewards() int { return len(l.beliefs.provisional) }

// Recalled says whether those of an earlier run were all looked at.
func (l *Learner) Recalled() bool { return l.open.recalled }

// TenantsInMemory is how many there are.
func (l *Learner) TenantsInMemory() int { return len(l.beliefs.tenants) }

// Holds says whether a tenant is in memory, and whether it was read from the backend.
func (l *Learner) Holds(name string) (held, read bool) {
	t := l.beliefs.tenant(name)
	return t != nil, t != nil && t.read
}

// RefitAfter lets the priors of a tenant be fitted anew after so many rewards.
func (l *Learner) RefitAfter(name string, rewards int) {
	l.beliefs.tenants[name].rewards = bandit.RefitEvery - rewards
}

// CloseTick is how often due sessions are looked for under a closing age.
func CloseTick(age time.Duration) time.Duration {
	return (&closer{reward: feedback.Definition{CloseAfter: age}}).tick()
}

// Under gives deltas the scopes of a definition, Own keeps those of one.
func Under(definition string, ds []trial.Delta) []trial.Delta { return under(definition, ds) }

func Own(definition string, ds []trial.Delta) []trial.Delta {
	own, _ := ofDefinition(definition, ds)
	return own
}

// LessonsOf are the lessons of a query's book as the report knows them.
func LessonsOf(q *ReportQuery, c *bandit.Chooser, now time.Time) []report.Lesson {
	return lessonsOf(q, c, now)
}
