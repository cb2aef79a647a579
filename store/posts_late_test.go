package store_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"precept/bandit/feedback"
	"precept/internal/session"
	"precept/store"
)

// Late feedback, or a late post, is posted feedback that waits in the outbox because the backend could not take the
// post.

// failPosts makes the calls that posted feedback needs fail until allowPosts.
func (f *faulty) failPosts() {
	for _, op := range []string{"session", "echo", "feedback"} {
		f.failNext(op, 1<<30, errDown)
	}
}

// allowPosts ends the failures of the operations that posted feedback needs.
func (f *faulty) allowPosts() {
	for _, op := range []string{"session", "echo", "feedback"} {
		f.failNext(op, 0, nil)
	}
}

// deliverPost posts feedback while the backend is down, and fails the test unless the outbox keeps the post.
func (r *fixture) deliverPost(p feedback.Post) {
	r.t.Helper()
	got, err := r.store.Rate(r.t.Context(), tenantA, p)
	if err != nil || got.Status != store.Parked || got.ID != p.Entry.ID {
		r.t.Fatalf("Rate while the backend is down: got %+v, error %v, want parked", got, err)
	}
}

// Posts of many clients at one time are written together, and each client gets an answer.
func TestLateFeedbackOfManyClientsIsKept(t *testing.T) {
	t.Parallel()
	const clients = 64
	r := newFixture(t, nil)
	r.playOneTurn("s", picked(true))
	r.backend.failPosts()
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() {
			got, err := r.store.Rate(t.Context(), tenantA, feedback.Post{SessionID: idOf("s").String(), Entry: score(fmt.Sprint("e", i), i, .5)})
			if err != nil || got.Status != store.Parked {
				t.Errorf("client %d: got status %q, error %v, want parked and no error", i, got.Status, err)
			}
		})
	}
	all.Wait()
	same(t, "late posts", r.store.LatePosts(), clients)
	same(t, "Account.LateFeedback", r.balancedAccount(true).LateFeedback, clients)
	r.backend.allowPosts()
	r.wait(3 * time.Second)
	r.deliver()
	same(t, "late posts after the delivery", r.store.LatePosts(), 0)
}

// Feedback waits in the outbox while the backend is down, even after a crash. Feedback that its client posts
// three times counts once.
func TestLateFeedbackCountsOnceAfterARestart(t *testing.T) {
	t.Parallel()
	r := newFixture(t, nil)
	id := r.playOneTurn("s", picked(true))
	r.backend.failPosts()
	e := score("a", 1, .25)
	e.Comment = "my key is " + secret("late")
	for range 3 {
		r.deliverPost(feedback.Post{SessionID: idOf("s").String(), Entry: e})
	}
	sameList(t, "files with the secret", r.outboxFilesWith(secret("late")), nil)
	r.deliverPost(feedback.Post{SessionID: idOf("s").String(), Entry: score("later", 2, .75)})
	same(t, "late posts", r.store.LatePosts(), 4)
	same(t, "Account.LateFeedback", r.balancedAccount(true).LateFeedback, 4)
	r.wait(3 * time.Second)
	same(t, "late posts while the backend is down", r.store.LatePosts(), 4)
	atLeast(t, "lag", r.store.Lag(), 2*time.Second+1)
	r = r.crash(nil)
	same(t, "late posts after a crash", r.store.LatePosts(), 4)
	r.deliver()
	same(t, "late posts after the delivery", r.store.LatePosts(), 0)
	same(t, "lag after the delivery", r.store.Lag(), 0)
	list, err := r.backend.Feedback(t.Context(), tenantA, id)
	if err != nil || len(list) != 2 {
		t.Errorf("stored feedback: got %+v, error %v, want 2 entries", list, err)
	}
	same(t, "reward from the rater's newest feedback", r.reward(id), .75)
}

// Late feedback on a reply joins the session of the reply, although the row of the session also waits in the outbox.
func TestLateFeedbackFollowsItsSession(t *testing.T) {
	t.Parallel()
	r := newFixture(t, nil)
	r.backend.failPosts()
	r.backend.failWrites()
	id := r.beginSession(tenantA, "s", picked(true))
	r.offer("s", 1)
	r.addKey(session.EchoKeyOf(tenantA, "r:resp_1"), id)
	r.deliverPost(feedback.Post{ResponseID: "resp_1", Entry: score("a", 1, .7)})
	r.wait(2 * time.Second)
	r = r.crash(nil)
	r.wait(2 * time.Second)
	same(t, "reward", r.reward(id), .7)
}

// A post that the backend never takes does not delay the later posts, and is dropped after a week.
func TestFailingLatePostDoesNotBlockTheOthers(t *testing.T) {
	t.Parallel()
	r := newFixture(t, nil)
	first, second := r.playOneTurn("first", picked(true)), r.playOneTurn("second", picked(true))
	r.backend.failPosts()
	r.deliverPost(feedback.Post{SessionID: first.String(), Entry: score("a", 1, .1)})
	r.deliverPost(feedback.Post{SessionID: second.String(), Entry: score("b", 1, .9)})
	r.backend.allowPosts()
	r.backend.refused = first
	r.wait(5 * time.Second)
	same(t, "late posts", r.store.LatePosts(), 1)
	same(t, "reward of the second session", r.reward(second), .9)
	r.clock.add(8 * 24 * time.Hour)
	r.run()
	eventually(t, "the late post to be dropped after a week", func() bool { return r.store.Tally.Late.Expired.Load() == 1 })
	same(t, "late posts after a week", r.store.LatePosts(), 0)
}

// Late posts that the store refuses, or whose delivery panics, are dropped and counted.
func TestRefusedLatePostsAreCounted(t *testing.T) {
	t.Parallel()
	r := newFixture(t, nil)
	id := r.playOneTurn("s", picked(true))
	full := make([]feedback.Entry, session.MaxFeedback)
	for i := range full {
		full[i] = score(fmt.Sprint(i), 1, .5)
	}
	if err := r.store.PostFeedback(t.Context(), tenantA, map[session.ID][]feedback.Entry{id: full}); err != nil {
		t.Fatal(err)
	}
	panics := r.playOneTurn("panics", picked(true))
	r.backend.failPosts()
	r.deliverPost(feedback.Post{SessionID: idOf("s").String(), Entry: score("full", 1, 1)})
	r.deliverPost(feedback.Post{Commit: "3f2a9c1", Entry: score("no session showed it", 1, 1)})
	r.deliverPost(feedback.Post{SampleID: "unknown", Entry: score("no sample", 1, 1)})
	r.deliverPost(feedback.Post{SessionID: panics.String(), Entry: score("bad", 1, 1)})
	r.backend.allowPosts()
	r.backend.panics = panics
	r.wait(5 * time.Second)
	same(t, "late posts", r.store.LatePosts(), 0)
	dropped := &r.store.Tally.Late
	same(t, "late posts dropped as full, unknown and bad", fmt.Sprint(dropped.Full.Load(), dropped.Unknown.Load(), dropped.Bad.Load()), "1 2 1")
}

// An invalid post is refused at once while the backend is down, because no later attempt would take the post.
func TestInvalidFeedbackIsNeverKept(t *testing.T) {
	t.Parallel()
	r := newFixture(t, nil)
	r.backend.failPosts()
	_, err := r.store.Rate(t.Context(), tenantA, feedback.Post{Commit: "not a hash", Entry: score("a", 1, 1)})
	if _, ok := errors.AsType[*store.WorkError](err); !ok {
		t.Errorf("Rate with an invalid commit: got error %v, want a WorkError", err)
	}
	same(t, "late posts", r.store.LatePosts(), 0)
}

// Rate returns an error if the outbox has no room for a late post.
func TestLateFeedbackIsBounded(t *testing.T) {
	t.Parallel()
	r := newFixture(t, func(o *store.Options) { o.Queue.Bytes = 256 << 10 })
	r.playOneTurn("s", picked(true))
	r.backend.failPosts()
	n := 0
	for ; n < 1000; n++ {
		e := score(fmt.Sprint(n), 1, 1)
		e.Comment = noise(n, 8<<10)
		if _, err := r.store.Rate(t.Context(), tenantA, feedback.Post{SessionID: idOf("s").String(), Entry: e}); err != nil {
			break
		}
	}
	if n < 10 || n > 32 {
		t.Errorf("%d posts of 8 KiB wait in an outbox of 256 KiB, want 10 to 32", n)
	}
	r.backend.allowPosts()
	r.wait(5 * time.Second)
	same(t, "late posts after the delivery", r.store.LatePosts(), 0)
}

// The text of late feedback on a forgotten session leaves the outbox files, and the feedback is not delivered.
func TestForgettingDeletesLateFeedback(t *testing.T) {
	t.Parallel()
	for _, ofTenant := range []bool{false, true} {
		t.Run(fmt.Sprint("tenant ", ofTenant), func(t *testing.T) {
			t.Parallel()
			r := newFixture(t, nil)
			id := r.playOneTurn("s", picked(true))
			r.backend.failPosts()
			e := score("a", 1, .7)
			e.Comment = markerWord
			r.deliverPost(feedback.Post{SessionID: idOf("s").String(), Entry: e})
			r.backend.allowPosts()
			r.backend.refused = id // the post still waits when the session is forgotten
			r.run()
			var err error
			if ofTenant {
				_, err = r.store.ForgetTenant(t.Context(), tenantA)
			} else {
				_, err = r.store.ForgetSession(t.Context(), tenantA, "s")
			}
			if err != nil {
				t.Fatal(err)
			}
			same(t, "late posts after the deletion", r.store.LatePosts(), 0)
			sameList(t, "files with the comment", r.outboxFilesWith(markerWord), nil)
		})
	}
}

// Feedback on an opted-out session is ignored, and does not wait in the outbox while the backend is down.
func TestLateFeedbackOfAnOptedOutSessionIsIgnored(t *testing.T) {
	t.Parallel()
	r := newFixture(t, optOutEnvFiles(t))
	id := r.beginSession(tenantA, "s", picked(true))
	x := exchange(tenantA, "s", 1, r.clock.now())
	readEnvFile(x)
	r.store.Offer(store.Turn{Exchange: x, Size: 10})
	r.deliver()
	r.backend.failPosts()
	got, err := r.store.Rate(t.Context(), tenantA, feedback.Post{SessionID: id.String(), Entry: score("a", 1, 1)})
	if err != nil || got.Status != store.Ignored || r.store.LatePosts() != 0 {
		t.Errorf("Rate on an opted-out session: got %+v, error %v and %d late posts, want ignored and 0", got, err, r.store.LatePosts())
	}
}

// Late feedback that names only a reply of a forgotten session is deleted.
func TestForgettingDeletesLateFeedbackOnAReply(t *testing.T) {
	t.Parallel()
	for _, keyStored := range []bool{false, true} {
		t.Run(fmt.Sprint("key stored ", keyStored), func(t *testing.T) {
			t.Parallel()
			r := newFixture(t, nil)
			id := r.playOneTurn("s", picked(true))
			r.addKey(session.EchoKeyOf(tenantA, "r:resp_1"), id)
			if keyStored {
				r.deliver()
			}
			r.backend.failPosts()
			e := score("a", 1, .7)
			e.Comment = markerWord
			r.deliverPost(feedback.Post{ResponseID: "resp_1", Entry: e})
			r.backend.allowPosts()
			r.backend.refused = id // the post still waits when the session is forgotten
			r.run()
			r.backend.takeCalls()
			if _, err := r.store.ForgetSession(t.Context(), tenantA, "s"); err != nil {
				t.Fatal(err)
			}
			sameList(t, "files with the comment", r.outboxFilesWith(markerWord), nil)
			lookups, retries := 0, 0
			for _, op := range r.backend.takeCalls() {
				switch op {
				case "echo":
					lookups++
				case "feedback": // the worker looks up the keys of the late post and tries again
					retries++
				}
			}
			limit := map[bool]int{false: 1, true: 3}[keyStored] + retries + 1 // a retry may be in progress
			if lookups > limit {
				t.Errorf("the erasure and %d retries looked up keys in the backend %d times, want at most %d", retries, lookups, limit)
			}
		})
	}
}

// After the canceled post of one client, the posts of other clients still go to the backend.
func TestCanceledPostDoesNotDivertOthers(t *testing.T) {
	t.Parallel()
	r := newFixture(t, nil)
	r.playOneTurn("s", picked(true))
	r.deliver()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _ = r.store.Rate(ctx, tenantA, feedback.Post{SessionID: idOf("s").String(), Entry: score("gone", 1, .7)})
	got, err := r.store.Rate(t.Context(), tenantA, feedback.Post{SessionID: idOf("s").String(), Entry: score("here", 2, .7)})
	if err != nil || got.Status != store.Joined {
		t.Errorf("Rate after a canceled Rate: got status %q, error %v, want %s", got.Status, err, store.Joined)
	}
}

// A deletion on request calls Hooks.Erased, which empties the caches of the pages.
func TestForgettingCallsErased(t *testing.T) {
	t.Parallel()
	var erased atomic.Int64
	r := newFixture(t, func(o *store.Options) { o.Hooks.Erased = func() { erased.Add(1) } })
	r.playOneTurn("s", picked(true))
	r.run()
	if _, err := r.store.ForgetSession(t.Context(), tenantA, "s"); err != nil || erased.Load() == 0 {
		t.Errorf("ForgetSession: got %d calls of Hooks.Erased, error %v, want a call", erased.Load(), err)
	}
}

// The store erases feedback on a reply that arrives during the erasure of the reply's session. Feedback on other
// sessions stays.
func TestFeedbackDuringAnErasureIsDeleted(t *testing.T) {
	t.Parallel()
	var be *lossyBackend
	r := newFixture(t, withFleet(&be, "one"))
	for _, name := range []string{"s", "other"} {
		r.addKey(session.EchoKeyOf(tenantA, "r:"+name), r.playOneTurn(name, picked(true)))
	}
	r.deliver()
	r.backend.failNext("feedback", 1<<30, errDown)
	r.deliverPost(feedback.Post{ResponseID: "other", Entry: score("a", 1, .7)})
	var erasing, posted atomic.Bool
	be.announced = func() { erasing.Store(true) }
	r.backend.onCall(func(op string) {
		if op != "echo" || !erasing.Load() || posted.Swap(true) {
			return
		}
		e := score("b", 1, .7)
		e.Comment = markerWord
		r.deliverPost(feedback.Post{ResponseID: "s", Entry: e})
	})
	r.run()
	r.forget("s")
	same(t, "feedback was posted during the erasure", posted.Load(), true)
	same(t, "late posts after the deletion", r.store.LatePosts(), 1)
	sameList(t, "files with the comment", r.outboxFilesWith(markerWord), nil)
}

// Late feedback on a reply is deleted when another replica erases the session of the reply, although that replica
// has deleted the keys of the reply.
func TestErasureElsewhereDeletesLateFeedbackOnAReply(t *testing.T) {
	t.Parallel()
	var be *lossyBackend
	r := newFixture(t, withFleet(&be, "one"))
	id := r.playOneTurn("s", picked(true))
	r.addKey(session.EchoKeyOf(tenantA, "r:resp_1"), id)
	r.deliver()
	r.backend.failNext("feedback", 1<<30, errDown)
	e := score("a", 1, .7)
	e.Comment = markerWord
	r.deliverPost(feedback.Post{ResponseID: "resp_1", Entry: e})
	if _, err := r.backend.Forget(t.Context(), tenantA, id); err != nil {
		t.Fatal(err)
	}
	be.forgetElsewhere(session.Erasure{Tenant: tenantA, IDs: []session.ID{id}, At: r.clock.now().Add(time.Second), Place: "1"})
	r.backend.allowPosts()
	r.wait(5 * time.Second)
	same(t, "late posts after the deletion", r.store.LatePosts(), 0)
	sameList(t, "files with the comment", filesWith(t, r.dir, markerWord), nil)
}
