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
	correctEvery = 50 * time.Millisecond // interval between the corrections of closed sessions
	finishLimit  = 10 * time.Second      // maximum time from the start of a stop to the last correction
	closeBatch   = 100                   // sessions settled in one transaction; their samples are in memory together
)

// FollowEvery is the interval in which a learner reads the counts of other replicas.
const FollowEvery = 2 * time.Second

// Options configure a Learner. Every field is required unless its comment says otherwise.
type Options struct {
	Now       func() time.Time
	Backend   Backend
	Fleet     Fleet     // backend shared by replicas; nil means no replicas
	Memory    Memory    // nil means that only the backend has sessions
	Deliverer Deliverer // nil is allowed for a Learner whose Run is never called
	Touches   Touches   // nil is allowed for a Learner whose Run is never called
	// Exchanges has the exchanges of closing sessions; nil means that only the backend has them.
	Exchanges Exchanges
	Guard     *guard.Guard
	Reward    feedback.Definition
	Samples   bool                             // keep samples
	Failed    func(step label.Step, err error) // called after every failure; must not block
}

// Tally holds the counts for metrics. All fields except Unsampled only grow.
type Tally struct {
	Samples   atomic.Int64 // samples written
	Closed    atomic.Int64 // sessions closed
	Rewarded  atomic.Int64 // closed sessions with a reward
	Unsampled atomic.Int64 // exchanges without a sample, of sessions that are settled or set aside
}

// Learner closes sessions and holds the beliefs of the chooser. Open returns a Learner; Run and
// Follow are the goroutines.
type Learner struct {
	Tally Tally

	tools     tools
	beliefs   *beliefs
	open      *provisional
	follower  *follower
	closer    *closer
	marks     guard.Marks
	deliverer Deliverer
	reward    string
}

// tools has the clock, the guard and the error hook of a Learner.
type tools struct {
	now    func() time.Time
	guard  *guard.Guard
	failed func(step label.Step, err error)
}

// Open loads the counters of the first tenants and starts no goroutine. A failed shared backend does not
// prevent the start: lessons are chosen from the priors until Follow reaches the backend.
func Open(ctx context.Context, o Options) (*Learner, error) {
	if o.Memory == nil {
		o.Memory = noMemory{}
	}
	if o.Exchanges == nil {
		o.Exchanges = onlyStored{o.Backend}
	}
	t := tools{o.Now, o.Guard, o.Failed}
	l := &Learner{tools: t, marks: o.Backend, deliverer: o.Deliverer, reward: o.Reward.String()}
	l.beliefs = newBeliefs(t, l.reward, o.Backend)
	l.open = &provisional{tools: t, beliefs: l.beliefs, memory: o.Memory, backend: o.Backend, reward: o.Reward, startedAt: o.Now()}
	l.follower = &follower{tools: t, beliefs: l.beliefs, open: l.open, fleet: o.Fleet}
	l.closer = &closer{
		tools: t, deliverer: o.Deliverer, memory: o.Memory, backend: o.Backend, touches: o.Touches, beliefs: l.beliefs, open: l.open, tally: &l.Tally,
		units:  &units{memory: o.Memory, backend: o.Backend, touches: o.Touches},
		reward: o.Reward, name: l.reward, changed: &changedTenants{}, isFleet: o.Fleet != nil, seed: maphash.MakeSeed(),
		samples: &samples{tools: t, backend: o.Backend, exchanges: o.Exchanges, keep: o.Samples, written: &l.Tally.Samples},
	}
	if o.Fleet != nil {
		return l, l.follower.start(ctx)
	}
	return l, l.beliefs.loadSome(ctx)
}

// OnlyTenant returns the tenant if the store and this process have seen exactly one, "" otherwise.
func (l *Learner) OnlyTenant() string { return l.beliefs.onlyTenant() }

// ChangedTenants returns the tenants with sessions that this process closed or corrected since the last call;
// ok is false if the list is incomplete.
func (l *Learner) ChangedTenants() (names []string, ok bool) { return l.closer.changed.take() }

// Beliefs returns the chooser of a tenant. Beliefs never asks the backend: a tenant that is not in
// memory starts from the priors, and Run loads the tenant.
func (l *Learner) Beliefs(tenant string) *bandit.Chooser { return l.beliefs.chooser(tenant) }

// Follow adds settlements of other replicas to the beliefs until ctx is done. Without other
// replicas Follow returns at once.
func (l *Learner) Follow(ctx context.Context, every time.Duration) error {
	return l.follower.run(ctx, every)
}

// Run closes and corrects sessions until ctx is done. Then Run waits until drained is closed, after
// which no data arrives any more, and makes the last corrections.
func (l *Learner) Run(ctx context.Context, drained <-chan struct{}) error {
	l.tools.guard.Readmit(ctx, l.marks)
	tick := time.NewTicker(correctEvery)
	defer tick.Stop()
	closing := time.NewTicker(l.closer.closeEvery())
	defer closing.Stop()
	for {
		select {
		case <-ctx.Done():
			l.finish(drained) //nolint:contextcheck // the context has ended; finish bounds the remaining work
			return nil
		case <-tick.C:
			l.tools.guard.Step(label.StepCorrect, func() { l.closer.resettle(ctx) })
			l.tools.guard.Step(label.StepLoad, func() { l.beliefs.tidy(ctx) })
		case <-closing.C:
			l.deliverer.Deliver(ctx)
			l.tools.guard.Step(label.StepClose, func() { l.closer.closeDue(ctx) })
		}
	}
}

// finish waits until drained is closed, and makes the last corrections in one attempt. The attempt ends finishLimit
// after the start of finish.
func (l *Learner) finish(drained <-chan struct{}) {
	ctx, cancel := context.WithTimeout(context.Background(), finishLimit)
	defer cancel()
	<-drained
	l.tools.guard.Step(label.StepCorrect, func() { l.closer.finish(ctx) })
	l.tools.guard.Keep(ctx, l.marks)
}

// noMemory is the Memory of a program without live sessions.
type noMemory struct{}

func (noMemory) Newest(row *session.Row) *session.Record {
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

// onlyStored reads the exchanges of closing sessions from the backend.
type onlyStored struct{ backend writer }

func (s onlyStored) ExchangesAtClosing(ctx context.Context, ref session.Ref, _ int) ([]sample.Exchange, error) {
	return s.backend.Exchanges(ctx, ref.Tenant, ref.ID)
}
