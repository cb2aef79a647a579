package learn_test

import (
	"path/filepath"
	"testing"
	"time"

	"precept/bandit"
	"precept/bandit/feedback"
	"precept/bandit/report"
	"precept/learn"
	"precept/store/storetest"
)

// Late feedback changes the counters of the definition under which the session was closed.
func TestChangedRewardDefinitionStartsNewCounters(t *testing.T) {
	t.Parallel()
	server := storetest.StartRedis(t)
	for name, backend := range map[string]func(o *options, dir string){
		"sqlite": func(*options, string) {},
		"redis":  func(o *options, dir string) { inRedis(t, server, filepath.Join(dir, "outbox.db"))(o) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			clk := &clock{at: time.Date(2032, 4, 5, 6, 7, 8, 0, time.UTC)}
			open := func(tiers ...int) *fixture {
				return openFixture(t, dir, clk, func(o *options) { o.Reward.Tiers = tiers; backend(o, dir) })
			}
			rewardedSessions := func(f *fixture) int64 {
				t.Helper()
				rep, err := f.Report(f.ctx(), learn.ReportQuery{Tenant: tenantA})
				if err != nil {
					t.Fatal(err)
				}
				return rep.Global.NTreated
			}
			checkOtherDefinitions := func(f *fixture, want ...report.DefinitionCount) {
				t.Helper()
				rep, err := f.Report(f.ctx(), learn.ReportQuery{Tenant: tenantA})
				if err != nil {
					t.Fatal(err)
				}
				assertEqualList(t, "sessions under other definitions", rep.OtherDefinitions, want)
			}
			verified := userScore("v", 3, 1)
			verified.Source, verified.Tier = feedback.SourceSystem, feedback.TierVerifier

			userFixture := open(feedback.TierUser)
			a := userFixture.addSession("a", newAssignment(injected))
			userFixture.postFeedback(tenantA, a, userScore("f", 1, 1))
			userFixture.postFeedback(tenantA, a, verified)
			userFixture.advancePastClose()
			assertEqual(t, "user definition: rewarded sessions", rewardedSessions(userFixture), 1)
			assertEqual(t, "user definition: summed rewards", userFixture.counter("", "sumy"), 1)
			checkOtherDefinitions(userFixture)
			before := userFixture.Beliefs(tenantA).Posterior(lookTwice)
			userFixture.stop()

			verifierFixture := open(feedback.TierVerifier)
			assertEqual(t, "verifier definition: rewarded sessions", rewardedSessions(verifierFixture), 0)
			checkOtherDefinitions(verifierFixture, report.DefinitionCount{RewardDefinition: "user@1h0m0s", Sessions: 1})
			assertEqual(t, "verifier definition: initial belief", verifierFixture.Beliefs(tenantA).Posterior(lookTwice), bandit.New().Posterior(lookTwice))
			b := verifierFixture.addSession("b", newAssignment(injected))
			verifierFixture.postFeedback(tenantA, b, verified)
			verifierFixture.postFeedback(tenantA, b, userScore("f", 1, 0))
			verifierFixture.advancePastClose()
			assertEqual(t, "verifier definition: rewarded sessions after close", rewardedSessions(verifierFixture), 1)
			belief := verifierFixture.Beliefs(tenantA).Posterior(lookTwice)
			verifierFixture.postFeedback(tenantA, a, userScore("f", 2, 0)) // this feedback changes the score of the first session
			verifierFixture.recomputeRewards(verifierFixture.ctx())
			assertEqual(t, "verifier definition: belief after a correction under the user definition", verifierFixture.Beliefs(tenantA).Posterior(lookTwice), belief)
			assertEqual(t, "verifier definition: rewarded sessions after that correction", rewardedSessions(verifierFixture), 1)
			assertEqual(t, "verifier definition: summed rewards", verifierFixture.counter("", "sumy"), 1)
			assertEqualList(t, "failures", verifierFixture.takeFailures(), nil)
			verifierFixture.stop()

			userFixture = open(feedback.TierUser)
			assertEqual(t, "user definition again: rewarded sessions", rewardedSessions(userFixture), 1)
			assertEqual(t, "user definition again: summed rewards after the correction", userFixture.counter("", "sumy"), 0)
			checkOtherDefinitions(userFixture, report.DefinitionCount{RewardDefinition: "verifier@1h0m0s", Sessions: 1})
			if after := userFixture.Beliefs(tenantA).Posterior(lookTwice); after.Mean >= before.Mean {
				t.Errorf("user definition again: belief after the correction: got %v, want a mean below that of %v", after, before)
			}
		})
	}
}

func TestDefaultDefinitionIsNotStoredInCounterScope(t *testing.T) {
	t.Parallel()
	assertEqual(t, "default reward definition as a string", feedback.Definition{CloseAfter: 24 * time.Hour}.String(), feedback.DefaultDefinition)
	f := newFixture(t, func(o *options) { o.Reward.CloseAfter = 24 * time.Hour })
	id := f.addSession("s", newAssignment(injected))
	f.postFeedback(tenantA, id, userScore("f", 1, 1))
	f.clock.add(25 * time.Hour)
	f.deliverAndCorrect()
	f.closeDue(f.ctx())
	list, err := f.backend.Counters(f.ctx(), tenantA)
	if err != nil {
		t.Fatal(err)
	}
	if len(list) == 0 {
		t.Fatal("stored counters: got none")
	}
	for _, d := range list {
		if d.Key.Scope != "" && d.Key.Scope != string(lookTwice.Arm) && d.Key.Scope != "x:coder" {
			t.Errorf("scope = %q, want a scope without a definition", d.Key.Scope)
		}
	}
}
