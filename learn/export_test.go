package learn

import (
	"context"
	"time"

	"precept/bandit"
	"precept/bandit/feedback"
	"precept/bandit/report"
	"precept/bandit/trial"
)

// This file gives the tests in package learn_test access to limits, to single steps of the learner, and to its state in
// memory.
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

func (l *Learner) RewardDefinition() string { return l.rewardName }

// CountProvisional returns the number of open sessions with a provisional reward.
func (l *Learner) CountProvisional() int { return l.beliefs.provisional.count }

// HasReferences reports whether any provisional reward refers to the tenant's beliefs.
func (l *Learner) HasReferences(tenant string) bool {
	for _, r := range l.beliefs.provisional.byTenant[tenant] {
		if r.countedIn != nil {
			return true
		}
	}
	return false
}

func (l *Learner) Restored() bool { return l.provisional.isRestored }

func (l *Learner) TenantsInMemory() int { return len(l.beliefs.tenants) }

// CheckedSince returns how many of the tenants in memory the learner has checked for idleness since start.
func (l *Learner) CheckedSince(start time.Time) (n int) {
	for _, t := range l.beliefs.tenants {
		if t.checkedAt >= start.UnixNano() {
			n++
		}
	}
	return n
}

func (l *Learner) TenantState(name string) (held, read bool) {
	t := l.beliefs.tenant(name)
	return t != nil, t != nil && t.isLoaded
}

// RefitAfter makes the learner fit a tenant's priors again after the given number of additional rewards.
func (l *Learner) RefitAfter(name string, rewards int) {
	_ = l.beliefs.load(context.Background(), name)
	l.beliefs.tenants[name].newRewards = bandit.RefitEvery - rewards
}

func CloseInterval(age time.Duration) time.Duration {
	return (&closer{reward: feedback.Definition{CloseAfter: age}}).closeInterval()
}

func AddDefinitionPrefix(definition string, ds []trial.Delta) []trial.Delta {
	return addDefinitionPrefix(definition, ds)
}

func SelectDefinition(definition string, ds []trial.Delta) []trial.Delta {
	selected, _ := selectDefinition(definition, ds)
	return selected
}

func ReportLessons(q *ReportQuery, c *bandit.Chooser, now time.Time) []report.Lesson {
	return reportLessons(q, c, now)
}
