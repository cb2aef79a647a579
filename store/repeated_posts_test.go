package store_test

import (
	"testing"
	"time"

	"precept/bandit/feedback"
	"precept/internal/session"
	"precept/store"
)

// postKeyedFeedback posts feedback on session "s". The entry's id comes from the client.
func (f *fixture) postKeyedFeedback(e feedback.Entry) store.Posted {
	f.t.Helper()
	done, err := f.store.Rate(f.t.Context(), tenantA, feedback.Post{SessionID: "s", HasSenderID: true, Entry: e})
	if err != nil {
		f.t.Fatalf("error from Rate(entry %s): %v", e.ID, err)
	}
	return done
}

// The client posts entry a, then entry b, then entry a again. Entry b decides the reward.
func TestRepeatedPostKeepsFirstTime(t *testing.T) {
	t.Parallel()
	first, better, again := newScore("a", 1, 0), newScore("b", 2, 1), newScore("a", 3, 0)
	key := session.TenantEchoKey(tenantA, "s:s")
	for name, play := range map[string]func(f *fixture){
		"known session": func(f *fixture) {
			f.playOneTurn("s", newAssignment(true))
			f.postKeyedFeedback(first)
			f.postKeyedFeedback(better)
			f.store.TakeQueuedCorrections()
			checkEqual(f.t, "answer to the repeated post", f.postKeyedFeedback(again), store.Posted{ID: "a", Session: "s", Status: store.Joined})
			checkEqual(f.t, "sessions touched by the repeated post", len(f.store.TakeQueuedCorrections()), 0)
		},
		"both posts before the session arrives": func(f *fixture) {
			for _, e := range []feedback.Entry{first, better, again} {
				checkEqual(f.t, "answer to the post", f.postKeyedFeedback(e), store.Posted{ID: e.ID, Status: store.Parked})
			}
			f.addKey(key, f.playOneTurn("s", newAssignment(true)))
			f.deliver()
		},
		"repeated after the session has arrived": func(f *fixture) {
			f.postKeyedFeedback(first)
			f.postKeyedFeedback(better)
			f.addKey(key, f.playOneTurn("s", newAssignment(true)))
			f.deliver()
			f.postKeyedFeedback(again)
		},
		"repeated while the session arrives": func(f *fixture) {
			f.postKeyedFeedback(first)
			f.postKeyedFeedback(better)
			f.addKey(key, f.playOneTurn("s", newAssignment(true)))
			checkEqual(f.t, "status of the repeated post", f.postKeyedFeedback(again).Status, store.Joined)
			f.deliver()
		},
		"backend outage": func(f *fixture) {
			f.playOneTurn("s", newAssignment(true))
			f.backend.failPosts()
			for _, e := range []feedback.Entry{first, better, again} {
				checkEqual(f.t, "answer to the post", f.postKeyedFeedback(e), store.Posted{ID: e.ID, Status: store.Parked, Delayed: true})
			}
			f.backend.allowPosts()
			f.deliverFor(3 * time.Second)
			checkEqual(f.t, "late posts after the outage", f.store.LatePosts(), 0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, nil)
			play(f)
			list, err := f.backend.Feedback(t.Context(), tenantA, sessionID("s"))
			if err != nil {
				t.Fatal(err)
			}
			if len(list) != 2 {
				t.Fatalf("stored feedback = %+v, want 2 entries", list)
			}
			if !list[0].At.Equal(first.At) {
				t.Errorf("stored feedback: At = %v, want %v", list[0].At, first.At)
			}
			if list[0].ID != "a" {
				t.Errorf(`stored feedback: ID = %q, want "a"`, list[0].ID)
			}
			checkEqual(t, "reward", f.rewardAfterClose(sessionID("s")), 1)
		})
	}
}

// The unit is the parent session. The first post added no copy there, so the repeated post must add one.
func TestRepeatedPostAddsMissingCopyForTheUnit(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	unit, id := f.playOneTurn("parent", newAssignment(true)), f.playOneTurn("s", newAssignment(true))
	f.postKeyedFeedback(newScore("a", 1, 0))
	f.change(id, store.DecisionsChanged, func(rec *session.Record) { rec.Unit.ID = unit.String() })
	f.postKeyedFeedback(newScore("a", 3, 0))
	list, err := f.backend.Feedback(t.Context(), tenantA, unit)
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 1 {
		t.Fatalf("feedback on the parent session = %+v, want 1 entry", list)
	}
	if !list[0].At.Equal(newScore("a", 1, 0).At) {
		t.Errorf("feedback on the parent session: At = %v, want %v", list[0].At, newScore("a", 1, 0).At)
	}
}

func TestPostWithSameIDReplacesEntry(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	id := f.playOneTurn("s", newAssignment(true))
	for _, e := range []feedback.Entry{newScore("a", 1, 0), newScore("b", 2, 1), newScore("a", 3, .25)} {
		f.postKeyedFeedback(e)
	}
	list, err := f.backend.Feedback(t.Context(), tenantA, id)
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 2 {
		t.Fatalf("stored feedback = %+v, want 2 entries", list)
	}
	if !list[1].At.Equal(newScore("a", 3, .25).At) {
		t.Errorf("stored feedback: [1].At = %v, want %v", list[1].At, newScore("a", 3, .25).At)
	}
	if list[1].Score != .25 {
		t.Errorf("stored feedback: [1].Score = %v, want .25", list[1].Score)
	}
	checkEqual(t, "reward", f.rewardAfterClose(id), .25)
}
