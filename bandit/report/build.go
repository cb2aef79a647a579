package report

import (
	"cmp"
	"math"
	"slices"

	"precept/bandit/trial"
)

// Build returns the report. Rows are ordered by slug, then content hash.
func Build(in Input) Report {
	if in.Counters == nil {
		in.Counters = trial.NewCounters()
	}
	if in.Chooser == nil {
		in.Chooser = noChooser{}
	}
	r := Report{
		GeneratedAt: in.Now.UTC(), RewardDefinition: in.RewardDefinition, OtherDefinitions: in.OtherDefinitions,
		Objective: cmp.Or(in.Policy.Objective, "uplift"),
		Holdout:   cmp.Or(in.Policy.Holdout, "prove"), ClaimError: claimError, Tenant: in.Tenant,
		Provisional: in.Provisional,
		Lessons:     []Row{},
	}
	if in.Window > 0 {
		r.Window = windowText(in.Window)
	}
	g := in.Counters.Global()
	b := builder{in: in, global: g, sigma2: in.Chooser.Sigma2()}
	b.proofBar, b.nextProofBar = in.Counters.DiscoveryBars()
	rows := b.lessons()
	b.alarmBar = b.alarmLevel(rows)
	r.SRM, r.Reporting = newSRM(assignmentLogE(g.Strata), b.alarmBar), checkReporting(g, b.alarmBar)
	r.Global = globalRow(in, g, r.SRM.OK && r.Reporting.OK)
	r.Flow = newFlow(g)
	b.claimBar, b.nextClaimBar = b.claimBars(rows)
	b.trials, r.PlannedTrials = b.plannedTrials(rows)
	b.outcomeBars = b.findOutcomeBars(rows)
	for _, l := range rows {
		r.Lessons = append(r.Lessons, b.row(l))
	}
	return r
}

// lessons returns the listed lessons, and one more lesson for each other arm with picks. Such an arm is an older text
// or presentation, a removed lesson, or the loop warning.
func (b *builder) lessons() []Lesson {
	out := slices.Clone(b.in.Lessons)
	listed, slugs, texts := map[trial.Arm]bool{}, map[string]bool{}, map[string]bool{}
	for _, l := range out {
		listed[l.Arm], slugs[l.Slug], texts[TextKey(l.Arm)] = true, true, true
	}
	for _, k := range b.in.Counters.Arms() {
		if listed[k] {
			continue
		}
		s := b.in.Counters.Stats(k)
		if s.Picked == 0 && s.Rewards.M1+s.Rewards.M0 == 0 {
			continue
		}
		l := Lesson{Slug: k.Slug(), Arm: k, State: stateRemoved, Confidence: 0.5}
		switch {
		case k == trial.LoopArm:
			l.State = "active"
		case texts[TextKey(k)]:
			l.State = stateOldPresentation
		case slugs[l.Slug], slugs[trial.LessonSlug(l.Slug)]:
			l.State = stateEdited
		case b.in.Archived != nil && b.in.Archived(trial.LessonSlug(l.Slug)):
			l.State = stateArchived
		}
		out = append(out, l)
	}
	slices.SortStableFunc(out, func(x, y Lesson) int {
		return cmp.Or(cmp.Compare(x.Slug, y.Slug), cmp.Compare(x.Arm, y.Arm))
	})
	return out
}

// countLate returns how many sessions got their reward after they had closed.
func countLate(strata []trial.Stratum) (n int64) {
	for _, s := range strata {
		for arm := range 2 {
			n += s.RewardedInArm(arm) - s.RewardedAtCloseInArm(arm)
		}
	}
	return max(0, n)
}

func (b *builder) row(l Lesson) Row {
	s := b.in.Counters.Stats(l.Arm)
	all := armSums(s)
	r := Row{
		Slug: l.Slug, Arm: string(l.Arm), ContentHash: cmp.Or(l.ContentHash, contentHash(l.Arm)),
		State:   l.State,
		Matched: s.Matched, Picked: s.Picked, NInjected: int64(s.Rewards.M1), NWithheld: int64(s.Rewards.M0),
		Rewarded:    int64(s.Rewards.M1 + s.Rewards.M0),
		Late:        countLate(s.Strata),
		RefusedWith: s.Refused[1], RefusedWithout: s.Refused[0],
		MeanInjected: mean(s.Rewards.Y1, s.Rewards.M1), MeanWithheld: mean(s.Rewards.Y0, s.Rewards.M0), Success: s.Rewards.Success,
		Failure: s.Rewards.Failure,
		Better:  s.Rewards.Better, Worse: s.Rewards.Worse, TokensTotal: s.Tokens, Tokens: tokensPerInjection(s, l.Tokens),
		SRM:       newSRM(assignmentLogE(s.Strata), b.alarmBar),
		Reporting: newSRM(reportingLogE(s.Strata), b.alarmBar), LateReporting: newSRM(lateLogE(s.Strata), b.alarmBar),
		EHelps: math.Min(math.Exp(s.Maxima.LogEHelps), maxEValue), EHarms: math.Min(math.Exp(s.Maxima.LogEHarms), maxEValue),
		PerWeek: s.RecentPerDay * 7,
	}
	r.setEffect(all)
	belief := b.in.Chooser.Belief(l)
	// A planned trial measures one presentation, so the counts must not turn advice into a caution during the trial.
	byCounts := l.Trial == "" && !b.in.Policy.NoCautions && Caution("", belief.Better, belief.Worse)
	r.Caution = l.Caution || Caution(l.Outcome, 0, 0) || byCounts
	r.Posterior = belief.Mean
	r.PHelps = probabilityAbove(0, belief)
	r.PickShare = 1 - belief.PassOver
	r.setLOODelta(s, b.global)
	r.setCosts(s)
	r.Cost = float64(r.Tokens) * b.in.Policy.TokenCost
	b.setTrial(&r, l)
	r.AfterTrial = r.afterTrial()
	r.Verdict = b.verdict(&r, s, belief)
	r.Advice = r.NextAction()
	b.setNeeds(&r, s, all, belief, r.picksToEvaluation(l))
	r.Note = r.note(s)
	b.setExpectation(&r, s)
	if r.Verdict == Invalid {
		r.WorstLo, r.WorstHi = worstCase(s.Strata)
	}
	r.ExplainedShare = explainedShare(all, s.Strata)
	r.PicksSaved = savedPicks(r.ExplainedShare, all.count)
	surrogate := b.in.Counters.Surrogate(l.Arm)
	r.AllSessions = r.estimateAllSessions(&surrogate, all)
	r.Outcomes = b.rowOutcomes(&r, l.Arm)
	r.Guardrail = r.guardrailFindings(b.in.Guardrails)
	r.Models = r.splitModels(b.in.Counters.Models(l.Arm))
	r.RetireReason = b.retireReason(&r, l, belief)
	if b.in.Explain == l.Slug {
		b.setExplanation(&r, s)
	}
	if b.in.Bands {
		r.Days = bands(s, trial.LessonTightestAt)
	}
	if b.in.Window > 0 {
		r.setWindow(s, windowStart(b.in))
	}
	return r
}

func (b *builder) alarmLevel(rows []Lesson) float64 {
	logEs := []float64{assignmentLogE(b.global.Strata), allReportingLogE(b.global)}
	for _, l := range rows {
		if s := b.in.Counters.Stats(l.Arm); len(s.Strata) > 0 {
			logEs = append(logEs, assignmentLogE(s.Strata), reportingLogE(s.Strata))
			if countLate(s.Strata) > 0 {
				logEs = append(logEs, lateLogE(s.Strata))
			}
		}
	}
	return alarmLevel(logEs)
}

func tokensPerInjection(s trial.Stats, lessonTokens int) int64 {
	var n int64
	for _, x := range s.Strata {
		n += x.Assigned[1]
	}
	if n == 0 || s.Tokens == 0 {
		return int64(lessonTokens)
	}
	return s.Tokens / n
}

func (r *Row) setEffect(s sums) {
	r.Effect, r.Lo, r.Hi = nil, nil, nil
	if s.hasEnoughPicks() {
		e, lo, hi := s.interval(trial.LessonTightestAt)
		r.Effect, r.Lo, r.Hi = new(e), new(lo), new(hi)
	}
}

func (r *Row) setCosts(s trial.Stats) {
	var cached [2]*float64
	for arm, spent := range s.Spent {
		cached[arm] = mean(spent.Cached, spent.Input)
	}
	r.InputWithout, r.InputWith = mean(s.Spent[0].Input, float64(s.Spent[0].Sessions)), mean(s.Spent[1].Input, float64(s.Spent[1].Sessions))
	r.CachedWith = cached[1]
	if cached[0] != nil && cached[1] != nil {
		r.CachedChange = new(*cached[1] - *cached[0])
	}
}

// setLOODelta sets the leave-one-out difference: the mean reward with the lesson minus the mean reward in all other
// sessions. An analysis without random assignment would take this difference for the effect.
func (r *Row) setLOODelta(s, g trial.Stats) {
	rest := float64(g.All.Rewarded) - s.Rewards.M1
	if s.Rewards.M1 <= 0 || rest <= 0 {
		return
	}
	r.LOODelta = new(s.Rewards.Y1/s.Rewards.M1 - (g.All.SumY-s.Rewards.Y1)/rest)
	if r.Effect != nil {
		r.LOOGap = new(*r.LOODelta - *r.Effect)
	}
}

// setWindow restricts counts and effect to the sessions since firstDay. The verdict still covers all sessions, because
// a reader who tries many windows will find some effect by chance.
func (r *Row) setWindow(s trial.Stats, firstDay int32) {
	w := sumsSince(s, firstDay)
	r.NInjected, r.NWithheld, r.Rewarded = int64(w.injected), int64(w.withheld), int64(w.injected+w.withheld)
	r.MeanInjected, r.MeanWithheld, r.LOODelta, r.LOOGap = nil, nil, nil, nil
	r.setEffect(w)
}
