package store_test

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"precept/internal/session"
	"precept/store"
)

// lossyBackend is a shared backend with an epoch that changes while the store runs.
type lossyBackend struct {
	*sharedBackend
	epoch     atomic.Pointer[string]
	announced atomic.Int64 // number of announced erasures

	mu    sync.Mutex
	marks map[session.ID]session.OptOutMark
}

// openLossy opens and runs a store with a lossyBackend whose epoch is "one".
func openLossy(t *testing.T, change func(o *store.Options)) (*lossyBackend, *fixture) {
	t.Helper()
	backend := &lossyBackend{marks: map[session.ID]session.OptOutMark{}}
	backend.epoch.Store(new("one"))
	return backend, runFixture(t, func(o *store.Options) {
		withSharedBackend(&backend.sharedBackend, "")(o)
		o.Backend, o.Fleet = backend, backend
		if change != nil {
			change(o)
		}
	})
}

func (b *lossyBackend) Epoch(context.Context) (string, error) { return *b.epoch.Load(), nil }

func (b *lossyBackend) Announce(context.Context, session.Erasure) (string, error) {
	b.announced.Add(1)
	return "", nil
}

func (b *lossyBackend) PutOptOutMarks(_ context.Context, marks map[session.ID]session.OptOutMark) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.Copy(b.marks, marks)
	return nil
}

// takeMarks removes the opt-out marks from the backend and returns them.
func (b *lossyBackend) takeMarks() map[session.ID]session.OptOutMark {
	b.mu.Lock()
	defer b.mu.Unlock()
	marks := b.marks
	b.marks = map[session.ID]session.OptOutMark{}
	return marks
}

// The session has only opted-out turns, so the backend has only an opt-out mark, and then loses the mark.
func TestLostOptOutMarksAreRepeated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		backend, f := openLossy(t, optOutEnvFiles(t))
		id := f.beginSession(tenantA, "s", newAssignment(true))
		f.change(id, store.DecisionsChanged, func(rec *session.Record) {
			rec.Thread.Items = 4
			rec.AddPendingTurn(1)
		})
		x := newExchange(tenantA, "s", 1, f.clock.now())
		readEnvFile(x)
		ses := f.store.AcquireInMemory(id)
		f.store.Publish(ses, nil /* unit */, x, nil /* answered */, 0)
		f.store.Release(ses, store.DecisionsChanged)
		time.Sleep(5 * time.Second) // the recorder writes the mark again
		written := backend.takeMarks()
		checkEqual(t, "hidden items in the backend's mark", written[id].Items, 4)
		for _, epoch := range []string{"two", "three"} { // the backend may also lose a mark that was written again
			backend.epoch.Store(&epoch)
			time.Sleep(5 * time.Second)
			checkEqual(t, "hidden items in the repeated mark, in epoch "+epoch, backend.takeMarks()[id].Items, 4)
		}
		checkList(t, "failed steps", f.takeFailures(), nil)
	})
}

// Only the running process can repeat a lost direct write, such as a deletion.
func TestStopAwaitsReplicasAfterADirectWrite(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]int{"deletion": 1, "no deletion": 0} {
		synctest.Test(t, func(t *testing.T) {
			reports := 0
			backend, f := openLossy(t, func(o *store.Options) { o.Hooks.OnUnreplicated = func(error) { reports++ } })
			f.playOneTurn("s", newAssignment(true))
			if want > 0 {
				f.forget("s")
			}
			backend.failNext("await replicas", 1, errDown)
			f.end()
			checkEqual(t, "reports after a shutdown with "+name, reports, want)
		})
	}
}

// The store writes feedback and deletions directly to the backend, which loses them in this test.
func TestLostDirectWritesAreRepeated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		backend, f := openLossy(t, nil)
		id := f.playOneTurn("rated", newAssignment(true))
		deleted, ok := f.row(f.playOneTurn("deleted", newAssignment(true)))
		checkEqual(t, "the session is in the backend", ok, true)
		f.forget("deleted")
		f.postFeedback(tenantA, id, newScore("a", 1, 1))
		lose := func(epoch string) {
			time.Sleep(2 * time.Second)
			f.deleteSession("rated")
			if err := f.backend.Write(t.Context(), session.Batch{Rows: []session.Row{deleted}}); err != nil {
				t.Fatal(err)
			}
			backend.epoch.Store(&epoch)
			time.Sleep(5 * time.Second)
		}
		for n, epoch := range []string{"two", "three"} { // the backend may also lose a repeated write
			lose(epoch)
			list, err := f.backend.Feedback(t.Context(), tenantA, id)
			if err != nil {
				t.Fatalf("feedback in the backend in epoch %s: %v", epoch, err)
			}
			if len(list) != 1 {
				t.Fatalf("feedback in the backend in epoch %s = %+v, want 1 entry", epoch, list)
			}
			if list[0].ID != "a" {
				t.Errorf(`feedback in the backend in epoch %s: ID = %q, want "a"`, epoch, list[0].ID)
			}
			_, ok = f.row(sessionID("deleted"))
			checkEqual(t, "the deleted session is in the backend", ok, false)
			checkEqual(t, "announcements", backend.announced.Load(), int64(n+2))
		}
		time.Sleep(durableAfter) // from now on, the backend cannot lose the writes
		lose("four")
		checkEqual(t, "announcements after a later loss", backend.announced.Load(), 3)
		checkList(t, "failed steps", f.takeFailures(), nil)
	})
}
