package learn

import (
	"container/list"
	"context"
	"encoding/json"
	"errors"
	"sync"

	"precept/bandit"
	"precept/bandit/trial"
	"precept/internal/guard"
	"precept/internal/label"
	"precept/internal/session"
)

// beliefs holds each tenant's chooser and the provisional rewards for open sessions (provisional.go). A chooser has
// counters, and priors (the beliefs about a lesson that has no rewards yet). One replica computes new priors from the
// counters and publishes them for all.
type beliefs struct {
	tools      tools
	rewardName string // selects the counters
	backend    counterStore

	// mu is held while counters change in the backend and in memory, and while they are read again, so a reward is
	// counted in both places or in neither. mu is locked before tenantsMu.
	mu                sync.Mutex
	provisional       provisionalSet
	positions         map[string]string // by tenant in memory: how far other replicas' counters were read
	feedbackPositions map[string]string // by tenant in memory: how far feedback on open sessions was read

	tenantsMu sync.RWMutex // guards the fields below
	tenants   map[string]*tenant
	order     *list.List // tenants in memory, newest or most recently checked first
	unread    []string   // tenants in use with counters still to be read
	known     knownTenants
}

func newBeliefs(t tools, rewardName string, backend counterStore) *beliefs {
	return &beliefs{
		tools: t, rewardName: rewardName, backend: backend, provisional: provisionalSet{byTenant: map[string]map[session.ID]provisionalReward{}},
		positions: map[string]string{}, feedbackPositions: map[string]string{}, tenants: map[string]*tenant{}, order: list.New(),
	}
}

func (b *beliefs) readTenant(ctx context.Context, name string) (*tenant, error) {
	deltas, err := b.backend.Counters(ctx, name)
	if err != nil {
		return nil, err
	}
	maxima, err := b.backend.Maxima(ctx, name)
	if err != nil {
		return nil, err
	}
	t := &tenant{counters: bandit.New()}
	t.counters.AdvanceTo(b.tools.now())
	deltas, t.otherDefinitions = selectDefinition(b.rewardName, deltas)
	t.counters.Add(deltas)
	maxima, _ = selectDefinition(b.rewardName, maxima)
	t.counters.TrialCounters().MergeMaxima(maxima)
	if err := b.adoptPriors(ctx, name, t); err != nil {
		return nil, err
	}
	t.newRewards = max(0, t.counters.Rewards()-t.counters.Priors().Rewards)
	return t, nil
}

// adoptPriors reads the published priors into t.
func (b *beliefs) adoptPriors(ctx context.Context, name string, t *tenant) error {
	version, data, err := b.backend.Priors(ctx, name)
	if err != nil {
		return err
	}
	t.priorsVersion = version
	var p bandit.Priors
	if len(data) > 0 && json.Unmarshal(data, &p) == nil {
		t.counters.SetPriors(p)
	}
	return nil
}

// updateCounters runs a step that changes counters in the backend, and makes the same change in memory. It removes the
// returned sessions' provisional rewards.
func (b *beliefs) updateCounters(ctx context.Context, step func() (sessions []session.Ref, deltas map[string][]trial.Delta, err error)) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	sessions, byTenant, err := step()
	if err != nil {
		return err
	}
	for _, ref := range sessions {
		b.dropProvisional(ref)
	}
	for name, deltas := range byTenant {
		added := false
		b.tools.guard.Run(label.StepLearn, func() {
			b.addSettled(ctx, name, deltas)
			added = true
		})
		if !added { // after a panic in addSettled, memory lacks the deltas
			delete(b.positions, name)
		}
	}
	return nil
}

// addSettled adds settled deltas (counter changes), and publishes maxima and priors. If the tenant's counters are not
// in memory, addSettled reads them from the backend, which already has the deltas. If many tenants are in memory, the
// counters are read at their next use instead. The caller holds b.mu.
func (b *beliefs) addSettled(ctx context.Context, name string, deltas []trial.Delta) {
	if t, read := b.get(name); read {
		t.counters.Add(deltas)
		t.newRewards += trial.CountRewards(deltas)
	} else if b.isCrowded() {
		return
	} else if err := b.loadLocked(ctx, name); err != nil {
		b.tools.reportFailure(label.StepLoad, err)
		b.chooser(name) // queues the tenant for loadAndEvict
		return
	}
	b.publish(ctx, name)
}

// publish stores a tenant's increased maxima (each arm's strongest evidence so far), and new priors after enough
// rewards. The caller holds b.mu.
func (b *beliefs) publish(ctx context.Context, name string) {
	t, read := b.get(name)
	if !read {
		return
	}
	if raised := t.counters.RaiseMaxima(b.tools.now()); len(raised) > 0 {
		if err := b.backend.RaiseMaxima(ctx, name, addDefinitionPrefix(b.rewardName, raised)); err != nil {
			b.tools.reportFailure(label.StepPublishMaxima, err)
		}
	}
	b.refit(ctx, name)
}

// refitDue fits new priors for those of the touched sessions' tenants that have enough new rewards.
func (b *beliefs) refitDue(ctx context.Context, touched map[session.Ref]bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for t := range touched {
		b.refit(ctx, t.Tenant)
	}
}

// refit fits and publishes a tenant's priors after enough new rewards. The caller holds b.mu.
func (b *beliefs) refit(ctx context.Context, name string) {
	t, read := b.get(name)
	if !read || t.newRewards < bandit.RefitEvery {
		return
	}
	c := t.counters
	t.newRewards = 0
	p := c.Refit()
	p.Rewards = c.Rewards() + b.provisional.countRewarded(name)
	data, err := json.Marshal(p)
	if err != nil {
		b.tools.reportFailure(label.StepRefit, err)
		return
	}
	ok, err := b.backend.PutPriors(ctx, name, t.priorsVersion, data)
	if err != nil {
		b.tools.reportFailure(label.StepRefit, err)
		return
	}
	if !ok { // another replica published first; use those priors
		if err := b.adoptPriors(ctx, name, t); err != nil {
			b.tools.reportFailure(label.StepRefit, err)
		}
		return
	}
	t.priorsVersion++
	c.SetPriors(p)
}

// loadFirstTenants reads the counters of the first tenantsAtStart tenants; others are read at first use.
func (b *beliefs) loadFirstTenants(ctx context.Context) error {
	names, err := b.backend.Tenants(ctx)
	if err != nil {
		return err
	}
	for _, name := range names[:min(len(names), 2)] { // two names are enough for onlyTenant
		b.noteTenant(name)
	}
	for _, name := range names[:min(len(names), tenantsAtStart)] {
		var t *tenant
		err := b.tools.guard.RunErr(label.StepLoad, func() (err error) { t, err = b.readTenant(ctx, name); return err })
		if errors.Is(err, guard.ErrPanicked) { // the tenant starts from the priors
			continue
		}
		if err != nil {
			return err
		}
		b.replace(name, t)
	}
	return nil
}

// follow adds other replicas' changes to a tenant in memory, or reads the counters again if the changes are incomplete.
// It removes the provisional rewards for sessions that a replica has settled.
func (b *beliefs) follow(ctx context.Context, name, position string, changes func(tenant string) ([]trial.Delta, bool), settled func(ids []session.ID) ([]bool, error)) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if old, read := b.positions[name]; read && old == position {
		return nil
	}
	added, err := b.addChanges(ctx, name, changes)
	if err != nil {
		return err
	}
	if !added {
		loaded, err := b.readTenant(ctx, name)
		if err != nil {
			return err
		}
		b.replace(name, loaded)
	}
	if ids := b.dueSessions(name, b.tools.now()); len(ids) > 0 {
		isSettled, err := settled(ids)
		if err != nil {
			return err
		}
		for i, id := range ids {
			if isSettled[i] {
				b.dropProvisional(session.Ref{Tenant: name, ID: id})
			}
		}
	}
	b.positions[name] = position // after an error the next call reads again
	return nil
}

// addChanges adds other replicas' changes, and reads maxima and priors. added is false if the counters must be read
// again. The caller holds b.mu.
func (b *beliefs) addChanges(ctx context.Context, name string, changes func(tenant string) ([]trial.Delta, bool)) (added bool, err error) {
	_, followed := b.positions[name]
	t, read := b.get(name)
	if !followed || !read {
		return false, nil
	}
	maxima, err := b.backend.Maxima(ctx, name)
	if err != nil {
		return false, err
	}
	if err := b.adoptPriors(ctx, name, t); err != nil {
		return false, err
	}
	deltas, ok := changes(name)
	if !ok {
		return false, nil
	}
	delete(b.positions, name) // changes returns deltas only once, so a failure must lead to a full read
	deltas, closed := selectDefinition(b.rewardName, deltas)
	if len(closed) > 0 { // another replica uses a different reward definition
		return false, nil
	}
	t.counters.AdvanceTo(b.tools.now())
	t.counters.Add(deltas)
	maxima, _ = selectDefinition(b.rewardName, maxima)
	t.counters.TrialCounters().MergeMaxima(maxima)
	t.newRewards = max(0, t.counters.Rewards()-t.counters.Priors().Rewards)
	return true, nil
}

func (b *beliefs) feedbackPosition(name string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.feedbackPositions[name]
}

func (b *beliefs) setFeedbackPosition(name, last string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.feedbackPositions[name] = last
}
