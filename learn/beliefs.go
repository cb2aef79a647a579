package learn

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"precept/bandit"
	"precept/bandit/feedback"
	"precept/bandit/trial"
	"precept/internal/guard"
	"precept/internal/label"
	"precept/internal/session"
)

// beliefs hold the chooser of each tenant: the counters in memory, the published priors, and the
// provisional rewards of open sessions (provisional.go).
type beliefs struct {
	tools  tools
	reward string // the definition under which is counted
	be     numbers

	// mu is held while counters change in the backend and in memory, and while memory is rebuilt
	// from the backend. A reward is therefore counted in both or in neither. mu is locked before
	// tenantsMu.
	mu                sync.Mutex
	provisional       map[session.Ref]openReward
	positions         map[string]string // by tenant with counters of other replicas: the position to which the counters were read
	feedbackPositions map[string]int64  // by tenant: the place to which the feedback on open sessions was read

	tenantsMu sync.RWMutex
	tenants   map[string]*tenant
	unread    []string // tenants that must be read from the backend
	asked     atomic.Int64
}

func newBeliefs(with tools, reward string, be numbers) *beliefs {
	return &beliefs{tools: with, reward: reward, be: be, provisional: map[session.Ref]openReward{}, positions: map[string]string{}, feedbackPositions: map[string]int64{}, tenants: map[string]*tenant{}}
}

// read builds the beliefs of a tenant from the backend alone.
func (b *beliefs) read(ctx context.Context, name string) (*tenant, error) {
	deltas, err := b.be.Counters(ctx, name)
	if err != nil {
		return nil, err
	}
	maxima, err := b.be.Maxima(ctx, name)
	if err != nil {
		return nil, err
	}
	t := &tenant{counters: bandit.New()}
	t.counters.Today(b.tools.now())
	deltas, t.otherDefinitions = ofDefinition(b.reward, deltas)
	t.counters.Add(deltas)
	maxima, _ = ofDefinition(b.reward, maxima)
	t.counters.Measured().Raise(maxima)
	return t, b.adopt(ctx, name, t)
}

// adopt makes the published priors active.
func (b *beliefs) adopt(ctx context.Context, name string, t *tenant) error {
	version, data, err := b.be.Priors(ctx, name)
	if err != nil {
		return err
	}
	t.version = version
	var p bandit.Priors
	if len(data) > 0 && json.Unmarshal(data, &p) == nil {
		t.counters.SetPriors(p)
	}
	return nil
}

// move runs a step that moves counters in the backend, and repeats the step in memory: provisional
// rewards of the sessions are removed, and the deltas of each tenant are added.
func (b *beliefs) move(ctx context.Context, step func() (of []session.Ref, deltas map[string][]trial.Delta, err error)) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	of, byTenant, err := step()
	if err != nil {
		return err
	}
	for _, at := range of {
		b.dropProvisional(at)
	}
	for name, deltas := range byTenant {
		b.tools.guard.Step(label.StepLearn, func() { b.addSettled(ctx, name, deltas) })
	}
	return nil
}

// addSettled adds settled deltas to the beliefs, and publishes maxima and priors. Lock b.mu.
func (b *beliefs) addSettled(ctx context.Context, name string, deltas []trial.Delta) {
	c := b.of(name)
	c.Add(deltas)
	if up := c.Maxima(b.tools.now()); len(up) > 0 {
		if err := b.be.Raise(ctx, name, underDefinition(b.reward, up)); err != nil {
			b.tools.failed(label.StepRaise, err)
		}
	}
	b.tenant(name).rewards += trial.CountRewards(deltas)
	b.refit(ctx, name)
}

// refitDue refits the priors of tenants with enough new rewards.
func (b *beliefs) refitDue(ctx context.Context, touched map[session.Ref]bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for t := range touched {
		if b.tenant(t.Tenant) != nil {
			b.refit(ctx, t.Tenant)
		}
	}
}

// refit fits and publishes the priors after enough new rewards. Lock b.mu.
func (b *beliefs) refit(ctx context.Context, name string) {
	c, t := b.of(name), b.tenant(name)
	if t.rewards < bandit.RefitEvery {
		return
	}
	t.rewards = 0
	p := c.Refit()
	data, err := json.Marshal(p)
	if err != nil {
		b.tools.failed(label.StepRefit, err)
		return
	}
	ok, err := b.be.PutPriors(ctx, name, t.version, data)
	if err != nil {
		b.tools.failed(label.StepRefit, err)
		return
	}
	if !ok { // another replica was first: the priors of that replica are active, and later priors follow
		if err := b.adopt(ctx, name, t); err != nil {
			b.tools.failed(label.StepRefit, err)
		}
		return
	}
	t.version++
	c.SetPriors(p)
}

// loadAll reads the counters of every tenant.
func (b *beliefs) loadAll(ctx context.Context) error {
	names, err := b.be.Tenants(ctx)
	if err != nil {
		return err
	}
	for _, name := range names[:min(len(names), tenantsMost)] { // other tenants are read on demand
		var t *tenant
		err := b.tools.guard.Err(label.StepLoad, func() (err error) { t, err = b.read(ctx, name); return err })
		if errors.Is(err, guard.ErrPanicked) { // the tenant starts from the priors
			continue
		}
		if err != nil {
			return err
		}
		b.put(name, t)
	}
	return nil
}

// follow rebuilds a tenant from the counters of all replicas, unless memory already has the state
// stand. settled reports which sessions another replica has closed: provisional rewards of these
// sessions are removed.
func (b *beliefs) follow(ctx context.Context, name, stand string, settled func(ids []session.ID) ([]bool, error)) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if old, read := b.positions[name]; read && old == stand {
		return nil
	}
	loaded, err := b.read(ctx, name)
	if err != nil {
		return err
	}
	b.put(name, loaded)
	b.positions[name] = stand
	ids := b.dueBy(name, b.tools.now())
	if len(ids) == 0 {
		return nil
	}
	known, err := settled(ids)
	if err != nil {
		return err
	}
	for i, id := range ids {
		if known[i] {
			b.dropProvisional(session.Ref{Tenant: name, ID: id})
		}
	}
	return nil
}

// feedbackPosition returns the place up to which the feedback of a tenant's open sessions was read.
func (b *beliefs) feedbackPosition(name string) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.feedbackPositions[name]
}

// setFeedbackPosition stores the place.
func (b *beliefs) setFeedbackPosition(name string, last int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.feedbackPositions[name] = last
}

// mostProvisional bounds the open sessions that the chooser learns from. Further sessions are
// learned from at their closing.
const mostProvisional = 50_000

// openReward is the provisional reward of an open session. Only the chooser uses provisional
// rewards (bandit.Chooser.AddProvisional).
type openReward struct {
	provisional bandit.Provisional
	due         time.Time // when the session closes
}

// setProvisional replaces the provisional reward of a session.
func (b *beliefs) setProvisional(rec *session.Record, out feedback.Outcome, due time.Time) {
	at := session.Ref{Tenant: rec.Identity.Tenant, ID: rec.Identity.ID}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dropProvisional(at)
	if !out.OK || len(b.provisional) >= mostProvisional {
		return
	}
	reward := b.of(rec.Identity.Tenant).AddProvisional(&rec.Assignment, out.Reward, out.Tier)
	b.provisional[at] = openReward{reward, due}
	if reward.Rewarded() {
		b.tenant(rec.Identity.Tenant).rewards++
	}
}

// dropProvisional removes the provisional reward of a session. Lock b.mu.
func (b *beliefs) dropProvisional(at session.Ref) {
	f, ok := b.provisional[at]
	if !ok {
		return
	}
	delete(b.provisional, at)
	b.of(at.Tenant).DropProvisional(f.provisional)
	if f.provisional.Rewarded() {
		b.tenant(at.Tenant).rewards--
	}
}

// dueBy returns the sessions of a tenant with a provisional reward and a closing time until when.
// Lock b.mu.
func (b *beliefs) dueBy(name string, when time.Time) (ids []session.ID) {
	for at, f := range b.provisional {
		if at.Tenant == name && !f.due.After(when) {
			ids = append(ids, at.ID)
		}
	}
	return ids
}

// expire removes provisional rewards of sessions with a closing time before before.
func (b *beliefs) expire(before time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for at, f := range b.provisional {
		if f.due.Before(before) {
			b.dropProvisional(at)
		}
	}
}
