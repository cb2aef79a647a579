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

// panickingStep makes a step panic for one exchange or, without an exchange, for one session.
type panickingStep struct {
	step     label.Step
	id       session.ID
	exchange string
	panics   atomic.Int64
}

func (p *panickingStep) before(step label.Step, id session.ID, exchange string) {
	if step != p.step || p.exchange != "" && exchange != p.exchange || p.exchange == "" && id != p.id {
		return
	}
	p.panics.Add(1)
	panic("poison mara@example.com")
}

// startWorkers starts the recorder and the learner. The function stop ends both.
func (f *fixture) startWorkers() (stop func()) {
	ctx, cancel := context.WithCancel(f.ctx())
	done := make(chan error, 1)
	go func() { done <- f.Store.Run(ctx) }()
	learned := make(chan error, 1)
	go func() { learned <- f.Learner.Run(ctx, f.Done()) }()
	return func() {
		f.t.Helper()
		cancel()
		if err := errors.Join(<-done, <-learned); err != nil {
			f.t.Error(err)
		}
	}
}

// waitFor waits up to a minute for ok.
func waitFor(t *testing.T, name string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("timed out after a minute waiting for %s", name)
		}
	}
}

// deadLetters returns the sessions and exchanges that were set aside after a panic.
func (f *fixture) deadLetters() []session.DeadLetter {
	f.t.Helper()
	list, _, err := f.backend.backend.(interface {
		DeadLetters(ctx context.Context, limit int) ([]session.DeadLetter, int, error)
	}).DeadLetters(f.ctx(), 10)
	if err != nil {
		f.t.Fatal(err)
	}
	return list
}

func (f *fixture) storedSamples(id session.ID) (list []sample.Sample) {
	f.t.Helper()
	err := f.backend.backend.(interface {
		EachSample(ctx context.Context, tenant string, since, until time.Time, fn func(session.StoredSample) error) error
	}).EachSample(f.ctx(), "", time.Time{}, time.Time{}, func(m session.StoredSample) error {
		if m.ID == id {
			list = append(list, m.Sample)
		}
		return nil
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return list
}

// unsampled returns the number of stored exchanges without a sample.
func (f *fixture) unsampled() int64 {
	f.t.Helper()
	n, err := f.backend.CountUnsampled(f.ctx())
	if err != nil {
		f.t.Fatal(err)
	}
	return n
}

func TestWorkerPanicAffectsOnlyOneSession(t *testing.T) {
	t.Parallel()
	bad, good := sessionID("bad"), sessionID("good")
	badExchange := newExchange(tenantA, "bad", 1, time.Time{}).ID
	for _, tc := range []struct {
		step     label.Step
		exchange string // id of the exchange for which the step panics; "" if the step works on a whole session
		stored   int    // expected number of stored exchanges in the bad session
		closed   bool   // whether the bad session closes; not checked for the step encode
	}{
		{step: "record", exchange: badExchange, stored: 1, closed: true},
		{step: "begin", exchange: badExchange, stored: 2, closed: true},
		{step: "encode", stored: 2, closed: false},
		{step: "close", stored: 2},
		{step: "samples", stored: 2},
		{step: "correct", stored: 2},
	} {
		t.Run(string(tc.step), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := &panickingStep{step: tc.step, id: bad, exchange: tc.exchange}
				f := newFixture(t, func(o *options) { o.Hooks.Before = p.before; o.Reward.CloseAfter = time.Second })
				stop := f.startWorkers()
				for _, name := range []string{"bad", "good"} {
					id := f.beginSession(tenantA, name, newAssignment(injected))
					for turn := 1; turn <= 2; turn++ {
						x := newExchange(tenantA, name, turn, f.clock.now())
						begun := f.BeginTurn(x)
						time.Sleep(2 * learn.CorrectInterval) // long enough for the recorder to write while the turn is in progress
						f.Offer(store.Turn{Exchange: x, Start: begun, Size: 10})
					}
					waitFor(t, "a stored exchange in session "+name, func() bool { return f.exchangeCount(id) >= 1 })
					f.postFeedback(tenantA, id, userScore("f"+name, 1, 1))
				}
				f.clock.add(2 * time.Second)
				waitFor(t, "the good session to close with samples", func() bool { return f.settledState(good).Rewarded && len(f.storedSamples(good)) > 0 })
				waitFor(t, "a panic and a dead letter", func() bool { return p.panics.Load() > 0 && len(f.deadLetters()) > 0 })
				time.Sleep(3 * learn.CorrectInterval)
				stop()
				assertEqual(t, "stored exchanges in the bad session", f.exchangeCount(bad), tc.stored)
				assertEqual(t, "panics", p.panics.Load(), 1)
				m := f.deadLetters()
				if len(m) != 1 {
					t.Fatalf("dead letters = %+v, want 1 item", m)
				}
				if m[0].ID != bad {
					t.Errorf("dead letters: ID = %v, want %v", m[0].ID, bad)
				}
				if m[0].Exchange != tc.exchange {
					t.Errorf("dead letters: Exchange = %q, want %q", m[0].Exchange, tc.exchange)
				}
				if m[0].Step != string(tc.step) {
					t.Errorf("dead letters: Step = %q, want %q", m[0].Step, string(tc.step))
				}
				if m[0].Why != "poison [REDACTED:email:1]" {
					t.Errorf(`dead letters: Why = %q, want "poison [REDACTED:email:1]"`, m[0].Why)
				}
				assertEqual(t, "sessions set aside", f.Store.Metrics.SetAside.Load(), 1)
				if tc.closed != (f.settledState(bad).Version > 0) && tc.step != "encode" {
					t.Errorf("bad session is closed = %t, want %t", f.settledState(bad).Version > 0, tc.closed)
				}
				if failed := f.takeFailures(); !slices.Contains(failed, "panic "+string(tc.step)) {
					t.Errorf("failures: got %v, want \"panic %s\" among them", failed, tc.step)
				}
			})
		})
	}
}

func TestBackendPanicAffectsOnlyOneSession(t *testing.T) {
	t.Parallel()
	bad, good := sessionID("bad"), sessionID("good")
	for _, operation := range []string{"row", "exchange", "echo", "add feedback", "sample", "settle", "read feedback", "settled state"} {
		t.Run(operation, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, func(o *options) {
				o.Backend.(*faultyBackend).backend = &panickingBackend{backend: o.Backend.(*faultyBackend).backend, operation: operation, id: bad}
			})
			for _, name := range []string{"bad", "good"} {
				id := f.beginSession(tenantA, name, newAssignment(injected))
				f.AddEchoes(session.Echo{Tenant: tenantA, Key: session.TenantEchoKey(tenantA, name), ID: id, At: f.clock.now()})
				f.Offer(store.Turn{Exchange: newExchange(tenantA, name, 1, f.clock.now()), Size: 10, Signals: []detect.Signal{{Tier: 3, Feeling: detect.Approval, Rule: "r"}}})
			}
			f.deliverAndCorrect()
			f.advancePastClose()
			f.advancePastClose()
			if !f.settledState(good).Rewarded {
				t.Error("good session: Rewarded = false, want true")
			}
			if len(f.storedSamples(good)) != 1 {
				t.Errorf("good session: storedSamples(good) = %+v, want 1 sample", f.storedSamples(good))
			}
			if ids, late := f.FindByEchoes(f.ctx(), tenantA, []session.EchoKey{session.TenantEchoKey(tenantA, "good")}); len(ids) != 1 {
				t.Errorf("FindByEchoes for the good session = %+v, want 1 item", ids)
			} else if late {
				t.Error("FindByEchoes for the good session: late = true, want false")
			}
			if operation == "exchange" {
				assertEqual(t, "dropped exchanges", f.Store.Metrics.DroppedBad.Load(), 1)
			}
			f.Guard().StorePending(f.ctx(), f.backend)
			if m := f.panickingBackend().deadLetters; operation != "echo" && (len(m) == 0 || m[0].ID != bad) {
				t.Errorf("dead letters: got %+v, want the first dead letter for session %v", m, bad)
			}
		})
	}
}

func (f *fixture) panickingBackend() *panickingBackend { return f.backend.backend.(*panickingBackend) }

type panickingBackend struct {
	backend
	operation   string // the operation that panics
	id          session.ID
	deadLetters []session.DeadLetter // the dead letters that SetAside has received
}

func (p *panickingBackend) panicIf(operation string, id session.ID) {
	if p.operation == operation && id == p.id {
		panic("the backend: " + operation)
	}
}

func (p *panickingBackend) Write(ctx context.Context, b session.Batch) error {
	for i := range b.Rows {
		p.panicIf("row", b.Rows[i].ID)
	}
	for i := range b.Exchanges {
		id, _ := session.ParseID(b.Exchanges[i].Session)
		p.panicIf("exchange", id)
	}
	for i := range b.Echoes {
		p.panicIf("echo", b.Echoes[i].ID)
	}
	for i := range b.Samples {
		p.panicIf("sample", b.Samples[i].ID)
	}
	return p.backend.Write(ctx, b)
}

func (p *panickingBackend) AddFeedback(ctx context.Context, tenant string, m map[session.ID][]feedback.Entry) (map[session.ID]int, error) {
	for id := range m {
		p.panicIf("add feedback", id)
	}
	return p.backend.AddFeedback(ctx, tenant, m)
}

func (p *panickingBackend) Settle(ctx context.Context, steps []session.Settlement) ([]bool, error) {
	for i := range steps {
		p.panicIf("settle", steps[i].ID)
	}
	return p.backend.Settle(ctx, steps)
}

func (p *panickingBackend) SessionFeedback(ctx context.Context, tenant string, id session.ID) ([]feedback.Entry, int64, error) {
	p.panicIf("read feedback", id)
	return p.backend.SessionFeedback(ctx, tenant, id)
}

func (p *panickingBackend) SettledState(ctx context.Context, tenant string, id session.ID) (session.SettledState, error) {
	p.panicIf("settled state", id)
	return p.backend.SettledState(ctx, tenant, id)
}

func (p *panickingBackend) SetAside(ctx context.Context, list []session.DeadLetter) error {
	p.deadLetters = append(p.deadLetters, list...)
	return p.backend.SetAside(ctx, list)
}

func (p *panickingBackend) EachSample(ctx context.Context, tenant string, since, until time.Time, fn func(session.StoredSample) error) error {
	return p.backend.(interface {
		EachSample(ctx context.Context, tenant string, since, until time.Time, fn func(session.StoredSample) error) error
	}).EachSample(ctx, tenant, since, until, fn)
}

// Each start of the program tries the session once more, until three attempts have failed.
func TestPanickingSessionIsTriedThreeTimes(t *testing.T) {
	t.Parallel()
	bad := sessionID("bad")
	p := &panickingStep{step: "close", id: bad}
	hook := func(o *options) { o.Hooks.Before = p.before }
	f := newFixture(t, hook)
	f.addSession("bad", newAssignment(injected))
	f.clock.add(closeAge + time.Second)
	for start := 1; start <= 5; start++ {
		f.Guard().Readmit(f.ctx(), f.backend)
		for range 3 {
			f.closeDue(f.ctx())
			f.Guard().StorePending(f.ctx(), f.backend)
		}
		assertEqual(t, fmt.Sprintf("panics after start %d", start), p.panics.Load(), int64(min(start, guard.MaxTries)))
		assertEqual(t, "unsampled exchanges", f.unsampled(), 1)
		f = f.reopen(hook)
	}
	m := f.deadLetters()
	if len(m) != 1 {
		t.Fatalf("dead letters = %+v, want 1 item", m)
	}
	if m[0].Tries != guard.MaxTries {
		t.Errorf("dead letters: Tries = %d, want %d", m[0].Tries, guard.MaxTries)
	}
	if n, err := f.backend.Readmit(f.ctx(), 100); err != nil {
		t.Fatal(err)
	} else if n != 1 {
		t.Fatalf("Readmit = %d, want 1", n)
	}
	p.step = "none"
	f.closeDue(f.ctx())
	assertEqual(t, "version of the bad session's settled state", f.settledState(bad).Version, 1)
	assertEqual(t, "dead letters", len(f.deadLetters()), 0)
	assertEqual(t, "unsampled exchanges", f.unsampled(), 0)
}

// Otherwise the close could write samples of a deleted session.
func TestForgetDuringCloseLeavesNoSamples(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	id := f.addSession("s", newAssignment(injected))
	ctx, cancel := context.WithCancel(f.ctx())
	recorded, forgotten := make(chan error, 1), make(chan error, 1)
	go func() { recorded <- f.Store.Run(ctx) }()
	f.backend.hook = func(op string) {
		if op != "samples" {
			return
		}
		f.backend.hook = nil
		go func() {
			n, err := f.ForgetSession(ctx, tenantA, "s")
			if err == nil && n != 1 {
				err = fmt.Errorf("sessions deleted by ForgetSession: got %d, want 1", n)
			}
			forgotten <- err
		}()
		select {
		case err := <-forgotten:
			t.Errorf("ForgetSession returned during the close, error %v", err)
			forgotten <- err
		case <-time.After(10 * learn.CorrectInterval):
		}
	}
	f.clock.add(closeAge + time.Second)
	f.closeDue(ctx)
	err := <-forgotten
	cancel()
	if err = errors.Join(err, <-recorded); err != nil {
		t.Error(err)
	}
	assertEqual(t, "samples", len(f.storedSamples(id)), 0)
	assertEqual(t, "exchanges", f.exchangeCount(id), 0)
}
