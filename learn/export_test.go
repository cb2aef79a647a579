package learn

import (
	"context"
	"time"

	"precept/bandit"
	"precept/bandit/feedback"
	"precept/bandit/report"
	"precept/bandit/trial"
)

// This file exports limits, the single steps of Run and Follow, and in-memory state to the tests in package learn_test.
const (
	CloseBatch      = closeBatchSize
	CorrectInterval = correctInterval
	CountInterval   = countInterval
	MaxTenants      = maxTenants
	TenantIdle      = idleTime
	MinTenants      = minTenants
	TenantLoadBatch = loadBatchSize
)

func ErrNotLearning() error { return errNotLearning }

func (l *Learner) CloseDue(ctx context.Context) { l.closer.closeDue(ctx) }

func (l *Learner) Correct(ctx context.Context) { l.closer.correctTouched(ctx) }

func (l *Learner) LoadAndEvict(ctx context.Context) { l.beliefs.loadAndEvict(ctx) }

func (l *Learner) Refresh(ctx context.Context) error { return l.follower.refresh(ctx) }

// RewardDefinition returns the reward definition of the learner's counters.
func (l *Learner) RewardDefinition() string { return l.rewardName }

// CountProvisional returns the number of open sessions with a provisional reward.
func (l *Learner) CountProvisional() int { return l.beliefs.provisional.count }

// HasReferences reports whether an open reward of a tenant refers to beliefs of the tenant.
func (l *Learner) HasReferences(tenant string) bool {
	for _, r := range l.beliefs.provisional.byTenant[tenant] {
		if r.addedTo != nil {
			return true
		}
	}
	return false
}

// Restored reports whether the learner has read all sessions that were open at the start.
func (l *Learner) Restored() bool { return l.provisional.isRestored }

// TenantsInMemory returns the number of tenants in memory.
func (l *Learner) TenantsInMemory() int { return len(l.beliefs.tenants) }

// CheckedSince returns the number of tenants in memory that were checked for idleness at or after start.
func (l *Learner) CheckedSince(start time.Time) (n int) {
	for _, t := range l.beliefs.tenants {
		if t.checkedAt >= start.UnixNano() {
			n++
		}
	}
	return n
}

// TenantState reports whether a tenant is in memory, and whether the tenant was read from the backend.
func (l *Learner) TenantState(name string) (held, read bool) {
	t := l.beliefs.tenant(name)
	return t != nil, t != nil && t.isLoaded
}

// RefitAfter makes the learner fit the priors of a tenant again after the given number of rewards.
func (l *Learner) RefitAfter(name string, rewards int) {
	_ = l.beliefs.load(context.Background(), name)
	l.beliefs.tenants[name].newRewards = bandit.RefitEvery - rewards
}

// CloseInterval returns the interval between two searches for due sessions if sessions close at the given age.
func CloseInterval(age time.Duration) time.Duration {
	return (&closer{reward: feedback.Definition{CloseAfter: age}}).closeInterval()
}

// AddDefinitionPrefix returns deltas with their keys in the namespace of a reward definition.
func AddDefinitionPrefix(definition string, ds []trial.Delta) []trial.Delta {
	return addDefinitionPrefix(definition, ds)
}

// SelectDefinition returns the deltas in the namespace of a reward definition.
func SelectDefinition(definition string, ds []trial.Delta) []trial.Delta {
	selected, _ := selectDefinition(definition, ds)
	return selected
}

// LessonsOf returns the lessons of a query's book in the form of the report.
func LessonsOf(q *ReportQuery, c *bandit.Chooser, now time.Time) []report.Lesson {
	return lessonsOf(q, c, now)
}
