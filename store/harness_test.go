package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"precept/bandit/feedback"
	"precept/bandit/trial"
	"precept/internal/label"
	"precept/internal/sample"
	"precept/internal/session"
	"precept/store/sqlite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	us       = "default"
	closeAge = time.Hour
	none     = "null" // the text of no counters
)

var errDown = errors.New("the backend is down") //nolint:gochecknoglobals // an error to compare with

// clock is the time of a rig. It stands still until it is moved.
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

// backend is what stands behind a store, and what a learner would ask of it.
type backend interface {
	Backend
	closings
	Counters(ctx context.Context, tenant string) ([]trial.Delta, error)
	Tenants(ctx context.Context) ([]string, error)
	Unsampled(ctx context.Context) (int64, error)
}

type closings interface {
	Heard(ctx context.Context, tenant string, id session.ID) ([]feedback.Entry, int64, error)
	Due(ctx context.Context, before time.Time, after session.Row, limit int) ([]session.Row, error)
	Settle(ctx context.Context, s []session.Settlement) ([]bool, error)
}

// faulty is a backend that writes down what it is asked, and fails when it is told to.
type faulty struct {
	backend
	mu    sync.Mutex
	calls []string
	fail  map[string]int // how many of the next calls fail
	err   error
	hook  func(op string) // before every call, without the lock
}

func (f *faulty) call(op string) error {
	f.mu.Lock()
	f.calls = append(f.calls, op)
	fails := f.fail[op] > 0
	if fails {
		f.fail[op]--
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

// failNext makes the next n calls of an operation fail.
func (f *faulty) failNext(op string, n int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail[op], f.err = n, err
}

// asked returns what was asked since the last time.
func (f *faulty) asked() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := f.calls
	f.calls = nil
	return out
}

func (f *faulty) Session(ctx context.Context, tenant string, id session.ID) (session.Row, bool, error) {
	if err := f.call("session"); err != nil {
		return session.Row{}, false, err
	}
	return f.backend.Session(ctx, tenant, id)
}

func (f *faulty) FindEcho(ctx context.Context, tenant string, keys []session.EchoKey) (map[session.EchoKey][]session.ID, error) {
	if err := f.call("echo"); err != nil {
		return nil, err
	}
	return f.backend.FindEcho(ctx, tenant, keys)
}

func (f *faulty) Write(ctx context.Context, b session.Batch) error {
	op := "write"
	if len(b.Samples) > 0 {
		op = "samples"
	}
	if err := f.call(op); err != nil {
		return err
	}
	return f.backend.Write(ctx, b)
}

func (f *faulty) Sync(ctx context.Context) error {
	if err := f.call("sync"); err != nil {
		return err
	}
	return f.backend.Sync(ctx)
}

func (f *faulty) AddFeedback(ctx context.Context, tenant string, e map[session.ID][]feedback.Entry) (map[session.ID]int, error) {
	if err := f.call("feedback"); err != nil {
		return nil, err
	}
	return f.backend.AddFeedback(ctx, tenant, e)
}

func (f *faulty) Feedback(ctx context.Context, tenant string, id session.ID) ([]feedback.Entry, error) {
	if err := f.call("read feedback"); err != nil {
		return nil, err
	}
	return f.backend.Feedback(ctx, tenant, id)
}

func (f *faulty) Heard(ctx context.Context, tenant string, id session.ID) ([]feedback.Entry, int64, error) {
	if err := f.call("read feedback"); err != nil {
		return nil, 0, err
	}
	return f.backend.Heard(ctx, tenant, id)
}

func (f *faulty) Join(ctx context.Context, tenant string, owners map[session.EchoKey]session.ID) (map[session.ID]int, error) {
	if err := f.call("join"); err != nil {
		return nil, err
	}
	return f.backend.Join(ctx, tenant, owners)
}

func (f *faulty) Due(ctx context.Context, before time.Time, after session.Row, limit int) ([]session.Row, error) {
	if err := f.call("due"); err != nil {
		return nil, err
	}
	return f.backend.Due(ctx, before, after, limit)
}

func (f *faulty) Applied(ctx context.Context, tenant string, id session.ID) (session.Applied, error) {
	if err := f.call("applied"); err != nil {
		return session.Applied{}, err
	}
	return f.backend.Applied(ctx, tenant, id)
}

func (f *faulty) Settle(ctx context.Context, s []session.Settlement) ([]bool, error) {
	if err := f.call("settle"); err != nil {
		return nil, err
	}
	return f.backend.Settle(ctx, s)
}

// rig is a store over a real database, with the recorder's steps in the hands of the test.
type rig struct {
	*Store
	*Archive
	t   testing.TB
	dir string
	be  *faulty
	clk *clock

	mu       sync.Mutex
	failures []string
}

// newRig opens a store in a new directory. change alters its options; nil leaves them.
func newRig(t testing.TB, change func(o *Options)) *rig {
	t.Helper()
	clk := &clock{at: time.Date(2032, 4, 5, 6, 7, 8, 0, time.UTC)}
	return openRig(t, t.TempDir(), clk, change)
}

func openRig(t testing.TB, dir string, clk *clock, change func(o *Options)) *rig {
	t.Helper()
	db, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(dir, "precept.db"), Now: clk.now})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, dir: dir, clk: clk, be: &faulty{backend: db, fail: map[string]int{}}}
	o := Options{
		Now: clk.now, Backend: r.be, HoldBytes: 1 << 20, Learn: true, Personal: true,
		Failed:   func(step label.Step, _ error) { r.told(step) },
		Panicked: func(step label.Step, _ any) { r.told("panic " + step) },
		Lookup:   5 * time.Second, // a loaded machine is no fault
		SpoolDir: filepath.Join(dir, "spool"), SpoolBytes: 1 << 30,
	}
	if change != nil {
		change(&o)
	}
	if r.Store, err = Open(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	r.Archive = r.Store.Archive(feedback.Definition{CloseAfter: closeAge})
	t.Cleanup(r.stop)
	return r
}

func (r *rig) told(step label.Step) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, string(step))
}

// failed returns the failures that were told since the last time.
func (r *rig) failed() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.failures
	r.failures = nil
	return out
}

// stop closes the store; the second time it does nothing.
func (r *rig) stop() {
	r.t.Helper()
	if r.Store == nil {
		return
	}
	if err := r.Close(); err != nil {
		r.t.Error(err)
	}
	r.Store = nil
}

// again closes the store and opens its directory anew.
func (r *rig) again(change func(o *Options)) *rig {
	r.t.Helper()
	r.stop()
	return openRig(r.t, r.dir, r.clk, change)
}

// record takes the queue in and writes it: what the recorder does on its short tick.
func (r *rig) record() {
	r.flush(r.ctx())
}

// age lets time pass until everything so far is due, and closes it as a learner would: its reward,
// its samples, and who closed and was told of.
func (r *rig) age() {
	r.t.Helper()
	r.clk.add(closeAge + time.Second)
	r.record()
	rows, err := r.be.Due(r.ctx(), r.clk.now().Add(-closeAge), session.Row{}, 1000)
	if err != nil {
		r.t.Fatal(err)
	}
	for i := range rows {
		if err := r.settle(&rows[i]); err != nil {
			r.t.Error(err)
		}
	}
}

func (r *rig) settle(row *session.Row) error {
	entries, heard, err := r.be.Heard(r.ctx(), row.Tenant, row.ID)
	if err != nil {
		return err
	}
	ex, err := r.be.Exchanges(r.ctx(), row.Tenant, row.ID)
	if err != nil {
		return err
	}
	var b session.Batch
	if len(ex) > 0 && r.opts.Learn {
		for _, m := range built(row.Tenant, row.ID, ex, entries) {
			b.Samples = append(b.Samples, session.StoredSample{Tenant: row.Tenant, Agent: ex[0].Agent, ID: row.ID, Sample: m})
		}
		if err := r.be.Write(r.ctx(), b); err != nil {
			return err
		}
	}
	out := feedback.Reward(entries, nil)
	var deltas trial.Deltas
	deltas.Add("", "closed", 1, 1)
	if out.OK {
		deltas.Add("", "told", 1, 1)
	}
	_, err = r.be.Settle(r.ctx(), []session.Settlement{{
		Tenant: row.Tenant, ID: row.ID, Heard: heard, Deltas: deltas,
		To: session.Applied{Version: 1, Told: out.OK, Reward: out.Reward, Tier: out.Tier, Frozen: []byte("{}")},
	}})
	return err
}

// built are the samples of a session.
func built(tenant string, id session.ID, ex []sample.Exchange, entries []feedback.Entry) []sample.Sample {
	of := sample.Session{
		Tenant: tenant, Agent: ex[0].Agent, Name: ex[0].SessionName, ID: id.String(), Exchanges: ex,
		Failing: func(string, string, string, int8) bool { return false },
	}
	for _, e := range entries {
		of.Ratings = append(of.Ratings, sample.Rating{
			At: e.At, Source: e.Source, Type: e.Type, Score: e.Score, Label: e.Label, Comment: e.Comment, Correction: e.Correction, Details: e.Details, Turn: e.Turn,
		})
	}
	return sample.Build(of)
}

func (r *rig) ctx() context.Context { return r.t.Context() }

// begin makes a session with an assignment, as a first request does.
func (r *rig) begin(tenant, name string, a trial.Assignment) session.ID {
	id := session.KeyOf(tenant, session.SpaceName, name)
	ses := r.Add(&session.Record{
		Identity:   session.Identity{ID: id, Tenant: tenant, Agent: "coder", Name: name, Method: session.ByHeader, Started: r.clk.now(), Seen: r.clk.now()},
		Thread:     session.Thread{Turns: 1},
		Assignment: a,
	})
	r.Release(ses, Decided)
	return id
}

// played is begin with one turn that is kept and written.
func (r *rig) played(name string, a trial.Assignment) session.ID {
	r.t.Helper()
	id := r.begin(us, name, a)
	if !r.Offer(Turn{Exchange: exchange(us, name, 1, r.clk.now()), Size: 100}) {
		r.t.Fatal("the turn was refused")
	}
	r.record()
	return id
}

// tell posts a feedback on a session that is known.
func (r *rig) tell(tenant string, id session.ID, e feedback.Entry) {
	r.t.Helper()
	got, err := r.Post(r.ctx(), tenant, []session.ID{id}, 0, e)
	if err != nil || got.Status != Joined {
		r.t.Fatalf("post: %+v %v", got, err)
	}
}

// counters are the tenant's counters in the database, as text.
func (r *rig) counters(tenant string) string {
	r.t.Helper()
	list, err := r.be.Counters(r.ctx(), tenant)
	if err != nil {
		r.t.Fatal(err)
	}
	text, err := json.Marshal(list)
	if err != nil {
		r.t.Fatal(err)
	}
	return string(text)
}

// counter is one counter, summed over its days.
func (r *rig) counter(scope, field string) float64 {
	r.t.Helper()
	list, err := r.be.Counters(r.ctx(), us)
	if err != nil {
		r.t.Fatal(err)
	}
	sum := 0.0
	for _, d := range list {
		if d.Scope == scope && d.Field == field {
			sum += float64(d.Value) / trial.One
		}
	}
	return sum
}

func (r *rig) applied(id session.ID) session.Applied {
	r.t.Helper()
	a, err := r.be.Applied(r.ctx(), us, id)
	if err != nil {
		r.t.Fatal(err)
	}
	return a
}

func (r *rig) exchanges(id session.ID) int {
	r.t.Helper()
	list, err := r.be.Exchanges(r.ctx(), us, id)
	if err != nil {
		r.t.Fatal(err)
	}
	return len(list)
}

// picked is an assignment in which one lesson matched and was picked.
func picked(injected bool) trial.Assignment {
	const arm = "look-twice@0123456789ab"
	return trial.Assignment{
		ControlP: .05, Category: "coder", Base: .5, C: .5, Decided: true, Day: 22740,
		Matched: []trial.Match{{Arm: arm, Del: .01}},
		Picks: []trial.Pick{{
			Slug: "look-twice", Arm: arm, Eps: .2, Injected: injected, M: .02, Off: .51, C: .52, Tokens: 40, Turn: 1, Propensity: .76,
		}},
	}
}

// exchange is a turn's new part. Its id follows from the session and the turn.
func exchange(tenant, name string, turn int, at time.Time) *sample.Exchange {
	id := session.KeyOf(tenant, session.SpaceName, name)
	return &sample.Exchange{
		ID: fmt.Sprintf("%x-%x-40%x-80%x-%012x", id[:4], id[4:6], id[6:7], id[7:8], turn), Tenant: tenant, Agent: "coder",
		Session: id.String(), SessionName: name, RequestID: fmt.Sprint("r", turn), Turn: turn, At: at, Dialect: "chat", Model: "m-1",
		Status: 200, Outcome: sample.Complete, New: []json.RawMessage{json.RawMessage(`{"role":"user","content":"Paint the shed."}`)},
		Reply: sample.Reply{ID: "chatcmpl-" + name, Text: "The shed is painted."},
	}
}

func score(id string, minute int, y float64) feedback.Entry {
	return feedback.Entry{
		ID: id, At: time.Date(2032, 4, 5, 7, minute, 0, 0, time.UTC), Source: feedback.SourceUser, Type: feedback.TypeScore,
		Score: y, Tier: feedback.TierUser,
	}
}

func same[T comparable](t testing.TB, what string, have, want T) {
	t.Helper()
	if have != want {
		t.Errorf("%s: have %v, want %v", what, have, want)
	}
}

func sameList[T comparable](t testing.TB, what string, have, want []T) {
	t.Helper()
	if !slices.Equal(have, want) {
		t.Errorf("%s: have %v, want %v", what, have, want)
	}
}

func sessionOf(name string) session.ID { return session.KeyOf(us, session.SpaceName, name) }
