package store_test

import (
	"testing"
	"time"

	"precept/bandit/feedback"
	"precept/internal/session"
	"precept/store"
)

// rateKeyed posts feedback on the session "s" with an id that the client chose (Keyed), so that the client can repeat
// the post.
func (r *fixture) rateKeyed(e feedback.Entry) store.Posted {
	r.t.Helper()
	done, err := r.store.Rate(r.t.Context(), tenantA, feedback.Post{SessionID: "s", Keyed: true, Entry: e})
	if err != nil {
		r.t.Fatalf("Rate(%s): %v", e.ID, err)
	}
	return done
}

// A client posts a rating, then a better rating under another id, and then repeats the first post. The repeated post
// keeps the time of the first post, so that the better rating decides the reward.
func TestRepeatedPostKeepsItsTime(t *testing.T) {
	t.Parallel()
	first, better, again := newScore("a", 1, 0), newScore("b", 2, 1), newScore("a", 3, 0)
	key := session.EchoKeyOf(tenantA, "s:s")
	for name, play := range map[string]func(r *fixture){
		"known session": func(r *fixture) {
			r.playOneTurn("s", newAssignment(true))
			r.rateKeyed(first)
			r.rateKeyed(better)
			r.store.Touched()
			checkEqual(r.t, "answer to the repeated post", r.rateKeyed(again), store.Posted{ID: "a", Session: "s", Status: store.Joined})
			checkEqual(r.t, "sessions touched by the repeated post", len(r.store.Touched()), 0)
		},
		"before the session arrives": func(r *fixture) {
			for _, e := range []feedback.Entry{first, better, again} {
				checkEqual(r.t, "answer", r.rateKeyed(e), store.Posted{ID: e.ID, Status: store.Parked})
			}
			r.addKey(key, r.playOneTurn("s", newAssignment(true)))
			r.deliver()
		},
		"repeated after the session has arrived": func(r *fixture) {
			r.rateKeyed(first)
			r.rateKeyed(better)
			r.addKey(key, r.playOneTurn("s", newAssignment(true)))
			r.deliver()
			r.rateKeyed(again)
		},
		"repeated while the session arrives": func(r *fixture) {
			r.rateKeyed(first)
			r.rateKeyed(better)
			r.addKey(key, r.playOneTurn("s", newAssignment(true)))
			checkEqual(r.t, "status of the repeated post", r.rateKeyed(again).Status, store.Joined)
			r.deliver()
		},
		"backend outage": func(r *fixture) {
			r.playOneTurn("s", newAssignment(true))
			r.backend.failPosts()
			for _, e := range []feedback.Entry{first, better, again} {
				checkEqual(r.t, "answer", r.rateKeyed(e), store.Posted{ID: e.ID, Status: store.Parked})
			}
			r.backend.allowPosts()
			r.wait(3 * time.Second)
			checkEqual(r.t, "late posts after the outage", r.store.LatePosts(), 0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newFixture(t, nil)
			play(r)
			list, err := r.backend.Feedback(t.Context(), tenantA, sessionID("s"))
			if err != nil || len(list) != 2 || !list[0].At.Equal(first.At) || list[0].ID != "a" {
				t.Errorf("Feedback = %+v, %v, want entry a at %s, then entry b", list, err, first.At)
			}
			checkEqual(t, "reward", r.reward(sessionID("s")), 1)
		})
	}
}

// Feedback on a session is copied to its randomization unit. If a failure prevented the copy, a repeated post adds it
// with the time of the first post.
func TestRepeatedPostAddsMissingCopyForTheUnit(t *testing.T) {
	t.Parallel()
	r := newFixture(t, nil)
	unit, id := r.playOneTurn("parent", newAssignment(true)), r.playOneTurn("s", newAssignment(true))
	r.rateKeyed(newScore("a", 1, 0))
	r.change(id, store.Decided, func(rec *session.Record) { rec.Unit.ID = unit.String() })
	r.rateKeyed(newScore("a", 3, 0))
	list, err := r.backend.Feedback(t.Context(), tenantA, unit)
	if err != nil || len(list) != 1 || !list[0].At.Equal(newScore("a", 1, 0).At) {
		t.Errorf("Feedback of the unit = %+v, %v, want one entry with the time of the first post", list, err)
	}
}

// A post with a known id and other content is a correction, and has the time of its own post.
func TestPostWithSameIDAndOtherContentIsACorrection(t *testing.T) {
	t.Parallel()
	r := newFixture(t, nil)
	id := r.playOneTurn("s", newAssignment(true))
	for _, e := range []feedback.Entry{newScore("a", 1, 0), newScore("b", 2, 1), newScore("a", 3, .25)} {
		r.rateKeyed(e)
	}
	list, err := r.backend.Feedback(t.Context(), tenantA, id)
	if err != nil || len(list) != 2 || !list[1].At.Equal(newScore("a", 3, .25).At) || list[1].Score != .25 {
		t.Errorf("Feedback = %+v, %v, want entry b, then the corrected entry a", list, err)
	}
	checkEqual(t, "reward", r.reward(id), .25)
}
