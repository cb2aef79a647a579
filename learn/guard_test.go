package learn_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"precept/bandit/feedback"
	"precept/detect"
	"precept/internal/guard"
	"precept/internal/label"
	"precept/internal/sample"
	"precept/internal/session"
	"precept/learn"
	"precept/store"
)

// panickingStep makes one step of a worker panic for one session or, if exchange is set, for one exchange.
type panickingStep struct {
	step     label.Step
	id       session.ID
	exchange string
	panics   atomic.Int64
}

// before is a hook that panics at the selected step of the session or exchange, and counts the panics.
func (p *panickingStep) before(step label.Step, id session.ID, exchange string) {
	if step != p.step || p.exchange != "" && exchange != p.exchange || p.exchange == "" && id != p.id {
		return
	}
	p.panics.Add(1)
	panic("poison mara@example.com")
}

// startWorkers starts the recorder and the learner. stop ends both.
func (r *fixture) startWorkers() (stop func()) {
	ctx, cancel := context.WithCancel(r.ctx())
	done := make(chan error, 1)
	go func() { done <- r.Store.Run(ctx) }()
	learned := make(chan error, 1)
	go func() { learned <- r.Learner.Run(ctx, r.Done()) }()
	return func() {
		r.t.Helper()
		cancel()
		if err := errors.Join(<-done, <-learned); err != nil {
			r.t.Error(err)
		}
	}
}

// eventually waits until ok returns true, and fails the test after a minute. name describes the awaited event.
func eventually(t *testing.T, name string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("timed out after a minute waiting for %s", name)
		}
	}
}

// deadLetters returns the sessions and exchanges that are set aside after a panic.
func (r *fixture) deadLetters() []session.DeadLetter {
	r.t.Helper()
	list, _, err := r.be.backend.(interface {
		DeadLetters(ctx context.Context, limit int) ([]session.DeadLetter, int, error)
	}).DeadLetters(r.ctx(), 10)
	if err != nil {
		r.t.Fatal(err)
	}
	return list
}

// samplesOf returns the stored samples of a session.
func (r *fixture) samplesOf(id session.ID) (list []sample.Sample) {
	r.t.Helper()
	err := r.be.backend.(interface {
		EachSample(ctx context.Context, tenant string, since, until time.Time, fn func(session.StoredSample) error) error
	}).EachSample(r.ctx(), "", time.Time{}, time.Time{}, func(m session.StoredSample) error {
		if m.ID == id {
			list = append(list, m.Sample)
		}
		return nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return list
}

// unsampled returns the number of stored exchanges without a sample.
func (r *fixture) unsampled() int64 {
	r.t.Helper()
	n, err := r.be.Unsampled(r.ctx())
	if err != nil {
		r.t.Fatal(err)
	}
	return n
}

// If a step of a worker panics for one session or exchange, the panic is reported, and another session still closes
// with a reward and samples.
func TestWorkerPanicAffectsOnlyOneSession(t *testing.T) {
	t.Parallel()
	bad, good := sessionOf("bad"), sessionOf("good")
	badExchange := exchange(tenantA, "bad", 1, time.Time{}).ID
	for _, c := range []struct {
		step   label.Step
		of     string // id of the exchange that panics, "" if the session panics
		stored int    // number of stored exchanges of the bad session
		closed bool   // whether the bad session closes; not checked for the step encode
	}{
		{step: "record", of: badExchange, stored: 1, closed: true},
		{step: "begin", of: badExchange, stored: 2, closed: true},
		{step: "encode", stored: 2, closed: false},
		{step: "close", stored: 2},
		{step: "samples", stored: 2},
		{step: "correct", stored: 2},
	} {
		t.Run(string(c.step), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := &panickingStep{step: c.step, id: bad, exchange: c.of}
				r := newFixture(t, func(o *options) { o.Hooks.Before = p.before; o.Reward.CloseAfter = time.Second })
				stop := r.startWorkers()
				for _, name := range []string{"bad", "good"} {
					id := r.beginSession(tenantA, name, picked(true))
					for turn := 1; turn <= 2; turn++ {
						x := exchange(tenantA, name, turn, r.clk.now())
						begun := r.Begin(x)
						time.Sleep(2 * learn.CorrectEvery) // the recorder writes while the exchange is in flight
						r.Offer(store.Turn{Exchange: x, Start: begun, Size: 10})
					}
					eventually(t, "a stored exchange of session "+name, func() bool { return r.exchanges(id) >= 1 })
					r.postFeedback(tenantA, id, score("f"+name, 1, 1))
				}
				r.clk.add(2 * time.Second)
				eventually(t, "the good session to close with samples", func() bool { return r.applied(good).Rewarded && len(r.samplesOf(good)) > 0 })
				eventually(t, "a panic and a dead letter", func() bool { return p.panics.Load() > 0 && len(r.deadLetters()) > 0 })
				time.Sleep(3 * learn.CorrectEvery)
				stop()
				same(t, "stored exchanges of the bad session", r.exchanges(bad), c.stored)
				same(t, "panics", p.panics.Load(), 1)
				m := r.deadLetters()
				if len(m) != 1 || m[0].ID != bad || m[0].Exchange != c.of || m[0].Step != string(c.step) || m[0].Why != "poison [REDACTED:email:1]" {
					t.Errorf("dead letters = %+v, want one for session %v, step %q and exchange %q, with redacted text", m, bad, c.step, c.of)
				}
				same(t, "Tally.SetAside", r.Store.Tally.SetAside.Load(), 1)
				if c.closed != (r.applied(bad).Version > 0) && c.step != "encode" {
					t.Errorf("bad session is closed: got %v, want %v", r.applied(bad).Version > 0, c.closed)
				}
				if failed := r.failed(); !slices.Contains(failed, "panic "+string(c.step)) {
					t.Errorf("failures = %v, want the panic of step %s among them", failed, c.step)
				}
			})
		})
	}
}

// If the backend panics in an operation on the data of one session, another session still closes with a reward and a
// sample.
func TestBackendPanicAffectsOnlyOneSession(t *testing.T) {
	t.Parallel()
	bad, good := sessionOf("bad"), sessionOf("good")
	for _, what := range []string{"row", "exchange", "echo", "add feedback", "sample", "settle", "read feedback", "applied"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			r := newFixture(t, func(o *options) {
				o.Backend.(*faulty).backend = &panickingBackend{backend: o.Backend.(*faulty).backend, what: what, id: bad}
			})
			for _, name := range []string{"bad", "good"} {
				id := r.beginSession(tenantA, name, picked(true))
				r.AddEchoes(session.Echo{Tenant: tenantA, Key: session.EchoKeyOf(tenantA, name), ID: id, At: r.clk.now()})
				r.Offer(store.Turn{Exchange: exchange(tenantA, name, 1, r.clk.now()), Size: 10, Signals: []detect.Signal{{Tier: 3, Feeling: detect.Approval, Rule: "r"}}})
			}
			r.record()
			r.advancePastClose()
			r.advancePastClose()
			if !r.applied(good).Rewarded || len(r.samplesOf(good)) != 1 {
				t.Errorf("good session: applied state = %+v, %d samples, want a reward and one sample", r.applied(good), len(r.samplesOf(good)))
			}
			if ids, late := r.Echoes(r.ctx(), tenantA, []session.EchoKey{session.EchoKeyOf(tenantA, "good")}); len(ids) != 1 || late {
				t.Errorf("Echoes for the good session = %v, timed out = %v, want one session and false", ids, late)
			}
			if what == "exchange" {
				same(t, "dropped exchanges", r.Store.Tally.DroppedBad.Load(), 1)
			}
			r.Guard().Keep(r.ctx(), r.be)
			if m := r.panickingBackend().deadLetters; what != "echo" && (len(m) == 0 || m[0].ID != bad) {
				t.Errorf("dead letters = %+v, want the first one for session %v", m, bad)
			}
		})
	}
}

func (r *fixture) panickingBackend() *panickingBackend { return r.be.backend.(*panickingBackend) }

// panickingBackend is a backend that panics in one operation on the data of one session.
type panickingBackend struct {
	backend
	what        string // the operation that panics
	id          session.ID
	deadLetters []session.DeadLetter // received by SetAside
}

// panicIf panics if e is configured to panic for this operation and session.
func (e *panickingBackend) panicIf(what string, id session.ID) {
	if e.what == what && id == e.id {
		panic("the backend: " + what)
	}
}

func (e *panickingBackend) Write(ctx context.Context, b session.Batch) error {
	for i := range b.Rows {
		e.panicIf("row", b.Rows[i].ID)
	}
	for i := range b.Exchanges {
		id, _ := session.ParseID(b.Exchanges[i].Session)
		e.panicIf("exchange", id)
	}
	for i := range b.Echoes {
		e.panicIf("echo", b.Echoes[i].ID)
	}
	for i := range b.Samples {
		e.panicIf("sample", b.Samples[i].ID)
	}
	return e.backend.Write(ctx, b)
}

func (e *panickingBackend) AddFeedback(ctx context.Context, tenant string, m map[session.ID][]feedback.Entry) (map[session.ID]int, error) {
	for id := range m {
		e.panicIf("add feedback", id)
	}
	return e.backend.AddFeedback(ctx, tenant, m)
}

func (e *panickingBackend) Settle(ctx context.Context, steps []session.Settlement) ([]bool, error) {
	for i := range steps {
		e.panicIf("settle", steps[i].ID)
	}
	return e.backend.Settle(ctx, steps)
}

func (e *panickingBackend) SessionFeedback(ctx context.Context, tenant string, id session.ID) ([]feedback.Entry, int64, error) {
	e.panicIf("read feedback", id)
	return e.backend.SessionFeedback(ctx, tenant, id)
}

func (e *panickingBackend) Applied(ctx context.Context, tenant string, id session.ID) (session.Applied, error) {
	e.panicIf("applied", id)
	return e.backend.Applied(ctx, tenant, id)
}

func (e *panickingBackend) SetAside(ctx context.Context, list []session.DeadLetter) error {
	e.deadLetters = append(e.deadLetters, list...)
	return e.backend.SetAside(ctx, list)
}

func (e *panickingBackend) EachSample(ctx context.Context, tenant string, since, until time.Time, fn func(session.StoredSample) error) error {
	return e.backend.(interface {
		EachSample(ctx context.Context, tenant string, since, until time.Time, fn func(session.StoredSample) error) error
	}).EachSample(ctx, tenant, since, until, fn)
}

// If every attempt to close a session panics, each start of the program readmits the session for one attempt, until
// three attempts have failed. An operator can permit a further attempt by calling Readmit with a higher limit.
func TestPanickingSessionIsTriedThreeTimes(t *testing.T) {
	t.Parallel()
	bad := sessionOf("bad")
	p := &panickingStep{step: "close", id: bad}
	hook := func(o *options) { o.Hooks.Before = p.before }
	r := newFixture(t, hook)
	r.addSession("bad", picked(true))
	r.clk.add(closeAge + time.Second)
	for start := 1; start <= 5; start++ {
		r.Guard().Readmit(r.ctx(), r.be)
		for range 3 {
			r.closeDue(r.ctx())
			r.Guard().Keep(r.ctx(), r.be)
		}
		same(t, fmt.Sprintf("panics after start %d", start), p.panics.Load(), int64(min(start, guard.Tries)))
		same(t, "unsampled exchanges", r.unsampled(), 1)
		r = r.reopen(hook)
	}
	m := r.deadLetters()
	if len(m) != 1 || m[0].Tries != guard.Tries {
		t.Errorf("dead letters = %+v, want one with %d tries", m, guard.Tries)
	}
	if n, err := r.be.Readmit(r.ctx(), 100); n != 1 || err != nil {
		t.Fatalf("Readmit = %d, %v, want 1 and no error", n, err)
	}
	p.step = "none"
	r.closeDue(r.ctx())
	same(t, "applied version", r.applied(bad).Version, 1)
	same(t, "number of dead letters", len(r.deadLetters()), 0)
	same(t, "unsampled exchanges", r.unsampled(), 0)
}

// ForgetSession waits until a close of the session has ended. Otherwise the close would write samples of a deleted
// session.
func TestForgetDuringCloseLeavesNoSamples(t *testing.T) {
	t.Parallel()
	r := newFixture(t, nil)
	id := r.addSession("s", picked(true))
	ctx, cancel := context.WithCancel(r.ctx())
	recorded, forgotten := make(chan error, 1), make(chan error, 1)
	go func() { recorded <- r.Store.Run(ctx) }()
	r.be.hook = func(op string) {
		if op != "samples" {
			return
		}
		r.be.hook = nil
		go func() {
			n, err := r.ForgetSession(ctx, tenantA, "s")
			if err == nil && n != 1 {
				err = fmt.Errorf("forgot %d sessions, want 1", n)
			}
			forgotten <- err
		}()
		select {
		case err := <-forgotten:
			t.Errorf("ForgetSession did not wait for the close to end (error: %v)", err)
			forgotten <- err
		case <-time.After(10 * learn.CorrectEvery):
		}
	}
	r.clk.add(closeAge + time.Second)
	r.closeDue(ctx)
	err := <-forgotten
	cancel()
	if err = errors.Join(err, <-recorded); err != nil {
		t.Error(err)
	}
	same(t, "number of samples", len(r.samplesOf(id)), 0)
	same(t, "number of exchanges", r.exchanges(id), 0)
}
