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

// idleFor advances the clock and waits for the eviction of idle sessions.
func (f *fixture) idleFor(d time.Duration) {
	f.clock.add(d)
	time.Sleep(time.Second)
}

func TestAcquireReadsASessionOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	id := sessionID("s")
	ses, uncertain := f.store.Acquire(t.Context(), tenantA, id)
	checkEqual(t, "Acquire(unknown session)", ses, nil)
	checkEqual(t, "uncertain", uncertain, false)
	checkEqual(t, "AcquireInMemory(unknown session)", f.store.AcquireInMemory(id), nil)
	f.beginSession(tenantA, "s", newAssignment(true))
	f.backend.takeCalls()
	checkEqual(t, "turns in memory", f.turnCount(id), 1)
	checkEqual(t, "backend look-ups for a session in memory", f.backend.takeLookups(), 0)
	f.deliver()
	f = f.restart(nil)
	checkEqual(t, "sessions in memory after a restart", f.store.Sessions(), 0)
	checkEqual(t, "turns in the database", f.turnCount(id), 1)
	checkEqual(t, "turns after the second Acquire", f.turnCount(id), 1)
	checkEqual(t, "backend look-ups", f.backend.takeLookups(), 1)
	checkEqual(t, "sessions in memory", f.store.Sessions(), 1)
}

// An uncertain session may exist, but the backend returned no usable row.
func TestAcquireReportsUnavailableBackend(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	id := sessionID("s")
	f.backend.failNext("session", 1, errDown)
	ses, uncertain := f.store.Acquire(t.Context(), tenantA, id)
	checkEqual(t, "Acquire during an outage", ses, nil)
	checkEqual(t, "uncertain during an outage", uncertain, true)

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	ses, uncertain = f.store.Acquire(ended, tenantA, id)
	checkEqual(t, "Acquire with a canceled context", ses, nil)
	checkEqual(t, "uncertain with a canceled context", uncertain, true)
	found, uncertain := f.store.FindByEchoes(ended, tenantA, []session.EchoKey{1})
	if found != nil {
		t.Errorf("FindByEchoes with a canceled context = %v, want nil", found)
	}
	checkEqual(t, "uncertain with a canceled context", uncertain, true)

	damaged := session.Row{Tenant: tenantA, ID: id, Started: f.clock.now(), Data: []byte("{half")}
	if err := f.backend.Write(t.Context(), session.Batch{Rows: []session.Row{damaged}}); err != nil {
		t.Fatal(err)
	}
	ses, uncertain = f.store.Acquire(t.Context(), tenantA, id)
	checkEqual(t, "Acquire(session with a damaged row)", ses, nil)
	checkEqual(t, "uncertain with a damaged row", uncertain, true)
	checkList(t, "failed steps", f.takeFailures(), []string{"lookup", "lookup", "lookup", "decode"})

	found, uncertain = f.store.FindByEchoes(t.Context(), tenantA, nil)
	if found != nil {
		t.Errorf("FindByEchoes without keys = %v, want nil", found)
	}
	checkEqual(t, "uncertain without keys", uncertain, false)
}

func TestLookupTimeoutNamesLimit(t *testing.T) {
	t.Parallel()
	var failures []error
	f := newFixture(t, func(o *store.Options) {
		o.Hooks.OnFailure = func(_ label.Step, err error) { failures = append(failures, err) }
	})
	f.backend.failNext("session", 1, fmt.Errorf("%w: %w", errDown, context.DeadlineExceeded))
	ses, uncertain := f.store.Acquire(t.Context(), tenantA, sessionID("s"))
	checkEqual(t, "Acquire", ses, nil)
	checkEqual(t, "uncertain", uncertain, true)
	if len(failures) != 1 {
		t.Fatalf("failures = %v, want one", failures)
	}
	if err := failures[0]; !strings.Contains(err.Error(), "limits.lookup_timeout (5s)") {
		t.Errorf("failure = %v, want limits.lookup_timeout (5s) in the message", err)
	}
	if err := failures[0]; errors.Is(err, session.ErrUnavailable) {
		t.Errorf("failure = %v, want a different error than ErrUnavailable", err)
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
			checkEqual(t, name+" session is in memory after the idle time", f.inMemory(tenantA, sessionID(name)), want)
		}
		f.store.Release(holder, store.Unchanged)
		f.backend.takeCalls()
		checkEqual(t, "idle session's turns in the database", f.turnCount(idle), 1)
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
		f.store.Release(f.store.AcquireInMemory(first), store.Unchanged) // the first session stays in use
		if n := f.store.Sessions(); n > limit {
			t.Fatalf("%d sessions in memory, want at most %d", n, limit)
		}
	}
	checkEqual(t, "the session in use is in memory", f.inMemory(tenantA, first), true)
	checkEqual(t, "the session s0 is in memory", f.inMemory(tenantA, sessionID("s0")), false)
	checkEqual(t, "the newest session is in memory", f.inMemory(tenantA, sessionID(fmt.Sprint("s", 10*limit-1))), true)
	f.backend.takeCalls()
	checkEqual(t, "evicted session's turns", f.turnCount(sessionID("s0")), 1)
	checkEqual(t, "backend look-ups", f.backend.takeLookups(), 1)
}

// The store can evict a session once the outbox has its row. Until the backend has the row, the session is uncertain.
func TestSessionsInMemoryAreLimitedDuringOutage(t *testing.T) {
	t.Parallel()
	const limit = 50
	f := newFixture(t, func(o *store.Options) { o.MaxSessions = limit })
	f.backend.failWrites()
	for i := range 10 * limit {
		f.beginSession(tenantA, fmt.Sprint("s", i), newAssignment(true))
		f.deliver()
		if n := f.store.Sessions(); n > limit {
			t.Fatalf("%d sessions in memory, want at most %d", n, limit)
		}
	}
	ses, uncertain := f.store.Acquire(t.Context(), tenantA, sessionID("s0"))
	checkEqual(t, "Acquire(session in the outbox)", ses, nil)
	checkEqual(t, "uncertain during the outage", uncertain, true)
	f.backend.allowWrites()
	f.deliverFor(2 * time.Second)
	ses, uncertain = f.store.Acquire(t.Context(), tenantA, sessionID("s0"))
	if ses == nil {
		t.Error("Acquire after the outage = nil, want the session")
	}
	checkEqual(t, "uncertain after the outage", uncertain, false)
}

// The store never evicts a session without a stored row. It reserves a sixteenth of the limit for continued sessions.
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
	for i := range limit { // without a call of FullReason
		rec := &session.Record{Identity: session.Identity{ID: sessionID(fmt.Sprint("more", i)), Tenant: tenantA}}
		if ses := f.store.Add(rec); ses != nil {
			f.store.Release(ses, store.DecisionsChanged)
			begun++
		}
	}
	checkEqual(t, "sessions in memory", f.store.Sessions(), limit-limit/16)
	checkEqual(t, "sessions begun in both loops", begun, limit-limit/16)
	checkEqual(t, "the first session is in memory", f.inMemory(tenantA, first), true)
	f.deliver()
	checkEqual(t, "FullReason after the rows are written", f.store.FullReason(tenantA), "")
	checkEqual(t, "first session's turns", f.turnCount(first), 1)
}

// A session stays in memory while the recorder's queue has one of its turns.
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
	checkEqual(t, "in memory before the opt-out decision", f.inMemory(tenantA, sessionID("s")), true)
	f.deliver()
	fillMemory()
	checkEqual(t, "in memory after the opt-out decision", f.inMemory(tenantA, sessionID("s")), false)
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
		for range longRequests/16 + 1 { // one call examines at most 16 sessions
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

// hangingBackend can block look-ups until the context ends.
type hangingBackend struct {
	*faultyBackend
	hangs bool
}

func (h *hangingBackend) Session(ctx context.Context, tenant string, id session.ID) (session.Row, bool, error) {
	if h.hangs {
		<-ctx.Done()
		return session.Row{}, false, ctx.Err()
	}
	return h.faultyBackend.Session(ctx, tenant, id)
}

// playReplicaTurn adds a turn to the session on replica f, as the proxy does, and returns the record.
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

// A replica without an answer from the backend begins a temporary record, and never overwrites the stored record.
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
			checkEqual(t, "StartedOffline", rec.State.StartedOffline, true)
			checkEqual(t, "Excluded", rec.Assignment.Excluded, true)
			stored := storedRecord()
			checkEqual(t, "stored StartedOffline", stored.State.StartedOffline, false)
			checkEqual(t, "stored Excluded", stored.Assignment.Excluded, false)
			checkEqual(t, "stored picks", len(stored.Assignment.Picks), 1)
		}
		checkEqual(t, "turns in the first replica", first.playReplicaTurn(id, "s").Thread.Turns, 2)
		hanging.hangs = false
		rec := second.playReplicaTurn(id, "s")
		checkEqual(t, "StartedOffline after the outage", rec.State.StartedOffline, false)
		checkEqual(t, "picks after the outage", len(rec.Assignment.Picks), 1)
		checkEqual(t, "Excluded after the outage", rec.Assignment.Excluded, true)
		checkEqual(t, "ExcludedFor after the outage", string(rec.Assignment.ExcludedFor), string(label.ExcludedLate))
		checkEqual(t, "turns after the outage", rec.Thread.Turns, 3)
		checkEqual(t, "turns in the stored row", storedRecord().Thread.Turns, 3)

		// Without a stored record, the temporary record stays.
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

// The late look-up also excludes the run from the experiment.
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
	checkEqual(t, "StartedOffline", got.State.StartedOffline, false)
	checkEqual(t, "picks", len(got.Assignment.Picks), 1)
	checkEqual(t, "Excluded", got.Assignment.Excluded, true)
	checkEqual(t, "ExcludedFor", string(got.Assignment.ExcludedFor), string(label.ExcludedLate))
}

// noCloseBackend is a backend that another fixture closes.
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
	checkEqual(t, "turns of a newer record in memory", f.turnCount(id), 9)
}

// A tenant that has used up its share gets no new session until its rows are stored.
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
