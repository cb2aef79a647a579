package learn

import (
	"context"
	"hash/maphash"
	"sync/atomic"
	"time"

	"precept/bandit"
	"precept/bandit/feedback"
	"precept/internal/guard"
	"precept/internal/label"
	"precept/internal/sample"
	"precept/internal/session"
)

const (
	correctInterval  = 50 * time.Millisecond
	finishTimeout    = 10 * time.Second // maximum time from stopping until the last correction
	closeBatchSize   = 100              // maximum number of sessions per settlement; all samples are in memory at once
	maxParallelReads = 16               // maximum number of concurrent reads from a shared backend, which may be distant
)

// FollowInterval is how often a learner reads other replicas' counts.
const FollowInterval = 2 * time.Second

// Options configure a Learner. Fields are required unless marked otherwise.
type Options struct {
	Now     func() time.Time
	Backend Backend
	Fleet   Fleet // the Backend if replicas share it, otherwise nil
	// AgeNow returns the earliest and the latest time by the fleet's clocks, to measure the age of a session. If AgeNow
	// is nil, Now is used.
	AgeNow    func(ctx context.Context) (earliest, latest time.Time, err error)
	Memory    Memory    // nil means that all sessions are in the backend
	Deliverer Deliverer // may be nil if Run is not called
	Touches   Touches   // may be nil if Run is not called
	// Exchanges reads the exchanges in closing sessions. If Exchanges is nil, Backend is used.
	Exchanges   Exchanges
	Guard       *guard.Guard
	Reward      feedback.Definition
	KeepSamples bool                             // build and store samples
	OnFailure   func(step label.Step, err error) // called after every failure; must not block
}

// Metrics holds counts. All except Unsampled only grow.
type Metrics struct {
	Samples   atomic.Int64
	Closed    atomic.Int64
	Rewarded  atomic.Int64
	Unsampled atomic.Int64 // exchanges without a sample in sessions that are settled, or set aside after a failure
}

// Learner closes sessions and holds the chooser's beliefs. Run and Follow each need a goroutine.
type Learner struct {
	Metrics Metrics

	tools       tools
	beliefs     *beliefs
	provisional *provisionalTracker
	follower    *follower
	closer      *closer
	marks       guard.Marks
	deliverer   Deliverer
	rewardName  string
}

// tools holds the dependencies that all parts of a Learner share.
type tools struct {
	now           func() time.Time
	guard         *guard.Guard
	reportFailure func(step label.Step, err error)
}

// Open loads the first tenants' counters and starts no goroutine. Open succeeds even if a shared backend cannot be
// read. In this case, lessons are chosen from the priors until Follow has read the backend.
func Open(ctx context.Context, o Options) (*Learner, error) {
	if o.Memory == nil {
		o.Memory = noMemory{}
	}
	if o.Exchanges == nil {
		o.Exchanges = storedExchanges{o.Backend}
	}
	if o.AgeNow == nil {
		o.AgeNow = func(context.Context) (earliest, latest time.Time, err error) { return o.Now(), o.Now(), nil }
	}
	t := tools{o.Now, o.Guard, o.OnFailure}
	l := &Learner{tools: t, marks: o.Backend, deliverer: o.Deliverer, rewardName: o.Reward.String()}
	l.beliefs = newBeliefs(t, l.rewardName, o.Backend)
	parallel := 1
	if o.Fleet != nil {
		parallel = maxParallelReads
	}
	l.provisional = &provisionalTracker{tools: t, beliefs: l.beliefs, memory: o.Memory, backend: o.Backend, reward: o.Reward, parallel: parallel, startedAt: o.Now()}
	l.follower = &follower{tools: t, beliefs: l.beliefs, provisional: l.provisional, fleet: o.Fleet}
	l.closer = &closer{
		tools: t, deliverer: o.Deliverer, memory: o.Memory, backend: o.Backend, touches: o.Touches, beliefs: l.beliefs, provisional: l.provisional, metrics: &l.Metrics,
		units:  &units{memory: o.Memory, backend: o.Backend, touches: o.Touches},
		reward: o.Reward, rewardName: l.rewardName, changed: &changedTenants{}, isFleet: o.Fleet != nil, ageNow: o.AgeNow, seed: maphash.MakeSeed(),
		samples: &sampleBuilder{tools: t, backend: o.Backend, exchanges: o.Exchanges, isEnabled: o.KeepSamples, parallel: parallel, writtenCount: &l.Metrics.Samples},
	}
	if o.Fleet != nil {
		l.follower.start(ctx)
		return l, nil
	}
	return l, l.beliefs.loadFirstTenants(ctx)
}

// OnlyTenant returns the tenant if the store and this process have seen exactly one tenant, and "" otherwise.
func (l *Learner) OnlyTenant() string { return l.beliefs.onlyTenant() }

// ChangedTenants returns the tenants whose sessions were settled since the last call. If ok is false, more tenants
// changed than are recorded, and names is incomplete.
func (l *Learner) ChangedTenants() (names []string, ok bool) { return l.closer.changed.take() }

// Beliefs returns the chooser that holds a tenant's beliefs about lessons, without reading the backend. A tenant that
// is not in memory starts from the priors until Run has loaded it.
func (l *Learner) Beliefs(tenant string) *bandit.Chooser { return l.beliefs.chooser(tenant) }

// Follow adds other replicas' settlements to the beliefs until ctx is done. If there are no other replicas, Follow
// returns immediately.
func (l *Learner) Follow(ctx context.Context, every time.Duration) error {
	return l.follower.run(ctx, every)
}

// Run closes and corrects sessions until ctx is done. Then Run waits until drained is closed, and makes the last
// corrections.
func (l *Learner) Run(ctx context.Context, drained <-chan struct{}) error {
	l.tools.guard.Readmit(ctx, l.marks)
	tick := time.NewTicker(correctInterval)
	defer tick.Stop()
	closing := time.NewTicker(l.closer.closeInterval())
	defer closing.Stop()
	for {
		select {
		case <-ctx.Done():
			l.shutDown(drained) //nolint:contextcheck // ctx has ended, so shutDown has its own timeout
			return nil
		case <-tick.C:
			l.tools.guard.Run(label.StepCorrect, func() { l.closer.correctTouched(ctx) })
			l.tools.guard.Run(label.StepLoad, func() { l.beliefs.loadAndEvict(ctx) })
		case <-closing.C:
			l.deliverer.Deliver(ctx)
			l.tools.guard.Run(label.StepClose, func() { l.closer.closeDue(ctx) })
		}
	}
}

// shutDown makes the last corrections after drained is closed, within finishTimeout.
func (l *Learner) shutDown(drained <-chan struct{}) {
	ctx, cancel := context.WithTimeout(context.Background(), finishTimeout)
	defer cancel()
	<-drained
	l.tools.guard.Run(label.StepCorrect, func() { l.closer.correctRemaining(ctx) })
	l.tools.guard.StorePending(ctx, l.marks)
}

type noMemory struct{}

func (noMemory) NewestRecord(row *session.Row) *session.Record {
	rec, err := session.Decode(row.ID, row.Data)
	if err != nil {
		return &session.Record{Identity: session.Identity{ID: row.ID, Tenant: row.Tenant}}
	}
	return rec
}

func (noMemory) Snapshot(session.Ref) *session.Record { return nil }

func (noMemory) Member(context.Context, string, session.ID) (session.Member, bool, error) {
	return session.Member{}, false, nil
}

type storedExchanges struct{ backend sampleWriter }

func (s storedExchanges) ExchangesAtClose(ctx context.Context, ref session.Ref, _ int) ([]sample.Exchange, error) {
	return s.backend.Exchanges(ctx, ref.Tenant, ref.ID)
}
