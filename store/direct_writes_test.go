package store_test

import (
	"context"
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
}

func (b *lossyBackend) Epoch(context.Context) (string, error) { return *b.epoch.Load(), nil }

func (b *lossyBackend) Announce(context.Context, session.Erasure) (string, error) {
	b.announced.Add(1)
	return "", nil
}

// Feedback and deletions go to the backend directly. The backend loses them, and has a deleted session again.
func TestLostDirectWritesAreRepeated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		backend := &lossyBackend{}
		backend.epoch.Store(new("one"))
		f := runFixture(t, func(o *store.Options) {
			withSharedBackend(&backend.sharedBackend, "")(o)
			o.Backend, o.Fleet = backend, backend
		})
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
		for n, epoch := range []string{"two", "three"} { // a repeated write can be lost, too
			lose(epoch)
			list, err := f.backend.Feedback(t.Context(), tenantA, id)
			if err != nil || len(list) != 1 || list[0].ID != "a" {
				t.Errorf("epoch %s: Feedback = %+v, %v, want entry a", epoch, list, err)
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
