package learn_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"precept/bandit/feedback"
	"precept/bandit/trial"
	"precept/internal/label"
	"precept/internal/sample"
	"precept/internal/session"
	"precept/learn"
	"precept/store"
	"precept/store/sqlite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	tenantA    = "default"
	closeAge   = time.Hour
	noCounters = "null" // the result of fixture.counters if there are no counters
)

var errDown = errors.New("the backend is down") //nolint:gochecknoglobals // an error to compare with

// clock is the clock of a fixture. The time changes only when a test changes it.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

type backend interface {
	store.Backend
	learn.Backend
}

// faultyBackend records the calls to a backend, and fails calls on demand.
type faultyBackend struct {
	backend
	mu           sync.Mutex
	calls        []string
	failuresLeft map[string]int // by operation: how many of the next calls fail
	err          error
	hook         func(op string) // runs before each call, without holding the lock
}

func (f *faultyBackend) call(op string) error {
	f.mu.Lock()
	f.calls = append(f.calls, op)
	fails := f.failuresLeft[op] > 0
	if fails {
		f.failuresLeft[op]--
	}
	err, hook := f.err, f.hook
	f.mu.Unlock()
	if hook != nil {
		hook(op)
	}
	if !fails {
		return nil
	}
	return err
}

func (f *faultyBackend) failNext(op string, n int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failuresLeft[op], f.err = n, err
}

// takeCalls returns the operations that were called since the previous takeCalls.
func (f *faultyBackend) takeCalls() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := f.calls
	f.calls = nil
	return out
}

func (f *faultyBackend) Session(ctx context.Context, tenant string, id session.ID) (session.Row, bool, error) {
	if err := f.call("session"); err != nil {
		return session.Row{}, false, err
	}
	return f.backend.Session(ctx, tenant, id)
}

func (f *faultyBackend) FindEcho(ctx context.Context, tenant string, keys []session.EchoKey) (map[session.EchoKey][]session.ID, error) {
	if err := f.call("echo"); err != nil {
		return nil, err
	}
	return f.backend.FindEcho(ctx, tenant, keys)
}

func (f *faultyBackend) Write(ctx context.Context, b session.Batch) error {
	op := "write"
	if len(b.Samples) > 0 {
		op = "samples"
	}
	if err := f.call(op); err != nil {
		return err
	}
	return f.backend.Write(ctx, b)
}

func (f *faultyBackend) AddFeedback(ctx context.Context, tenant string, e map[session.ID][]feedback.Entry) (map[session.ID]int, error) {
	if err := f.call("feedback"); err != nil {
		return nil, err
	}
	return f.backend.AddFeedback(ctx, tenant, e)
}

func (f *faultyBackend) Feedback(ctx context.Context, tenant string, id session.ID) ([]feedback.Entry, error) {
	if err := f.call("read feedback"); err != nil {
		return nil, err
	}
	return f.backend.Feedback(ctx, tenant, id)
}

func (f *faultyBackend) SessionFeedback(ctx context.Context, tenant string, id session.ID) ([]feedback.Entry, int64, error) {
	if err := f.call("read feedback"); err != nil {
		return nil, 0, err
	}
	return f.backend.SessionFeedback(ctx, tenant, id)
}

func (f *faultyBackend) UnsettledSessions(ctx context.Context, limit int) ([]session.UnsettledSession, error) {
	if err := f.call("unsettled"); err != nil {
		return nil, err
	}
	return f.backend.UnsettledSessions(ctx, limit)
}

func (f *faultyBackend) CountUnsampled(ctx context.Context) (int64, error) {
	if err := f.call("unsampled"); err != nil {
		return 0, err
	}
	return f.backend.CountUnsampled(ctx)
}

func (f *faultyBackend) Unpark(ctx context.Context, tenant string, owners map[session.EchoKey]session.ID) (map[session.ID]int, error) {
	if err := f.call("unpark"); err != nil {
		return nil, err
	}
	return f.backend.Unpark(ctx, tenant, owners)
}

func (f *faultyBackend) DueSessions(ctx context.Context, before time.Time, after session.Row, limit int) ([]session.Row, error) {
	if err := f.call("due"); err != nil {
		return nil, err
	}
	return f.backend.DueSessions(ctx, before, after, limit)
}

func (f *faultyBackend) SettledState(ctx context.Context, tenant string, id session.ID) (session.SettledState, error) {
	if err := f.call("settled state"); err != nil {
		return session.SettledState{}, err
	}
	return f.backend.SettledState(ctx, tenant, id)
}

func (f *faultyBackend) Settle(ctx context.Context, s []session.Settlement) ([]bool, error) {
	if err := f.call("settle"); err != nil {
		return nil, err
	}
	return f.backend.Settle(ctx, s)
}

func (f *faultyBackend) Exchanges(ctx context.Context, tenant string, id session.ID) ([]sample.Exchange, error) {
	if err := f.call("read exchanges"); err != nil {
		return nil, err
	}
	return f.backend.Exchanges(ctx, tenant, id)
}

func (f *faultyBackend) PutPriors(ctx context.Context, tenant string, from int64, data []byte) (bool, error) {
	if err := f.call("priors"); err != nil {
		return false, err
	}
	return f.backend.PutPriors(ctx, tenant, from, data)
}

// fixture is a learner with a store. The test calls each step.
type fixture struct {
	*store.Store
	*learn.Learner
	t       testing.TB
	dir     string
	backend *faultyBackend
	clock   *clock
	opts    options

	mu       sync.Mutex
	failures []string
}

type options struct {
	store.Options
	Reward feedback.Definition
}

// newFixture opens a store and a learner in a new directory. A nil change keeps the default options.
func newFixture(t testing.TB, change func(o *options)) *fixture {
	t.Helper()
	clk := &clock{at: time.Date(2032, 4, 5, 6, 7, 8, 0, time.UTC)}
	return openFixture(t, t.TempDir(), clk, change)
}

func openFixture(t testing.TB, dir string, clk *clock, change func(o *options)) *fixture {
	t.Helper()
	db, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(dir, "precept.db"), Now: clk.now})
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{t: t, dir: dir, clock: clk, backend: &faultyBackend{backend: db, failuresLeft: map[string]int{}}}
	o := options{Reward: feedback.Definition{CloseAfter: closeAge}, Options: store.Options{
		Now: clk.now, Backend: f.backend,
		LookupTimeout: 5 * time.Second, // long enough for a busy machine
		Queue:         store.QueueOptions{MaxMemoryBytes: 1 << 20, Path: filepath.Join(dir, "outbox.db"), MaxBytes: 1 << 30},
		Content:       store.ContentOptions{StoreContent: true, RedactPersonal: true},
		Hooks: store.Hooks{
			OnFailure: func(step label.Step, _ error) { f.recordFailure(step) },
			OnPanic:   func(step label.Step, _ any) { f.recordFailure("panic " + step) },
		},
	}}
	if change != nil {
		change(&o)
	}
	if f.Store, err = store.Open(t.Context(), o.Options); err != nil {
		t.Fatal(err)
	}
	learnOptions := learn.Options{
		Now: o.Now, AgeNow: o.AgeNow, Backend: o.Backend.(backend), Memory: f.Store, Deliverer: f.Store, Touches: f.Store, Exchanges: f.Store, Guard: f.Guard(),
		Reward: o.Reward, KeepSamples: o.Content.StoreContent, OnFailure: o.Hooks.OnFailure,
	}
	if o.Fleet != nil {
		learnOptions.Fleet = o.Fleet.(learn.Fleet)
	}
	if f.Learner, err = learn.Open(t.Context(), learnOptions); err != nil {
		t.Fatal(err)
	}
	f.opts = o
	t.Cleanup(f.stop)
	return f
}

func (f *fixture) recordFailure(step label.Step) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failures = append(f.failures, string(step))
}

// takeFailures returns the steps that have failed since the previous takeFailures.
func (f *fixture) takeFailures() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := f.failures
	f.failures = nil
	return out
}

func (f *fixture) stop() {
	f.t.Helper()
	if f.Store == nil {
		return
	}
	if err := f.Close(); err != nil {
		f.t.Error(err)
	}
	f.Store = nil
}

func (f *fixture) reopen(change func(o *options)) *fixture {
	f.t.Helper()
	f.stop()
	return openFixture(f.t, f.dir, f.clock, change)
}

func (f *fixture) deliverAndCorrect() {
	f.Deliver(f.ctx())
	f.recomputeRewards(f.ctx())
}

func (f *fixture) recomputeRewards(ctx context.Context) { f.Correct(ctx) }

func (f *fixture) closeDue(ctx context.Context) { f.CloseDue(ctx) }

// advancePastClose advances the clock until all sessions are due, and closes them.
func (f *fixture) advancePastClose() {
	f.clock.add(closeAge + time.Second)
	f.deliverAndCorrect()
	f.closeDue(f.ctx())
}

func (f *fixture) ctx() context.Context { return f.t.Context() }

func (f *fixture) beginSession(tenant, name string, a trial.Assignment) session.ID {
	id := session.NamedID(tenant, session.NamespaceSession, name)
	ses := f.Add(&session.Record{
		Identity:   session.Identity{ID: id, Tenant: tenant, Agent: "coder", Name: name, Method: session.ByHeader, Started: f.clock.now(), Seen: f.clock.now()},
		Thread:     session.Thread{Turns: 1},
		Assignment: a,
	})
	f.Release(ses, store.DecisionsChanged)
	return id
}

// addSession begins a session, offers its first turn, and delivers both.
func (f *fixture) addSession(name string, a trial.Assignment) session.ID {
	f.t.Helper()
	id := f.beginSession(tenantA, name, a)
	if !f.Offer(store.Turn{Exchange: newExchange(tenantA, name, 1, f.clock.now()), Size: 100}) {
		f.t.Fatal("Offer(turn 1) = false, want true")
	}
	f.deliverAndCorrect()
	return id
}

// offer offers turns in a session without delivering them.
func (f *fixture) offer(name string, turns ...int) {
	f.t.Helper()
	for _, n := range turns {
		if !f.Offer(store.Turn{Exchange: newExchange(tenantA, name, n, f.clock.now()), Size: 100}) {
			f.t.Fatalf("Offer(turn %d) = false, want true", n)
		}
	}
}

// drain stops the recorder and the learner after their last writes.
func (f *fixture) drain() error {
	ctx, cancel := context.WithCancel(f.ctx())
	cancel()
	learned := make(chan error, 1)
	go func() { learned <- f.Learner.Run(ctx, f.Done()) }()
	return errors.Join(f.Store.Run(ctx), <-learned)
}

func (f *fixture) postFeedback(tenant string, id session.ID, e feedback.Entry) {
	f.t.Helper()
	got, err := f.Post(f.ctx(), tenant, []session.ID{id}, 0, e)
	if err != nil {
		f.t.Fatal(err)
	}
	if got.Status != store.Joined {
		f.t.Fatalf("Post: Status = %s, want %s", got.Status, store.Joined)
	}
}

// counters returns the tenant's stored counters as JSON.
func (f *fixture) counters(tenant string) string {
	f.t.Helper()
	list, err := f.backend.Counters(f.ctx(), tenant)
	if err != nil {
		f.t.Fatal(err)
	}
	text, err := json.Marshal(list)
	if err != nil {
		f.t.Fatal(err)
	}
	return string(text)
}

// countersWithoutTiming returns the tenant's stored counters as JSON, without the counters for rewards at close (heard)
// and after close (late), because these depend on when feedback arrives.
func (f *fixture) countersWithoutTiming(tenant string) string {
	f.t.Helper()
	list, err := f.backend.Counters(f.ctx(), tenant)
	if err != nil {
		f.t.Fatal(err)
	}
	text, err := json.Marshal(slices.DeleteFunc(list, func(d trial.Delta) bool {
		return strings.Contains(d.Key.Field, "heard") || strings.HasPrefix(d.Key.Field, "late")
	}))
	if err != nil {
		f.t.Fatal(err)
	}
	return string(text)
}

// counter returns the sum of a counter over all days.
func (f *fixture) counter(scope, field string) float64 {
	f.t.Helper()
	list, err := f.backend.Counters(f.ctx(), tenantA)
	if err != nil {
		f.t.Fatal(err)
	}
	sum := 0.0
	for _, d := range learn.SelectDefinition(f.RewardDefinition(), list) {
		if d.Key.Scope == scope && d.Key.Field == field {
			sum += float64(d.Value) / trial.FixedScale
		}
	}
	return sum
}

// settledState returns what the counters contain for a session.
func (f *fixture) settledState(id session.ID) session.SettledState {
	f.t.Helper()
	a, err := f.backend.SettledState(f.ctx(), tenantA, id)
	if err != nil {
		f.t.Fatal(err)
	}
	return a
}

func (f *fixture) exchangeCount(id session.ID) int {
	f.t.Helper()
	list, err := f.backend.Exchanges(f.ctx(), tenantA, id)
	if err != nil {
		f.t.Fatal(err)
	}
	return len(list)
}

const injected, withheld = true, false // arguments of newAssignment

// newAssignment returns an assignment with one lesson, which is injected or withheld.
func newAssignment(injected bool) trial.Assignment {
	const arm = "look-twice@0123456789ab"
	return trial.Assignment{
		ControlP: .05, Category: "coder", Base: .5, Centre: .5, Decided: true, Day: 22740,
		Matched: []trial.Match{{Arm: arm, MatchEffect: .01}},
		Picks: []trial.Pick{{
			Slug: "look-twice", Arm: arm, Eps: .2, Injected: injected, MeanEffect: .02, Offset: .51, Centre: .52, Tokens: 40, Turn: 1, Propensity: .76,
		}},
	}
}

// newExchange returns a turn's exchange, with an id derived from the session and the turn number.
func newExchange(tenant, name string, turn int, at time.Time) *sample.Exchange {
	id := session.NamedID(tenant, session.NamespaceSession, name)
	return &sample.Exchange{
		ID: fmt.Sprintf("%x-%x-40%x-80%x-%012x", id[:4], id[4:6], id[6:7], id[7:8], turn), Tenant: tenant, Agent: "coder",
		Session: id.String(), SessionName: name, RequestID: fmt.Sprint("r", turn), Turn: turn, At: at, Dialect: "chat", Model: "m-1",
		Status: 200, Outcome: sample.Complete, New: []json.RawMessage{json.RawMessage(`{"role":"user","content":"Paint the shed."}`)},
		Reply: sample.Reply{ID: "chatcmpl-" + name, Text: "The shed is painted."},
	}
}

// userScore returns a user's score, posted at 07:minute.
func userScore(id string, minute int, y float64) feedback.Entry {
	return feedback.Entry{
		ID: id, At: time.Date(2032, 4, 5, 7, minute, 0, 0, time.UTC), Source: feedback.SourceUser, Type: feedback.TypeScore,
		Score: y, Tier: feedback.TierUser,
	}
}

func assertEqual[T comparable](t testing.TB, name string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", name, got, want)
	}
}

func assertEqualList[T comparable](t testing.TB, name string, got, want []T) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %v, want %v", name, got, want)
	}
}

// sessionID returns the id of a session in tenantA.
func sessionID(name string) session.ID {
	return session.NamedID(tenantA, session.NamespaceSession, name)
}
