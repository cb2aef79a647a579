package learn_test

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"precept/bandit/feedback"
	"precept/bandit/trial"
	"precept/internal/session"
	"precept/store"
	"precept/store/redis"
	"precept/store/storetest"
)

// remoteBackend is a faultyBackend with the additional Redis operations of a store.Fleet.
type remoteBackend struct {
	*faultyBackend
	redis *redis.Store
}

func (r remoteBackend) Epoch(ctx context.Context) (string, error) { return r.redis.Epoch(ctx) }

func (r remoteBackend) AwaitReplicas(ctx context.Context) error { return r.redis.AwaitReplicas(ctx) }

func (r remoteBackend) Announce(ctx context.Context, x session.Erasure) (string, error) {
	return r.redis.Announce(ctx, x)
}

func (r remoteBackend) Erasures(ctx context.Context, after string) ([]session.Erasure, error) {
	return r.redis.Erasures(ctx, after)
}

func (r remoteBackend) PutOptOutMarks(ctx context.Context, marks map[session.ID]session.OptOutMark) error {
	return r.redis.PutOptOutMarks(ctx, marks)
}

func (r remoteBackend) OptOutMark(ctx context.Context, id session.ID) (session.OptOutMark, bool, error) {
	return r.redis.OptOutMark(ctx, id)
}

func (r remoteBackend) Positions(ctx context.Context, follow []string) (map[string]session.Position, error) {
	return r.redis.Positions(ctx, follow)
}

func (r remoteBackend) Changes(tenant string) ([]trial.Delta, bool) { return r.redis.Changes(tenant) }

func (r remoteBackend) RatedOpenSessions(ctx context.Context, tenant, after string, limit int) ([]session.Row, [][]feedback.Entry, string, error) {
	return r.redis.RatedOpenSessions(ctx, tenant, after, limit)
}

func (r remoteBackend) AreSettled(ctx context.Context, tenant string, ids []session.ID) ([]bool, error) {
	return r.redis.AreSettled(ctx, tenant, ids)
}

// inRedis returns a function that replaces the backend in the options with Redis.
func inRedis(t *testing.T, server *storetest.Redis, outbox string) func(o *options) {
	t.Helper()
	return func(o *options) {
		db, err := redis.Open(redis.Options{URL: server.URL(), Now: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		f := o.Backend.(*faultyBackend)
		if err := f.backend.Close(); err != nil {
			t.Fatal(err)
		}
		f.backend = db
		o.Backend, o.Fleet, o.Queue.Path, o.Queue.MaxMemoryBytes = remoteBackend{f, db}, remoteBackend{f, db}, outbox, 200<<10
	}
}

type panickingRedis struct {
	remoteBackend
	panicInPositions atomic.Bool            // whether Positions panics
	panicTenant      atomic.Pointer[string] // the tenant for which Counters panics
}

func (p *panickingRedis) Positions(ctx context.Context, follow []string) (map[string]session.Position, error) {
	if p.panicInPositions.Load() {
		panic("positions")
	}
	return p.remoteBackend.Positions(ctx, follow)
}

func (p *panickingRedis) Counters(ctx context.Context, tenant string) ([]trial.Delta, error) {
	if panicTenant := p.panicTenant.Load(); panicTenant != nil && *panicTenant == tenant {
		panic("counters")
	}
	return p.remoteBackend.Counters(ctx, tenant)
}

func TestFollowContinuesAfterPanic(t *testing.T) {
	t.Parallel()
	const otherTenant = "other"
	server := storetest.StartRedis(t)
	bad := sessionID("bad")
	sessionPanic := &panickingStep{step: "follow", id: bad}
	var backendPanic *panickingRedis
	open := func(change func(o *options)) *fixture {
		dir := t.TempDir()
		return openFixture(t, dir, &clock{at: time.Date(2032, 4, 5, 6, 7, 8, 0, time.UTC)}, func(o *options) {
			inRedis(t, server, filepath.Join(dir, "outbox.db"))(o)
			change(o)
		})
	}
	writer := open(func(*options) {})
	follower := open(func(o *options) {
		backendPanic = &panickingRedis{remoteBackend: o.Backend.(remoteBackend)} //nolint:errcheck,forcetypeassert // inRedis sets a remoteBackend
		o.Backend, o.Fleet, o.Hooks.Before = backendPanic, backendPanic, sessionPanic.before
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- follower.Follow(ctx, 5*time.Millisecond) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	mean := func(tenant string) float64 { return follower.Beliefs(tenant).Posterior(lookTwice).Mean }
	addRewarded := func(tenant, name string, reward float64) {
		t.Helper()
		id := writer.beginSession(tenant, name, newAssignment(injected))
		if !writer.Offer(store.Turn{Exchange: newExchange(tenant, name, 1, writer.clock.now()), Size: 100}) {
			t.Fatal("Offer(turn 1) = false, want true")
		}
		writer.deliverAndCorrect()
		writer.postFeedback(tenant, id, userScore("f"+name, 1, reward))
		writer.recomputeRewards(writer.ctx())
	}
	waitForRise := func(name, tenant string, from float64) {
		t.Helper()
		waitFor(t, name, func() bool { return mean(tenant) > from })
	}
	prior, otherPrior := mean(tenantA), mean(otherTenant)

	addRewarded(tenantA, "bad", 1)
	addRewarded(tenantA, "good", 1)
	waitForRise("the good session's reward", tenantA, prior)
	assertEqual(t, "panics", sessionPanic.panics.Load(), 1)
	assertEqual(t, "sessions set aside", follower.Store.Metrics.SetAside.Load(), 1)
	follower.Guard().StorePending(follower.ctx(), follower.backend)
	letters, _, err := backendPanic.redis.DeadLetters(t.Context(), 10)
	if err != nil {
		t.Fatal(err)
	}
	if len(letters) != 1 {
		t.Fatalf("dead letters = %+v, want 1 item", letters)
	}
	if letters[0].ID != bad {
		t.Errorf("dead letters: ID = %v, want %v", letters[0].ID, bad)
	}
	if letters[0].Step != "follow" {
		t.Errorf(`dead letters: Step = %q, want "follow"`, letters[0].Step)
	}

	tenant := tenantA
	backendPanic.panicTenant.Store(&tenant)
	writer.advancePastClose() // this changes counters, and the follower panics when it reads them
	waitFor(t, "the follower's panic when it reads the counters", func() bool { return slices.Contains(follower.takeFailures(), "panic follow") })
	addRewarded(otherTenant, "other", 1)
	waitForRise("another tenant's reward", otherTenant, otherPrior)

	backendPanic.panicInPositions.Store(true)
	waitFor(t, "the panic at a poll", func() bool { return slices.Contains(follower.takeFailures(), "panic follow") })
	backendPanic.panicInPositions.Store(false)
	backendPanic.panicTenant.Store(nil)
	before := mean(otherTenant)
	addRewarded(otherTenant, "third", 1)
	waitForRise("a reward after the panics", otherTenant, before)
}

type damagedRedis struct{ remoteBackend }

func (damagedRedis) Positions(context.Context, []string) (map[string]session.Position, error) {
	return nil, session.ErrDamaged
}

func TestFailureDuringStartIsReported(t *testing.T) {
	t.Parallel()
	server := storetest.StartRedis(t)
	for want, change := range map[string]func(o *options, r remoteBackend){
		"panic load": func(o *options, r remoteBackend) {
			p := &panickingRedis{remoteBackend: r}
			p.panicInPositions.Store(true)
			o.Backend, o.Fleet = p, p
		},
		"load": func(o *options, r remoteBackend) { o.Fleet = damagedRedis{r} },
	} {
		dir := t.TempDir()
		f := openFixture(t, dir, &clock{at: time.Date(2032, 4, 5, 6, 7, 8, 0, time.UTC)}, func(o *options) {
			inRedis(t, server, filepath.Join(dir, "outbox.db"))(o)
			change(o, o.Backend.(remoteBackend)) //nolint:errcheck,forcetypeassert // inRedis sets a remoteBackend
		})
		if got := f.takeFailures(); !slices.ContainsFunc(got, func(failure string) bool { return strings.HasPrefix(failure, want) }) {
			t.Errorf("failures: got %v, want one that begins with %q among them", got, want)
		}
	}
}
