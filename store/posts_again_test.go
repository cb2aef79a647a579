package store_test

import (
	"testing"
	"time"

	"precept/bandit/feedback"
	"precept/internal/session"
	"precept/store"
)

// repostFeedback posts feedback on the session "s" whose id the sender gave, so that the sender may repeat the post.
func (r *fixture) repostFeedback(e feedback.Entry) store.Posted {
	r.t.Helper()
	done, err := r.store.Rate(r.t.Context(), tenantA, feedback.Post{SessionID: "s", Keyed: true, Entry: e})
	if err != nil {
		r.t.Fatalf("Rate of entry %s: %v", e.ID, err)
	}
	return done
}

// A client posts a rating, then a better rating under another id, and then repeats the first post. The repetition keeps
// the time of the first post, and the better rating counts: on a known session, before the session arrives, while it
// arrives, and during an outage of the backend.
func TestRepeatedPostKeepsItsTime(t *testing.T) {
	t.Parallel()
	first, better, again := score("a", 1, 0), score("b", 2, 1), score("a", 3, 0)
	key := session.EchoKeyOf(tenantA, "s:s")
	for name, play := range map[string]func(r *fixture){
		"known session": func(r *fixture) {
			r.playOneTurn("s", picked(true))
			r.repostFeedback(first)
			r.repostFeedback(better)
			r.store.Touched()
			same(r.t, "answer to the repetition", r.repostFeedback(again), store.Posted{ID: "a", Session: "s", Status: store.Joined})
			same(r.t, "sessions touched by the repetition", len(r.store.Touched()), 0)
		},
		"parked": func(r *fixture) {
			for _, e := range []feedback.Entry{first, better, again} {
				same(r.t, "answer", r.repostFeedback(e), store.Posted{ID: e.ID, Status: store.Parked})
			}
			r.addKey(key, r.playOneTurn("s", picked(true)))
			r.deliver()
		},
		"parked, then repeated after the session has arrived": func(r *fixture) {
			r.repostFeedback(first)
			r.repostFeedback(better)
			r.addKey(key, r.playOneTurn("s", picked(true)))
			r.deliver()
			r.repostFeedback(again)
		},
		"parked, then repeated while the session arrives": func(r *fixture) {
			r.repostFeedback(first)
			r.repostFeedback(better)
			r.addKey(key, r.playOneTurn("s", picked(true)))
			same(r.t, "status of the repetition", r.repostFeedback(again).Status, store.Joined)
			r.deliver()
		},
		"outage": func(r *fixture) {
			r.playOneTurn("s", picked(true))
			r.backend.failPosts()
			for _, e := range []feedback.Entry{first, better, again} {
				same(r.t, "answer", r.repostFeedback(e), store.Posted{ID: e.ID, Status: store.Parked})
			}
			r.backend.allowPosts()
			r.wait(3 * time.Second)
			same(r.t, "late posts after the outage", r.store.LatePosts(), 0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newFixture(t, nil)
			play(r)
			list, err := r.backend.Feedback(t.Context(), tenantA, idOf("s"))
			if err != nil || len(list) != 2 || !list[0].At.Equal(first.At) || list[0].ID != "a" {
				t.Errorf("stored feedback: got %+v, error %v, want entry a at %s and entry b", list, err, first.At)
			}
			same(t, "reward", r.reward(idOf("s")), 1)
		})
	}
}

// A repetition adds the copy for the unit of the session, which a failure between the two writes left out. The copy has
// the time of the first post.
func TestRepeatedPostCompletesTheUnit(t *testing.T) {
	t.Parallel()
	r := newFixture(t, nil)
	unit, id := r.playOneTurn("parent", picked(true)), r.playOneTurn("s", picked(true))
	r.repostFeedback(score("a", 1, 0))
	r.change(id, store.Decided, func(rec *session.Record) { rec.Unit.ID = unit.String() })
	r.repostFeedback(score("a", 3, 0))
	list, err := r.backend.Feedback(t.Context(), tenantA, unit)
	if err != nil || len(list) != 1 || !list[0].At.Equal(score("a", 1, 0).At) {
		t.Errorf("feedback of the unit: got %+v, error %v, want one entry with the time of the first post", list, err)
	}
}

// The same id with another content is a correction, and gets the time of its own post.
func TestSameIDWithAnotherContentIsACorrection(t *testing.T) {
	t.Parallel()
	r := newFixture(t, nil)
	id := r.playOneTurn("s", picked(true))
	for _, e := range []feedback.Entry{score("a", 1, 0), score("b", 2, 1), score("a", 3, .25)} {
		r.repostFeedback(e)
	}
	list, err := r.backend.Feedback(t.Context(), tenantA, id)
	if err != nil || len(list) != 2 || !list[1].At.Equal(score("a", 3, .25).At) || list[1].Score != .25 {
		t.Errorf("stored feedback: got %+v, error %v, want entry b, then the correction of entry a", list, err)
	}
	same(t, "reward", r.reward(id), .25)
}
