package learn_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"precept/bandit"
	"precept/bandit/feedback"
	"precept/bandit/trial"
	"precept/internal/session"
)

type feedbackLine struct {
	session int
	entry   feedback.Entry
}

// drawLine draws a line of feedback. There are only a few ids, times and raters, so that many lines have the same ones.
func drawLine(sessions int) *rapid.Generator[feedbackLine] {
	return rapid.Custom(func(rt *rapid.T) feedbackLine {
		e := userScore(rapid.StringMatching("[a-d]").Draw(rt, "id"), rapid.IntRange(0, 3).Draw(rt, "minute"),
			rapid.SampledFrom([]float64{0, .1, 1.0 / 3, .5, 1}).Draw(rt, "score"))
		e.Tier = rapid.IntRange(1, 3).Draw(rt, "tier")
		e.Rater = rapid.SampledFrom([]string{"", "kim", "lee"}).Draw(rt, "rater")
		return feedbackLine{rapid.IntRange(0, sessions-1).Draw(rt, "session"), e}
	})
}

func drawAssignment() *rapid.Generator[trial.Assignment] {
	return rapid.Custom(func(rt *rapid.T) trial.Assignment {
		a := trial.Assignment{Category: rapid.SampledFrom([]string{"coder", "tester"}).Draw(rt, "category"), Day: int32(rapid.IntRange(22740, 22742).Draw(rt, "day"))}
		a.Excluded = rapid.IntRange(0, 5).Draw(rt, "excluded") == 0
		cfg := bandit.Config{K: 2, Epsilon: .3, Control: .2, Objective: bandit.Random, Salt: "pepper"}
		for turn := range rapid.IntRange(0, 2).Draw(rt, "turns") {
			var actions []bandit.Action
			for _, slug := range []string{"one", "two", "three"} {
				if rapid.Bool().Draw(rt, slug) {
					actions = append(actions, bandit.Action{Slug: slug, Arm: trial.Arm(slug + "@0123456789ab"), Confidence: .5, Tokens: 30})
				}
			}
			bandit.Decide(cfg, bandit.New(), &a, rapid.StringMatching("[a-f]{4}").Draw(rt, "coins"), actions, turn)
		}
		return a
	})
}

// The test ignores the maxima and the counts of rewards at close and after close, because these depend on the order of
// the feedback.
func TestCountersDoNotDependOnFeedbackOrder(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(o *options) { o.Content.StoreContent = false })
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		sessions := rapid.SliceOfN(drawAssignment(), 1, 4).Draw(rt, "sessions")
		log := rapid.SliceOfN(drawLine(len(sessions)), 0, 12).Draw(rt, "log")
		seed := rapid.Uint64().Draw(rt, "order")
		repeated := rapid.SliceOfN(rapid.IntRange(0, max(len(log)-1, 0)), 0, 4).Draw(rt, "repeated")

		ordered, shuffled := fmt.Sprint("ordered", n), fmt.Sprint("shuffled", n) // names of two tenants with the same sessions
		replayLog(f, ordered, sessions, log, len(log))
		shuffledLog := append([]feedbackLine(nil), log...)
		for _, i := range repeated {
			if len(log) > 0 {
				shuffledLog = append(shuffledLog, log[i])
			}
		}
		rand.New(rand.NewPCG(seed, 1)).Shuffle(len(shuffledLog), func(i, j int) { shuffledLog[i], shuffledLog[j] = shuffledLog[j], shuffledLog[i] })
		replayLog(f, shuffled, sessions, shuffledLog, rapid.IntRange(0, len(shuffledLog)).Draw(rt, "closing"))

		if want, got := f.countersWithoutTiming(ordered), f.countersWithoutTiming(shuffled); got != want {
			rt.Fatalf("stored counters of the shuffled log:\n%s\nwant those of the ordered log:\n%s", got, want)
		}
		if want, got := memoryState(f, ordered), memoryState(f, shuffled); got != want {
			rt.Fatalf("counters in memory of the shuffled log:\n%s\nwant those of the ordered log:\n%s", got, want)
		}
		if f := f.takeFailures(); len(f) > 0 {
			rt.Fatalf("failures: got %v, want none", f)
		}
	})
}

// replayLog posts the feedback in the log. After the first closeAfter lines, it closes all sessions.
func replayLog(f *fixture, tenant string, sessions []trial.Assignment, log []feedbackLine, closeAfter int) {
	ids := make([]session.ID, len(sessions))
	for i := range sessions {
		a := sessions[i]
		ids[i] = f.beginSession(tenant, fmt.Sprint("s", i), a)
	}
	f.deliverAndCorrect()
	for i := range len(log) + 1 {
		if i == closeAfter {
			f.advancePastClose()
		}
		if i == len(log) {
			break
		}
		f.Store.QueueCorrection(tenant, ids[log[i].session]) // this call is superfluous and must not change the result
		f.postFeedback(tenant, ids[log[i].session], log[i].entry)
		if i%3 == 0 {
			f.recomputeRewards(f.ctx())
		}
	}
	f.recomputeRewards(f.ctx())
}

// memoryState returns the counters and beliefs in memory as text, without the values that depend on the order of the
// feedback.
func memoryState(f *fixture, tenant string) string {
	believed := f.Beliefs(tenant).Clone()
	believed.Advance(0, 1000)
	believed.SetPriors(bandit.DefaultPriors())
	c, text := believed.TrialCounters(), ""
	for _, arm := range append(c.Arms(), "") {
		st := c.Stats(arm)
		if arm == "" {
			st = c.Global()
		}
		for _, strata := range [][]trial.Stratum{st.Strata, st.All.AnyInjected} {
			for i := range strata {
				strata[i].RewardedAtClose, strata[i].Late = [2][4]int64{}, [2]int64{}
			}
		}
		st.Maxima.LogEHelps, st.Maxima.LogEHarms, st.Maxima.ProvenAt, st.RecentPerDay = 0, 0, 0, 0
		p := believed.PosteriorFromCounters(bandit.Action{Slug: arm.Slug(), Arm: arm, Confidence: 0.5})
		text += fmt.Sprintf("%s %+v, believed %v %v %v\n", arm, st, p.Mean, p.Var, p.MatchEffect)
	}
	return text
}
