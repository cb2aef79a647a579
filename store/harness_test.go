package store_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"precept/bandit/feedback"
	"precept/bandit/trial"
	"precept/internal/label"
	"precept/internal/sample"
	"precept/internal/session"
	"precept/store"
	"precept/store/sqlite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	tenantA    = "default"
	markerWord = "zanzibar" // a word that tests put into sessions, and then search for in the files
	closeAge   = time.Hour
	// durableAfter is long enough for the store to deliver, sync and checkpoint all accepted turns.
	durableAfter = 25 * time.Second
)

var errDown = errors.New("the backend is down") //nolint:gochecknoglobals // an error to compare with

var startTime = time.Date(2032, 4, 5, 6, 7, 8, 0, time.UTC) //nolint:gochecknoglobals // a time.Time cannot be a constant

// clock is a clock that a test can advance.
type clock struct {
	mu     sync.Mutex
	manual time.Time     // zero means time.Now
	offset time.Duration // total advance by add
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.manual.IsZero() {
		return time.Now().Add(c.offset)
	}
	return c.manual.Add(c.offset)
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.offset += d
}

// backend is a store.Backend with methods for the learner and for tests.
type backend interface {
	store.Backend
	Counters(ctx context.Context, tenant string) ([]trial.Delta, error)
	Tenants(ctx context.Context) ([]string, error)
	SessionFeedback(ctx context.Context, tenant string, id session.ID) ([]feedback.Entry, int64, error)
	DueSessions(ctx context.Context, before time.Time, after session.Row, limit int) ([]session.Row, error)
	Settle(ctx context.Context, s []session.Settlement) ([]bool, error)
}

// faultyBackend records the calls to a backend, and fails calls on demand.
type faultyBackend struct {
	backend
	mu    sync.Mutex
	calls []string
	fail  map[string]int // by operation: how many of the next calls fail
	err   error
	hook  func(op string) // runs before every call, without holding mu; set by onCall

	refusedSession   session.ID // every AddFeedback call for this session fails
	panickingSession session.ID // every AddFeedback call for this session panics
}

func (f *faultyBackend) onCall(hook func(op string)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hook = hook
}

// holdNext blocks the next call to an operation until the test closes release.
func (f *faultyBackend) holdNext(op string) (release chan struct{}) {
	release = make(chan struct{})
	var held atomic.Bool
	f.onCall(func(called string) {
		if called == op && held.CompareAndSwap(false, true) {
			<-release
		}
	})
	return release
}

func (f *faultyBackend) call(op string) error {
	f.mu.Lock()
	f.calls = append(f.calls, op)
	mustFail := f.fail[op] > 0
	if mustFail {
		f.fail[op]--
	}
	err, hook := f.err, f.hook
	f.mu.Unlock()
	if hook != nil {
		hook(op)
	}
	if !mustFail {
		return nil
	}
	return err
}

func (f *faultyBackend) failNext(op string, n int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail[op], f.err = n, err
}

// failWrites makes every Write without samples fail until allowWrites.
func (f *faultyBackend) failWrites() { f.failNext("write", 1<<30, errDown) }

func (f *faultyBackend) allowWrites() { f.failNext("write", 0, nil) }

// takeCalls returns the operations called since the last takeCalls.
func (f *faultyBackend) takeCalls() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := f.calls
	f.calls = nil
	return out
}

// takeLookups returns the number of Session calls since the last takeCalls.
func (f *faultyBackend) takeLookups() (n int) {
	for _, op := range f.takeCalls() {
		if op == "session" {
			n++
		}
	}
	return n
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

func (f *faultyBackend) Sync(ctx context.Context) error {
	if err := f.call("sync"); err != nil {
		return err
	}
	return f.backend.Sync(ctx)
}

func (f *faultyBackend) AddFeedback(ctx context.Context, tenant string, e map[session.ID][]feedback.Entry) (map[session.ID]int, error) {
	if err := f.call("feedback"); err != nil {
		return nil, err
	}
	if _, ok := e[f.refusedSession]; ok {
		return nil, errDown
	}
	if _, ok := e[f.panickingSession]; ok {
		panic("feedback")
	}
	return f.backend.AddFeedback(ctx, tenant, e)
}

func (f *faultyBackend) Forget(ctx context.Context, tenant string, id session.ID) (bool, error) {
	if err := f.call("forget"); err != nil {
		return false, err
	}
	return f.backend.Forget(ctx, tenant, id)
}

func (f *faultyBackend) Unpark(ctx context.Context, tenant string, owners map[session.EchoKey]session.ID) (map[session.ID]int, error) {
	if err := f.call("unpark"); err != nil {
		return nil, err
	}
	return f.backend.Unpark(ctx, tenant, owners)
}

// fixture is a store with a real SQLite database. A test delivers the rows with deliver, or starts the store with run.
type fixture struct {
	t       testing.TB
	dir     string
	options store.Options
	clock   *clock
	backend *faultyBackend
	store   *store.Store // nil after kill has closed the store
	archive *store.Archive

	cancel context.CancelFunc // ends run; nil means not running
	done   chan error

	mu       sync.Mutex
	failures []string
}

// newFixture opens a store with a manual clock in a new directory.
func newFixture(t testing.TB, change func(o *store.Options)) *fixture {
	t.Helper()
	return openFixture(t, t.TempDir(), &clock{manual: startTime}, change)
}

// runFixture opens a store in a new directory and starts it. The test must be in a synctest bubble.
func runFixture(t testing.TB, change func(o *store.Options)) *fixture {
	t.Helper()
	f := openFixture(t, t.TempDir(), &clock{}, change)
	f.run()
	return f
}

// openFixture opens a store in dir. A nil change keeps the default options.
func openFixture(t testing.TB, dir string, clk *clock, change func(o *store.Options)) *fixture {
	t.Helper()
	db, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(dir, "precept.db"), Now: clk.now})
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{t: t, dir: dir, clock: clk, backend: &faultyBackend{backend: db, fail: map[string]int{}}}
	o := store.Options{
		Now: clk.now, Backend: f.backend,
		LookupTimeout: 5 * time.Second, // long enough for a loaded machine
		Queue:         store.QueueOptions{MaxMemoryBytes: 1 << 20, Path: outboxIn(dir), MaxBytes: 1 << 30},
		Content:       store.ContentOptions{StoreContent: true, RedactPersonal: true},
		Hooks: store.Hooks{
			OnFailure: func(step label.Step, _ error) { f.addFailure(string(step)) },
			OnPanic:   func(step label.Step, _ any) { f.addFailure("panic " + string(step)) },
		},
	}
	if change != nil {
		change(&o)
	}
	f.options = o
	if f.store, err = store.Open(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	f.archive = f.store.Archive(feedback.Definition{CloseAfter: closeAge})
	t.Cleanup(f.end)
	return f
}

func (f *fixture) addFailure(step string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failures = append(f.failures, step)
}

func (f *fixture) takeFailures() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := f.failures
	f.failures = nil
	return out
}

func (f *fixture) run() {
	ctx, cancel := context.WithCancel(f.t.Context())
	f.cancel, f.done = cancel, make(chan error, 1)
	go func() { f.done <- f.store.Run(ctx) }()
}

// drain shuts the store down, which writes all rows in memory.
func (f *fixture) drain() error {
	if f.cancel == nil {
		ctx, cancel := context.WithCancel(f.t.Context())
		cancel()
		return f.store.Run(ctx)
	}
	f.cancel()
	f.cancel = nil
	return <-f.done
}

func (f *fixture) stop() {
	f.t.Helper()
	if err := f.drain(); err != nil {
		f.t.Error(err)
	}
	f.kill()
}

// kill closes the store without writing the rows that are still in memory.
func (f *fixture) kill() {
	f.t.Helper()
	if err := f.store.Close(); err != nil {
		f.t.Error(err)
	}
	f.store = nil
}

// end closes the store unless the test has closed it.
func (f *fixture) end() {
	switch {
	case f.store == nil:
	case f.cancel != nil:
		f.stop()
	default:
		f.kill()
	}
}

// restart kills the store and opens the directory again.
func (f *fixture) restart(change func(o *store.Options)) *fixture {
	f.t.Helper()
	f.kill()
	return openFixture(f.t, f.dir, f.clock, change)
}

// crash opens a second store with a copy of the files, as after a crash. The first store continues.
func (f *fixture) crash(change func(o *store.Options)) *fixture {
	f.t.Helper()
	return openFixture(f.t, copyDir(f.t, f.dir), f.clock, change)
}

// copyDir copies a directory as a crash would leave it.
func copyDir(t testing.TB, dir string) string {
	t.Helper()
	to := t.TempDir()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		name, _ := filepath.Rel(dir, path)
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return os.MkdirAll(filepath.Join(to, name), 0o700)
		case strings.HasSuffix(name, "-shm") || strings.HasPrefix(filepath.Base(name), "."):
			return nil // the running process's shared memory and locks
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, name), b, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
	return to
}

// outboxIn returns the path of the outbox, which has its own directory.
func outboxIn(dir string) string { return filepath.Join(dir, "queue", "outbox.db") }

func (f *fixture) sessionsByKey(key session.EchoKey) []session.ID {
	f.t.Helper()
	found, uncertain := f.store.FindByEchoes(f.t.Context(), tenantA, []session.EchoKey{key})
	if uncertain {
		f.t.Errorf("FindByEchoes(%x): uncertain = true, want false", key)
	}
	return found[key]
}

func (f *fixture) deliver() { f.store.Deliver(f.t.Context()) }

// deliverAll delivers until the outbox is empty. On a busy machine, this takes several deliveries.
func (f *fixture) deliverAll() {
	for n := 0; n == 0 || n < 300 && f.balancedAccount(true).Spooled+f.store.Metrics.Pending.Load() > 0; n++ {
		f.deliverFor(time.Second)
	}
}

// deliverFor advances the clock by d, and delivers every second.
func (f *fixture) deliverFor(d time.Duration) {
	for ; d > 0; d -= time.Second {
		f.clock.add(time.Second)
		f.deliver()
	}
}

// balancedAccount calls readAccount for the fixture's outbox.
func (f *fixture) balancedAccount(running bool) store.Account {
	f.t.Helper()
	return readAccount(f.t, f.options.Queue.Path, running)
}

// readAccount reads the account from an outbox file and checks the sum.
func readAccount(t testing.TB, path string, running bool) store.Account {
	t.Helper()
	b, err := store.ReadAccount(path, running)
	if err != nil {
		t.Fatal(err)
	}
	sum := b.Stored + b.Spooled + b.Incomplete
	for _, n := range b.Dropped {
		sum += n
	}
	if sum != b.Admitted {
		t.Errorf("sum of the account = %d exchanges, want %d as admitted", sum, b.Admitted)
	}
	return b
}

// account delivers for a second unless Run is running, and returns the account as text. The argument running says
// whether the store is open.
func (f *fixture) account(running bool) string {
	f.t.Helper()
	if f.store != nil && f.cancel == nil {
		f.deliverFor(time.Second)
	}
	return accountText(f.balancedAccount(running))
}

// accountText formats an account as "admitted = stored + spooled + incomplete + dropped".
func accountText(b store.Account) string {
	text := fmt.Sprintf("%d = %d + %d + %d", b.Admitted, b.Stored, b.Spooled, b.Incomplete)
	for _, reason := range slices.Sorted(maps.Keys(b.Dropped)) {
		text += fmt.Sprintf(" + %d %s", b.Dropped[reason], reason)
	}
	return text
}

// checkMemoryIsFree checks that one turn can use all memory for exchanges.
func (f *fixture) checkMemoryIsFree() {
	f.t.Helper()
	checkEqual(f.t, "Metrics.Pending", f.store.Metrics.Pending.Load(), 0)
	offer := func(size int64) bool {
		return f.store.Offer(store.Turn{Exchange: newExchange(tenantA, "large", 1, f.clock.now()), Size: size})
	}
	if limit := f.options.Queue.MaxMemoryBytes; !offer(limit) {
		f.t.Errorf("Offer(%d-byte turn with free memory) = false, want true", limit)
	}
	if offer(1) {
		f.t.Error("Offer(1-byte turn with full memory) = true, want false")
	}
}

// filesWith returns the names of the files in dir that contain text.
func filesWith(t testing.TB, dir, text string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if bytes.Contains(b, []byte(text)) {
			names = append(names, filepath.Base(path))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func (f *fixture) outboxFilesWith(text string) []string {
	f.t.Helper()
	return filesWith(f.t, filepath.Dir(f.options.Queue.Path), text)
}

// closeSessions advances the clock past closeAge and closes all due sessions.
func (f *fixture) closeSessions() {
	f.t.Helper()
	f.clock.add(closeAge + time.Second)
	f.deliver()
	rows, err := f.backend.DueSessions(f.t.Context(), f.clock.now().Add(-closeAge), session.Row{}, 1000)
	if err != nil {
		f.t.Fatal(err)
	}
	for i := range rows {
		if err := f.settleRow(&rows[i]); err != nil {
			f.t.Error(err)
		}
	}
}

// settleRow closes a session as the learner does.
func (f *fixture) settleRow(row *session.Row) error {
	ctx := f.t.Context()
	entries, feedbackState, err := f.backend.SessionFeedback(ctx, row.Tenant, row.ID)
	if err != nil {
		return err
	}
	ex, err := f.backend.Exchanges(ctx, row.Tenant, row.ID)
	if err != nil {
		return err
	}
	if len(ex) > 0 && f.options.Content.StoreContent {
		var b session.Batch
		for _, m := range buildSamples(row.Tenant, row.ID, ex, entries) {
			b.Samples = append(b.Samples, session.StoredSample{Tenant: row.Tenant, Agent: ex[0].Agent, ID: row.ID, Sample: m})
		}
		if err := f.backend.Write(ctx, b); err != nil {
			return err
		}
	}
	out := feedback.Reward(entries, nil)
	var deltas trial.Deltas
	deltas.Add("", "closed", 1, 1)
	if out.OK {
		deltas.Add("", "rewarded", 1, 1)
	}
	_, err = f.backend.Settle(ctx, []session.Settlement{{
		Tenant: row.Tenant, ID: row.ID, FeedbackState: feedbackState, Deltas: deltas,
		To: session.SettledState{Version: 1, Rewarded: out.OK, Reward: out.Reward, Tier: out.Tier, AssignmentAtClose: []byte("{}")},
	}})
	return err
}

func buildSamples(tenant string, id session.ID, ex []sample.Exchange, entries []feedback.Entry) []sample.Sample {
	input := sample.Session{
		Tenant: tenant, Agent: ex[0].Agent, Name: ex[0].SessionName, ID: id.String(), Exchanges: ex,
		IsFailure: func(string, string, string, int8) bool { return false },
	}
	for _, e := range entries {
		input.Ratings = append(input.Ratings, sample.Rating{
			At: e.At, Source: e.Source, Type: e.Type, Score: e.Score, Label: e.Label, Comment: e.Comment, Correction: e.Correction, Details: e.Details, Turn: e.Turn,
		})
	}
	return sample.Build(input)
}

// beginSession adds a session with one turn and an assignment to the store.
func (f *fixture) beginSession(tenant, name string, a trial.Assignment) session.ID {
	id := session.NamedID(tenant, session.NamespaceSession, name)
	ses := f.store.Add(&session.Record{
		Identity: session.Identity{
			ID: id, Tenant: tenant, Agent: "coder", Name: name, Method: session.ByHeader, Started: f.clock.now(), Seen: f.clock.now(),
		},
		Thread:     session.Thread{Turns: 1},
		Assignment: a,
	})
	f.store.Release(ses, store.DecisionsChanged)
	return id
}

// change edits the record of a session in memory.
func (f *fixture) change(id session.ID, c store.Change, change func(rec *session.Record)) {
	f.t.Helper()
	ses := f.store.AcquireInMemory(id)
	if ses == nil {
		f.t.Fatalf("AcquireInMemory(%s) = nil, want the session", id)
	}
	ses.Record.Mutex.Lock()
	change(ses.Record)
	ses.Record.Mutex.Unlock()
	f.store.Release(ses, c)
}

func (f *fixture) inMemory(tenant string, id session.ID) bool {
	return f.store.Snapshot(session.Ref{Tenant: tenant, ID: id}) != nil
}

func (f *fixture) offer(name string, turns ...int) {
	f.t.Helper()
	for _, n := range turns {
		if !f.store.Offer(store.Turn{Exchange: newExchange(tenantA, name, n, f.clock.now()), Size: 100}) {
			f.t.Fatalf("Offer(turn %d in session %s) = false, want true", n, name)
		}
	}
}

// offerLarge offers an incompressible turn of about size bytes.
func (f *fixture) offerLarge(name string, turn, size int) bool {
	x := newExchange(tenantA, name, turn, f.clock.now())
	x.Reply.Text = noise(turn, size)
	return f.store.Offer(store.Turn{Exchange: x, Size: int64(size)})
}

// startTurn begins a turn that ends with endTurn.
func (f *fixture) startTurn(name string, turn int) (*sample.Exchange, *store.TurnStart) {
	x := newExchange(tenantA, name, turn, f.clock.now())
	return x, f.store.BeginTurn(x)
}

func (f *fixture) endTurn(x *sample.Exchange, start *store.TurnStart) {
	f.t.Helper()
	if !f.store.Offer(store.Turn{Exchange: x, Start: start, Size: 100}) {
		f.t.Fatalf("Offer(turn %d in session %s) = false, want true", x.Turn, x.SessionName)
	}
}

// playOneTurn begins a session with one turn and delivers both.
func (f *fixture) playOneTurn(name string, a trial.Assignment) session.ID {
	f.t.Helper()
	id := f.beginSession(tenantA, name, a)
	f.offer(name, 1)
	f.deliver()
	return id
}

// addKey adds an echo key, under which feedback finds the session.
func (f *fixture) addKey(key session.EchoKey, id session.ID) {
	f.store.AddEchoes(session.Echo{Tenant: tenantA, Key: key, ID: id, At: f.clock.now()})
}

func (f *fixture) postFeedback(tenant string, id session.ID, e feedback.Entry) {
	f.t.Helper()
	got, err := f.store.Post(f.t.Context(), tenant, []session.ID{id}, 0, e)
	if err != nil {
		f.t.Fatal(err)
	}
	if got.Status != store.Joined {
		f.t.Fatalf("Post status = %s, want %s", got.Status, store.Joined)
	}
}

// postByKey posts feedback that identifies the session only by an echo key.
func (f *fixture) postByKey(tenant string, key session.EchoKey, e feedback.Entry) store.Posted {
	f.t.Helper()
	got, err := f.store.Post(f.t.Context(), tenant, nil, key, e)
	if err != nil {
		f.t.Fatal(err)
	}
	return got
}

// counters returns the tenant's counters in the database as JSON.
func (f *fixture) counters(tenant string) string {
	f.t.Helper()
	list, err := f.backend.Counters(f.t.Context(), tenant)
	if err != nil {
		f.t.Fatal(err)
	}
	text, err := json.Marshal(list)
	if err != nil {
		f.t.Fatal(err)
	}
	return string(text)
}

// counter returns the sum of a counter over all days.
func (f *fixture) counter(scope, field string) (sum float64) {
	f.t.Helper()
	list, err := f.backend.Counters(f.t.Context(), tenantA)
	if err != nil {
		f.t.Fatal(err)
	}
	for _, d := range list {
		if d.Key.Scope == scope && d.Key.Field == field {
			sum += float64(d.Value) / trial.FixedScale
		}
	}
	return sum
}

// settledState returns the session's state at the last settlement.
func (f *fixture) settledState(id session.ID) session.SettledState {
	f.t.Helper()
	a, err := f.backend.SettledState(f.t.Context(), tenantA, id)
	if err != nil {
		f.t.Fatal(err)
	}
	return a
}

// rewardAfterClose closes all sessions and returns the reward of session id, or -1 if there is none.
func (f *fixture) rewardAfterClose(id session.ID) float64 {
	f.t.Helper()
	f.closeSessions()
	a := f.settledState(id)
	if !a.Rewarded {
		return -1
	}
	return a.Reward
}

func (f *fixture) row(id session.ID) (session.Row, bool) {
	f.t.Helper()
	row, ok, err := f.backend.backend.Session(f.t.Context(), tenantA, id)
	if err != nil {
		f.t.Fatal(err)
	}
	return row, ok
}

// storedTurnCount returns the number of turns in the stored row.
func (f *fixture) storedTurnCount(id session.ID) int {
	f.t.Helper()
	row, ok := f.row(id)
	if !ok {
		return 0
	}
	rec, err := session.Decode(id, row.Data)
	if err != nil {
		f.t.Fatal(err)
	}
	return rec.Thread.Turns
}

// turnCount acquires the session and returns its number of turns.
func (f *fixture) turnCount(id session.ID) int {
	f.t.Helper()
	ses, uncertain := f.store.Acquire(f.t.Context(), tenantA, id)
	if ses == nil {
		f.t.Fatalf("Acquire = nil, uncertain = %v, want a session", uncertain)
	}
	defer f.store.Release(ses, store.Unchanged)
	if uncertain {
		f.t.Fatal("uncertain = true, want false")
	}
	ses.Record.Mutex.Lock()
	defer ses.Record.Mutex.Unlock()
	return ses.Record.Thread.Turns
}

func (f *fixture) exchangeCount(id session.ID) int {
	f.t.Helper()
	list, err := f.backend.Exchanges(f.t.Context(), tenantA, id)
	if err != nil {
		f.t.Fatal(err)
	}
	return len(list)
}

// storedTurns returns a session's stored turns, such as "1 complete".
func (f *fixture) storedTurns(name string) (turns []string) {
	f.t.Helper()
	list, err := f.backend.Exchanges(f.t.Context(), tenantA, sessionID(name))
	if err != nil {
		f.t.Fatal(err)
	}
	for i := range list {
		turns = append(turns, fmt.Sprint(list[i].Turn, " ", list[i].Outcome))
	}
	slices.Sort(turns)
	return turns
}

// newAssignment returns an assignment with one lesson, injected or withheld. Its numbers are arbitrary.
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

// noise returns size bytes or more of random words that hardly compress.
func noise(seed, size int) string {
	var b strings.Builder
	for x := uint64(seed)*2654435761 + 88172645463325252; b.Len() < size; { //nolint:gosec // an overflow does no harm
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		for i := range 5 {
			b.WriteByte('a' + byte(x>>(8*i))%26)
		}
		b.WriteByte(' ')
	}
	return b.String()
}

// newScore returns a user's score, posted at 07:minute.
func newScore(id string, minute int, score float64) feedback.Entry {
	return feedback.Entry{
		ID: id, At: time.Date(2032, 4, 5, 7, minute, 0, 0, time.UTC), Source: feedback.SourceUser, Type: feedback.TypeScore,
		Score: score, Tier: feedback.TierUser,
	}
}

// sessionID returns the id of a session in tenantA.
func sessionID(name string) session.ID {
	return session.NamedID(tenantA, session.NamespaceSession, name)
}

func newOptOut(t testing.TB, pattern string) *sample.OptOut {
	t.Helper()
	o, err := sample.NewOptOut([]string{pattern}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// optOutEnvFiles returns an option by which exchanges that access .env files opt out.
func optOutEnvFiles(t testing.TB) func(o *store.Options) {
	t.Helper()
	out := newOptOut(t, "*.env")
	return func(o *store.Options) { o.Content.OptOut = out }
}

// readEnvFile adds a tool call that reads a .env file.
func readEnvFile(x *sample.Exchange) {
	x.Reply.Calls = []sample.Call{{ID: "c", Name: "read", Args: `{"path":"config/.env"}`}}
}

func checkEqual[T comparable](t testing.TB, subject string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", subject, got, want)
	}
}

func checkAccount(t testing.TB, subject, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %s, want %s (admitted = stored + spooled + incomplete + dropped)", subject, got, want)
	}
}

func checkAtLeast[T cmp.Ordered](t testing.TB, subject string, got, want T) {
	t.Helper()
	if got < want {
		t.Errorf("%s: got %v, want at least %v", subject, got, want)
	}
}

func checkAtMost[T cmp.Ordered](t testing.TB, subject string, got, want T) {
	t.Helper()
	if got > want {
		t.Errorf("%s: got %v, want at most %v", subject, got, want)
	}
}

func checkList[T comparable](t testing.TB, subject string, got, want []T) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %v, want %v", subject, got, want)
	}
}

func eventually(t testing.TB, event string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("timed out after a minute waiting for %s", event)
		}
	}
}

// replyKey is the echo key (the hash of a reply's id) of tests with only one key.
const replyKey session.EchoKey = 0xabcdef
