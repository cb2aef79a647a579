package store_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"precept/bandit/feedback"
	"precept/detect"
	"precept/internal/session"
	"precept/store"
)

// A key, such as the hash of a response id, identifies the session of feedback. Without the key, the store parks the
// feedback.
func TestFeedbackBeforeKeyIsParked(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	checkEqual(t, "answer to early feedback", f.postByKey(tenantA, replyKey, newScore("a", 1, .7)), store.Posted{Status: store.Parked})
	checkEqual(t, "answer to repeated early feedback", f.postByKey(tenantA, replyKey, newScore("a", 1, .7)), store.Posted{Status: store.Parked})
	id := f.beginSession(tenantA, "s", newAssignment(true))
	f.addKey(replyKey, id)
	f.deliver()
	checkEqual(t, "reward", f.rewardAfterClose(id), .7)
	checkEqual(t, `counter "rewarded"`, f.counter("", "rewarded"), 1)
}

// The learner recomputes the reward of a touched session.
func TestRefusedFeedbackDoesNotTouchTheSession(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	id := f.beginSession(tenantA, "s", newAssignment(true))
	f.addKey(replyKey, id)
	f.deliver()
	list := make([]feedback.Entry, session.MaxFeedback+2)
	for i := range list {
		list[i] = newScore(fmt.Sprint(i), 1, .7)
	}
	checkEqual(t, "PostFeedback(two entries above the limit) error", f.store.PostFeedback(f.t.Context(), tenantA, map[session.ID][]feedback.Entry{id: list}), nil)
	checkEqual(t, "sessions touched by new feedback", len(f.store.TakeQueuedCorrections()), 1)
	checkEqual(t, "Metrics.FeedbackFull", f.store.Metrics.FeedbackFull.Load(), 2)
	if _, err := f.store.Post(f.t.Context(), tenantA, nil, replyKey, newScore("more", 1, .7)); !errors.Is(err, session.FeedbackFull(1)) {
		t.Errorf("Post(session with the maximum number of entries): got error %v, want session.FeedbackFull(1)", err)
	}
	checkEqual(t, "sessions touched by refused feedback", len(f.store.TakeQueuedCorrections()), 0)
}

// A key waits for the opt-out decision, then for the recorder, then in the outbox, and ends in the backend.
func TestFeedbackFindsKeyAtEachStage(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	id := f.beginSession(tenantA, "s", newAssignment(true))
	joined := store.Posted{Session: "s", Status: store.Joined}
	f.store.HoldKeys("req", session.Echo{Tenant: tenantA, Key: replyKey, ID: id, At: f.clock.now()})
	checkEqual(t, "answer to feedback while its key is held", f.postByKey(tenantA, replyKey, newScore("a", 1, .7)), joined)
	f.store.ReleaseKeys("req", true /* keep the keys */)
	checkEqual(t, "answer to feedback while its key waits for the recorder", f.postByKey(tenantA, replyKey, newScore("a", 2, .7)), joined)
	f.backend.failWrites()
	for range 3 {
		f.deliverFor(time.Second)
		checkEqual(t, "answer to feedback while its key is in the outbox", f.postByKey(tenantA, replyKey, newScore("a", 3, .7)), joined)
	}
	f.backend.allowWrites()
	f.deliverFor(time.Second)
	checkEqual(t, "answer to feedback when the backend has its key", f.postByKey(tenantA, replyKey, newScore("a", 4, .7)), joined)
	f = f.restart(nil)
	checkEqual(t, "answer to feedback after a restart", f.postByKey(tenantA, replyKey, newScore("a", 5, .7)), joined)
	f.store.HoldKeys("req2", session.Echo{Tenant: tenantA, Key: replyKey + 1, ID: id, At: f.clock.now()})
	f.store.ReleaseKeys("req2", false /* the turn opted out */)
	checkEqual(t, "answer to feedback after its key was dropped", f.postByKey(tenantA, replyKey+1, newScore("b", 1, .7)), store.Posted{Status: store.Parked})
}

func TestParkedFeedbackSurvivesARestart(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	for i := range 5 {
		f.postByKey(tenantA, replyKey+session.EchoKey(i), newScore("a", 1, float64(i)/10))
	}
	f = f.restart(nil)
	for i := range 5 { // each key is written in a separate batch
		id := f.beginSession(tenantA, fmt.Sprint("s", i), newAssignment(true))
		f.addKey(replyKey+session.EchoKey(i), id)
		f.deliver()
	}
	f.closeSessions()
	for i := range 5 {
		a := f.settledState(sessionID(fmt.Sprint("s", i)))
		if !a.Rewarded {
			t.Errorf("settled state of session s%d: Rewarded = false, want true", i)
		}
		if a.Reward != float64(i)/10 {
			t.Errorf("settled state of session s%d: Reward = %v, want %v", i, a.Reward, float64(i)/10)
		}
	}
}

func TestFeedbackParkedByOtherReplicaJoins(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	first := f.beginSession(tenantA, "first", newAssignment(true))
	if err := f.backend.Park(f.t.Context(), tenantA, replyKey+1, newScore("a", 1, 1)); err != nil {
		t.Fatal(err)
	}
	f.addKey(replyKey+1, first)
	f.deliver()
	if err := f.backend.Park(f.t.Context(), tenantA, replyKey, newScore("b", 1, .3)); err != nil {
		t.Fatal(err)
	}
	id := f.beginSession(tenantA, "s", newAssignment(true))
	f.addKey(replyKey, id)
	f.deliver()
	checkEqual(t, "reward", f.rewardAfterClose(id), .3)
}

func TestFailedUnparkIsRetried(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.postByKey(tenantA, replyKey, newScore("a", 1, .7))
	id := f.beginSession(tenantA, "s", newAssignment(true))
	f.addKey(replyKey, id)
	f.backend.failNext("unpark", 2, errDown)
	f.deliver()
	checkList(t, "failed steps", f.takeFailures(), []string{"unpark"})
	for range 2 {
		f.clock.add(2 * time.Second)
		f.deliver()
	}
	checkEqual(t, "reward", f.rewardAfterClose(id), .7)
}

func TestFeedbackFindsKeyAddedDuringParking(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	id := f.beginSession(tenantA, "s", newAssignment(true))
	lookups := 0
	f.backend.onCall(func(op string) {
		if op != "echo" {
			return
		}
		if lookups++; lookups == 1 {
			f.addKey(replyKey, id)
		}
	})
	checkEqual(t, "answer to feedback", f.postByKey(tenantA, replyKey, newScore("a", 1, 1)), store.Posted{Session: "s", Status: store.Joined})
	f.backend.onCall(nil)
	f.deliver()
	f.closeSessions()
	checkEqual(t, `counter "rewarded"`, f.counter("", "rewarded"), 1)
}

func TestFeedbackDuringTurnFindsSession(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	ses := f.store.Add(&session.Record{
		Identity:   session.Identity{ID: sessionID("s"), Tenant: tenantA, Name: "s", Started: f.clock.now(), Seen: f.clock.now()},
		Assignment: newAssignment(true),
	})
	f.addKey(replyKey, ses.Record.Identity.ID)
	checkEqual(t, "answer to feedback during the turn", f.postByKey(tenantA, replyKey, newScore("a", 1, 1)), store.Posted{Session: "s", Status: store.Joined})
	checkEqual(t, "answer to another tenant's feedback", f.postByKey("other", replyKey, newScore("a", 1, 1)), store.Posted{Status: store.Parked})
	f.store.Release(ses, store.DecisionsChanged)
	f.deliver()
	checkEqual(t, "reward", f.rewardAfterClose(ses.Record.Identity.ID), 1)
}

func TestPostFindsOnlyOwnTenantsSessions(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	id := f.playOneTurn("s", newAssignment(true))
	candidates := session.IDsByName(tenantA, "s")
	got, err := f.store.Post(f.t.Context(), tenantA, candidates, replyKey, newScore("a", 1, 1))
	if err != nil {
		t.Fatal(err)
	}
	if got != (store.Posted{Session: "s", Status: store.Joined}) {
		t.Errorf("Post(several candidates for a session name) = %+v, want %+v", got, (store.Posted{Session: "s", Status: store.Joined}))
	}
	got, err = f.store.Post(f.t.Context(), "other", []session.ID{id}, replyKey, newScore("b", 1, 1))
	if err != nil {
		t.Fatal(err)
	}
	if got.Status != store.Parked {
		t.Errorf("Post(another tenant's session): Status = %s, want %s", got.Status, store.Parked)
	}
	f = f.restart(nil)
	if got, err = f.store.Post(f.t.Context(), tenantA, []session.ID{id}, replyKey, newScore("c", 2, 0)); err != nil {
		t.Error(err)
	} else if got.Session != "s" {
		t.Errorf(`Post(session that is not in memory) = %q, want "s"`, got.Session)
	}
}

// The ids are those of the session and of its requests, responses and samples.
func TestRateFindsSessionByAnyID(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	id := f.playOneTurn("s", newAssignment(true))
	f.addKey(session.TenantEchoKey(tenantA, "r:resp_1"), id)
	f.closeSessions()
	list, err := f.backend.ListSamples(f.t.Context(), tenantA, session.ListRange{Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	if len(list.List) != 1 {
		t.Fatalf("ListSamples: List = %+v, want 1 item", list.List)
	}
	for range 2 {
		for n, p := range []feedback.Post{
			{SessionID: id.String()},
			{RequestID: "req_" + id.String() + "0123456789abcdef"},
			{ResponseID: "resp_1"},
			{SampleID: list.List[0].Sample.ID},
		} {
			p.Entry = newScore(fmt.Sprint("f", n), 1, 1)
			if got, err := f.store.Rate(f.t.Context(), tenantA, p); err != nil {
				t.Errorf("Rate(%+v): %v", p, err)
			} else if got != (store.Posted{ID: p.Entry.ID, Session: "s", Status: store.Joined}) {
				t.Errorf("Rate(%+v) = %+v, want %+v", p, got, (store.Posted{ID: p.Entry.ID, Session: "s", Status: store.Joined}))
			}
			got, err := f.store.Rate(f.t.Context(), "other", p)
			switch {
			case p.SampleID != "":
				if !errors.Is(err, store.ErrNoSession) {
					t.Errorf("Rate(%+v) for another tenant: error = %v, want ErrNoSession", p, err)
				}
			case err != nil:
				t.Errorf("Rate(%+v) for another tenant: %v", p, err)
			case got.Status != store.Parked:
				t.Errorf("Rate(%+v) for another tenant: Status = %s, want %s", p, got.Status, store.Parked)
			}
		}
		f = f.restart(nil)
	}
	if got, err := f.store.Rate(f.t.Context(), tenantA, feedback.Post{RunID: "later", Entry: newScore("r", 1, 1)}); err != nil {
		t.Error(err)
	} else if got.Status != store.Parked {
		t.Errorf("Rate(unknown run): Status = %s, want %s", got.Status, store.Parked)
	}
}

// A signal in tier 2 (a verifier) overrides signals in tier 3 (the traffic). In one tier, the last signal decides.
func TestSignalsBecomeFeedback(t *testing.T) {
	t.Parallel()
	pass := detect.Signal{Feeling: detect.Approval, Tier: 2, Rule: "tests"}
	fail := detect.Signal{Feeling: detect.Rejection, Tier: 2, Rule: "tests"}
	refusal := detect.Signal{Feeling: detect.Rejection, Tier: 3, Rule: "refused"}
	praise := detect.Signal{Feeling: detect.Approval, Tier: 3, Rule: "praise", Sentiment: true}
	thanks := detect.Signal{Feeling: detect.Thanks, Tier: 3, Rule: "thanks", Sentiment: true}
	for name, tc := range map[string]struct {
		turn      int
		signals   []detect.Signal
		sentiment bool
		want      float64 // -1 means no reward
	}{
		"no signal":                  {2, nil, true, -1},
		"passed tests":               {2, []detect.Signal{pass}, false, 1},
		"passed, then failed tests":  {2, []detect.Signal{pass, fail}, false, 0},
		"failed, then passed tests":  {2, []detect.Signal{fail, pass}, false, 1},
		"refusal":                    {2, []detect.Signal{refusal}, false, 0},
		"refusal, then passed tests": {2, []detect.Signal{refusal, pass}, false, 1},
		"praise, Sentiment off":      {2, []detect.Signal{praise}, false, -1},
		"praise, Sentiment on":       {2, []detect.Signal{praise}, true, 1},
		"praise in the first turn":   {1, []detect.Signal{praise}, true, -1},
		"thanks, Sentiment on":       {2, []detect.Signal{thanks}, true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, func(o *store.Options) { o.Sentiment = tc.sentiment })
			id := f.beginSession(tenantA, "s", newAssignment(true))
			f.store.Offer(store.Turn{Exchange: newExchange(tenantA, "s", tc.turn, f.clock.now()), Size: 10, Signals: tc.signals})
			f.deliver()
			checkEqual(t, "reward", f.rewardAfterClose(id), tc.want)
		})
	}
}

func TestSignalsSurviveAnOutage(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	id := f.beginSession(tenantA, "s", newAssignment(true))
	f.store.Offer(store.Turn{Exchange: newExchange(tenantA, "s", 2, f.clock.now()), Size: 10, Signals: []detect.Signal{{Feeling: detect.Approval, Tier: 2, Rule: "tests"}}})
	f.backend.failNext("feedback", 2, errDown)
	for range 3 {
		f.deliver()
		f.clock.add(2 * time.Second)
	}
	checkList(t, "failed steps", f.takeFailures(), []string{"implicit", "implicit"})
	checkEqual(t, "reward", f.rewardAfterClose(id), 1)
}

// The store drops keys above the limit until other keys have left memory.
func TestKeysInMemoryAreLimited(t *testing.T) {
	t.Parallel()
	const lists, keysPerList = 300, 1000
	lateKey := session.EchoKey(1 << 40)
	for name, held := range map[string]bool{"held keys": true, "keys that wait for the recorder": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, nil)
			id := f.beginSession(tenantA, "s", newAssignment(true))
			f.deliver()
			for i := range lists {
				list := make([]session.Echo, keysPerList)
				for k := range list {
					list[k] = session.Echo{Tenant: tenantA, Key: session.EchoKey(i*keysPerList + k + 1), ID: session.ID{1}, At: f.clock.now()}
				}
				if held {
					f.store.HoldKeys(fmt.Sprint(i), list...)
				} else {
					f.store.AddEchoes(list...)
				}
			}
			late := session.Echo{Tenant: tenantA, Key: lateKey, ID: id, At: f.clock.now()}
			addLateKey := func() {
				if held {
					f.store.HoldKeys("late", late)
				} else {
					f.store.AddEchoes(late)
				}
			}
			addLateKey()
			checkEqual(t, "status of feedback with a key above the limit", f.postByKey(tenantA, lateKey, newScore("a", 1, 1)).Status, store.Parked)
			for i := range lists {
				f.store.ReleaseKeys(fmt.Sprint(i), false)
			}
			if !held {
				f.deliver()
			}
			addLateKey()
			checkEqual(t, "status of feedback with a key below the limit", f.postByKey(tenantA, lateKey, newScore("b", 1, 1)).Status, store.Joined)
		})
	}
}
