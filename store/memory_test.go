package store_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"precept/bandit/trial"
	"precept/internal/label"
	"precept/internal/session"
	"precept/store"
)

// idleTime is longer than an unused session stays in memory.
const idleTime = 11 * time.Minute

// idleFor advances the clock, and waits until the running store has evicted the idle sessions.
func (f *fixture) idleFor(d time.Duration) {
	f.clock.add(d)
	time.Sleep(time.Second)
}

func TestAcquireReadsASessionOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	id := sessionID("s")
	if ses, uncertain := f.store.Acquire(t.Context(), tenantA, id); ses != nil || uncertain {
		t.Errorf("Acquire(unknown session): got %v, uncertain = %v, want nil and uncertain = false", ses, uncertain)
	}
	if ses := f.store.AcquireInMemory(id); ses != nil {
		t.Errorf("AcquireInMemory(unknown session): got %v, want nil", ses)
	}
	f.beginSession(tenantA, "s", newAssignment(true))
	f.backend.takeCalls()
	checkEqual(t, "turns in memory", f.turnCount(id), 1)
	checkEqual(t, "look-ups in the backend for a session in memory", f.backend.takeLookups(), 0)
	f.deliver()
	f = f.restart(nil)
	checkEqual(t, "sessions in memory after a restart", f.store.Sessions(), 0)
	checkEqual(t, "turns in the database", f.turnCount(id), 1)
	checkEqual(t, "turns after the second Acquire", f.turnCount(id), 1)
	checkEqual(t, "backend look-ups", f.backend.takeLookups(), 1)
	checkEqual(t, "sessions in memory", f.store.Sessions(), 1)
}

// The result uncertain = true means that the session may exist, but that the backend did not return a usable row.
func TestAcquireReportsUnavailableBackend(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	id := sessionID("s")
	f.backend.failNext("session", 1, errDown)
	if ses, uncertain := f.store.Acquire(t.Context(), tenantA, id); ses != nil || !uncertain {
		t.Errorf("Acquire during an outage: got %v, uncertain = %v, want nil and uncertain = true", ses, uncertain)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if ses, uncertain := f.store.Acquire(ended, tenantA, id); ses != nil || !uncertain {
		t.Errorf("Acquire with a canceled context: got %v, uncertain = %v, want nil and uncertain = true", ses, uncertain)
	}
	if m, uncertain := f.store.FindByEchoes(ended, tenantA, []session.EchoKey{1}); m != nil || !uncertain {
		t.Errorf("FindByEchoes with a canceled context: got %v, uncertain = %v, want nil and uncertain = true", m, uncertain)
	}
	row := session.Row{Tenant: tenantA, ID: id, Started: f.clock.now(), Data: []byte("{half")}
	if err := f.backend.Write(t.Context(), session.Batch{Rows: []session.Row{row}}); err != nil {
		t.Fatal(err)
	}
	if ses, uncertain := f.store.Acquire(t.Context(), tenantA, id); ses != nil || !uncertain {
		t.Errorf("Acquire(session with a damaged row): got %v, uncertain = %v, want nil and uncertain = true", ses, uncertain)
	}
	checkList(t, "failed steps", f.takeFailures(), []string{"lookup", "lookup", "lookup", "decode"})
	if m, uncertain := f.store.FindByEchoes(t.Context(), tenantA, nil); m != nil || uncertain {
		t.Errorf("FindByEchoes without keys: got %v, uncertain = %v, want nil and uncertain = false", m, uncertain)
	}
}

func TestLookupTimeoutNamesLimit(t *testing.T) {
	t.Parallel()
	var failures []error
	f := newFixture(t, func(o *store.Options) {
		o.Hooks.OnFailure = func(_ label.Step, err error) { failures = append(failures, err) }
	})
	f.backend.failNext("session", 1, fmt.Errorf("%w: %w", errDown, context.DeadlineExceeded))
	if ses, uncertain := f.store.Acquire(t.Context(), tenantA, sessionID("s")); ses != nil || !uncertain {
		t.Errorf("Acquire with a slow backend: got %v, uncertain = %v, want nil and uncertain = true", ses, uncertain)
	}
	if len(failures) != 1 || !strings.Contains(failures[0].Error(), "limits.lookup_timeout (5s)") || errors.Is(failures[0], session.ErrUnavailable) {
		t.Errorf("failures after a look-up timeout: got %v, want one that contains \"limits.lookup_timeout (5s)\" and is not session.ErrUnavailable", failures)
	}
}

func TestConcurrentAddReturnsOneSession(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	id := sessionID("s")
	const n = 32
	var wg sync.WaitGroup
	got := make([]*store.Session, n)
	for i := range n {
		wg.Go(func() {
			got[i] = f.store.Add(&session.Record{Identity: session.Identity{ID: id, Tenant: tenantA, Name: "s", Started: f.clock.now()}})
			got[i].Record.Mutex.Lock()
			got[i].Record.Thread.Turns++
			got[i].Record.Mutex.Unlock()
			f.store.Release(got[i], store.DecisionsChanged)
		})
	}
	wg.Wait()
	for _, ses := range got[1:] {
		checkEqual(t, "session returned by Add", ses, got[0])
	}
	checkEqual(t, "sessions in memory", f.store.Sessions(), 1)
	f.deliver()
	checkEqual(t, "turns after a restart", f.restart(nil).turnCount(id), n)
}

func TestIdleSessionsLeaveMemory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := runFixture(t, nil)
		idle, held, used := f.beginSession(tenantA, "idle", newAssignment(true)), f.beginSession(tenantA, "held", newAssignment(true)), f.beginSession(tenantA, "used", newAssignment(true))
		f.store.Release(f.store.Add(&session.Record{Identity: session.Identity{ID: sessionID("unchanged"), Tenant: tenantA}}), store.Unchanged)
		time.Sleep(time.Second)
		holder := f.store.AcquireInMemory(held)
		checkEqual(t, "sessions in memory before the idle time", f.store.Sessions(), 4)
		f.clock.add(idleTime)
		f.store.Release(f.store.AcquireInMemory(used), store.Unchanged)
		time.Sleep(time.Second)
		for name, want := range map[string]bool{"idle": false, "unchanged": false, "held": true, "used": true} {
			checkEqual(t, "the session "+name+" is in memory after the idle time", f.inMemory(tenantA, sessionID(name)), want)
		}
		f.store.Release(holder, store.Unchanged)
		f.backend.takeCalls()
		checkEqual(t, "turns of the idle session, read from the database", f.turnCount(idle), 1)
		for turns, c := range map[int]store.Change{5: store.DecisionsChanged, 6: store.CountsChanged} {
			f.change(idle, c, func(rec *session.Record) { rec.Thread.Turns = turns })
			f.idleFor(idleTime)
			f.idleFor(idleTime)
			checkEqual(t, "the idle session is in memory", f.inMemory(tenantA, idle), false)
			checkEqual(t, "evicted session's turns", f.turnCount(idle), turns)
		}
		checkEqual(t, "backend look-ups", f.backend.takeLookups(), 3)
	})
}

func TestUnwrittenSessionStaysInMemory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := runFixture(t, nil)
		f.backend.failWrites()
		id := f.beginSession(tenantA, "s", newAssignment(true))
		f.idleFor(idleTime)
		checkEqual(t, "the session is in memory during the outage", f.inMemory(tenantA, id), true)
		f.backend.allowWrites()
		f.idleFor(idleTime)
		f.idleFor(idleTime)
		checkEqual(t, "the session is in memory after the outage", f.inMemory(tenantA, id), false)
		checkEqual(t, "evicted session's turns", f.turnCount(id), 1)
	})
}

// Only the most recently used sessions stay in memory. The others are in the database.
func TestSessionsInMemoryAreLimited(t *testing.T) {
	t.Parallel()
	const limit = 50
	f := newFixture(t, func(o *store.Options) { o.MaxSessions = limit })
	first := f.beginSession(tenantA, "first", newAssignment(true))
	for i := range 10 * limit {
		f.beginSession(tenantA, fmt.Sprint("s", i), newAssignment(true))
		f.deliver()
		f.store.Release(f.store.AcquireInMemory(first), store.Unchanged) // the first session is in use all the time
		if n := f.store.Sessions(); n > limit {
			t.Fatalf("sessions in memory after session %d began: got %d, want at most %d", i, n, limit)
		}
	}
	checkEqual(t, "the session in use is in memory", f.inMemory(tenantA, first), true)
	checkEqual(t, "the session s0 is in memory", f.inMemory(tenantA, sessionID("s0")), false)
	checkEqual(t, "the newest session is in memory", f.inMemory(tenantA, sessionID(fmt.Sprint("s", 10*limit-1))), true)
	f.backend.takeCalls()
	checkEqual(t, "evicted session's turns", f.turnCount(sessionID("s0")), 1)
	checkEqual(t, "backend look-ups", f.backend.takeLookups(), 1)
}

// A session can be evicted as soon as its row is in the outbox. Until the row is in the backend, Acquire reports the
// session as uncertain.
func TestSessionsInMemoryAreLimitedDuringOutage(t *testing.T) {
	t.Parallel()
	const limit = 50
	f := newFixture(t, func(o *store.Options) { o.MaxSessions = limit })
	f.backend.failWrites()
	for i := range 10 * limit {
		f.beginSession(tenantA, fmt.Sprint("s", i), newAssignment(true))
		f.deliver()
		if n := f.store.Sessions(); n > limit {
			t.Fatalf("sessions in memory after session %d began: got %d, want at most %d", i, n, limit)
		}
	}
	if ses, uncertain := f.store.Acquire(t.Context(), tenantA, sessionID("s0")); ses != nil || !uncertain {
		t.Errorf("Acquire(session that is only in the outbox): got %v, uncertain = %v, want nil and uncertain = true", ses, uncertain)
	}
	f.backend.allowWrites()
	f.deliverFor(2 * time.Second)
	if ses, uncertain := f.store.Acquire(t.Context(), tenantA, sessionID("s0")); ses == nil || uncertain {
		t.Errorf("Acquire after the outage: got %v, uncertain = %v, want a session and uncertain = false", ses, uncertain)
	}
}

// A session without a stored row cannot be evicted, because memory has the only copy. One sixteenth of the limit is
// reserved for sessions that are continued.
func TestFullMemoryRefusesNewSessions(t *testing.T) {
	t.Parallel()
	const limit = 64
	f := newFixture(t, func(o *store.Options) { o.MaxSessions = limit })
	first := f.beginSession(tenantA, "first", newAssignment(true))
	begun := 1
	for i := range 10 * limit {
		if f.store.FullReason(tenantA) != "" {
			continue
		}
		f.beginSession(tenantA, fmt.Sprint("s", i), newAssignment(true))
		begun++
	}
	checkEqual(t, "sessions begun", begun, limit-limit/16)
	for i := range limit { // these sessions begin without a call of FullReason
		rec := &session.Record{Identity: session.Identity{ID: sessionID(fmt.Sprint("more", i)), Tenant: tenantA}}
		if ses := f.store.Add(rec); ses != nil {
			f.store.Release(ses, store.DecisionsChanged)
			begun++
		}
	}
	checkEqual(t, "sessions in memory", f.store.Sessions(), limit-limit/16)
	checkEqual(t, "sessions begun, including those without calling FullReason", begun, limit-limit/16)
	checkEqual(t, "the first session is in memory", f.inMemory(tenantA, first), true)
	f.deliver()
	checkEqual(t, "FullReason after the rows are written", f.store.FullReason(tenantA), "")
	checkEqual(t, "first session's turns", f.turnCount(first), 1)
}

// A session stays in memory while one of its turns is in the recorder's queue, even if the turn's request has ended and
// other sessions need the memory.
func TestSessionStaysInMemoryUntilOptOutDecision(t *testing.T) {
	t.Parallel()
	const limit = 32
	f := newFixture(t, func(o *store.Options) { o.MaxSessions = limit })
	ses := f.store.Add(&session.Record{Identity: session.Identity{ID: sessionID("s"), Tenant: tenantA}, Thread: session.Thread{Turns: 1}})
	if !f.store.Offer(store.Turn{Exchange: newExchange(tenantA, "s", 1, f.clock.now()), Size: 100, Session: ses}) {
		t.Fatal("Offer(turn 1) = false, want true")
	}
	f.store.Release(ses, store.Unchanged)
	fillMemory := func() {
		for i := range limit {
			if f.store.FullReason(tenantA) == "" {
				f.beginSession(tenantA, fmt.Sprint("other", i), newAssignment(true))
			}
		}
	}
	fillMemory()
	checkEqual(t, "the session of the queued turn is in memory", f.inMemory(tenantA, sessionID("s")), true)
	f.deliver()
	fillMemory()
	checkEqual(t, "the session is in memory after the opt-out decision", f.inMemory(tenantA, sessionID("s")), false)
}

func TestLongRequestsDoNotBlockEviction(t *testing.T) {
	t.Parallel()
	const limit, longRequests = 64, 40
	f := newFixture(t, func(o *store.Options) { o.MaxSessions = limit })
	for i := range limit - limit/16 {
		id := f.beginSession(tenantA, fmt.Sprint("s", i), newAssignment(true))
		if i < longRequests {
			defer f.store.Release(f.store.AcquireInMemory(id), store.Unchanged)
		}
	}
	f.deliver()
	for i := range limit {
		for range longRequests/16 + 1 { // each call of FullReason examines at most 16 sessions
			f.store.FullReason(tenantA)
		}
		checkEqual(t, fmt.Sprint("FullReason before new session ", i), f.store.FullReason(tenantA), "")
		f.beginSession(tenantA, fmt.Sprint("more", i), newAssignment(true))
		f.deliver()
	}
}

func TestConcurrentUseLosesNoChange(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	const workers, rounds, sessions = 6, 60, 5
	name := func(i int) string { return string(rune('a' + i%sessions)) }
	f.run()
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := range rounds {
				id := sessionID(name(w + i))
				ses, uncertain := f.store.Acquire(t.Context(), tenantA, id)
				if uncertain {
					t.Error("Acquire: uncertain = true, want false")
					return
				}
				if ses == nil {
					ses = f.store.Add(&session.Record{Identity: session.Identity{ID: id, Tenant: tenantA, Name: name(w + i), Started: f.clock.now(), Seen: f.clock.now()}})
				}
				ses.Record.Mutex.Lock()
				ses.Record.Thread.Turns++
				ses.Record.Mutex.Unlock()
				f.store.Release(ses, []store.Change{store.CountsChanged, store.DecisionsChanged}[i%2])
				f.clock.add(time.Millisecond)
			}
		})
	}
	wg.Wait()
	if err := f.drain(); err != nil {
		t.Fatal(err)
	}
	f = f.restart(nil)
	sum := 0
	for i := range sessions {
		sum += f.turnCount(sessionID(name(i)))
	}
	checkEqual(t, "total turns", sum, workers*rounds)
}

// hangingBackend is a backend whose look-ups can block until the context ends.
type hangingBackend struct {
	*faultyBackend
	hangs bool // whether look-ups block
}

func (h *hangingBackend) Session(ctx context.Context, tenant string, id session.ID) (session.Row, bool, error) {
	if h.hangs {
		<-ctx.Done()
		return session.Row{}, false, ctx.Err()
	}
	return h.faultyBackend.Session(ctx, tenant, id)
}

// playReplicaTurn adds a turn to the session on replica f, and returns this replica's record of the session. As in the
// proxy, the session gets a temporary record if the backend does not answer in time.
func (f *fixture) playReplicaTurn(id session.ID, name string) *session.Record {
	f.t.Helper()
	f.clock.add(time.Second)
	ses, uncertain := f.store.AcquireInMemory(id), false
	switch {
	case ses == nil:
		ses, uncertain = f.store.Acquire(f.t.Context(), tenantA, id)
	case ses.MayHaveOlderRecord():
		f.store.Refresh(f.t.Context(), ses)
	}
	if ses == nil {
		rec := &session.Record{
			Identity: session.Identity{ID: id, Tenant: tenantA, Agent: "coder", Name: name, Method: session.ByHeader, Started: f.clock.now()},
			State:    session.State{StartedOffline: uncertain},
		}
		rec.Assignment.Excluded = uncertain
		ses = f.store.Add(rec)
	}
	ses.Record.Mutex.Lock()
	ses.Record.Thread.Turns++
	ses.Record.Identity.Seen = f.clock.now()
	ses.Record.Mutex.Unlock()
	f.store.Release(ses, store.DecisionsChanged)
	f.deliver()
	return ses.Record
}

// A replica that cannot read the backend begins a temporary record of the session. The replica never overwrites the
// stored record with the temporary record, and adopts the stored record when the backend answers.
func TestStoredRecordReplacesTemporaryRecord(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		first := newFixture(t, nil)
		var hanging *hangingBackend
		second := openFixture(t, t.TempDir(), first.clock, func(o *store.Options) {
			inner := o.Backend.(*faultyBackend) //nolint:forcetypeassert // openFixture sets a *faultyBackend
			if err := inner.backend.Close(); err != nil {
				t.Fatal(err)
			}
			inner.backend = noCloseBackend{first.backend.backend}
			hanging = &hangingBackend{faultyBackend: inner}
			o.Backend, o.LookupTimeout = hanging, 10*time.Millisecond
		})
		id := first.beginSession(tenantA, "s", newAssignment(true))
		first.deliver()
		storedRecord := func() *session.Record {
			t.Helper()
			row, _ := first.row(id)
			rec, err := session.Decode(id, row.Data)
			if err != nil {
				t.Fatal(err)
			}
			return rec
		}
		hanging.hangs = true
		for range 3 {
			rec := second.playReplicaTurn(id, "s")
			checkEqual(t, "record's StartedOffline and Excluded", fmt.Sprint(rec.State.StartedOffline, rec.Assignment.Excluded), "true true")
			kept := storedRecord()
			checkEqual(t, "stored record's StartedOffline, Excluded and pick count", fmt.Sprint(kept.State.StartedOffline, kept.Assignment.Excluded, len(kept.Assignment.Picks)), "false false 1")
		}
		checkEqual(t, "turns in the first replica", first.playReplicaTurn(id, "s").Thread.Turns, 2)
		hanging.hangs = false
		rec := second.playReplicaTurn(id, "s")
		checkEqual(t, "adopted record's StartedOffline and pick count", fmt.Sprint(rec.State.StartedOffline, len(rec.Assignment.Picks)), "false 1")
		checkEqual(t, "the adopted record is excluded from the experiment", fmt.Sprint(rec.Assignment.Excluded, " for ", rec.Assignment.ExcludedFor), "true for late")
		checkEqual(t, "adopted record's turns", rec.Thread.Turns, 3)
		checkEqual(t, "turns in the stored row", storedRecord().Thread.Turns, 3)

		// If the backend has no record of the session, the temporary record stays, and the replica does not look up the
		// session again.
		hanging.hangs = true
		newID := sessionID("new")
		checkEqual(t, "the record is temporary", second.playReplicaTurn(newID, "new").State.StartedOffline, true)
		hanging.hangs = false
		second.playReplicaTurn(newID, "new")
		second.backend.takeCalls()
		checkEqual(t, "record's turns", second.playReplicaTurn(newID, "new").Thread.Turns, 3)
		checkEqual(t, "backend look-ups", second.backend.takeLookups(), 0)
		checkEqual(t, "turns in the stored row", first.storedTurnCount(newID), 3)
		checkList(t, "first replica's failed steps", first.takeFailures(), nil)
	})
}

// The run's stored record replaces the temporary one. The run is then excluded from the experiment, because the look-up
// did not end in time.
func TestStoredRunReplacesTemporaryRun(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	id := session.RunID(tenantA, "nightly")
	newRun := func(startedOffline bool) *session.Record {
		rec := session.NewRun(tenantA, session.Claim{}, "nightly", id, f.clock.now())
		rec.State.StartedOffline = startedOffline
		return rec
	}
	stored := newRun(false)
	stored.Assignment = newAssignment(true)
	row, err := stored.Row(func(text string) (string, bool) { return text, true })
	if err != nil {
		t.Fatal(err)
	}
	unit := f.store.Add(newRun(true))
	if err := f.backend.Write(t.Context(), session.Batch{Rows: []session.Row{row}}); err != nil {
		t.Fatal(err)
	}
	f.store.RefreshUnit(t.Context(), unit)
	got := unit.Record
	checkEqual(t, "run's StartedOffline, picks, Excluded and ExcludedFor", fmt.Sprint(got.State.StartedOffline, len(got.Assignment.Picks), got.Assignment.Excluded, " ", got.Assignment.ExcludedFor), "false 1 true late")
}

// noCloseBackend is a backend that two fixtures share. Close does nothing, because the other fixture closes the
// backend.
type noCloseBackend struct{ backend }

func (noCloseBackend) Close() error { return nil }

func TestRefreshReadsOtherReplicasCounts(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	id := f.beginSession(tenantA, "s", trial.Assignment{})
	f.deliver()
	rec := &session.Record{
		Identity: session.Identity{ID: id, Tenant: tenantA, Agent: "coder", Name: "s", Started: f.clock.now(), Seen: f.clock.now().Add(time.Minute)},
		Thread:   session.Thread{Turns: 7},
	}
	row, err := rec.Row(func(text string) (string, bool) { return text, true })
	if err == nil {
		err = f.backend.Write(t.Context(), session.Batch{Rows: []session.Row{row}})
	}
	if err != nil {
		t.Fatal(err)
	}
	ses := f.store.AcquireInMemory(id)
	f.store.Refresh(t.Context(), ses)
	f.store.Release(ses, store.Unchanged)
	checkEqual(t, "turns after another replica's write", f.turnCount(id), 7)
	f.change(id, store.Unchanged, func(rec *session.Record) { rec.Thread.Turns = 9 })
	ses = f.store.AcquireInMemory(id)
	f.store.Refresh(t.Context(), ses)
	f.store.Release(ses, store.Unchanged)
	checkEqual(t, "turns after refreshing a record that is newer in memory", f.turnCount(id), 9)
}

// FullReason refuses new sessions of a flooding tenant that has used up its share. Once the tenant's rows are stored, a
// new session evicts the tenant's least recently used session.
func TestFloodingTenantLeavesRoomForOthers(t *testing.T) {
	t.Parallel()
	const limit, share = 64, 32
	f := newFixture(t, func(o *store.Options) { o.MaxSessions, o.MaxTenantSessions = limit, share })
	begun := 0
	for i := range 10 * limit {
		if reason := f.store.FullReason(tenantA); reason != "" {
			checkEqual(t, "FullReason(flooding tenant)", reason, label.ExcludedTenant)
			continue
		}
		f.beginSession(tenantA, fmt.Sprint("s", i), newAssignment(true))
		begun++
	}
	checkEqual(t, "tenant's sessions begun", begun, share)
	checkEqual(t, "FullReason(another tenant)", f.store.FullReason("another"), "")
	other := f.beginSession("another", "other", newAssignment(true))
	f.deliver()
	checkEqual(t, "FullReason(flooding tenant) after the rows are stored", f.store.FullReason(tenantA), "")
	f.beginSession(tenantA, "late", newAssignment(true))
	checkEqual(t, "the tenant's oldest session is in memory", f.inMemory(tenantA, sessionID("s0")), false)
	checkEqual(t, "the other tenant's session is in memory", f.inMemory("another", other), true)
}
