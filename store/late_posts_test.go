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

// A late post is feedback that waits in the outbox for the backend.

// failPosts makes posts fail in the backend until allowPosts.
func (f *faultyBackend) failPosts() {
	for _, op := range []string{"session", "echo", "feedback"} {
		f.failNext(op, 1<<30, errDown)
	}
}

func (f *faultyBackend) allowPosts() {
	for _, op := range []string{"session", "echo", "feedback"} {
		f.failNext(op, 0, nil)
	}
}

// postDuringOutage posts feedback while the backend is down, and fails the test unless the store parks the feedback.
func (f *fixture) postDuringOutage(p feedback.Post) {
	f.t.Helper()
	got, err := f.store.Rate(f.t.Context(), tenantA, p)
	if err != nil {
		f.t.Fatal(err)
	}
	if got.Status != store.Parked {
		f.t.Fatalf("Rate: Status = %s, want %s", got.Status, store.Parked)
	}
	if !got.Delayed {
		f.t.Fatal("Rate: Delayed = false, want true")
	}
	if got.ID != p.Entry.ID {
		f.t.Fatalf("Rate: ID = %q, want %q", got.ID, p.Entry.ID)
	}
}

func TestConcurrentLatePostsAreKept(t *testing.T) {
	t.Parallel()
	const clients = 64
	f := newFixture(t, nil)
	f.playOneTurn("s", newAssignment(true))
	f.backend.failPosts()
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() {
			got, err := f.store.Rate(t.Context(), tenantA, feedback.Post{SessionID: sessionID("s").String(), Entry: newScore(fmt.Sprint("e", i), i, .5)})
			if err != nil {
				t.Errorf("client %d: %v", i, err)
			} else if got.Status != store.Parked {
				t.Errorf("client %d: Status = %s, want %s", i, got.Status, store.Parked)
			}
		})
	}
	all.Wait()
	checkEqual(t, "late posts", f.store.LatePosts(), clients)
	checkEqual(t, "Account.LateFeedback", f.balancedAccount(true).LateFeedback, clients)
	f.backend.allowPosts()
	f.deliverFor(3 * time.Second)
	f.deliver()
	checkEqual(t, "late posts after the delivery", f.store.LatePosts(), 0)
}

// The client sends the same post three times.
func TestLatePostCountsOnceAfterRestart(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	id := f.playOneTurn("s", newAssignment(true))
	f.backend.failPosts()
	e := newScore("a", 1, .25)
	e.Comment = "my key is " + secret("late")
	for range 3 {
		f.postDuringOutage(feedback.Post{SessionID: sessionID("s").String(), Entry: e})
	}
	checkList(t, "files with the secret", f.outboxFilesWith(secret("late")), nil)
	f.postDuringOutage(feedback.Post{SessionID: sessionID("s").String(), Entry: newScore("later", 2, .75)})
	checkEqual(t, "late posts", f.store.LatePosts(), 4)
	checkEqual(t, "Account.LateFeedback", f.balancedAccount(true).LateFeedback, 4)
	f.deliverFor(3 * time.Second)
	checkEqual(t, "late posts while the backend is down", f.store.LatePosts(), 4)
	checkAtLeast(t, "Lag", f.store.Lag(), 2*time.Second+1)
	f = f.crash(nil)
	checkEqual(t, "late posts after a crash", f.store.LatePosts(), 4)
	f.deliver()
	checkEqual(t, "late posts after the delivery", f.store.LatePosts(), 0)
	checkEqual(t, "Lag after the delivery", f.store.Lag(), 0)
	list, err := f.backend.Feedback(t.Context(), tenantA, id)
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 2 {
		t.Errorf("Feedback after the delivery = %+v, want 2 entries", list)
	}
	checkEqual(t, "reward (from the rater's newest feedback)", f.rewardAfterClose(id), .75)
}

// The session's row is also still in the outbox.
func TestLatePostJoinsUndeliveredSession(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.backend.failPosts()
	f.backend.failWrites()
	id := f.beginSession(tenantA, "s", newAssignment(true))
	f.offer("s", 1)
	f.addKey(session.TenantEchoKey(tenantA, "r:resp_1"), id)
	f.postDuringOutage(feedback.Post{ResponseID: "resp_1", Entry: newScore("a", 1, .7)})
	f.deliverFor(2 * time.Second)
	f = f.crash(nil)
	f.deliverFor(2 * time.Second)
	checkEqual(t, "reward", f.rewardAfterClose(id), .7)
}

// The backend refuses the first of two posts on each attempt. The store drops this post after a week.
func TestFailingLatePostDoesNotBlockOthers(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	first, second := f.playOneTurn("first", newAssignment(true)), f.playOneTurn("second", newAssignment(true))
	f.backend.failPosts()
	f.postDuringOutage(feedback.Post{SessionID: first.String(), Entry: newScore("a", 1, .1)})
	f.postDuringOutage(feedback.Post{SessionID: second.String(), Entry: newScore("b", 1, .9)})
	f.backend.allowPosts()
	f.backend.refusedSession = first
	f.deliverFor(5 * time.Second)
	checkEqual(t, "late posts", f.store.LatePosts(), 1)
	checkEqual(t, "second session's reward", f.rewardAfterClose(second), .9)
	f.clock.add(8 * 24 * time.Hour)
	f.run()
	eventually(t, "the late post to be dropped after a week", func() bool { return f.store.Metrics.Late.Expired.Load() == 1 })
	checkEqual(t, "late posts after a week", f.store.LatePosts(), 0)
}

// The store drops and counts four late posts: one for a session that already has the maximum number of entries, one for
// an unknown commit, one for an unknown sample, and one whose delivery panics.
func TestRefusedLatePostsAreCounted(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	id := f.playOneTurn("s", newAssignment(true))
	full := make([]feedback.Entry, session.MaxFeedback)
	for i := range full {
		full[i] = newScore(fmt.Sprint(i), 1, .5)
	}
	if err := f.store.PostFeedback(t.Context(), tenantA, map[session.ID][]feedback.Entry{id: full}); err != nil {
		t.Fatal(err)
	}
	panics := f.playOneTurn("panics", newAssignment(true))
	f.backend.failPosts()
	f.postDuringOutage(feedback.Post{SessionID: sessionID("s").String(), Entry: newScore("full", 1, 1)})
	f.postDuringOutage(feedback.Post{Commit: "3f2a9c1", Entry: newScore("unknown commit", 1, 1)})
	f.postDuringOutage(feedback.Post{SampleID: "unknown", Entry: newScore("unknown sample", 1, 1)})
	f.postDuringOutage(feedback.Post{SessionID: panics.String(), Entry: newScore("bad", 1, 1)})
	f.backend.allowPosts()
	f.backend.panickingSession = panics
	f.deliverFor(5 * time.Second)
	checkEqual(t, "late posts", f.store.LatePosts(), 0)
	dropped := &f.store.Metrics.Late
	checkEqual(t, "Metrics.Late.Full, Unknown and Bad", fmt.Sprint(dropped.Full.Load(), dropped.Unknown.Load(), dropped.Bad.Load()), "1 2 1")
}

func TestInvalidPostDuringOutageIsRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.backend.failPosts()
	_, err := f.store.Rate(t.Context(), tenantA, feedback.Post{Commit: "not a hash", Entry: newScore("a", 1, 1)})
	if _, ok := errors.AsType[*store.WorkError](err); !ok {
		t.Errorf("Rate(invalid commit): got error %v, want a store.WorkError", err)
	}
	checkEqual(t, "late posts", f.store.LatePosts(), 0)
}

func TestLatePostsAreLimited(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(o *store.Options) { o.Queue.MaxBytes = 256 << 10 })
	f.playOneTurn("s", newAssignment(true))
	f.backend.failPosts()
	n := 0
	for ; n < 1000; n++ {
		e := newScore(fmt.Sprint(n), 1, 1)
		e.Comment = noise(n, 8<<10)
		if _, err := f.store.Rate(t.Context(), tenantA, feedback.Post{SessionID: sessionID("s").String(), Entry: e}); err != nil {
			break
		}
	}
	if n < 10 || n > 32 {
		t.Errorf("accepted posts = %d, want 10 to 32", n)
	}
	f.backend.allowPosts()
	f.deliverFor(5 * time.Second)
	checkEqual(t, "late posts after the delivery", f.store.LatePosts(), 0)
}

func TestForgetDeletesLatePost(t *testing.T) {
	t.Parallel()
	for _, wholeTenant := range []bool{false, true} {
		t.Run(map[bool]string{false: "session", true: "tenant"}[wholeTenant], func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, nil)
			id := f.playOneTurn("s", newAssignment(true))
			f.backend.failPosts()
			e := newScore("a", 1, .7)
			e.Comment = markerWord
			f.postDuringOutage(feedback.Post{SessionID: sessionID("s").String(), Entry: e})
			f.backend.allowPosts()
			f.backend.refusedSession = id // so that the post is still waiting when the session is forgotten
			f.run()
			var err error
			if wholeTenant {
				_, err = f.store.ForgetTenant(t.Context(), tenantA)
			} else {
				_, err = f.store.ForgetSession(t.Context(), tenantA, "s")
			}
			if err != nil {
				t.Fatal(err)
			}
			checkEqual(t, "late posts after the deletion", f.store.LatePosts(), 0)
			checkList(t, "files with the comment", f.outboxFilesWith(markerWord), nil)
		})
	}
}

func TestLatePostOnOptedOutSessionIsIgnored(t *testing.T) {
	t.Parallel()
	f := newFixture(t, optOutEnvFiles(t))
	id := f.beginSession(tenantA, "s", newAssignment(true))
	x := newExchange(tenantA, "s", 1, f.clock.now())
	readEnvFile(x)
	f.store.Offer(store.Turn{Exchange: x, Size: 10})
	f.deliver()
	f.backend.failPosts()
	got, err := f.store.Rate(t.Context(), tenantA, feedback.Post{SessionID: id.String(), Entry: newScore("a", 1, 1)})
	if err != nil {
		t.Fatal(err)
	}
	if got.Status != store.Ignored {
		t.Errorf("Rate(opted-out session): Status = %s, want %s", got.Status, store.Ignored)
	}
	if f.store.LatePosts() != 0 {
		t.Errorf("Rate(opted-out session): LatePosts = %d, want 0", f.store.LatePosts())
	}
}

// The late post in this test identifies its session only by the id of a reply.
func TestForgetDeletesLatePostOnReply(t *testing.T) {
	t.Parallel()
	for _, keyStored := range []bool{false, true} {
		t.Run(map[bool]string{false: "key in the outbox", true: "key in the backend"}[keyStored], func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, nil)
			id := f.playOneTurn("s", newAssignment(true))
			f.addKey(session.TenantEchoKey(tenantA, "r:resp_1"), id)
			if keyStored {
				f.deliver()
			}
			f.backend.failPosts()
			e := newScore("a", 1, .7)
			e.Comment = markerWord
			f.postDuringOutage(feedback.Post{ResponseID: "resp_1", Entry: e})
			f.backend.allowPosts()
			f.backend.refusedSession = id // so that the post is still waiting when the session is forgotten
			f.run()
			f.backend.takeCalls()
			if _, err := f.store.ForgetSession(t.Context(), tenantA, "s"); err != nil {
				t.Fatal(err)
			}
			checkList(t, "files with the comment", f.outboxFilesWith(markerWord), nil)
			lookups, retries := 0, 0 // look-ups of keys, and attempts to store the post
			for _, op := range f.backend.takeCalls() {
				switch op {
				case "echo":
					lookups++
				case "feedback": // each attempt looks up the late post's key again
					retries++
				}
			}
			// The erasure looks up keys once for the session name, and at most twice more if the reply's key is stored.
			// A retry that is in progress adds one look-up.
			limit := map[bool]int{false: 1, true: 3}[keyStored] + retries + 1
			if lookups > limit {
				t.Errorf("%d key look-ups with %d retries, want at most %d", lookups, retries, limit)
			}
		})
	}
}

func TestCanceledPostDoesNotAffectOtherPosts(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.playOneTurn("s", newAssignment(true))
	f.deliver()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _ = f.store.Rate(ctx, tenantA, feedback.Post{SessionID: sessionID("s").String(), Entry: newScore("gone", 1, .7)})
	got, err := f.store.Rate(t.Context(), tenantA, feedback.Post{SessionID: sessionID("s").String(), Entry: newScore("here", 2, .7)})
	if err != nil {
		t.Fatal(err)
	}
	if got.Status != store.Joined {
		t.Errorf("Rate after another Rate was canceled: Status = %s, want %s", got.Status, store.Joined)
	}
}

func TestForgetSessionCallsOnErasure(t *testing.T) {
	t.Parallel()
	var erased atomic.Int64
	f := newFixture(t, func(o *store.Options) { o.Hooks.OnErasure = func() { erased.Add(1) } })
	f.playOneTurn("s", newAssignment(true))
	f.run()
	if _, err := f.store.ForgetSession(t.Context(), tenantA, "s"); err != nil {
		t.Error(err)
	} else if erased.Load() == 0 {
		t.Error("OnErasure was not called")
	}
}

// Feedback on a reply in session s arrives during an outage, while session s is being deleted.
func TestLatePostDuringErasureIsDeleted(t *testing.T) {
	t.Parallel()
	var shared *sharedBackend
	f := newFixture(t, withSharedBackend(&shared, "one"))
	for _, name := range []string{"s", "other"} {
		f.addKey(session.TenantEchoKey(tenantA, "r:"+name), f.playOneTurn(name, newAssignment(true)))
	}
	f.deliver()
	f.backend.failNext("feedback", 1<<30, errDown)
	f.postDuringOutage(feedback.Post{ResponseID: "other", Entry: newScore("a", 1, .7)})
	var erasing, posted atomic.Bool
	shared.announced = func() { erasing.Store(true) }
	f.backend.onCall(func(op string) {
		if op != "echo" || !erasing.Load() || posted.Swap(true) {
			return
		}
		e := newScore("b", 1, .7)
		e.Comment = markerWord
		f.postDuringOutage(feedback.Post{ResponseID: "s", Entry: e})
	})
	f.run()
	f.forget("s")
	checkEqual(t, "feedback was posted during the erasure", posted.Load(), true)
	checkEqual(t, "late posts after the deletion", f.store.LatePosts(), 1)
	checkList(t, "files with the comment", f.outboxFilesWith(markerWord), nil)
}

// The late post has only a reply's key, which the other replica has already deleted.
func TestErasureOnOtherReplicaDeletesLatePost(t *testing.T) {
	t.Parallel()
	var shared *sharedBackend
	f := newFixture(t, withSharedBackend(&shared, "one"))
	id := f.playOneTurn("s", newAssignment(true))
	f.addKey(session.TenantEchoKey(tenantA, "r:resp_1"), id)
	f.deliver()
	f.backend.failNext("feedback", 1<<30, errDown)
	e := newScore("a", 1, .7)
	e.Comment = markerWord
	f.postDuringOutage(feedback.Post{ResponseID: "resp_1", Entry: e})
	if _, err := f.backend.Forget(t.Context(), tenantA, id); err != nil {
		t.Fatal(err)
	}
	shared.announceErasure(session.Erasure{Tenant: tenantA, IDs: []session.ID{id}, At: f.clock.now().Add(time.Second), Position: "1"})
	f.backend.allowPosts()
	f.deliverFor(5 * time.Second)
	checkEqual(t, "late posts after the deletion", f.store.LatePosts(), 0)
	checkList(t, "files with the comment", filesWith(t, f.dir, markerWord), nil)
}
