package store_test

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"precept/bandit/trial"
	"precept/internal/sample"
	"precept/internal/session"
	"precept/store"
)

// fleet is a store.Fleet in memory.
type fleet struct {
	mu     sync.Mutex
	erased []session.Erasure
	marks  map[session.ID]session.OptOutMark
}

func (f *fleet) Epoch(context.Context) (string, error) { return "one", nil }

func (f *fleet) Announce(_ context.Context, e session.Erasure) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	e.Position = fmt.Sprintf("%04d", len(f.erased)+1)
	f.erased = append(f.erased, e)
	return e.Position, nil
}

func (f *fleet) Erasures(_ context.Context, after string) (list []session.Erasure, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range f.erased {
		if e.Position > after {
			list = append(list, e)
		}
	}
	return list, nil
}

func (f *fleet) AwaitReplicas(context.Context) error { return nil }

func (f *fleet) PutOptOutMarks(_ context.Context, marks map[session.ID]session.OptOutMark) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	maps.Copy(f.marks, marks)
	return nil
}

func (f *fleet) OptOutMark(_ context.Context, id session.ID) (m session.OptOutMark, ok bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m, ok = f.marks[id]
	return m, ok, nil
}

// openReplicas opens and runs two stores that share a database. The caller must be in a synctest bubble.
func openReplicas(t *testing.T, change func(o *store.Options)) (a, b *fixture) {
	t.Helper()
	shared := &fleet{marks: map[session.ID]session.OptOutMark{}}
	a = openFixture(t, t.TempDir(), &clock{}, func(o *store.Options) {
		o.Fleet = shared
		if change != nil {
			change(o)
		}
	})
	b = openFixture(t, t.TempDir(), a.clock, func(o *store.Options) {
		o.Fleet = shared
		inner := o.Backend.(*faultyBackend) //nolint:forcetypeassert // openFixture sets a *faultyBackend
		if err := inner.backend.Close(); err != nil {
			t.Fatal(err)
		}
		inner.backend = noCloseBackend{a.backend.backend}
		if change != nil {
			change(o)
		}
	})
	a.run()
	b.run()
	return a, b
}

func TestPublishSendsDecisionToOtherReplica(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, b := openReplicas(t, nil)
		id := a.beginSession(tenantA, "s", newAssignment(true))
		ses := a.store.AcquireInMemory(id)
		x := newExchange(tenantA, "s", 1, a.clock.now())
		a.store.HoldKeys(x.RequestID, session.Echo{Tenant: tenantA, Key: replyKey, ID: id, At: a.clock.now()})
		a.store.Publish(ses, nil /* unit */, x, nil /* answered */, 0)
		a.store.Release(ses, store.DecisionsChanged)
		remote, uncertain := b.store.Acquire(t.Context(), tenantA, id)
		if remote == nil {
			t.Fatal("Acquire on the other replica: remote = nil")
		}
		if uncertain {
			t.Fatal("Acquire on the other replica: uncertain = true, want false")
		}
		if len(remote.Record.Assignment.Picks) != 1 {
			t.Fatalf("Acquire on the other replica: Picks = %+v, want 1 pick", remote.Record.Assignment.Picks)
		}
		b.store.Release(remote, store.Unchanged)
		checkList(t, "sessions that the other replica finds by the reply's key", b.sessionsByKey(replyKey), []session.ID{id})
		checkEqual(t, "IsShared on both replicas", a.store.IsShared() && b.store.IsShared(), true)
	})
}

// Publish waits at most 100 ms. Then the recorder delivers the decision.
func TestPublishDoesNotWaitForASlowBackend(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, _ := openReplicas(t, nil)
		id := a.beginSession(tenantA, "s", newAssignment(true))
		a.backend.onCall(func(op string) {
			if op == "write" {
				time.Sleep(5 * time.Second)
			}
		})
		ses := a.store.AcquireInMemory(id)
		before := time.Now()
		a.store.Publish(ses, nil, newExchange(tenantA, "s", 1, a.clock.now()), nil, 0)
		if waited := time.Since(before); waited > 100*time.Millisecond {
			t.Errorf("duration of Publish with a slow backend: got %v, want at most 100ms", waited)
		}
		a.store.Release(ses, store.DecisionsChanged)
		time.Sleep(time.Minute)
		_, ok := a.row(id)
		checkEqual(t, "the row is stored a minute later", ok, true)
	})
}

func TestPublishCountsSendsTurnsToOtherReplica(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, b := openReplicas(t, nil)
		id := a.beginSession(tenantA, "s", newAssignment(true))
		a.store.Publish(a.store.AcquireInMemory(id), nil, newExchange(tenantA, "s", 1, a.clock.now()), nil, 0)
		ses := a.store.AcquireInMemory(id)
		ses.Record.Lock()
		ses.Record.Thread.Turns = 2
		ses.Record.Unlock()
		a.backend.onCall(func(op string) {
			if op == "write" {
				time.Sleep(time.Millisecond)
			}
		})
		before := time.Now()
		a.store.PublishCounts(ses, newExchange(tenantA, "s", 2, a.clock.now()), nil)
		checkEqual(t, "duration of PublishCounts", time.Since(before), 0)
		time.Sleep(2 * time.Millisecond)
		remote, uncertain := b.store.Acquire(t.Context(), tenantA, id)
		if remote == nil {
			t.Fatal("Acquire on the other replica: remote = nil")
		}
		if uncertain {
			t.Fatal("Acquire on the other replica: uncertain = true, want false")
		}
		if remote.Record.Thread.Turns != 2 {
			t.Fatalf("Acquire on the other replica: Turns = %d, want 2", remote.Record.Thread.Turns)
		}
		b.store.Release(remote, store.Unchanged)
	})
}

// PublishCounts starts a write only while fewer than 256 of its writes are in progress.
func TestPublishCountsLimitsConcurrentWrites(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, _ := openReplicas(t, nil)
		id := a.beginSession(tenantA, "s", newAssignment(true))
		a.store.Publish(a.store.AcquireInMemory(id), nil, newExchange(tenantA, "s", 1, a.clock.now()), nil, 0)
		ses := a.store.AcquireInMemory(id)
		time.Sleep(time.Minute) // until the recorder has delivered the session
		var writes atomic.Int64
		a.backend.onCall(func(op string) {
			if op == "write" {
				writes.Add(1)
				time.Sleep(time.Second)
			}
		})
		publish := func(n int) int64 {
			writes.Store(0)
			for i := range n {
				a.store.PublishCounts(ses, newExchange(tenantA, "s", 2+i, a.clock.now()), nil)
			}
			synctest.Wait()
			return writes.Load()
		}
		checkEqual(t, "writes in progress after 1,000 turns", publish(1000), 256)
		time.Sleep(2 * time.Second)
		checkEqual(t, "writes in progress after the first writes ended", publish(10), 10)
		time.Sleep(2 * time.Second)
	})
}

func TestOptOutAppliesOnAnotherReplica(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, b := openReplicas(t, optOutEnvFiles(t))
		id := a.beginSession(tenantA, "s", newAssignment(true))
		a.change(id, store.DecisionsChanged, func(rec *session.Record) {
			rec.Thread.Items = 4
			rec.AddPendingTurn(1)
		})
		x := newExchange(tenantA, "s", 1, a.clock.now())
		readEnvFile(x)
		ses := a.store.AcquireInMemory(id)
		a.store.Publish(ses, nil /* unit */, x, nil /* answered */, 0)
		a.store.Release(ses, store.DecisionsChanged)
		_, ok := a.row(id)
		checkEqual(t, "the session has a row", ok, false)
		for name, uncertain := range map[string]bool{"when the backend answers": false, "when the backend does not answer in time": true} {
			rec := &session.Record{Identity: session.Identity{ID: id, Tenant: tenantA, Name: "s", Started: b.clock.now()}}
			b.store.ApplyOptOut(t.Context(), rec, 4 /* items */, uncertain)
			checkEqual(t, "hidden items "+name, rec.Thread.Items, 4)
			checkEqual(t, "the session is fully opted out "+name, rec.IsFullyOptedOut(), true)
		}
		other := &session.Record{Identity: session.Identity{ID: sessionID("other"), Tenant: tenantA, Name: "other", Started: b.clock.now()}}
		b.store.ApplyOptOut(t.Context(), other, 4 /* items */, false)
		checkEqual(t, "another session's hidden items", other.Thread.Items, 0)
	})
}

// After the deletion, a turn that is in progress on the other replica must not restore the session.
func TestForgetSessionDeletesOnOtherReplica(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, b := openReplicas(t, nil)
		id := a.addSessionWithWord(tenantA, markerWord)
		time.Sleep(time.Second)
		remote, _ := b.store.Acquire(t.Context(), tenantA, id)
		if remote == nil {
			t.Fatal("Acquire on the other replica = nil, want the session")
		}
		b.offer(markerWord, 2)
		b.store.Release(remote, store.DecisionsChanged)
		time.Sleep(time.Second)
		checkEqual(t, "stored exchanges before the deletion", a.exchangeCount(id), 2)
		a.forget(markerWord)
		x := newExchange(tenantA, markerWord, 3, b.clock.now().Add(-time.Second)) // the third turn is in progress
		b.store.Offer(store.Turn{Exchange: x, Size: 100})
		time.Sleep(durableAfter)
		checkEqual(t, "the session is in the other replica's memory", b.inMemory(tenantA, id), false)
		checkList(t, "stored turns after the deletion", a.storedTurns(markerWord), nil)
		_, ok := a.row(id)
		checkEqual(t, "the session has a row after the deletion", ok, false)
		for _, f := range []*fixture{a, b} {
			checkList(t, "replica's files with the word", filesWith(t, f.dir, markerWord), nil)
		}
	})
}

// NewestRecord and Member use the record in memory if the session is in memory, and otherwise the record in the row.
func TestNewestRecord(t *testing.T) {
	t.Parallel()
	var shared *sharedBackend
	f := newFixture(t, withSharedBackend(&shared, "one"))
	id := f.beginSession(tenantA, "s", newAssignment(true))
	f.deliver()
	row, _ := f.row(id)
	f.change(id, store.Unchanged, func(rec *session.Record) { rec.Thread.Turns = 3 })
	checkEqual(t, "turns in memory", f.store.NewestRecord(&row).Thread.Turns, 3)
	checkEqual(t, "unknown session's turns", f.store.NewestRecord(&session.Row{Tenant: tenantA, ID: sessionID("x")}).Thread.Turns, 0)
	f.change(id, store.Unchanged, func(rec *session.Record) { rec.Thread.Turns = 0 })
	checkEqual(t, "turns if the row is newer than the record in memory", f.store.NewestRecord(&row).Thread.Turns, 1)
	member, ok, err := f.store.Member(t.Context(), tenantA, id)
	checkEqual(t, "Member's name, ok and error", fmt.Sprint(member.Name, " ", ok, err), "s true <nil>")
	_, ok, err = f.store.Member(t.Context(), "them", id)
	checkEqual(t, "Member(another tenant) ok and error", fmt.Sprint(ok, err), "false <nil>")
}

// After a failed delivery, UndeliveredSessions cannot say which sessions are undelivered, and returns ok = false.
func TestUndeliveredSessions(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(o *store.Options) { o.Queue.MaxMemoryBytes = 1000 })
	undelivered := func() (n int, ok bool) {
		f.store.WithDeliveryPaused(func() {
			var refs map[session.Ref]bool
			refs, ok = f.store.UndeliveredSessions()
			n = len(refs)
		})
		return n, ok
	}
	f.deliver()
	f.offer("a", 1, 2)
	f.offer("b", 1)
	n, ok := undelivered()
	checkEqual(t, "undelivered sessions and ok while turns are in memory", fmt.Sprint(n, ok), "2 true")
	f.backend.failNext("write", 1, errDown)
	f.deliver()
	_, ok = undelivered()
	checkEqual(t, "ok after a failed delivery", ok, false)
	f.deliverFor(2 * time.Second)
	n, ok = undelivered()
	checkEqual(t, "undelivered sessions and ok after the delivery", fmt.Sprint(n, ok), "0 true")
}

func TestRedactImportedOmitsOptedOut(t *testing.T) {
	t.Parallel()
	f := newFixture(t, optOutEnvFiles(t))
	kept, optedOut, answered := newExchange(tenantA, "kept", 1, startTime), newExchange(tenantA, "opted out", 1, startTime), newExchange(tenantA, "answered", 1, startTime)
	kept.Reply.Text = "ask amy@example.com"
	readEnvFile(optedOut)
	answeredCalls := [][]string{nil, nil, {`{"path":"prod.env"}`}} // one element for each exchange
	list := f.store.RedactImported([]sample.Exchange{*kept, *optedOut, *answered}, answeredCalls)
	if len(list) != 1 {
		t.Fatalf("RedactImported = %+v, want 1 exchange", list)
	}
	if list[0].SessionName != "kept" {
		t.Errorf(`RedactImported: SessionName = %q, want "kept"`, list[0].SessionName)
	}
	if list[0].Reply.Text != "ask [REDACTED:email:1]" {
		t.Errorf(`RedactImported: Text = %q, want "ask [REDACTED:email:1]"`, list[0].Reply.Text)
	}
	checkEqual(t, "Metrics.OptedOut", f.store.Metrics.OptedOut.Load(), 2)
}

// The erasure has more session ids than SQLite accepts parameters.
func TestLargeErasureDoesNotStopDeliveries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shared := &fleet{marks: map[session.ID]session.OptOutMark{}}
		f := openFixture(t, t.TempDir(), &clock{}, func(o *store.Options) { o.Fleet = shared })
		f.run()
		erased := session.Erasure{Tenant: tenantA, IDs: make([]session.ID, 33_000), At: f.clock.now().Add(-2 * time.Minute)}
		for i := range erased.IDs {
			erased.IDs[i] = session.ID{byte(i >> 16), byte(i >> 8), byte(i), 1}
		}
		if _, err := shared.Announce(t.Context(), erased); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		id := f.beginSession(tenantA, "s", trial.Assignment{})
		f.offer("s", 1)
		time.Sleep(time.Minute)
		checkEqual(t, "exchanges in a session after the erasure", f.exchangeCount(id), 1)
		checkList(t, "failed steps", f.takeFailures(), nil)
	})
}

func TestFailedErasureDoesNotStopDeliveries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shared := &fleet{marks: map[session.ID]session.OptOutMark{}}
		f := openFixture(t, t.TempDir(), &clock{}, func(o *store.Options) { o.Fleet = shared })
		f.run()
		forgotten, kept := f.beginSession(tenantA, "forgotten", trial.Assignment{}), f.beginSession(tenantA, "kept", trial.Assignment{})
		f.offer("forgotten", 1)
		f.deliver()
		f.backend.failNext("forget", 2, session.ErrInvalid)
		if _, err := shared.Announce(t.Context(), session.Erasure{Tenant: tenantA, IDs: []session.ID{forgotten}, At: f.clock.now()}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		f.clock.add(time.Second)
		f.offer("kept", 1)
		time.Sleep(3 * time.Second)
		checkEqual(t, "exchanges in the kept session while the erasure fails", f.exchangeCount(kept), 1)
		checkEqual(t, "exchanges in the erased session while the erasure fails", f.exchangeCount(forgotten), 1)
		time.Sleep(30 * time.Second)
		checkEqual(t, "exchanges in the erased session after repeating the erasure", f.exchangeCount(forgotten), 0)
		checkList(t, "failed steps", f.takeFailures(), []string{"forget", "forget"})
	})
}

func TestPublishDuringForgetDoesNotRestoreSession(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := openFixture(t, t.TempDir(), &clock{}, func(o *store.Options) { o.Fleet = &fleet{marks: map[session.ID]session.OptOutMark{}} })
		a.run()
		id := a.beginSession(tenantA, "s", trial.Assignment{})
		a.offer("s", 1)
		a.deliver()
		held := a.store.AcquireInMemory(id)
		a.change(id, store.DecisionsChanged, func(rec *session.Record) { rec.Thread.Turns = 2 })
		release := a.backend.holdNext("write")
		go a.store.Publish(held, nil, newExchange(tenantA, "s", 2, a.clock.now()), nil, 0)
		synctest.Wait()
		a.forget("s")
		close(release)
		time.Sleep(time.Minute)
		_, stored := a.row(id)
		checkEqual(t, "the forgotten session has a row after the write", stored, false)
		a.store.Publish(held, nil, newExchange(tenantA, "s", 2, a.clock.now()), nil, 0)
		_, stored = a.row(id)
		checkEqual(t, "the forgotten session has a row after the request's next write", stored, false)
		a.store.Release(held, store.Unchanged)
	})
}
