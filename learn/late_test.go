package learn_test

import (
	"slices"
	"testing"
	"time"

	"precept/bandit/feedback"
	"precept/detect"
	"precept/internal/sample"
	"precept/store"
)

func exchangeIDs(list []sample.Sample) (ids []string) {
	for _, m := range list {
		events, _ := m.Meta["source_event_ids"].([]any)
		for _, id := range events {
			ids = append(ids, id.(string))
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// The sample from the close, the reward and the counters must not change.
func TestLateTurnsGetSamples(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	id := f.addSession("s", newAssignment(injected))
	f.postFeedback(tenantA, id, userScore("f1", 1, 1))
	f.advancePastClose()
	first := f.storedSamples(id)
	assertEqual(t, "samples on day 1", len(first), 1)
	before := f.counters(tenantA)
	for day := 2; day <= 4; day++ {
		f.clock.add(24 * time.Hour)
		x := newExchange(tenantA, "s", day, f.clock.now())
		x.New[0] = []byte(`{"role":"user","content":"Go on."}`)
		f.Offer(store.Turn{Exchange: x, Size: 10, Signals: []detect.Signal{{Tier: 2, Feeling: detect.Rejection, Rule: "tests"}}})
		f.deliverAndCorrect()
		f.closeDue(f.ctx())
		f.recomputeRewards(f.ctx())
		assertEqual(t, "unsampled exchanges", f.unsampled(), 0)
		list := f.storedSamples(id)
		assertEqual(t, "exchanges in samples", len(exchangeIDs(list)), day)
		if !slices.ContainsFunc(list, func(m sample.Sample) bool { return m.ID == first[0].ID }) {
			t.Errorf("samples on day %d: the sample %s from day 1 is missing", day, first[0].ID)
		}
	}
	assertEqual(t, "reward", f.settledState(id).Reward, 1)
	assertEqual(t, "counters", f.counters(tenantA), before)
}

func TestImplicitRewardCountsUntilClose(t *testing.T) {
	t.Parallel()
	r := newFixture(t, nil)
	id := r.beginSession(tenantA, "s", newAssignment(injected))
	offerSignal := func(turn int, f detect.Feeling) {
		r.Offer(store.Turn{Exchange: newExchange(tenantA, "s", turn, r.clock.now()), Size: 10, Signals: []detect.Signal{{Tier: 2, Feeling: f, Rule: "tests"}}})
		r.deliverAndCorrect()
	}
	offerSignal(1, detect.Approval)
	r.advancePastClose()
	assertEqual(t, "reward at close", r.settledState(id).Reward, 1)
	r.clock.add(time.Hour)
	offerSignal(2, detect.Rejection)
	r.closeDue(r.ctx())
	r.recomputeRewards(r.ctx())
	assertEqual(t, "reward after a later implicit rejection", r.settledState(id).Reward, 1)
	assertEqual(t, "unsampled exchanges", r.unsampled(), 0)
	r.postFeedback(tenantA, id, userScore("f1", 1, 0.25))
	r.recomputeRewards(r.ctx())
	assertEqual(t, "reward after explicit human feedback", r.settledState(id).Reward, 0.25)
}

func TestSessionWithUnwrittenExchangeDoesNotClose(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	id := f.addSession("s", newAssignment(injected))
	f.clock.add(closeAge + time.Second)
	f.offer("s", 2)
	f.closeDue(f.ctx())
	assertEqual(t, "version of the settled state while an exchange is queued", f.settledState(id).Version, 0)
	f.backend.failNext("write", 1, errDown)
	f.deliverAndCorrect()
	f.closeDue(f.ctx())
	assertEqual(t, "version of the settled state after a failed exchange write", f.settledState(id).Version, 0)
	f.clock.add(2 * time.Second)
	f.deliverAndCorrect()
	f.closeDue(f.ctx())
	assertEqual(t, "version of the settled state after the exchange is stored", f.settledState(id).Version, 1)
	assertEqual(t, "exchanges in samples", len(exchangeIDs(f.storedSamples(id))), 2)
	assertEqual(t, "unsampled exchanges", f.unsampled(), 0)
}

// A crash before the write of the row leaves an exchange without a row.
func TestExchangeWithoutSessionRowGetsSample(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.offer("lost", 1)
	f.deliverAndCorrect()
	f = f.reopen(nil)
	f.advancePastClose()
	assertEqual(t, "samples", len(f.storedSamples(sessionID("lost"))), 1)
	assertEqual(t, "unsampled exchanges", f.unsampled(), 0)
	assertEqualList(t, "failures", f.takeFailures(), nil)
}

func TestWholeSessionSampleReplacesFirstSample(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	id := f.addSession("s", newAssignment(injected))
	f.advancePastClose()
	x := newExchange(tenantA, "s", 2, f.clock.now())
	x.New = nil
	x.Reply = sample.Reply{ID: "chatcmpl-2", Calls: []sample.Call{{ID: "c1", Name: "paint", Args: "{}"}}}
	f.Offer(store.Turn{Exchange: x, Size: 10})
	f.deliverAndCorrect()
	f.clock.add(closeAge)
	f.closeDue(f.ctx())
	f.recomputeRewards(f.ctx())
	list := f.storedSamples(id)
	if len(list) != 1 {
		t.Fatalf("samples after the close = %+v, want 1 sample", list)
	}
	if list[0].Family != sample.IntentResolution {
		t.Errorf("samples after the close: Family = %q, want %q", list[0].Family, sample.IntentResolution)
	}
}

func TestShutdownBuildsMissingSamples(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	id := f.addSession("s", newAssignment(injected))
	f.advancePastClose()
	f.offer("s", 2)
	if err := f.drain(); err != nil {
		t.Fatal(err)
	}
	assertEqual(t, "exchanges in samples", len(exchangeIDs(f.storedSamples(id))), 2)
}

func TestLateWebhookEventsCorrectReward(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	id := f.addSession("s", newAssignment(injected))
	f.advancePastClose()
	postEvent := func(name string, minute int, y float64) {
		e := userScore(name, minute, y)
		e.Stage, e.Rater = feedback.StageEnd, "github"
		f.postFeedback(tenantA, id, e)
		f.recomputeRewards(f.ctx())
	}
	assertEqual(t, "the session is rewarded at close", f.settledState(id).Rewarded, false)
	postEvent("merged", 2, 1)
	assertEqual(t, "reward after the merge", f.settledState(id).Reward, 1)
	postEvent("reverted", 3, 0)
	assertEqual(t, "the session is rewarded after the revert", f.settledState(id).Rewarded, true)
	assertEqual(t, "reward after the revert", f.settledState(id).Reward, 0)
	postEvent("merged", 2, 1)
	assertEqual(t, "reward after a repeated event", f.settledState(id).Reward, 0)
	row := f.Beliefs(tenantA).TrialCounters().Stats("look-twice@0123456789ab").Strata[0]
	assertEqual(t, "rewards after close", row.RewardedInArm(1)-row.RewardedAtCloseInArm(1), 1)
}
