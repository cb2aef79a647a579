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

// exchangeIDs returns the ids of the exchanges in the samples, sorted and without duplicates.
func exchangeIDs(list []sample.Sample) (ids []string) {
	for _, m := range list {
		of, _ := m.Meta["source_event_ids"].([]any)
		for _, id := range of {
			ids = append(ids, id.(string))
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// Turns that arrive after close still get samples. The first sample is kept, and the later turns do not change the
// reward and the counters.
func TestLateTurnsGetSamples(t *testing.T) {
	t.Parallel()
	r := newFixture(t, nil)
	id := r.addSession("s", picked(true))
	r.postFeedback(tenantA, id, score("f1", 1, 1))
	r.advancePastClose()
	first := r.samplesOf(id)
	same(t, "number of samples on day 1", len(first), 1)
	before := r.counters(tenantA)
	for day := 2; day <= 4; day++ {
		r.clk.add(24 * time.Hour)
		x := exchange(tenantA, "s", day, r.clk.now())
		x.New[0] = []byte(`{"role":"user","content":"Go on."}`)
		r.Offer(store.Turn{Exchange: x, Size: 10, Signals: []detect.Signal{{Tier: 2, Feeling: detect.Rejection, Rule: "tests"}}})
		r.record()
		r.closeDue(r.ctx())
		r.recomputeRewards(r.ctx())
		same(t, "unsampled exchanges", r.unsampled(), 0)
		list := r.samplesOf(id)
		same(t, "number of exchanges in samples", len(exchangeIDs(list)), day)
		if !slices.ContainsFunc(list, func(m sample.Sample) bool { return m.ID == first[0].ID }) {
			t.Errorf("day %d: sample %s of day 1 is missing", day, first[0].ID)
		}
	}
	same(t, "reward", r.applied(id).Reward, 1)
	same(t, "counters", r.counters(tenantA), before)
}

// Implicit feedback affects the reward only until the session closes.
func TestImplicitRewardCountsUntilClose(t *testing.T) {
	t.Parallel()
	r := newFixture(t, nil)
	id := r.beginSession(tenantA, "s", picked(true))
	offerSignal := func(turn int, f detect.Feeling) {
		r.Offer(store.Turn{Exchange: exchange(tenantA, "s", turn, r.clk.now()), Size: 10, Signals: []detect.Signal{{Tier: 2, Feeling: f, Rule: "tests"}}})
		r.record()
	}
	offerSignal(1, detect.Approval)
	r.advancePastClose()
	same(t, "reward at close", r.applied(id).Reward, 1)
	r.clk.add(time.Hour)
	offerSignal(2, detect.Rejection)
	r.closeDue(r.ctx())
	r.recomputeRewards(r.ctx())
	same(t, "reward after a later implicit rejection", r.applied(id).Reward, 1)
	same(t, "unsampled exchanges", r.unsampled(), 0)
	r.postFeedback(tenantA, id, score("f1", 1, 0.25))
	r.recomputeRewards(r.ctx())
	same(t, "reward after explicit human feedback", r.applied(id).Reward, 0.25)
}

// A session does not close while one of its exchanges is queued or could not be written.
func TestSessionWithUnwrittenExchangeDoesNotClose(t *testing.T) {
	t.Parallel()
	r := newFixture(t, nil)
	id := r.addSession("s", picked(true))
	r.clk.add(closeAge + time.Second)
	r.offer("s", 2)
	r.closeDue(r.ctx())
	same(t, "version while an exchange is queued", r.applied(id).Version, 0)
	r.be.failNext("write", 1, errDown)
	r.record()
	r.closeDue(r.ctx())
	same(t, "version after a failed write of the exchange", r.applied(id).Version, 0)
	r.clk.add(2 * time.Second)
	r.record()
	r.closeDue(r.ctx())
	same(t, "version after the exchange is stored", r.applied(id).Version, 1)
	same(t, "number of exchanges in samples", len(exchangeIDs(r.samplesOf(id))), 2)
	same(t, "unsampled exchanges", r.unsampled(), 0)
}

// An exchange gets a sample even if the row of its session is missing, as after a crash between the two writes.
func TestExchangeWithoutSessionRowGetsSample(t *testing.T) {
	t.Parallel()
	r := newFixture(t, nil)
	r.offer("lost", 1)
	r.record()
	r = r.reopen(nil)
	r.advancePastClose()
	same(t, "number of samples", len(r.samplesOf(sessionOf("lost"))), 1)
	same(t, "unsampled exchanges", r.unsampled(), 0)
	sameList(t, "failures", r.failed(), nil)
}

// If a session that had only text when it closed later makes a tool call, the sample of the whole session replaces the
// first sample.
func TestSampleOfWholeSessionReplacesFirstSample(t *testing.T) {
	t.Parallel()
	r := newFixture(t, nil)
	id := r.addSession("s", picked(true))
	r.advancePastClose()
	x := exchange(tenantA, "s", 2, r.clk.now())
	x.New = nil
	x.Reply = sample.Reply{ID: "chatcmpl-2", Calls: []sample.Call{{ID: "c1", Name: "paint", Args: "{}"}}}
	r.Offer(store.Turn{Exchange: x, Size: 10})
	r.record()
	r.clk.add(closeAge)
	r.closeDue(r.ctx())
	r.recomputeRewards(r.ctx())
	list := r.samplesOf(id)
	if len(list) != 1 || list[0].Family != sample.IntentResolution {
		t.Errorf("samples = %+v, want one of family %s", list, sample.IntentResolution)
	}
}

// If an exchange arrives after close and the program stops, the learner builds the missing sample during shutdown.
func TestShutdownBuildsMissingSamples(t *testing.T) {
	t.Parallel()
	r := newFixture(t, nil)
	id := r.addSession("s", picked(true))
	r.advancePastClose()
	r.offer("s", 2)
	if err := r.drain(); err != nil {
		t.Fatal(err)
	}
	same(t, "number of exchanges in samples", len(exchangeIDs(r.samplesOf(id))), 2)
}

// A webhook event after close gives the session a reward, and a later event replaces the reward.
func TestLateWebhookEventsCorrectReward(t *testing.T) {
	t.Parallel()
	r := newFixture(t, nil)
	id := r.addSession("s", picked(true))
	r.advancePastClose()
	postEvent := func(name string, minute int, y float64) {
		e := score(name, minute, y)
		e.Stage, e.Rater = feedback.StageEnd, "github"
		r.postFeedback(tenantA, id, e)
		r.recomputeRewards(r.ctx())
	}
	same(t, "rewarded at close", r.applied(id).Rewarded, false)
	postEvent("merged", 2, 1)
	same(t, "reward after the merge", r.applied(id).Reward, 1)
	postEvent("reverted", 3, 0)
	same(t, "rewarded after the revert", r.applied(id).Rewarded, true)
	same(t, "reward after the revert", r.applied(id).Reward, 0)
	postEvent("merged", 2, 1)
	same(t, "reward after a repeated event", r.applied(id).Reward, 0)
	row := r.Beliefs(tenantA).Measured().Stats("look-twice@0123456789ab").Strata[0]
	same(t, "number of rewards after close", row.RewardedOn(1)-row.RewardedAtCloseOn(1), 1)
}
